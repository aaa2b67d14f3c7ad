"""Readers of streams, counted for each user, and lists that streams follow."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from agentkit_py._core.untrusted import get_logger
from agentkit_py.server.hub import Hub, ReaderPlace

_REMEMBERED = 4096


@dataclass(slots=True)
class OpenStreams:
    """Counts the readers of each user, and remembers where those stopped that may come back."""

    most: int
    """A user's simultaneous readers."""

    _counts: Counter[str] = field(default_factory=Counter[str])
    _places: OrderedDict[str, ReaderPlace] = field(default_factory=OrderedDict[str, ReaderPlace])

    @contextmanager
    def opened(self, user_id: str) -> Generator[None]:
        """Count a reader while it reads."""
        self._counts[user_id] += 1
        try:
            yield
        finally:
            self._counts[user_id] -= 1
            if not self._counts[user_id]:
                del self._counts[user_id]

    def count(self, user_id: str) -> int:
        """Return the number of the user's readers."""
        return self._counts[user_id]

    def has_room(self, user_id: str) -> bool:
        """Return whether the user may have another reader."""
        return self._counts[user_id] < self.most

    def place(self, session: str) -> ReaderPlace | None:
        """Return where the reader with this token stopped."""
        return self._places.get(session)

    def remember(self, session: str, place: ReaderPlace) -> None:
        """Keep where a reader stopped."""
        self._places[session] = place
        self._places.move_to_end(session)
        if len(self._places) > _REMEMBERED:
            self._places.popitem(last=False)


logger: logging.Logger = get_logger("agentkit_py.server")


T = TypeVar("T")


_LOOK_SECONDS = 2.0
"""Seconds between two checks for changes of other processes."""


class ListWatch(Generic[T]):
    """Polls a list while it has followers, and reads it at once when a channel announces a change.

    Args:
        hub: The hub of the process.
        channel: Its channel that says that the list has changed.
        read: Reads the list; gets its previous result, None at first.
    """

    def __init__(self, hub: Hub, channel: str, read: Callable[[T | None], Awaitable[T]]) -> None:
        self._hub = hub
        self._channel = channel
        self._read = read
        self._found: T | None = None
        self._followers = 0
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    @contextmanager
    def followed(self) -> Generator[None]:
        """Keep reading while the list has followers."""
        self._followers += 1
        if self._task is None:
            self._task = asyncio.create_task(self._look())
        try:
            yield
        finally:
            self._followers -= 1
            if not self._followers:
                self._task.cancel()
                self._task, self._found = None, None

    async def after(self, seen: T | None) -> T:
        """Return the list once it is newer than the given list; None: return any."""
        while self._found is None or self._found is seen:
            await self._news.wait()
        return self._found

    async def _look(self) -> None:
        with self._hub.subscribe(self._channel) as told:
            while True:
                try:
                    self._found = await self._read(self._found)
                except Exception:
                    logger.exception("A list that streams follow could not be read; tried again")
                news, self._news = self._news, asyncio.Event()
                news.set()
                with suppress(TimeoutError):  # other processes do not notify this process
                    async with asyncio.timeout(_LOOK_SECONDS):
                        await told.next()
