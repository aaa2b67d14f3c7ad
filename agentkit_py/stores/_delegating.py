"""Stores that ask another store, and see what passes by."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from agentkit_py._core.json import JsonObject
from agentkit_py.history.runs import RunRecord, RunStore
from agentkit_py.processors.base import Summary, SummaryStore
from agentkit_py.processors.redaction import Redactor
from agentkit_py.processors.vectors import Vector, VectorIndex
from agentkit_py.stores.base import HistoryStore
from agentkit_py.stores.beside import Beside
from agentkit_py.stores.records import Match, Row, StoredResult, StoreStats, ThreadInfo


def keeps_all(store: HistoryStore) -> bool:
    """Whether the store also keeps summaries, vectors and runs beside its threads."""
    known = isinstance(store, SummaryStore) and isinstance(store, VectorIndex)
    return known and isinstance(store, RunStore)


def redactor_of(store: HistoryStore) -> Redactor | None:
    """What masks all that is written to a store; None: nothing does."""
    return store.redactor if isinstance(store, DelegatingThreads) else None


class DelegatingThreads(HistoryStore):
    """Does with another store what it is asked to do; shares its connections."""

    def __init__(self, store: HistoryStore) -> None:
        super().__init__(processors=store.processors, turns=store.turns, lazy=store.lazy)
        self.chain = store.chain  # the same one, so that it runs once where both are used
        self.counts_tokens = store.counts_tokens
        self._store: Any = store

    @property
    def redactor(self) -> Redactor | None:
        """What masks all that is written; None: nothing does."""
        return redactor_of(self._store)

    async def _own(self, thread_id: str) -> Any:
        """The store to ask for this thread."""
        del thread_id
        return self._store

    async def setup(self) -> None:
        await self._store.setup()

    async def close(self) -> None:
        """Close the other store."""
        await self._store.close()

    async def insert_thread(self, thread: ThreadInfo) -> None:
        await self._store.insert_thread(thread)

    async def add_thread(
        self,
        thread_id: str | None = None,
        *,
        user_id: str | None = None,
        title: str = "",
        metadata: JsonObject | None = None,
    ) -> str:
        return await self._store.add_thread(
            thread_id, user_id=user_id, title=title, metadata=metadata
        )

    async def append_rows(self, thread_id: str, rows: Sequence[Row]) -> None:
        await (await self._own(thread_id)).append_rows(thread_id, rows)

    async def records(self, thread_id: str) -> list[StoredResult]:
        return await (await self._own(thread_id)).records(thread_id)

    async def page(self, thread_id: str, before: int, limit: int) -> list[StoredResult]:
        return await (await self._own(thread_id)).page(thread_id, before, limit)

    async def newest(self, thread_id: str, limit: int) -> tuple[int, list[StoredResult]]:
        return await (await self._own(thread_id)).newest(thread_id, limit)

    async def beside(self, thread_id: str) -> Beside:
        return await (await self._own(thread_id)).beside(thread_id)

    async def set_times(self, thread_id: str, created_at: datetime, updated_at: datetime) -> None:
        await (await self._own(thread_id)).set_times(thread_id, created_at, updated_at)

    async def search(
        self, words: str, *, user_id: str | None = None, limit: int = 50
    ) -> list[Match]:
        return await self._store.search(words, user_id=user_id, limit=limit)

    async def stats(self, user_id: str | None = None) -> StoreStats:
        return await self._store.stats(user_id)

    async def get_thread(self, thread_id: str) -> ThreadInfo:
        return await (await self._own(thread_id)).get_thread(thread_id)

    async def select_threads(self, limit: int | None, user_id: str | None) -> list[ThreadInfo]:
        return await self._store.select_threads(limit, user_id)

    async def thread_exists(self, thread_id: str) -> bool:
        return await self._store.thread_exists(thread_id)

    async def count_results(self, thread_id: str) -> int:
        return await (await self._own(thread_id)).count_results(thread_id)

    async def remove_thread(self, thread_id: str) -> bool:
        """Remove a thread with its results and its files; False if there was none."""
        return await self._store.delete_thread(thread_id)


class DelegatingStore(DelegatingThreads):
    """The same for what is kept beside threads."""

    async def load_summary(self, thread_id: str, key: str) -> Summary | None:
        return await (await self._own(thread_id)).load_summary(thread_id, key)

    async def lock_summary(self, thread_id: str, key: str, owner: str, seconds: float) -> bool:
        return await (await self._own(thread_id)).lock_summary(thread_id, key, owner, seconds)

    async def save_summary(self, thread_id: str, key: str, summary: Summary, owner: str) -> bool:
        return await (await self._own(thread_id)).save_summary(thread_id, key, summary, owner)

    async def unlock_summary(self, thread_id: str, key: str, owner: str) -> None:
        await (await self._own(thread_id)).unlock_summary(thread_id, key, owner)

    async def missing_vectors(self, thread_id: str, key: str, ids: Sequence[str]) -> list[str]:
        return await (await self._own(thread_id)).missing_vectors(thread_id, key, ids)

    async def add_vectors(self, thread_id: str, key: str, vectors: Mapping[str, Vector]) -> None:
        await (await self._own(thread_id)).add_vectors(thread_id, key, vectors)

    async def nearest_vectors(
        self, thread_id: str, key: str, vector: Vector, ids: Collection[str], k: int
    ) -> list[tuple[str, float]]:
        return await (await self._own(thread_id)).nearest_vectors(thread_id, key, vector, ids, k)

    async def lock_thread(self, thread_id: str, owner: str, seconds: float) -> bool:
        return await (await self._own(thread_id)).lock_thread(thread_id, owner, seconds)

    async def unlock_thread(self, thread_id: str, owner: str) -> None:
        await (await self._own(thread_id)).unlock_thread(thread_id, owner)

    async def save_run(self, thread_id: str, run: RunRecord) -> None:
        await (await self._own(thread_id)).save_run(thread_id, run)

    async def load_run(self, thread_id: str, run_id: str | None = None) -> RunRecord | None:
        return await (await self._own(thread_id)).load_run(thread_id, run_id)
