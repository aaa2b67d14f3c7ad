"""Threads that do one kind of work for whoever awaits it, in the order in which it was given.

A query on a thread of messages is short, so that the way to a worker and back is much of what it
costs: here half of what `anyio.to_thread` takes, and two thirds of `run_in_executor`.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import weakref
from collections.abc import Callable
from functools import cache
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

from anyio import CancelScope
from anyio.lowlevel import checkpoint_if_cancelled

T = TypeVar("T")


class Lane:
    """A queue and the threads that work on it; they end when the lane is forgotten.

    What was given when the process ends is finished before that.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._name = name
        self._most = threads
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._given = 0
        """How much work is not done yet."""

        self._lock = Lock()
        self._process = os.getpid()
        weakref.finalize(self, _send_home, self._queue, self._threads).atexit = False

    async def run(self, work: Callable[[], T]) -> T:
        """Do ``work`` in a thread. It is finished, also if the caller is cancelled meanwhile."""
        await checkpoint_if_cancelled()
        job = Job(self, asyncio.get_running_loop(), work)
        with self._lock:
            self._given += 1
            if self._given > len(self._threads) and len(self._threads) < self._most:
                self._start()
        self._queue.put(job)
        with CancelScope(shield=True):
            await job.future
        return job.future.result()

    def done(self) -> None:
        """A thread has done what it was given."""
        with self._lock:
            self._given -= 1

    def finish(self) -> None:
        """Wait until everything is done, and end the threads."""
        if self._process != os.getpid():
            return  # a forked process has none of its parent's threads
        _send_home(self._queue, self._threads)
        for thread in self._threads:
            thread.join()

    def _start(self) -> None:
        _watched().add(self)
        # Python itself would wait for the thread, but not tell it to end.
        thread = Thread(target=_serve, args=(self._queue,), name=self._name, daemon=True)
        self._threads.append(thread)
        thread.start()


class Job:
    """Work, and who waits for it."""

    __slots__ = ("_lane", "_loop", "_work", "future")

    def __init__(
        self, lane: Lane, loop: asyncio.AbstractEventLoop, work: Callable[[], Any]
    ) -> None:
        self._lane = lane  # lives as long as there is work to do
        self._loop = loop
        self._work = work
        self.future: asyncio.Future[Any] = loop.create_future()

    def do(self) -> None:
        """Do it, and wake whoever waits."""
        value, error = None, None
        try:
            value = self._work()
        except Exception as raised:  # noqa: BLE001 - it is raised where the work was given
            error = raised
        self._lane.done()
        try:
            self._loop.call_soon_threadsafe(_settle, self.future, value, error)
        except RuntimeError:
            return  # the loop is closed: whoever waited was cancelled long ago


def _settle(future: asyncio.Future[Any], value: object, error: Exception | None) -> None:
    if future.done():
        return  # cancelled
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)


def _serve(queue: SimpleQueue[Job | None]) -> None:
    while (job := queue.get()) is not None:
        job.do()
        del job  # or what it holds would live until the next one comes


def _send_home(queue: SimpleQueue[Job | None], threads: list[Thread]) -> None:
    for _ in threads:
        queue.put(None)


@cache
def _watched() -> weakref.WeakSet[Lane]:
    """The lanes with threads. Made with the first one, so that its files are closed after it."""
    lanes = weakref.WeakSet[Lane]()

    def finish() -> None:
        for lane in list(lanes):
            lane.finish()

    atexit.register(finish)
    return lanes
