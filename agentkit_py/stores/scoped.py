"""A store as one user may see it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agentkit_py._core.json import JsonObject
from agentkit_py.errors import ThreadNotFoundError
from agentkit_py.stores._delegating import DelegatingStore, DelegatingThreads, keeps_all
from agentkit_py.stores.base import HistoryStore
from agentkit_py.stores.records import Match, StoreStats, ThreadInfo, check_text, new_thread_id


def for_user(store: HistoryStore, user_id: str) -> HistoryStore:
    """``store`` as one user may see it: the threads of others are not found in it.

    Threads that are made in it are the user's. It can do what ``store`` can and shares its
    connections.

    Raises:
        HistoryError: The id is empty or not valid Unicode.
    """
    check_text("user id", user_id)
    kind = _UserStore if keeps_all(store) else _UserThreads
    return kind(store, user_id)


class _UserThreads(DelegatingThreads):
    """Asks whose a thread is before anything is done with it."""

    def __init__(self, store: HistoryStore, user_id: str) -> None:
        super().__init__(store)
        self._user_id = user_id

    def __repr__(self) -> str:
        return f"for_user({self._store!r}, {self._user_id!r})"

    async def _own(self, thread_id: str) -> Any:
        info: ThreadInfo = await self._store.get_thread(thread_id)
        if info.user_id != self._user_id:
            raise ThreadNotFoundError(thread_id)
        return self._store

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

    async def insert_thread(self, thread: ThreadInfo) -> None:
        if thread.user_id not in (None, self._user_id):
            raise ThreadNotFoundError(thread.id)
        await self._store.insert_thread(replace(thread, user_id=self._user_id))
        await self._own(thread.id)

    async def select_threads(self, limit: int | None, user_id: str | None) -> list[ThreadInfo]:
        if user_id not in (None, self._user_id):
            return []
        return await self._store.select_threads(limit, self._user_id)

    async def search(
        self, words: str, *, user_id: str | None = None, limit: int = 50
    ) -> list[Match]:
        if user_id not in (None, self._user_id):
            return []
        return await self._store.search(words, user_id=self._user_id, limit=limit)

    async def stats(self, user_id: str | None = None) -> StoreStats:
        if user_id not in (None, self._user_id):
            return StoreStats(0, 0, 0, 0)
        return await self._store.stats(self._user_id)

    async def thread_exists(self, thread_id: str) -> bool:
        try:
            await self._own(thread_id)
        except ThreadNotFoundError:
            return False
        return True

    async def remove_thread(self, thread_id: str) -> bool:
        return await self.thread_exists(thread_id) and await self._store.delete_thread(thread_id)


class _UserStore(_UserThreads, DelegatingStore):
    """The same for what is kept beside threads."""
