"""MemoryHistory: threads that live as long as the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from agentkit_py.history.leases import ThreadLease
from agentkit_py.processors.base import Processors
from agentkit_py.stores._sql import SqlHistory
from agentkit_py.stores._sql_session import Database, Session

T = TypeVar("T")


class MemoryHistory(SqlHistory):
    """Threads in memory, for tests and scripts.

    It is an SQLite database without a file: later changes to an object do not reach the stored
    data, and values that a database would refuse are refused here, too.
    """

    def __init__(
        self,
        *,
        processors: Processors = (),
        lease: ThreadLease | None = None,
        lazy: bool | None = None,
    ) -> None:
        """Begin without threads.

        Args:
            processors: History processors that run before those of networks and agents.
            lease: How runs share a thread; None: they do not know of each other.
            lazy: False: each run loads its whole thread; see `HistoryStore`.
        """
        from agentkit_py.stores._sqlite_file import SqliteMemory  # noqa: PLC0415 - loads sqlite3

        super().__init__(processors=processors, lease=lease, lazy=lazy)
        self._memory = SqliteMemory()

    def __repr__(self) -> str:
        return "MemoryHistory()"

    def _make_database(self) -> Database:
        return self._memory

    async def _run(
        self, work: Callable[[Session], T], *, write: bool = False, repeatable: bool = True
    ) -> T:
        # in this thread: no disk or server to wait for.
        return self._memory.transact(work, write=write, repeatable=repeatable)
