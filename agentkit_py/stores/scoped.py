"""A store as one user may see it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from agentkit_py._core.json import JsonObject
from agentkit_py.errors import ThreadNotFoundError
from agentkit_py.history.runs import RunRecord, RunStore
from agentkit_py.processors.summaries import Summary, SummaryStore
from agentkit_py.processors.vectors import Vector, VectorIndex
from agentkit_py.stores.base import HistoryStore
from agentkit_py.stores.records import Row, StoredResult, ThreadInfo, check_text, new_thread_id


def for_user(store: HistoryStore, user_id: str) -> HistoryStore:
    """``store`` as one user may see it: the threads of others are not found in it.

    Threads that are made in it are the user's. It can do what ``store`` can and shares its
    connections.

    Raises:
        HistoryError: The id is empty or not valid Unicode.
    """
    check_text("user id", user_id)
    full = isinstance(store, SummaryStore) and isinstance(store, VectorIndex)
    kind = _UserStore if full and isinstance(store, RunStore) else _UserThreads
    return kind(store, user_id)


class _UserThreads(HistoryStore):
    """Asks whose a thread is before anything is done with it."""

    def __init__(self, store: HistoryStore, user_id: str) -> None:
        super().__init__(processors=store.processors, turns=store.turns, lazy=store.lazy)
        self._store: Any = store
        self._user_id = user_id

    def __repr__(self) -> str:
        return f"for_user({self._store!r}, {self._user_id!r})"

    async def _own(self, thread_id: str) -> Any:
        info: ThreadInfo = await self._store.get_thread(thread_id)
        if info.user_id != self._user_id:
            raise ThreadNotFoundError(thread_id)
        return self._store

    async def setup(self) -> None:
        await self._store.setup()

    async def close(self) -> None:
        """Close the store that all users share."""
        await self._store.close()

    async def add_thread(
        self,
        thread_id: str | None = None,
        *,
        user_id: str | None = None,
        title: str = "",
        metadata: JsonObject | None = None,
    ) -> str:
        """Create a thread of this user.

        Raises:
            ThreadNotFoundError: There is one of somebody else's under this id, or ``user_id`` is
                somebody else.
        """
        key = new_thread_id() if thread_id is None else thread_id
        if user_id not in (None, self._user_id):
            raise ThreadNotFoundError(key)
        await self._store.add_thread(key, user_id=self._user_id, title=title, metadata=metadata)
        await self._own(key)
        return key

    async def append_rows(self, thread_id: str, rows: Sequence[Row]) -> None:
        await (await self._own(thread_id)).append_rows(thread_id, rows)

    async def records(self, thread_id: str) -> list[StoredResult]:
        return await (await self._own(thread_id)).records(thread_id)

    async def page(self, thread_id: str, before: int, limit: int) -> list[StoredResult]:
        return await (await self._own(thread_id)).page(thread_id, before, limit)

    async def get_thread(self, thread_id: str) -> ThreadInfo:
        return await (await self._own(thread_id)).get_thread(thread_id)

    async def select_threads(self, limit: int | None, user_id: str | None) -> list[ThreadInfo]:
        if user_id not in (None, self._user_id):
            return []
        return await self._store.select_threads(limit, self._user_id)

    async def thread_exists(self, thread_id: str) -> bool:
        try:
            await self._own(thread_id)
        except ThreadNotFoundError:
            return False
        return True

    async def count_results(self, thread_id: str) -> int:
        return await (await self._own(thread_id)).count_results(thread_id)

    async def remove_thread(self, thread_id: str) -> bool:
        return await self.thread_exists(thread_id) and await self._store.delete_thread(thread_id)


class _UserStore(_UserThreads):
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
