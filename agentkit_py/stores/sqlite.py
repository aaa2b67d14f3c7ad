"""SqliteHistory: threads in a file, safe for several processes at once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from agentkit_py._core.validation import wrong_bool, wrong_number
from agentkit_py.errors import ConfigurationError
from agentkit_py.history.leases import ThreadLease
from agentkit_py.processors.base import Processors
from agentkit_py.stores._sql import SqlHistory
from agentkit_py.stores._sql_session import Database
from agentkit_py.stores.rows import ThreadInfo

if TYPE_CHECKING:
    from agentkit_py.stores.broadcast import Broadcast


class SqliteHistory(SqlHistory):
    """Threads in an SQLite file: ``Network(history=SqliteHistory("support.db"))``.

    The file is created when it is first needed, with mode 0600: only its owner can read it.
    Several processes, event loops and threads may use
    it at the same time. Each result is on disk when the call that saves it returns (WAL,
    synchronous FULL), so a process that is killed in the middle of a turn leaves the results it
    finished.

    Attributes:
        path: The file.
        busy_timeout: Seconds to wait for other writers.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        processors: Processors = (),
        lease: ThreadLease | None = None,
        lazy: bool | None = None,
        busy_timeout: float = 30.0,
        full_text: bool = True,
    ) -> None:
        """Remember the file; nothing is opened yet.

        Args:
            path: The file; its folder has to exist. A relative path is relative to the folder that
                is current now.
            processors: History processors that run before those of networks and agents.
            lease: How runs share a thread; None: they do not know of each other.
            lazy: False: each run loads its whole thread; see `HistoryStore`.
            busy_timeout: Seconds to wait for other writers before a write fails.
            full_text: Keep an index of words (SQLite's FTS5) for `search`. False: a smaller file,
                and each search reads every message.

        Raises:
            ConfigurationError: ``path`` is not a path of a file, e.g. ``":memory:"``, or another
                value is of a wrong kind.
        """
        super().__init__(processors=processors, lease=lease, lazy=lazy)
        self._path: Path = _checked(path)
        if problem := wrong_number(busy_timeout):
            raise ConfigurationError(f"SqliteHistory: busy_timeout={busy_timeout!r:.80}: {problem}")
        if problem := wrong_bool(full_text):
            raise ConfigurationError(f"SqliteHistory: full_text: {problem}")
        self._busy_timeout = busy_timeout
        self._full_text = full_text

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def busy_timeout(self) -> float:
        """Seconds to wait for other writers."""
        return self._busy_timeout

    def __repr__(self) -> str:
        return f"SqliteHistory({str(self._path)!r})"

    def _make_database(self) -> Database:
        from agentkit_py.stores._sqlite_file import SqliteFile  # noqa: PLC0415 - loads sqlite3

        return SqliteFile(self._path, self._busy_timeout, full_text=self._full_text)

    def broadcast(self) -> Broadcast:
        """Return the broadcast between processes, through a file of its own."""
        from agentkit_py.stores.broadcast import SqliteBroadcast  # noqa: PLC0415 - only servers need it

        return SqliteBroadcast(self._path.with_name(f"{self._path.name}-streams"))

    async def insert_thread(self, thread: ThreadInfo) -> None:
        """Add a thread, unless its id exists."""
        # Each run asks for its thread; looking first does not make it wait for writers.
        if not await self.thread_exists(thread.id):
            await super().insert_thread(thread)


def _checked(path: str | os.PathLike[str]) -> Path:
    given: object = path
    if not isinstance(given, str | os.PathLike):
        raise ConfigurationError(f"SqliteHistory needs the path of a file, got {given!r:.80}")
    name = os.fspath(path)
    if name == ":memory:":
        raise ConfigurationError(
            "SqliteHistory keeps threads in a file; for threads in memory use MemoryHistory()."
        )
    if not name or "\0" in name or name.startswith("file:"):
        raise ConfigurationError(f"SqliteHistory needs the path of a file, got {name!r}")
    return Path(name).absolute()
