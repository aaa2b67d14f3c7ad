"""PostgresHistory: threads in a PostgreSQL database, for any number of processes and machines."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from agentkit_py._core.conninfo import conninfo_problem
from agentkit_py.errors import ConfigurationError
from agentkit_py.history.runs import RunRecord
from agentkit_py.history.turns import Turns
from agentkit_py.processors.base import Processor, Summary
from agentkit_py.processors.vectors import Vector
from agentkit_py.stores.base import HistoryStore
from agentkit_py.stores.beside import Beside
from agentkit_py.stores.keeping import CACHE_BYTES, RowCache
from agentkit_py.stores.records import (
    Match,
    Row,
    StoredResult,
    StoreStats,
    ThreadInfo,
    encode_metadata,
)

if TYPE_CHECKING:
    from agentkit_py.stores._pg_server import PgServer, Session

T = TypeVar("T")


class PostgresHistory(HistoryStore):
    """Threads in PostgreSQL 13 or newer: ``Network(history=PostgresHistory("postgresql://…"))``.

    Needs the extra ``postgres`` (psycopg 3). The tables are made when the store is first used; they
    may stand beside others. Each result is committed when the call that saves it returns. A lost
    connection is made anew and the transaction repeated.

    Attributes:
        schema: Where the tables are.
        prefix: What their names begin with.
        cache_bytes: How much memory decoded results may take.
    """

    def __init__(  # noqa: PLR0913 - each is a setting of its own
        self,
        conninfo: str,
        *,
        processors: Sequence[Processor] = (),
        turns: Turns | None = None,
        lazy: bool | None = None,
        schema: str = "public",
        prefix: str = "agentkit_",
        connections: int = 10,
        wait: float = 30.0,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        """Remember the database; nothing is connected yet.

        Args:
            conninfo: ``postgresql://user:password@host/database``, or ``key=value`` pairs.
            processors: History processors that run before those of networks and agents.
            turns: How runs share a thread; None: they do not know of each other.
            lazy: False: each run loads its whole thread. Else it loads as much as its processors
                want to see, and `State.results` holds that. True: and tokens are counted at each
                save, though the encoding has to be loaded for that.
            schema: The schema for the tables; it is made if it is not there.
            prefix: What the tables' names begin with.
            connections: How many connections there are at the most.
            wait: Seconds to wait for a connection.
            cache_bytes: About how much memory is used at the most to keep decoded results for the
                next run on their thread; 0: none, each run decodes its results anew.

        Raises:
            ConfigurationError: The address, a name or a number cannot be used, or psycopg is not
                installed.
        """
        super().__init__(processors=processors, turns=turns, lazy=lazy)
        try:
            from agentkit_py.stores._pg_schema import Tables  # noqa: PLC0415 - loads psycopg
        except ImportError as error:
            raise ConfigurationError(
                "PostgresHistory needs psycopg: pip install 'pyagentkit[postgres]'."
            ) from error
        if connections < 1:
            raise ConfigurationError(f"connections must be 1 or more, not {connections}.")
        if problem := conninfo_problem(conninfo):
            raise ConfigurationError(f"PostgresHistory: {problem}")
        self._tables = Tables(schema, prefix)
        self.schema = schema
        self.prefix = prefix
        self.cache_bytes = cache_bytes
        self._kept = RowCache(cache_bytes)
        self._conninfo = conninfo
        self._connections = connections
        self._wait = wait
        self._servers: dict[int, PgServer] = {}
        self._lock = Lock()

    def __repr__(self) -> str:
        from agentkit_py.stores._pg_server import where  # noqa: PLC0415 - loads psycopg

        return f"<PostgresHistory: {where(self._conninfo)}, {self.schema}.{self.prefix}*>"

    def _server(self) -> PgServer:
        from agentkit_py.stores._pg_server import PgServer  # noqa: PLC0415 - loads psycopg

        process = os.getpid()  # a forked process must not use its parent's connections
        with self._lock:
            if process not in self._servers:
                self._servers[process] = PgServer(
                    self._conninfo, self._tables, self._connections, self._wait
                )
            return self._servers[process]

    async def _do(
        self,
        work: Callable[..., Awaitable[T]],
        *arguments: Any,
        repeatable: bool = True,
    ) -> T:
        def run(session: Session) -> Awaitable[T]:
            return work(session, *arguments)

        return await self._server().transact(run, repeatable=repeatable)

    async def setup(self) -> None:
        """Create the tables, or bring them to this version.

        Raises:
            StoreVersionError: A newer version of the library made them.
            HistoryError: The database cannot be reached.
        """
        await self._do(_rows().nothing)

    async def close(self) -> None:
        """Close the connections, when what was begun is done. It connects again if it is used."""
        self._kept.here.forget()
        with self._lock:
            server = self._servers.pop(os.getpid(), None)
        if server is not None:
            await asyncio.to_thread(server.close_now)

    async def insert_thread(self, thread: ThreadInfo) -> None:
        """Add a thread, unless there is one of its id."""
        kept = encode_metadata(thread.metadata, thread.id)
        await self._do(_rows().add_thread, thread.id, thread.user_id, thread.title, kept)

    async def append_rows(self, thread_id: str, rows: Sequence[Row]) -> None:
        """Add rows at the end, in order, those whose id is there already left out."""
        safe = all(row.id is not None for row in rows)
        await self._do(_rows().append_rows, thread_id, rows, repeatable=safe)

    async def records(self, thread_id: str) -> list[StoredResult]:
        """The results with their positions and what is kept beside them, oldest first."""
        return await self._do(_rows().records, thread_id, self._kept.here.decode)

    async def page(self, thread_id: str, before: int, limit: int) -> list[StoredResult]:
        """The last ``limit`` results before the position ``before``, oldest first."""
        return await self._do(_rows().page, thread_id, before, limit, self._kept.here.decode)

    async def newest(self, thread_id: str, limit: int) -> tuple[int, list[StoredResult]]:
        """How many results a thread has, and the last ``limit``, oldest first."""
        return await self._do(_rows().newest, thread_id, limit, self._kept.here.decode)

    async def get_thread(self, thread_id: str) -> ThreadInfo:
        """What is known of a thread."""
        return await self._do(_rows().get_thread, thread_id)

    async def select_threads(self, limit: int | None, user_id: str | None) -> list[ThreadInfo]:
        """Threads, those changed last first."""
        return await self._do(_rows().select_threads, limit, user_id)

    async def search(
        self, words: str, *, user_id: str | None = None, limit: int = 50
    ) -> list[Match]:
        """Threads in which something was said, those changed last first, with the first place."""
        return await self._do(_rows().search, words, user_id, limit)

    async def stats(self, user_id: str | None = None) -> StoreStats:
        """How much there is, of one user or in all."""
        return await self._do(_rows().stats, user_id)

    async def thread_exists(self, thread_id: str) -> bool:
        """Whether there is such a thread."""
        return await self._do(_rows().thread_exists, thread_id)

    async def count_results(self, thread_id: str) -> int:
        """How many results the thread has, user turns among them."""
        return await self._do(_rows().count_results, thread_id)

    async def remove_thread(self, thread_id: str) -> bool:
        """Remove a thread with all its results; False if there was none."""
        removed = await self._do(_rows().delete_thread, thread_id)
        self._kept.here.forget(thread_id)
        return removed

    async def beside(self, thread_id: str) -> Beside:
        """All that is kept beside a thread, for exports."""
        return await self._do(_beside().all_of, thread_id)

    async def set_times(self, thread_id: str, created_at: datetime, updated_at: datetime) -> None:
        """Say when a thread was made and changed."""
        await self._do(_rows().set_times, thread_id, created_at, updated_at)

    async def load_summary(self, thread_id: str, key: str) -> Summary | None:
        """The summary; None if there is none."""
        return await self._do(_beside().load_summary, thread_id, key)

    async def lock_summary(self, thread_id: str, key: str, owner: str, seconds: float) -> bool:
        """Take the right to write the next summary, for so many seconds at the most."""
        return await self._do(_beside().lock_summary, thread_id, key, owner, seconds)

    async def save_summary(self, thread_id: str, key: str, summary: Summary, owner: str) -> bool:
        """Put a summary in place of the one before, if ``owner`` has the right to."""
        save = _beside().save_summary
        return await self._do(save, thread_id, key, summary, owner, repeatable=False)

    async def unlock_summary(self, thread_id: str, key: str, owner: str) -> None:
        """Give the right to write back."""
        await self._do(_beside().unlock_summary, thread_id, key, owner)

    async def missing_vectors(self, thread_id: str, key: str, ids: Sequence[str]) -> list[str]:
        """Those of ``ids`` that there is no vector of, in order."""
        return await self._do(_beside().missing_vectors, thread_id, key, ids)

    async def add_vectors(self, thread_id: str, key: str, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors by id; ids that are there already stay as they are."""
        await self._do(_beside().add_vectors, thread_id, key, vectors)

    async def nearest_vectors(
        self, thread_id: str, key: str, vector: Vector, ids: Collection[str], k: int
    ) -> list[tuple[str, float]]:
        """The nearest of ``ids`` with their likeness, best first."""
        return await self._do(_beside().nearest_vectors, thread_id, key, vector, ids, k)

    async def lock_thread(self, thread_id: str, owner: str, seconds: float) -> bool:
        """Take the right to the thread, or go on having it, for so many seconds from now."""
        return await self._do(_beside().lock_thread, thread_id, owner, seconds)

    async def unlock_thread(self, thread_id: str, owner: str) -> None:
        """Give the right back, if ``owner`` has it."""
        await self._do(_beside().unlock_thread, thread_id, owner)

    async def save_run(self, thread_id: str, run: RunRecord) -> None:
        """Keep what is known of a run, in place of what was known before."""
        await self._do(_beside().save_run, thread_id, run)

    async def load_run(self, thread_id: str, run_id: str | None = None) -> RunRecord | None:
        """A run, or the newest one that has a state; None if there is none."""
        return await self._do(_beside().load_run, thread_id, run_id)


def _rows() -> Any:
    from agentkit_py.stores import _pg_rows  # noqa: PLC0415 - loads psycopg

    return _pg_rows


def _beside() -> Any:
    from agentkit_py.stores import _pg_beside  # noqa: PLC0415 - loads psycopg

    return _pg_beside
