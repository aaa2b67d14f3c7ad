"""SqliteKnowledge: documents in one SQLite file, with sqlite-vec and FTS5."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Literal

import anyio.to_thread

from agentkit_py.errors import MissingDependencyError
from agentkit_py.knowledge._sql_store import SqlStore
from agentkit_py.knowledge._tables import Tables

if TYPE_CHECKING:
    from agentkit_py.knowledge._sqlite_file import SqliteFile


class SqliteKnowledge(SqlStore):
    """Documents in a file: ``Knowledge(store=SqliteKnowledge("docs.db"), embedder=…)``.

    Needs the extra ``knowledge`` (apsw and sqlite-vec). Several processes may use the file; it must
    be another one than that of a `SqliteHistory`. Vectors are compared one by one, which is exact,
    and quick enough for some hundred thousand pieces.
    """

    _tables = Tables("sqlite")

    def __init__(
        self,
        path: str | Path,
        *,
        language: Literal["english", "simple"] = "english",
        busy_timeout: float = 30.0,
    ) -> None:
        """Remember the file; it is made when the store is first used.

        Args:
            path: The file, or ``":memory:"``.
            language: Whether words are reduced to their English stems; set when the file is made.
            busy_timeout: Seconds to wait while another process writes.

        Raises:
            MissingDependencyError: apsw or sqlite-vec is not installed.
        """
        for module, package in (("apsw", "apsw"), ("sqlite_vec", "sqlite-vec")):
            if find_spec(module) is None:
                raise MissingDependencyError(package, "knowledge", "SqliteKnowledge")
        self.path: str = str(path)
        self._language = language
        self._busy_timeout = busy_timeout
        self._file: SqliteFile | None = None
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"<SqliteKnowledge: {self.path}>"

    def _database(self) -> SqliteFile:
        from agentkit_py.knowledge._sqlite_file import SqliteFile  # noqa: PLC0415 - loads apsw

        with self._lock:
            if self._file is None:
                self._file = SqliteFile(self.path, self._language, self._busy_timeout)
            return self._file

    async def close(self) -> None:
        """Close the file; the next use opens it again (what is in memory is gone)."""
        if self._file is not None:
            await anyio.to_thread.run_sync(self._file.close)
