"""Watching a run from inside ``async for``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from agentkit_py.errors import ConfigurationError
from agentkit_py.events.types import Event, Observer

T = TypeVar("T")


class RunStream(Generic[T]):
    """The events of a run as they happen; iterate over it once.

    The run begins with the iteration. Use it as a context manager to have the run cancelled when
    the block is left early; without, a run that nobody watches any more goes on to its end.

    Example:
        ::

            async with network.stream("Where is my order?") as stream:
                async for event in stream:
                    if isinstance(event, ReplyDelta) and isinstance(event.delta, TextDelta):
                        print(event.delta.delta, end="")
            print(stream.result.thread_id)
    """

    def __init__(self, begin: Callable[[Observer], Awaitable[T]]) -> None:
        """Keep how the run is begun."""
        self._begin = begin
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._task: asyncio.Task[T] | None = None

    @property
    def result(self) -> T:
        """What the run returned.

        Raises:
            ConfigurationError: The run is not over yet.
        """
        if self._task is None or not self._task.done():
            raise ConfigurationError("The stream's run is not over yet; iterate to its end first")
        if self._task.cancelled():
            raise ConfigurationError(
                "The stream was left before its run was over; it has no result"
            )
        return self._task.result()

    def __aiter__(self) -> RunStream[T]:
        """Begin the run."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return self

    async def __anext__(self) -> Event:
        """The next event.

        Raises:
            AgentKitError: What the run failed with, after its last event.
        """
        event = await self._queue.get()
        if event is None:
            self._queue.put_nowait(None)  # so that asking again ends again
            assert self._task is not None
            await self._task
            raise StopAsyncIteration
        return event

    async def __aenter__(self) -> RunStream[T]:
        """The stream itself."""
        return self

    async def __aexit__(self, *error: object) -> None:
        """Cancel the run, if it still goes on, and wait until it has."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> T:
        # A stream is never part of a durable function, so finally happens exactly once.
        try:
            return await self._begin(self._queue.put_nowait)
        finally:
            self._queue.put_nowait(None)


def watched(own: Observer | None, other: Observer) -> Observer:
    """An observer that tells both, the user's own first."""
    if own is None:
        return other

    async def both(event: Event) -> None:
        told = own(event)
        if told is not None:
            await told
        other(event)

    return both
