"""Lists of the store that streams follow: read once for all streams of this process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from typing import Generic, TypeVar

from agentkit_py._core.untrusted import get_logger
from agentkit_py.server.hub import Hub

logger: logging.Logger = get_logger("agentkit_py.server")

T = TypeVar("T")

_LOOK_SECONDS = 2.0
"""Seconds between two looks for what other processes have done."""


class Watch(Generic[T]):
    """Reads a list again and again while somebody follows it, and at once when a channel says so.

    Args:
        hub: The hub of the process.
        channel: Its channel that says that the list has changed.
        read: Gets what it returned before, None at first, and reads the list.
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
        """Keep reading while somebody follows."""
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
        """Return the list, once it was read after the one that was seen; None: none was."""
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
                with suppress(TimeoutError):  # other processes say nothing to this one
                    async with asyncio.timeout(_LOOK_SECONDS):
                        await told.next()
