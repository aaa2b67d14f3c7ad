"""SqliteHistory: threads in one file, safe for several processes at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from agentkit_py.errors import ConfigurationError
from agentkit_py.history.runs import RunRecord
from agentkit_py.history.turns import Turns
from agentkit_py.processors.base import Processor, Summary
from agentkit_py.processors.vectors import Vector
from agentkit_py.stores import _sqlite_beside as beside
from agentkit_py.stores import _sqlite_rows as queries
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
    from agentkit_py.stores._sqlite_file import SqliteFile

T = TypeVar("T")


class SqliteHistory(HistoryStore):
    """Threads in an SQLite file: ``Network(history=SqliteHistory("support.db"))``.

    The file is created when it is first needed. Several processes, event loops and threads may use
    it at the same time. Each result is on disk when the call that saves it returns (WAL,
    synchronous FULL), so a process that is killed in the middle of a turn leaves the results it
    finished.

    Attributes:
        path: The file.
        busy_timeout: Seconds to wait for other writers.
        cache_bytes: How much memory decoded results may take.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        processors: Sequence[Processor] = (),
        turns: Turns | None = None,
        lazy: bool | None = None,
        busy_timeout: float = 30.0,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        """Remember the file; nothing is opened yet.

        Args:
            path: The file; its folder has to exist. A relative path is relative to the folder that
                is current now.
            processors: History processors that run before those of networks and agents.
            turns: How runs share a thread; None: they do not know of each other.
            lazy: False: each run loads its whole thread. Else it loads as much as its processors
                want to see, and `State.results` holds that. True: and tokens are counted at each
                save, though the encoding has to be loaded for that.
            busy_timeout: Seconds to wait for other writers before a write fails.
            cache_bytes: About how much memory is used at the most to keep decoded results for the
                next run on their thread; 0: none, each run decodes its results anew.

        Raises:
            ConfigurationError: ``path`` is no path of a file, e.g. ``":memory:"``, or
                ``cache_bytes`` is less than 0.
        """
        super().__init__(processors=processors, turns=turns, lazy=lazy)
        self.path: Path = _checked(path)
        self.busy_timeout = busy_timeout
        self.cache_bytes = cache_bytes
        self._kept = RowCache(cache_bytes)
        self._files: dict[int, SqliteFile] = {}
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"SqliteHistory({str(self.path)!r})"

    def _file(self) -> SqliteFile:
        from agentkit_py.stores._sqlite_file import SqliteFile  # noqa: PLC0415 - loads sqlite3

        # A forked process must not touch its parent's connections, not even to close them: they
        # stay in the dictionary, unused.
        process = os.getpid()
        with self._lock:
            if process not in self._files:
                self._files[process] = SqliteFile(self.path, self.busy_timeout)
            return self._files[process]

    async def _read(self, query: Callable[..., T], *arguments: Any) -> T:
        return await self._file().read(lambda connection: query(connection, *arguments))

    async def _write(self, change: Callable[..., T], *arguments: Any) -> T:
        return await self._file().write(lambda connection: change(connection, *arguments))

    async def setup(self) -> None:
        """Create the file and its tables, or bring it to this version.

        Raises:
            StoreVersionError: A newer version of the library wrote the file.
            HistoryError: The path cannot be opened, or is no file of ours.
        """
        await self._read(queries.nothing)

    async def close(self) -> None:
        """Close the file. A store that is used after that opens it again."""
        self._kept.here.forget()
        await self._file().close()

    async def insert_thread(self, thread: ThreadInfo) -> None:
        """Add a thread, unless there is one of its id."""
        kept = encode_metadata(thread.metadata, thread.id)
        # Each run asks for its thread; looking first does not make it wait for writers.
        if not await self._read(queries.thread_exists, thread.id):
            await self._write(queries.add_thread, thread.id, thread.user_id, thread.title, kept)

    async def append_rows(self, thread_id: str, rows: Sequence[Row]) -> None:
        """Add rows at the end, in order, those whose id is there already left out."""
        await self._write(queries.append_rows, thread_id, rows)

    async def records(self, thread_id: str) -> list[StoredResult]:
        """The results with their positions and what is kept beside them, oldest first."""
        return await self._read(queries.records, thread_id, self._kept.here.decode)

    async def page(self, thread_id: str, before: int, limit: int) -> list[StoredResult]:
        """The last ``limit`` results before the position ``before``, oldest first."""
        decode = self._kept.here.decode
        return await self._read(queries.page, thread_id, before, limit, decode)

    async def newest(self, thread_id: str, limit: int) -> tuple[int, list[StoredResult]]:
        """How many results a thread has, and the last ``limit``, oldest first."""
        return await self._read(queries.newest, thread_id, limit, self._kept.here.decode)

    async def get_thread(self, thread_id: str) -> ThreadInfo:
        """What is known of a thread."""
        return await self._read(queries.get_thread, thread_id)

    async def select_threads(self, limit: int | None, user_id: str | None) -> list[ThreadInfo]:
        """Threads, those changed last first."""
        return await self._read(queries.select_threads, limit, user_id)

    async def search(
        self, words: str, *, user_id: str | None = None, limit: int = 50
    ) -> list[Match]:
        """Threads in which something was said, those changed last first, with the first place."""
        return await self._read(queries.search, words, user_id, limit)

    async def stats(self, user_id: str | None = None) -> StoreStats:
        """How much there is, of one user or in all."""
        return await self._read(queries.stats, user_id)

    async def thread_exists(self, thread_id: str) -> bool:
        """Whether there is such a thread."""
        return await self._read(queries.thread_exists, thread_id)

    async def count_results(self, thread_id: str) -> int:
        """How many results the thread has, user turns among them."""
        return await self._read(queries.count_results, thread_id)

    async def remove_thread(self, thread_id: str) -> bool:
        """Remove a thread with all its results; False if there was none."""
        removed = await self._write(queries.delete_thread, thread_id)
        self._kept.here.forget(thread_id)
        return removed

    async def beside(self, thread_id: str) -> Beside:
        """All that is kept beside a thread, for exports."""
        return await self._read(beside.all_of, thread_id)

    async def set_times(self, thread_id: str, created_at: datetime, updated_at: datetime) -> None:
        """Say when a thread was made and changed."""
        await self._write(queries.set_times, thread_id, created_at, updated_at)

    async def load_summary(self, thread_id: str, key: str) -> Summary | None:
        """The summary; None if there is none."""
        return await self._read(beside.load_summary, thread_id, key)

    async def lock_summary(self, thread_id: str, key: str, owner: str, seconds: float) -> bool:
        """Take the right to write the next summary, for so many seconds at the most."""
        return await self._write(beside.lock_summary, thread_id, key, owner, seconds)

    async def save_summary(self, thread_id: str, key: str, summary: Summary, owner: str) -> bool:
        """Put a summary in place of the one before, if ``owner`` has the right to."""
        return await self._write(beside.save_summary, thread_id, key, summary, owner)

    async def unlock_summary(self, thread_id: str, key: str, owner: str) -> None:
        """Give the right to write back."""
        await self._write(beside.unlock_summary, thread_id, key, owner)

    async def missing_vectors(self, thread_id: str, key: str, ids: Sequence[str]) -> list[str]:
        """Those of ``ids`` that there is no vector of, in order."""
        return await self._read(beside.missing_vectors, thread_id, key, ids)

    async def add_vectors(self, thread_id: str, key: str, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors by id; ids that are there already stay as they are."""
        await self._write(beside.add_vectors, thread_id, key, vectors)

    async def nearest_vectors(
        self, thread_id: str, key: str, vector: Vector, ids: Collection[str], k: int
    ) -> list[tuple[str, float]]:
        """The nearest of ``ids`` with their likeness, best first."""
        return await self._read(beside.nearest_vectors, thread_id, key, vector, ids, k)

    async def lock_thread(self, thread_id: str, owner: str, seconds: float) -> bool:
        """Take the right to the thread, or go on having it, for so many seconds from now."""
        return await self._write(beside.lock_thread, thread_id, owner, seconds)

    async def unlock_thread(self, thread_id: str, owner: str) -> None:
        """Give the right back, if ``owner`` has it."""
        await self._write(beside.unlock_thread, thread_id, owner)

    async def save_run(self, thread_id: str, run: RunRecord) -> None:
        """Keep what is known of a run, in place of what was known before."""
        await self._write(beside.save_run, thread_id, run)

    async def load_run(self, thread_id: str, run_id: str | None = None) -> RunRecord | None:
        """A run, or the newest one that has a state; None if there is none."""
        return await self._read(beside.load_run, thread_id, run_id)


def _checked(path: str | os.PathLike[str]) -> Path:
    name = os.fspath(path)
    if name == ":memory:":
        raise ConfigurationError(
            "SqliteHistory keeps threads in a file; for threads in memory use MemoryHistory()."
        )
    if not name or "\0" in name or name.startswith("file:"):
        raise ConfigurationError(f"SqliteHistory needs the path of a file, got {name!r}")
    return Path(name).absolute()
