"""MemoryHistory: threads that live as long as the process."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from threading import Lock

from agentkit_py.errors import ThreadNotFoundError
from agentkit_py.history.leases import ThreadLease
from agentkit_py.history.runs import RunRecord
from agentkit_py.processors.base import Extent, Processor, Summary
from agentkit_py.processors.vectors import MemoryIndex, Vector
from agentkit_py.results import USER
from agentkit_py.stores.base import HistoryStore
from agentkit_py.stores.rows import (
    Row,
    StoredResult,
    ThreadInfo,
    decode_metadata,
    decode_row,
    decode_run,
    encode_metadata,
    encode_run,
    first_title,
    new_rows,
    now,
)
from agentkit_py.stores.thread_data import ThreadData


@dataclass(slots=True)
class _Thread:
    info: ThreadInfo
    metadata: str
    rows: list[Row] = field(default_factory=list[Row])
    by_id: dict[str, str] = field(default_factory=dict[str, str])
    extents: list[Extent] = field(default_factory=lambda: [Extent()])
    """The size of the thread before each row, and after the last."""


@dataclass(slots=True)
class _Lock:
    """A right that one owner at a time has, until it ends by itself."""

    owner: str | None = None
    until: float = 0.0

    def take(self, owner: str, seconds: float) -> bool:
        current = time.time()
        if self.owner not in (None, owner) and self.until > current:
            return False
        self.owner, self.until = owner, current + seconds
        return True

    def free(self, owner: str) -> None:
        if self.owner == owner:
            self.owner = None


@dataclass(slots=True)
class _Data:
    """Thread data; there may be some of threads that are not in this store."""

    lease: _Lock = field(default_factory=_Lock)
    runs: dict[str, str] = field(default_factory=dict[str, str])
    summaries: dict[str, Summary] = field(default_factory=dict[str, Summary])
    summary_locks: dict[str, _Lock] = field(default_factory=dict[str, _Lock])


class MemoryHistory(HistoryStore):
    """Threads in memory, for tests and scripts.

    It keeps the same JSON as `SqliteHistory`: later changes to an object do not reach what is
    stored, and what a database would refuse is refused here too.
    """

    def __init__(
        self,
        *,
        processors: Sequence[Processor] = (),
        lease: ThreadLease | None = None,
        lazy: bool | None = None,
    ) -> None:
        """Begin without threads.

        Args:
            processors: History processors that run before those of networks and agents.
            lease: How runs share a thread; None: they do not know of each other.
            lazy: False: each run loads its whole thread. Else it loads as much as its processors
                want to see, and `State.transcript` holds that. True: and tokens are counted at each
                save, though the encoding has to be loaded for that.
        """
        super().__init__(processors=processors, lease=lease, lazy=lazy)
        self._threads: dict[str, _Thread] = {}
        self._data: dict[str, _Data] = {}
        self._vectors = MemoryIndex()
        # Several event loops, each in its own thread, may share one store.
        self._lock = Lock()

    async def insert_thread(self, thread: ThreadInfo) -> None:
        """Add a thread, unless there is one of its id."""
        metadata = encode_metadata(thread.metadata, thread.id)
        with self._lock:
            if thread.id not in self._threads:
                self._threads[thread.id] = _Thread(replace(thread, metadata={}), metadata)

    def _thread(self, thread_id: str) -> _Thread:
        found = self._threads.get(thread_id)
        if found is None:
            raise ThreadNotFoundError(thread_id)
        return found

    def _data_of(self, thread_id: str) -> _Data:
        """Return a thread's data to change."""
        return self._data.setdefault(thread_id, _Data())

    def _known_of(self, thread_id: str) -> _Data:
        """Return a thread's data to read."""
        return self._data.get(thread_id) or _Data()

    async def append_rows(self, thread_id: str, rows: Sequence[Row]) -> None:
        """Add rows at the end, in order, without those whose id is stored already."""
        with self._lock:
            thread = self._thread(thread_id)
            new = new_rows(thread_id, thread.by_id, rows)
            if not new:
                return
            title = thread.info.title
            if not title and all(row.agent_name != USER for row in thread.rows):
                title = first_title(new)
            thread.rows.extend(new)
            for row in new:
                thread.extents.append(thread.extents[-1] + row.extent)
            thread.by_id.update({row.id: row.json for row in new if row.id is not None})
            changed = datetime.fromisoformat(now())
            thread.info = replace(thread.info, title=title, updated_at=changed)

    async def stored_results(self, thread_id: str) -> list[StoredResult]:
        """Return the results with their positions and metadata, oldest first."""
        with self._lock:
            thread = self._thread(thread_id)
        return _decoded(thread_id, thread, 0, len(thread.rows))

    async def page(self, thread_id: str, before: int, limit: int) -> list[StoredResult]:
        """Return the last ``limit`` results before the position ``before``, oldest first."""
        with self._lock:
            thread = self._threads.get(thread_id)
        return [] if thread is None else _decoded(thread_id, thread, max(0, before - limit), before)

    async def get_thread(self, thread_id: str) -> ThreadInfo:
        """Return a thread without its results."""
        with self._lock:
            return _info(self._thread(thread_id))

    async def select_threads(self, limit: int | None, user_id: str | None) -> list[ThreadInfo]:
        """Return threads, the last changed first."""
        with self._lock:
            found = [t for t in self._threads.values() if user_id in (None, t.info.user_id)]
        # The sort is stable and then turned round: of two changed at one moment, the newer first.
        found.sort(key=lambda thread: thread.info.updated_at)
        return [_info(thread) for thread in found[::-1][:limit]]

    async def count_results(self, thread_id: str) -> int:
        """Return the number of results, user turns included."""
        with self._lock:
            return len(self._thread(thread_id).rows)

    async def remove_thread(self, thread_id: str) -> bool:
        """Remove a thread with its results and thread data; return False if there was none."""
        with self._lock:
            self._data.pop(thread_id, None)
            self._vectors.forget(thread_id)
            return self._threads.pop(thread_id, None) is not None

    async def thread_data(self, thread_id: str) -> ThreadData:
        """Return the thread's summaries, vectors and runs, for exports."""
        with self._lock:
            data = self._known_of(thread_id)
            return ThreadData(
                summaries=dict(data.summaries),
                runs=tuple(decode_run(thread_id, one, text) for one, text in data.runs.items()),
                vectors=self._vectors.of_thread(thread_id),
            )

    async def set_times(self, thread_id: str, created_at: datetime, updated_at: datetime) -> None:
        """Set the times of a thread."""
        with self._lock:
            thread = self._thread(thread_id)
            thread.info = replace(thread.info, created_at=created_at, updated_at=updated_at)

    async def load_summary(self, thread_id: str, key: str) -> Summary | None:
        """Return the summary; None if there is none."""
        with self._lock:
            return self._known_of(thread_id).summaries.get(key)

    async def lock_summary(self, thread_id: str, key: str, owner: str, seconds: float) -> bool:
        """Take the right to write the next summary, for so many seconds at the most."""
        with self._lock:
            locks = self._data_of(thread_id).summary_locks
            return locks.setdefault(key, _Lock()).take(owner, seconds)

    async def save_summary(self, thread_id: str, key: str, summary: Summary, owner: str) -> bool:
        """Replace the summary, if ``owner`` has the right to, and give the right back."""
        with self._lock:
            data = self._known_of(thread_id)
            lock = data.summary_locks.get(key)
            if lock is None or lock.owner != owner:
                return False
            data.summaries[key] = summary
            lock.free(owner)
            return True

    async def unlock_summary(self, thread_id: str, key: str, owner: str) -> None:
        """Give the right to write back."""
        with self._lock:
            self._known_of(thread_id).summary_locks.get(key, _Lock()).free(owner)

    async def missing_vectors(self, thread_id: str, key: str, ids: Sequence[str]) -> list[str]:
        """Return those of ``ids`` that have no vector, in order."""
        return await self._vectors.missing_vectors(thread_id, key, ids)

    async def add_vectors(self, thread_id: str, key: str, vectors: Mapping[str, Vector]) -> None:
        """Add vectors by id; existing ones stay as they are."""
        await self._vectors.add_vectors(thread_id, key, vectors)

    async def nearest_vectors(
        self, thread_id: str, key: str, vector: Vector, ids: Collection[str], k: int
    ) -> list[tuple[str, float]]:
        """Return the nearest of ``ids`` with their similarity, best first."""
        return await self._vectors.nearest_vectors(thread_id, key, vector, ids, k)

    async def lock_thread(self, thread_id: str, owner: str, seconds: float) -> bool:
        """Take or prolong the thread's lease, for so many seconds from now."""
        with self._lock:
            return self._data_of(thread_id).lease.take(owner, seconds)

    async def unlock_thread(self, thread_id: str, owner: str) -> None:
        """Give the thread's lease back, if ``owner`` has it."""
        with self._lock:
            self._known_of(thread_id).lease.free(owner)

    async def save_run(self, thread_id: str, run: RunRecord) -> None:
        """Save a run record in place of the one before."""
        text = encode_run(run, thread_id)
        with self._lock:
            self._thread(thread_id)
            self._data_of(thread_id).runs[run.id] = text

    async def load_run(self, thread_id: str, run_id: str | None = None) -> RunRecord | None:
        """Return a run record, or the newest one that has a state; None if there is none."""
        with self._lock:
            runs = dict(self._known_of(thread_id).runs)
        if run_id is not None:
            return decode_run(thread_id, run_id, runs[run_id]) if run_id in runs else None
        found = (decode_run(thread_id, one, runs[one]) for one in reversed(runs))
        return next((run for run in found if run.state is not None), None)


def _decoded(thread_id: str, thread: _Thread, first: int, end: int) -> list[StoredResult]:
    # Rows are only ever added, so that no lock is needed to read them.
    rows = zip(thread.rows[first:end], thread.extents[first:end], strict=False)
    return [
        decode_row(thread_id, position, row.json, row.metadata, row.tokens, before)
        for position, (row, before) in enumerate(rows, first)
    ]


def _info(thread: _Thread) -> ThreadInfo:
    return replace(
        thread.info,
        metadata=decode_metadata(thread.metadata, thread.info.id),
        result_count=len(thread.rows),
        message_count=thread.extents[-1].messages,
    )
