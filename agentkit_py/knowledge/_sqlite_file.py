"""One SQLite file with sqlite-vec and FTS5. Everything here blocks.

Not the standard library's sqlite3: many builds of Python cannot load extensions. apsw brings an
SQLite of its own that can. It loads when a store is first used.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, TypeVar

import apsw
import sqlite_vec  # pyright: ignore[reportMissingTypeStubs] - it has none

from agentkit_py._core.busy import retried
from agentkit_py.errors import KnowledgeError
from agentkit_py.knowledge._tables import FOUND, VERSION, Run, Tables, hit, schema
from agentkit_py.knowledge.compiling import compiled
from agentkit_py.knowledge.documents import Chunk, Document, Hit
from agentkit_py.knowledge.filters import FilterExpr
from agentkit_py.knowledge.words import rarity, telling, words
from agentkit_py.processors.vectors import Vector, unit

T = TypeVar("T")

APPLICATION_ID = 0x41674B6E
"""At the beginning of each such file: "AgKn"."""

_MOST_NEAREST = 4096
"""That many sqlite-vec gives at once."""

_TABLES = Tables("sqlite")


class SqliteFile:
    """One connection, used by one thread at a time."""

    def __init__(self, path: str, language: str, busy_timeout: float) -> None:
        self._path = path
        self._tokenizer = "porter unicode61" if language == "english" else "unicode61"
        self._busy_timeout = busy_timeout
        self._lock = Lock()
        self._connection: apsw.Connection | None = None

    def transact(self, work: Callable[[Run], T], *, write: bool = False) -> T:
        """Run ``work`` in a transaction.

        Raises:
            KnowledgeError: The file cannot be used.
        """
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
                raise KnowledgeError(f"{self._path} cannot be used: {problem}") from error

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _open(self) -> apsw.Connection:
        return retried(self._connect, _is_busy, seconds=self._busy_timeout)

    def _connect(self) -> apsw.Connection:
        connection = apsw.Connection(self._path)
        try:
            self._prepare(connection)
        except Exception:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: apsw.Connection) -> None:
        connection.set_busy_timeout(int(self._busy_timeout * 1000))
        run = _runner(connection)
        # One transaction for both: between them another process may make the tables.
        run("BEGIN")
        mark = run("PRAGMA application_id")[0][0]
        empty = run("SELECT COUNT(*) FROM sqlite_master") == [(0,)]
        run("COMMIT")
        if mark != APPLICATION_ID and not empty:
            raise KnowledgeError(
                f"{self._path} is another program's SQLite database, or one with threads; "
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
            self._make(run)
        elif version != VERSION:
            raise KnowledgeError(
                f"{self._path} has schema version {version}, this library knows {VERSION}."
            )
        run("COMMIT")

    def _make(self, run: Run) -> None:
        for statement in schema("sqlite"):
            run(statement)
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

    def put(self, run: Run, document: Document, chunks: Sequence[Chunk], embedder: str) -> None:
        """Keep a document in place of what was there."""
        if chunks and _TABLES.claim(run, embedder, len(chunks[0].vector)):
            run(
                "CREATE VIRTUAL TABLE knowledge_vectors USING vec0("
                f"embedding float[{len(chunks[0].vector)}] distance_metric=cosine)"
            )
        self.remove(run, _TABLES.passing(run, None, [document.id]))
        number = _TABLES.insert(run, document)
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

    def remove(self, run: Run, numbers: Sequence[int]) -> int:
        """Remove documents by number."""
        for number in numbers:
            chunks = run("SELECT id FROM knowledge_chunks WHERE document = ?", [number])
            for (chunk,) in chunks:
                run("DELETE FROM knowledge_words WHERE rowid = ?", [chunk])
                run("DELETE FROM knowledge_vectors WHERE rowid = ?", [chunk])
            run("DELETE FROM knowledge_documents WHERE id = ?", [number])
        return len(numbers)

    def nearest(
        self, run: Run, vector: Vector, embedder: str, filters: FilterExpr | None, k: int
    ) -> list[Hit]:
        """The nearest pieces, found by looking at each that passes."""
        known = _TABLES.fact(run, "embedder")
        if known is None:
            return []
        sought: array[float] = unit(vector)
        _TABLES.compare(known, f"{len(sought)} {embedder}")
        condition, values = compiled(filters, "sqlite")
        among = "" if filters is None else f"AND rowid IN ({_passing(condition)})"
        near = (
            "SELECT rowid, distance FROM knowledge_vectors "  # noqa: S608 - parameters
            f"WHERE embedding MATCH ? AND k = ? {among}"
        )
        rows = run(
            f"SELECT {FOUND}, 1 - near.distance FROM ({near}) near "  # noqa: S608 - parameters
            "JOIN knowledge_chunks c ON c.id = near.rowid "
            f"JOIN knowledge_documents d ON d.id = c.document WHERE {condition} "
            "ORDER BY near.distance, c.id",
            [
                sought.tobytes(),
                min(k, _MOST_NEAREST),
                *(values if filters is not None else ()),
                *values,
            ],
        )
        return [hit(row) for row in rows if row[5] is not None]

    def matching(self, run: Run, query: str, filters: FilterExpr | None, k: int) -> list[Hit]:
        """The pieces with the best BM25."""
        sought = telling(query)
        if not sought:
            return []
        terms = " OR ".join(map(_quoted, sought))
        condition, values = compiled(filters, "sqlite")
        rows = run(
            f"SELECT {FOUND}, -bm25(knowledge_words) / ? AS score "  # noqa: S608 - parameters
            "FROM knowledge_words JOIN knowledge_chunks c ON c.id = knowledge_words.rowid "
            "JOIN knowledge_documents d ON d.id = c.document "
            f"WHERE knowledge_words MATCH ? AND {condition} ORDER BY score DESC, c.id LIMIT ?",
            [self._perfect(run, sought), terms, *values, k],
        )
        return [hit(row) for row in rows]

    def _perfect(self, run: Run, sought: Sequence[str]) -> float:
        """The BM25 of a piece of usual length that has each word once."""
        total = run("SELECT COUNT(*) FROM knowledge_chunks")[0][0]
        count = "SELECT COUNT(*) FROM knowledge_words WHERE knowledge_words MATCH ?"
        return sum(rarity(total, run(count, [_quoted(word)])[0][0]) for word in sought)


def _runner(connection: apsw.Connection) -> Run:
    untyped: Any = connection

    def run(statement: str, values: Sequence[Any] = (), /) -> list[Any]:
        return untyped.execute(statement, tuple(values)).fetchall()

    return run


def _quoted(word: str) -> str:
    return f'"{word}"'


def _passing(condition: str) -> str:
    return (
        "SELECT c.id FROM knowledge_chunks c "  # noqa: S608 - parameters
        f"JOIN knowledge_documents d ON d.id = c.document WHERE {condition}"
    )


def _is_busy(error: Exception) -> bool:
    return isinstance(error, apsw.BusyError)
