"""Threads that do one kind of work for whoever awaits it, in the order in which it was given.

A query on a thread of messages and most tools are short, so that the way to a worker and back is
much of what they cost: here half of what `anyio.to_thread` takes, and two thirds of
`run_in_executor`.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import weakref
from collections.abc import Callable
from contextvars import copy_context
from functools import cache
from queue import Empty, SimpleQueue
from threading import Lock, Thread, current_thread
from typing import Generic, TypeVar, cast

from anyio import CancelScope
from anyio.lowlevel import checkpoint_if_cancelled

T = TypeVar("T")

_IDLE = 10.0
"""Seconds that a thread waits for work before it ends: a process may use many files."""


class Lane:
    """A queue and the threads that work on it; they end when the lane is forgotten.

    What was given when the process ends is finished before that.
    """

    def __init__(self, name: str, threads: int, idle: float = _IDLE) -> None:
        self._crew = _Crew(name, threads, idle)
        weakref.finalize(self, self._crew.dismiss).atexit = False

    async def run(self, work: Callable[[], T], *, abandon: bool = False) -> T:
        """Do ``work`` in a thread. It is finished, also if the caller is cancelled meanwhile.

        Args:
            work: Called without arguments, in the caller's context.
            abandon: Whether a caller who is cancelled does not wait for that.
        """
        await checkpoint_if_cancelled()
        job = Job(asyncio.get_running_loop(), work)
        self._crew.give(job)
        try:
            with CancelScope(shield=not abandon):
                await job.done
            return job.outcome()
        finally:
            del job  # or an error would hold what holds it, until garbage is collected


class Job(Generic[T]):
    """Work, who waits for it, and what came of it."""

    __slots__ = ("_context", "_error", "_loop", "_value", "_work", "done")

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Callable[[], T]) -> None:
        self._loop = loop
        self._work = work
        self._context = copy_context()  # as with `to_thread`: traces tell whose query it is
        self._value: T | None = None
        self._error: BaseException | None = None
        self.done: asyncio.Future[None] = loop.create_future()

    def do(self) -> None:
        """Do it, and keep what comes of it."""
        try:
            self._value = self._context.run(self._work)
        except (Exception, KeyboardInterrupt, SystemExit) as error:  # noqa: BLE001 - raised again where the work was given
            self._error = error

    def wake(self) -> None:
        """Wake whoever waits."""
        try:
            self._loop.call_soon_threadsafe(_settle, self.done)
        except RuntimeError:
            return  # the loop is closed: whoever waited was cancelled long ago

    def outcome(self) -> T:
        """What the work gave, or its error."""
        if self._error is not None:
            raise self._error
        return cast("T", self._value)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():  # else it was cancelled
        future.set_result(None)


class _Crew:
    """The threads of a lane. They know it, but not the lane, which can be forgotten so."""

    def __init__(self, name: str, most: int, idle: float) -> None:
        self._name = name
        self._most = most
        self._idle = idle
        self._queue: SimpleQueue[Job[object] | None] = SimpleQueue()
        self._threads: set[Thread] = set()
        self._given = 0
        """How much work is not done yet."""

        self._lock = Lock()
        self._process = os.getpid()

    def give(self, job: Job[T]) -> None:
        """Have it done, by a thread more if all are at work and more are allowed.

        Raises:
            RuntimeError: There is no thread, and none can be started.
        """
        with self._lock:
            if len(self._threads) < min(self._given + 1, self._most):
                self._start()
            self._given += 1
            self._queue.put(cast("Job[object]", job))

    def dismiss(self) -> None:
        """End the threads when all is done; nothing more will be given.

        It takes no lock: garbage may be collected in the midst of anything.
        """
        for _ in range(self._most):
            self._queue.put(None)

    def finish(self) -> None:
        """Wait until all is done, and end the threads."""
        if self._process != os.getpid():
            return  # a forked process has none of its parent's threads
        with self._lock:
            # Who gives work after this, e.g. as the process ends, has other threads started.
            threads, self._threads = self._threads, set[Thread]()
            for _ in threads:
                self._queue.put(None)
        for thread in threads:
            thread.join()

    def _start(self) -> None:
        _watched().add(self)
        # Python itself would wait for the thread, but not tell it to end.
        thread = Thread(target=self._serve, name=self._name, daemon=True)
        self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError:
            self._threads.discard(thread)
            if not self._threads:
                raise  # else those there are will do it

    def _serve(self) -> None:
        while (job := self._next()) is not None:
            job.do()
            with self._lock:
                self._given -= 1
            job.wake()
            del job  # or what it holds would live until the next one comes
        self._threads.discard(current_thread())

    def _next(self) -> Job[object] | None:
        """The next job; None: there is nothing more to do for this thread."""
        while True:
            try:
                return self._queue.get(timeout=self._idle)
            except Empty:
                with self._lock:
                    if self._queue.empty():
                        # In the lock, so that whoever gives work after this starts another.
                        self._threads.discard(current_thread())
                        return None


_of_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Lane] = weakref.WeakKeyDictionary()

_TOOLS = 40
"""Functions of one event loop that run at the same time at the most: as many as with anyio."""


async def in_thread(work: Callable[[], T]) -> T:
    """Do what may block in a thread of this event loop's own; who is cancelled does not wait.

    Each loop has its threads, so that work that runs another loop waits for none of its own kind.
    """
    loop = asyncio.get_running_loop()
    lane = _of_loops.get(loop)
    if lane is None:
        lane = _of_loops[loop] = Lane("agentkit-tools", _TOOLS)
    return await lane.run(work, abandon=True)


@cache
def _watched() -> weakref.WeakSet[_Crew]:
    """The crews with threads. Made with the first one, so that its files are closed after it."""
    crews = weakref.WeakSet[_Crew]()

    def finish() -> None:
        for crew in list(crews):
            crew.finish()

    atexit.register(finish)
    return crews
