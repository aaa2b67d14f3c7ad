"""SqliteKnowledge: documents in an SQLite file, with FTS5; numpy compares their vectors.

Not the standard library's sqlite3, which may be too old: apsw brings an SQLite of its own. Both
load when a store is first used.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import anyio.to_thread

from agentkit_py._core.databases import create_private, retried
from agentkit_py._core.json import dumps
from agentkit_py._core.lazy import missing_package
from agentkit_py.errors import KnowledgeError, MissingDependencyError
from agentkit_py.knowledge.documents import DocumentChunk
from agentkit_py.knowledge.filters import FilterExpr
from agentkit_py.knowledge.sql import (
    FOUND,
    FROM_CHUNKS,
    Execute,
    SqlStore,
    checked_language,
    compiled,
)
from agentkit_py.search.ranking import rarity

if TYPE_CHECKING:
    import apsw
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

APPLICATION_ID = 0x41674B6E
"""At the beginning of each such file: "AgKn"."""

_VERSION = 3
"""The version of the file's schema; since 3, vectors are rows of a plain table, and words
are the stems of `agentkit_py.search`."""


_BATCH = 2000
"""Vectors that are read at once."""

_KEPT = 10_000
"""Changes of vectors that are kept: as many may happen between two searches of a process."""

_MAKE_CHANGES = (
    "CREATE TABLE IF NOT EXISTS knowledge_changes (number INTEGER PRIMARY KEY AUTOINCREMENT, "
    "id INTEGER NOT NULL)"
)
_CHANGES = (
    _MAKE_CHANGES,
    *(
        f"CREATE TRIGGER IF NOT EXISTS knowledge_vectors_{name} AFTER {event} ON knowledge_vectors "  # noqa: S608 - our own words
        f"BEGIN INSERT INTO knowledge_changes (id) VALUES ({row}.id); DELETE FROM "
        f"knowledge_changes WHERE number <= last_insert_rowid() - {_KEPT}; END"
        for name, event, row in (("added", "INSERT", "NEW"), ("removed", "DELETE", "OLD"))
    ),
)
"""Which vectors were added and removed last, by any process and any version of the library."""


class _Vectors:
    """Vectors in memory, in any order; room for more is kept, so that few new ones copy nothing."""

    def __init__(self, rows: Sequence[tuple[int, bytes]] = (), *, room: int = 0) -> None:
        """Take ids and vectors as they are in the file; ``room`` is for how many there may be."""
        import numpy as np  # noqa: PLC0415 - an extra

        self._count = 0
        self._ids: NDArray[np.int64] = np.empty(room, np.int64)
        self._matrix: NDArray[np.float32] = np.empty((0, 0), np.float32)
        self.add(rows)

    def add(self, rows: Sequence[tuple[int, bytes]]) -> None:
        """Add vectors after all others."""
        import numpy as np  # noqa: PLC0415 - an extra

        if not rows:
            return
        numbers = np.frombuffer(b"".join(row[1] for row in rows), np.float32)
        matrix = numbers.reshape(len(rows), -1)
        begin, end = self._count, self._count + len(rows)
        if end > len(self._matrix):
            room = max(len(self._ids), end + end // 8)
            self._ids = np.resize(self._ids, room)
            grown = np.empty((room, matrix.shape[1]), np.float32)
            grown[:begin] = self._matrix[:begin] if begin else 0
            self._matrix = grown
        self._ids[begin:end] = [row[0] for row in rows]
        self._matrix[begin:end] = matrix
        self._count = end

    def remove(self, gone: Sequence[int]) -> None:
        """Remove the vectors of some ids; the last come into their places."""
        import numpy as np  # noqa: PLC0415 - an extra

        end = self._count
        places = np.flatnonzero(np.isin(self._ids[:end], gone))
        self._count = end - len(places)
        free = places[places < self._count]
        moved = np.setdiff1d(np.arange(self._count, end), places)
        self._ids[free], self._matrix[free] = self._ids[moved], self._matrix[moved]

    def nearest(
        self, sought: array[float], among: Sequence[int] | None, k: int
    ) -> list[tuple[int, float]]:
        """Return the ids of the nearest with their likeness, best first."""
        import numpy as np  # noqa: PLC0415 - an extra

        ids, matrix = self._ids[: self._count], self._matrix[: self._count]
        if among is not None:
            chosen = np.isin(ids, among)
            ids, matrix = ids[chosen], matrix[chosen]
        if not len(ids):
            return []
        likeness = matrix @ np.asarray(sought, np.float32)
        k = min(k, len(ids))
        best = np.argpartition(-likeness, k - 1)[:k]
        # Of equal ones that of the least id; partitioning chose any of them.
        best = np.flatnonzero(likeness >= likeness[best].min())
        best = best[np.lexsort((ids[best], -likeness[best]))][:k]
        return [(int(ids[one]), float(likeness[one])) for one in best]


class SqliteKnowledge(SqlStore):
    """Documents in a file: ``Knowledge(store=SqliteKnowledge("docs.db"), embedder=…)``.

    Needs the extra ``knowledge`` (apsw and numpy). Several processes may use the file; it must be
    different from that of a `SqliteHistory`. All vectors are compared, which is exact, and quick
    enough for some hundred thousand chunks: from the first search without a narrow filter on, the
    process has them in memory, with 4 bytes per number.
    """

    _dialect = "sqlite"

    def __init__(
        self,
        path: str | Path,
        *,
        language: str | None = None,
        busy_timeout: float = 30.0,
    ) -> None:
        """Remember the file; it is made when the store is first used.

        Args:
            path: The file, made with mode 0600; or ``":memory:"``.
            language: The language of the texts, whose words are searched by their stems;
                ``"simple"`` leaves words as they are; None: guessed for each text. Set when the
                file is made.
            busy_timeout: Seconds to wait while another process writes.

        Raises:
            ConfigurationError: The language is not known.
            MissingDependencyError: apsw or numpy is not installed.
        """
        if package := missing_package("apsw", "numpy"):
            raise MissingDependencyError(package, "knowledge", "SqliteKnowledge")
        self._path: str = str(path)
        self._language = checked_language(language)
        self._busy_timeout = busy_timeout
        self._lock = Lock()
        self._connection: apsw.Connection | None = None
        self._vectors: _Vectors | None = None
        self._seen = 0
        """The number of the last change of vectors that is in memory."""

    @property
    def path(self) -> str:
        """The file."""
        return self._path

    def __repr__(self) -> str:
        return f"<SqliteKnowledge: {self._path}>"

    async def close(self) -> None:
        """Close the file; the next use opens it again (data in memory is gone)."""
        await anyio.to_thread.run_sync(self._close)

    def _close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = self._vectors = None

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
                        self._vectors = None
                return done
            except apsw.Error as error:
                problem = f"{type(error).__name__}: {error}"
                raise KnowledgeError(f"{self._path} cannot be used: {problem}") from error

    def _open(self) -> apsw.Connection:
        import apsw  # noqa: PLC0415 - an extra

        def connect() -> apsw.Connection:
            if self._path not in ("", ":memory:") and not self._path.startswith("file:"):
                create_private(Path(self._path))
            connection = apsw.Connection(self._path)
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
        connection.set_busy_timeout(int(self._busy_timeout * 1000))
        run = _runner(connection)
        # One transaction for both: between them another process may make the tables.
        run("BEGIN")
        mark = run("PRAGMA application_id")[0][0]
        empty = run("SELECT COUNT(*) FROM sqlite_master") == [(0,)]
        run("COMMIT")
        if mark != APPLICATION_ID and not empty:
            raise KnowledgeError(
                f"{self._path} is another program's SQLite database, or has threads; "
                "give documents a file of their own."
            )
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA foreign_keys = ON")
        run("BEGIN IMMEDIATE")
        version = run("PRAGMA user_version")[0][0]
        if version == 0:
            self._make_tables(run)
        elif version != _VERSION:
            raise KnowledgeError(
                f"{self._path} has schema version {version}, this library knows {_VERSION}: add "
                "the documents to a new file, or use the version of pyagentkit that made this file."
            )
        for statement in _CHANGES:
            run(statement)
        run("COMMIT")

    def _make_tables(self, run: Execute) -> None:
        super()._make_tables(run)
        run(
            "CREATE TABLE knowledge_chunks (id INTEGER PRIMARY KEY, document INTEGER NOT NULL "
            "REFERENCES knowledge_documents (id) ON DELETE CASCADE, position INTEGER NOT NULL, "
            "text TEXT NOT NULL)"
        )
        run("CREATE INDEX knowledge_chunks_by_document ON knowledge_chunks (document)")
        # Its words are stems between spaces: it must take them as they are.
        run(
            "CREATE VIRTUAL TABLE knowledge_words USING fts5(words, content='', "
            "contentless_delete=1, tokenize='ascii')"
        )
        self._set_language(run)
        run(f"PRAGMA application_id = {APPLICATION_ID}")
        # Apart from the chunks, so that their rows stay short.
        run("CREATE TABLE knowledge_vectors (id INTEGER PRIMARY KEY, vector BLOB NOT NULL)")
        run(f"PRAGMA user_version = {_VERSION}")

    def _add(self, run: Execute, number: int, chunks: Sequence[DocumentChunk]) -> None:
        told = self._terms(run, [chunk.text for chunk in chunks])
        for position, (chunk, stems) in enumerate(zip(chunks, told, strict=True)):
            chunk_id = run(
                "INSERT INTO knowledge_chunks (document, position, text) VALUES (?, ?, ?) "
                "RETURNING id",
                [number, position, chunk.text],
            )[0][0]
            run(
                "INSERT INTO knowledge_words (rowid, words) VALUES (?, ?)",
                [chunk_id, " ".join(stems)],
            )
            if any(chunk.vector):  # nothing is like a zero vector
                vector = chunk.vector.tobytes()
                run("INSERT INTO knowledge_vectors (id, vector) VALUES (?, ?)", [chunk_id, vector])

    def _remove(self, run: Execute, numbers: Sequence[int]) -> None:
        for number in numbers:
            chunks = run("SELECT id FROM knowledge_chunks WHERE document = ?", [number])
            for (chunk,) in chunks:
                run("DELETE FROM knowledge_words WHERE rowid = ?", [chunk])
                run("DELETE FROM knowledge_vectors WHERE id = ?", [chunk])
            run("DELETE FROM knowledge_documents WHERE id = ?", [number])

    def _nearest(
        self, run: Execute, sought: array[float], filters: FilterExpr | None, k: int
    ) -> list[Any]:
        if not any(sought):
            return []
        few = self._few(run, filters)
        if few is not None:
            rows = run(
                "SELECT id, vector FROM knowledge_vectors WHERE id IN "
                "(SELECT value FROM json_each(?)) ORDER BY id",
                [dumps(few)],
            )
            found = _Vectors(rows).nearest(sought, None, k)
        else:
            condition, values = compiled(filters, self._dialect)
            passing = f"SELECT c.id {FROM_CHUNKS} WHERE {condition}"
            among = None if filters is None else [row[0] for row in run(passing, values)]
            found = self._all_vectors(run).nearest(sought, among, k)
        return run(
            f"SELECT {FOUND}, one.value ->> 1 AS score FROM json_each(?) one "  # noqa: S608 - parameters
            "JOIN knowledge_chunks c ON c.id = one.value ->> 0 "
            "JOIN knowledge_documents d ON d.id = c.document ORDER BY one.key",
            [dumps(found)],
        )

    def _all_vectors(self, run: Execute) -> _Vectors:
        """Return the vectors of the file as it is now, whichever process has changed it.

        Only changed vectors are read, unless there are too many changes.
        """
        # Each is at an end of the index; a query for both would read all rows.
        [(first,)] = run("SELECT MIN(number) FROM knowledge_changes")
        [(last,)] = run("SELECT MAX(number) FROM knowledge_changes")
        last = last or 0
        query = "SELECT id, vector FROM knowledge_vectors"
        known = self._seen
        if self._vectors is None or last < known or (last > known and first > known + 1):
            self._vectors = self._read_vectors(run)
        elif last > known:
            changed = run("SELECT DISTINCT id FROM knowledge_changes WHERE number > ?", [known])
            ids = [row[0] for row in changed]
            which = "id IN (SELECT value FROM json_each(?))"
            self._vectors.remove(ids)
            self._vectors.add(run(f"{query} WHERE {which}", [dumps(ids)]))
        self._seen = last
        return self._vectors

    def _read_vectors(self, run: Execute) -> _Vectors:
        """Return all vectors, of which few at once are in memory twice."""
        count = run("SELECT COUNT(*) FROM knowledge_chunks")[0][0]
        found = _Vectors(room=count + count // 8 + 1)
        query = "SELECT id, vector FROM knowledge_vectors WHERE id > ? ORDER BY id LIMIT ?"
        last = -1
        while rows := run(query, [last, _BATCH]):
            found.add(rows)
            last = rows[-1][0]
        return found

    def _matching(
        self, run: Execute, asked: Sequence[Sequence[str]], filters: FilterExpr | None, k: int
    ) -> list[Any]:
        condition, values = compiled(filters, self._dialect)
        total = run("SELECT COUNT(*) FROM knowledge_chunks")[0][0]
        count = "SELECT COUNT(*) FROM knowledge_words WHERE knowledge_words MATCH ?"
        words = [" OR ".join(f'"{stem}"' for stem in stems) for stems in asked]
        have = [run(count, [word])[0][0] for word in words]
        # The BM25 of a chunk of usual length that has each word once.
        perfect = sum(rarity(total, one) for one in have)
        # Ids and scores alone are sorted, so that no text is read that is not shown.
        # With the sign, the passing rows are asked for once; without it the words, for each chunk.
        among = f" AND +rowid IN (SELECT c.id {FROM_CHUNKS} WHERE {condition})" if filters else ""
        best = (
            "SELECT rowid AS id, -bm25(knowledge_words) AS score FROM knowledge_words "  # noqa: S608 - parameters
            f"WHERE knowledge_words MATCH ?{among} ORDER BY score DESC, rowid LIMIT ?"
        )
        query = (
            f"SELECT {FOUND}, best.score / ? FROM ({best}) best "  # noqa: S608 - parameters
            "JOIN knowledge_chunks c ON c.id = best.id "
            "JOIN knowledge_documents d ON d.id = c.document ORDER BY best.score DESC, c.id"
        )
        values = [] if filters is None else values
        # Words of every second chunk weigh a millionth: chunks without others are last.
        telling = [word for word, one in zip(words, have, strict=True) if 2 * one < total]
        if telling and len(telling) < len(words):
            found = run(query, [perfect, " OR ".join(telling), *values, k])
            if len(found) == k:
                return found
        return run(query, [perfect, " OR ".join(words), *values, k])


def _runner(connection: apsw.Connection) -> Execute:
    untyped: Any = connection

    def run(statement: str, values: Sequence[Any] = (), /) -> list[Any]:
        return untyped.execute(statement, tuple(values)).fetchall()

    return run
