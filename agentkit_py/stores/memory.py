"""MemoryHistory: threads that live as long as the process."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from threading import Lock

from agentkit_py.errors import ThreadNotFoundError
from agentkit_py.history.runs import RunRecord
from agentkit_py.history.turns import Turns
from agentkit_py.processors.base import Extent, Processor, Summary
from agentkit_py.processors.vectors import MemoryIndex, Vector
from agentkit_py.results import USER
from agentkit_py.stores._memory_beside import Runs, Summaries
from agentkit_py.stores.base import HistoryStore
from agentkit_py.stores.beside import Beside
from agentkit_py.stores.decoding import decode_rows
from agentkit_py.stores.records import (
    Row,
    StoredResult,
    ThreadInfo,
    encode_metadata,
    load_metadata,
    new_rows,
    now,
)
from agentkit_py.stores.titles import title_in


@dataclass(slots=True)
class _Thread:
    info: ThreadInfo
    metadata: str
    rows: list[Row] = field(default_factory=list[Row])
    by_id: dict[str, str] = field(default_factory=dict[str, str])
    extents: list[Extent] = field(default_factory=lambda: [Extent()])
    """How much stands before each row, and after the last."""


class MemoryHistory(HistoryStore):
    """Threads in memory, for tests and scripts.

    It keeps what `SqliteHistory` would, as JSON: nobody's later changes reach what is stored, and
    what a database would refuse is refused here too.
    """

    def __init__(
        self,
        *,
        processors: Sequence[Processor] = (),
        turns: Turns | None = None,
        lazy: bool | None = None,
    ) -> None:
        """Begin without threads.

        Args:
            processors: History processors that run before those of networks and agents.
            turns: How runs share a thread; None: they do not know of each other.
            lazy: False: each run loads its whole thread. Else it loads as much as its processors
                want to see, and `State.results` holds that. True: and tokens are counted at each
                save, though the encoding has to be loaded for that.
        """
        super().__init__(processors=processors, turns=turns, lazy=lazy)
        self._threads: dict[str, _Thread] = {}
        self._summaries = Summaries()
        self._vectors = MemoryIndex()
        self._runs = Runs()
        # Several event loops, each in its own thread, may share one store.
        self._lock = Lock()

    async def setup(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to do: the threads stay."""

    async def insert_thread(self, thread: ThreadInfo) -> None:
        """Add a thread, unless there is one of its id."""
        kept = encode_metadata(thread.metadata, thread.id)
        with self._lock:
            if thread.id not in self._threads:
                self._threads[thread.id] = _Thread(replace(thread, metadata={}), kept)

    def _thread(self, thread_id: str) -> _Thread:
        found = self._threads.get(thread_id)
        if found is None:
            raise ThreadNotFoundError(thread_id)
        return found

    async def append_rows(self, thread_id: str, rows: Sequence[Row]) -> None:
        """Add rows at the end, in order, those whose id is there already left out."""
        with self._lock:
            thread = self._thread(thread_id)
            new = new_rows(thread_id, thread.by_id, rows)
            if not new:
                return
            title = thread.info.title
            if not title and (said := title_in(new)):
                title = said if all(row.agent_name != USER for row in thread.rows) else ""
            thread.rows.extend(new)
            for row in new:
                thread.extents.append(thread.extents[-1] + row.extent)
            thread.by_id.update({row.id: row.json for row in new if row.id is not None})
            time = datetime.fromisoformat(now())
            thread.info = replace(thread.info, title=title, updated_at=time)

    async def records(self, thread_id: str) -> list[StoredResult]:
        """The results with their positions and what is kept beside them, oldest first."""
        with self._lock:
            thread = self._thread(thread_id)
            rows, extents = list(thread.rows), list(thread.extents)
        return _decoded(thread_id, rows, extents, 0)

    async def page(self, thread_id: str, before: int, limit: int) -> list[StoredResult]:
        """The last ``limit`` results before the position ``before``, oldest first."""
        first = max(0, before - limit)
        with self._lock:
            thread = self._threads.get(thread_id)
            rows = [] if thread is None else thread.rows[first:before]
            extents = [] if thread is None else thread.extents[first:before]
        return _decoded(thread_id, rows, extents, first)

    async def get_thread(self, thread_id: str) -> ThreadInfo:
        """What is known of a thread."""
        with self._lock:
            return _info(self._thread(thread_id))

    async def select_threads(self, limit: int | None, user_id: str | None) -> list[ThreadInfo]:
        """Threads, those changed last first."""
        with self._lock:
            found = [t for t in self._threads.values() if user_id in (None, t.info.user_id)]
        # The sort is stable and then turned round: of two changed at one moment, the newer first.
        found.sort(key=lambda thread: thread.info.updated_at)
        return [_info(thread) for thread in found[::-1][:limit]]

    async def thread_exists(self, thread_id: str) -> bool:
        """Whether there is such a thread."""
        with self._lock:
            return thread_id in self._threads

    async def count_results(self, thread_id: str) -> int:
        """How many results the thread has, user turns among them."""
        with self._lock:
            return len(self._thread(thread_id).rows)

    async def remove_thread(self, thread_id: str) -> bool:
        """Remove a thread with all its results; False if there was none."""
        with self._lock:
            self._summaries.forget(thread_id)
            self._vectors.forget(thread_id)
            self._runs.forget(thread_id)
            return self._threads.pop(thread_id, None) is not None

    async def beside(self, thread_id: str) -> Beside:
        """All that is kept beside a thread, for exports."""
        with self._lock:
            return Beside(
                summaries=self._summaries.of_thread(thread_id),
                runs=self._runs.of_thread(thread_id),
                vectors=self._vectors.of_thread(thread_id),
            )

    async def set_times(self, thread_id: str, created_at: datetime, updated_at: datetime) -> None:
        """Say when a thread was made and changed."""
        with self._lock:
            thread = self._thread(thread_id)
            thread.info = replace(thread.info, created_at=created_at, updated_at=updated_at)

    async def load_summary(self, thread_id: str, key: str) -> Summary | None:
        """The summary; None if there is none."""
        with self._lock:
            return self._summaries.load(thread_id, key)

    async def lock_summary(self, thread_id: str, key: str, owner: str, seconds: float) -> bool:
        """Take the right to write the next summary, for so many seconds at the most."""
        with self._lock:
            return self._summaries.lock(thread_id, key, owner, seconds)

    async def save_summary(self, thread_id: str, key: str, summary: Summary, owner: str) -> bool:
        """Put a summary in place of the one before, if ``owner`` has the right to."""
        with self._lock:
            return self._summaries.save(thread_id, key, summary, owner)

    async def unlock_summary(self, thread_id: str, key: str, owner: str) -> None:
        """Give the right to write back."""
        with self._lock:
            self._summaries.unlock(thread_id, key, owner)

    async def missing_vectors(self, thread_id: str, key: str, ids: Sequence[str]) -> list[str]:
        """Those of ``ids`` that there is no vector of, in order."""
        return await self._vectors.missing_vectors(thread_id, key, ids)

    async def add_vectors(self, thread_id: str, key: str, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors by id; ids that are there already stay as they are."""
        await self._vectors.add_vectors(thread_id, key, vectors)

    async def nearest_vectors(
        self, thread_id: str, key: str, vector: Vector, ids: Collection[str], k: int
    ) -> list[tuple[str, float]]:
        """The nearest of ``ids`` with their likeness, best first."""
        return await self._vectors.nearest_vectors(thread_id, key, vector, ids, k)

    async def lock_thread(self, thread_id: str, owner: str, seconds: float) -> bool:
        """Take the right to the thread, or go on having it, for so many seconds from now."""
        with self._lock:
            return self._runs.lock(thread_id, owner, seconds)

    async def unlock_thread(self, thread_id: str, owner: str) -> None:
        """Give the right back, if ``owner`` has it."""
        with self._lock:
            self._runs.unlock(thread_id, owner)

    async def save_run(self, thread_id: str, run: RunRecord) -> None:
        """Keep what is known of a run, in place of what was known before."""
        with self._lock:
            self._thread(thread_id)
            self._runs.save(thread_id, run)

    async def load_run(self, thread_id: str, run_id: str | None = None) -> RunRecord | None:
        """A run, or the newest one that has a state; None if there is none."""
        with self._lock:
            return self._runs.load(thread_id, run_id)


def _decoded(
    thread_id: str, rows: Sequence[Row], extents: Sequence[Extent], first: int
) -> list[StoredResult]:
    stored = [
        (first + n, row.json, row.metadata, row.tokens, *(was.messages, was.size, was.system))
        for n, (row, was) in enumerate(zip(rows, extents, strict=False))
    ]
    return decode_rows(thread_id, stored)


def _info(thread: _Thread) -> ThreadInfo:
    return replace(
        thread.info,
        metadata=load_metadata(thread.metadata, thread.info.id),
        results=len(thread.rows),
        messages=thread.extents[-1].messages,
    )
