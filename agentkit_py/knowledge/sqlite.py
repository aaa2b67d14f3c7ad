"""SqliteKnowledge: documents in one SQLite file, with sqlite-vec and FTS5.

Not the standard library's sqlite3: many builds of Python cannot load extensions. apsw brings an
SQLite of its own that can. Both load when a store is first used.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import anyio.to_thread

from agentkit_py._core.databases import create_private, retried
from agentkit_py._core.json import dumps
from agentkit_py._core.lazy import missing_package
from agentkit_py.errors import KnowledgeError, MissingDependencyError
from agentkit_py.knowledge.documents import Chunk
from agentkit_py.knowledge.filters import FilterExpr
from agentkit_py.knowledge.ranking import rarity, words
from agentkit_py.knowledge.sql import FOUND, VERSION, Execute, SqlStore, compiled

if TYPE_CHECKING:
    import apsw

T = TypeVar("T")

APPLICATION_ID = 0x41674B6E
"""At the beginning of each such file: "AgKn"."""

_MAX_NEAREST = 4096
"""The most rows that sqlite-vec returns for one query."""


class SqliteKnowledge(SqlStore):
    """Documents in a file: ``Knowledge(store=SqliteKnowledge("docs.db"), embedder=…)``.

    Needs the extra ``knowledge`` (apsw and sqlite-vec). Several processes may use the file; it must
    be another one than that of a `SqliteHistory`. Vectors are compared one by one, which is exact,
    and quick enough for some hundred thousand chunks.
    """

    _dialect = "sqlite"

    def __init__(
        self,
        path: str | Path,
        *,
        language: Literal["english", "simple"] = "english",
        busy_timeout: float = 30.0,
    ) -> None:
        """Remember the file; it is made when the store is first used.

        Args:
            path: The file, made with mode 0600; or ``":memory:"``.
            language: Whether words are reduced to their English stems; set when the file is made.
            busy_timeout: Seconds to wait while another process writes.

        Raises:
            MissingDependencyError: apsw or sqlite-vec is not installed.
        """
        if package := missing_package("apsw", "sqlite_vec"):
            raise MissingDependencyError(package, "knowledge", "SqliteKnowledge")
        self.path: str = str(path)
        self._tokenizer = "porter unicode61" if language == "english" else "unicode61"
        self._busy_timeout = busy_timeout
        self._lock = Lock()
        self._connection: apsw.Connection | None = None

    def __repr__(self) -> str:
        return f"<SqliteKnowledge: {self.path}>"

    async def close(self) -> None:
        """Close the file; the next use opens it again (what is in memory is gone)."""
        await anyio.to_thread.run_sync(self._close)

    def _close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _transact(self, work: Callable[[Execute], T], *, write: bool) -> T:
        import apsw  # noqa: PLC0415 - an extra

        with self._lock:
            try:
                connection = self._connection = self._connection or self._open()
                run = _runner(connection)
                run("BEGIN IMMEDIATE" if write else "BEGIN")
                try:
                    done = work(run)
                    run("COMMIT")
                finally:
                    if connection.in_transaction:
                        run("ROLLBACK")
                return done
            except apsw.Error as error:
                problem = f"{type(error).__name__}: {error}"
                raise KnowledgeError(f"{self.path} cannot be used: {problem}") from error

    def _open(self) -> apsw.Connection:
        import apsw  # noqa: PLC0415 - an extra

        def connect() -> apsw.Connection:
            if self.path not in ("", ":memory:") and not self.path.startswith("file:"):
                create_private(Path(self.path))
            connection = apsw.Connection(self.path)
            try:
                self._prepare(connection)
            except Exception:
                connection.close()
                raise
            return connection

        def is_busy(error: Exception) -> bool:
            return isinstance(error, apsw.BusyError)

        return retried(connect, is_busy, seconds=self._busy_timeout)

    def _prepare(self, connection: apsw.Connection) -> None:
        import sqlite_vec  # noqa: PLC0415 - an extra  # pyright: ignore[reportMissingTypeStubs] - it has none

        connection.set_busy_timeout(int(self._busy_timeout * 1000))
        run = _runner(connection)
        # One transaction for both: between them another process may make the tables.
        run("BEGIN")
        mark = run("PRAGMA application_id")[0][0]
        empty = run("SELECT COUNT(*) FROM sqlite_master") == [(0,)]
        run("COMMIT")
        if mark != APPLICATION_ID and not empty:
            raise KnowledgeError(
                f"{self.path} is another program's SQLite database, or one with threads; "
                "give documents a file of their own."
            )
        connection.enable_load_extension(True)  # noqa: FBT003 - the library's own argument
        connection.load_extension(sqlite_vec.loadable_path())
        connection.enable_load_extension(False)  # noqa: FBT003 - the library's own argument
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA foreign_keys = ON")
        run("BEGIN IMMEDIATE")
        version = run("PRAGMA user_version")[0][0]
        if version == 0:
            self._make_tables(run)
        elif version == 1:
            self._add_sources(run)
            run(f"PRAGMA user_version = {VERSION}")
        elif version != VERSION:
            raise KnowledgeError(
                f"{self.path} has schema version {version}, this library knows {VERSION}."
            )
        run("COMMIT")

    def _make_tables(self, run: Execute) -> None:
        super()._make_tables(run)
        run(
            "CREATE TABLE knowledge_chunks (id INTEGER PRIMARY KEY, document INTEGER NOT NULL "
            "REFERENCES knowledge_documents (id) ON DELETE CASCADE, position INTEGER NOT NULL, "
            "text TEXT NOT NULL)"
        )
        run("CREATE INDEX knowledge_chunks_by_document ON knowledge_chunks (document)")
        run(
            "CREATE VIRTUAL TABLE knowledge_words USING fts5(words, content='', "
            f"contentless_delete=1, tokenize='{self._tokenizer}')"
        )
        run(f"PRAGMA application_id = {APPLICATION_ID}")
        run(f"PRAGMA user_version = {VERSION}")

    def _claim(self, run: Execute, embedder: str, dimensions: int) -> bool:
        first = super()._claim(run, embedder, dimensions)
        if first:
            run(
                "CREATE VIRTUAL TABLE knowledge_vectors USING vec0("
                f"embedding float[{dimensions}] distance_metric=cosine)"
            )
        return first

    def _add(self, run: Execute, number: int, chunks: Sequence[Chunk]) -> None:
        for position, chunk in enumerate(chunks):
            chunk_id = run(
                "INSERT INTO knowledge_chunks (document, position, text) VALUES (?, ?, ?) "
                "RETURNING id",
                [number, position, chunk.text],
            )[0][0]
            text = " ".join(words(chunk.text))
            run("INSERT INTO knowledge_words (rowid, words) VALUES (?, ?)", [chunk_id, text])
            vector = chunk.vector.tobytes()
            run(
                "INSERT INTO knowledge_vectors (rowid, embedding) VALUES (?, ?)", [chunk_id, vector]
            )

    def _remove(self, run: Execute, numbers: Sequence[int]) -> None:
        for number in numbers:
            chunks = run("SELECT id FROM knowledge_chunks WHERE document = ?", [number])
            for (chunk,) in chunks:
                run("DELETE FROM knowledge_words WHERE rowid = ?", [chunk])
                run("DELETE FROM knowledge_vectors WHERE rowid = ?", [chunk])
            run("DELETE FROM knowledge_documents WHERE id = ?", [number])

    def _nearest(
        self, run: Execute, sought: array[float], filters: FilterExpr | None, k: int
    ) -> list[Any]:
        few = self._few(run, filters)
        if few is not None:
            return run(
                f"SELECT {FOUND}, 1 - vec_distance_cosine(v.embedding, ?) AS score "  # noqa: S608 - parameters
                "FROM json_each(?) one JOIN knowledge_vectors v ON v.rowid = one.value "
                "JOIN knowledge_chunks c ON c.id = one.value "
                "JOIN knowledge_documents d ON d.id = c.document ORDER BY score DESC, c.id LIMIT ?",
                [sought.tobytes(), dumps(few), k],
            )
        condition, values = compiled(filters, self._dialect)
        among = ""
        if filters is not None:
            among = (
                "AND rowid IN (SELECT c.id FROM knowledge_chunks c "  # noqa: S608 - parameters
                f"JOIN knowledge_documents d ON d.id = c.document WHERE {condition})"
            )
        near = (
            "SELECT rowid, distance FROM knowledge_vectors "  # noqa: S608 - parameters
            f"WHERE embedding MATCH ? AND k = ? {among}"
        )
        return run(
            f"SELECT {FOUND}, 1 - near.distance FROM ({near}) near "  # noqa: S608 - parameters
            "JOIN knowledge_chunks c ON c.id = near.rowid "
            "JOIN knowledge_documents d ON d.id = c.document ORDER BY near.distance, c.id",
            [sought.tobytes(), min(k, _MAX_NEAREST), *values],
        )

    def _matching(
        self, run: Execute, sought: Sequence[str], filters: FilterExpr | None, k: int
    ) -> list[Any]:
        condition, values = compiled(filters, self._dialect)
        total = run("SELECT COUNT(*) FROM knowledge_chunks")[0][0]
        count = "SELECT COUNT(*) FROM knowledge_words WHERE knowledge_words MATCH ?"
        terms = [f'"{word}"' for word in sought]
        # The BM25 of a chunk of usual length that has each word once.
        perfect = sum(rarity(total, run(count, [term])[0][0]) for term in terms)
        return run(
            f"SELECT {FOUND}, -bm25(knowledge_words) / ? AS score "  # noqa: S608 - parameters
            "FROM knowledge_words JOIN knowledge_chunks c ON c.id = knowledge_words.rowid "
            "JOIN knowledge_documents d ON d.id = c.document "
            f"WHERE knowledge_words MATCH ? AND {condition} ORDER BY score DESC, c.id LIMIT ?",
            [perfect, " OR ".join(terms), *values, k],
        )


def _runner(connection: apsw.Connection) -> Execute:
    untyped: Any = connection

    def run(statement: str, values: Sequence[Any] = (), /) -> list[Any]:
        return untyped.execute(statement, tuple(values)).fetchall()

    return run
