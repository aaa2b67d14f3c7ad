"""Concurrency: parallel work with a fixed order of events and schedules, without blocking.

Chunks are numbered in the order of events. A durable run meets the same events on each replay, with
more of them done each time, and must give each the same number. So the events of the first of
several parallel calls are emitted at once, and those of each further call when all before it have
ended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import anyio.to_thread

from agentkit_py._engine.instrumentation import Monitor
from agentkit_py.events.types import Event, HitlRequested, ReplyDelta
from agentkit_py.lifecycle.network_run import branch_schedule, scheduled_in
from agentkit_py.runtime.port import Runtime

T = TypeVar("T")


async def run_in_parallel(
    runtime: Runtime,
    monitor: Monitor,
    run: object,
    stack: list[T],
    calls: Sequence[Callable[[Monitor], Awaitable[Any]]],
) -> list[Any]:
    """Run all calls to their end, with their events and schedules in the order of the calls.

    Args:
        runtime: The runtime of the calls.
        monitor: Where their events go; each call gets a monitor of its own.
        run: The network run they belong to.
        stack: What is scheduled in that run.
        calls: The calls.

    Returns:
        The results in the order given, errors as values.
    """
    events = OrderedEvents(monitor, len(calls))
    target = scheduled_in(run, stack)
    schedules: list[list[Any]] = [[] for _ in calls]

    async def branch(index: int) -> Any:
        token = branch_schedule.set((run, schedules[index]))
        try:
            return await events.run(index, partial(calls[index], events.monitors[index]))
        finally:
            branch_schedule.reset(token)

    outcomes = await runtime.parallel([partial(branch, index) for index in range(len(calls))])
    for scheduled in schedules:
        target.extend(scheduled)
    return outcomes


class _BranchMonitor(Monitor):
    """The monitor of a parallel call: its events wait until they are next."""

    def __init__(self, parent: Monitor, *, wants_tokens: bool) -> None:
        super().__init__(parent.runtime, parent.instruments)
        self.wants_tokens = wants_tokens
        self._parent = parent
        self._is_open = False
        self._waiting: list[tuple[Event, int | None]] = []

    async def emit(self, event: Event) -> None:
        if self._is_open:
            await self._parent.emit(event)
            return
        if isinstance(event, HitlRequested):
            await self._parent.announce(event)
        self._waiting.append((event, None))

    async def announce(self, event: HitlRequested) -> None:
        await self._parent.announce(event)

    async def skip(self, event: ReplyDelta, count: int) -> None:
        if self._is_open:
            await self._parent.skip(event, count)
        else:
            self._waiting.append((event, count))

    async def open(self) -> None:
        """Emit the waiting events; later events are emitted at once."""
        while self._waiting:
            event, count = self._waiting.pop(0)
            if count is None:
                await self._parent.emit(event)
            elif isinstance(event, ReplyDelta):
                await self._parent.skip(event, count)
        self._is_open = True


class OrderedEvents:
    """The monitors of several parallel calls."""

    def __init__(self, parent: Monitor, count: int) -> None:
        self._runtime = parent.runtime
        # Pieces of a reply cannot be emitted while its call has to wait, and whether it has to
        # depends on which is quicker: only the first call, which never waits, streams.
        self.monitors: list[_BranchMonitor] = [
            _BranchMonitor(parent, wants_tokens=parent.wants_tokens and index == 0)
            for index in range(count)
        ]
        self._ended: set[int] = set()
        self._next = 0

    async def run(self, index: int, call: Callable[[], Awaitable[T]]) -> T:
        """Run the call with number ``index``.

        Where it fails and will be tried again, the events of later calls keep waiting: their
        numbers come after those of the events that it has not emitted yet.
        """
        if self._next == 0:
            await self._open_next()
        try:
            result = await call()
        except Exception as error:
            if self._runtime.is_final(error):
                await self._end(index)
            raise
        await self._end(index)
        return result

    async def _end(self, index: int) -> None:
        self._ended.add(index)
        while self._next < len(self.monitors) and self._next - 1 in self._ended:
            await self._open_next()

    async def _open_next(self) -> None:
        self._next += 1
        await self.monitors[self._next - 1].open()


async def in_thread(work: Callable[[], T]) -> T:
    """Run a function that may block in a worker thread; a cancelled caller does not wait."""
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
