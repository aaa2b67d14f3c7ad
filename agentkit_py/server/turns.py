"""One run at a time in a thread, in the order in which the messages came, and so many at once."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field


@dataclass(slots=True)
class ThreadLocks:
    """The locks of threads that somebody uses, and the places of the runs that work."""

    places: asyncio.Semaphore
    working: int = 0
    """How many runs have a place."""

    _locks: dict[str, asyncio.Lock] = field(default_factory=dict[str, asyncio.Lock])
    _users: defaultdict[str, int] = field(default_factory=lambda: defaultdict[str, int](int))

    async def turn(self, key: str) -> ThreadTurn:
        """A run's place, and its claim on a thread; that is not locked yet."""
        await self.enter()
        self._users[key] += 1
        return ThreadTurn(self, key, self._locks.setdefault(key, asyncio.Lock()))

    async def enter(self) -> None:
        """Wait for a place."""
        await self.places.acquire()
        self.working += 1

    def leave(self) -> None:
        """Let others have the place."""
        self.places.release()
        self.working -= 1

    def forget(self, key: str) -> None:
        """A run has ended."""
        self._users[key] -= 1
        if not self._users[key]:
            del self._users[key], self._locks[key]


@dataclass(slots=True)
class ThreadTurn:
    """One run's turn, which pauses while the run waits for a person: that may take days.

    Meanwhile others have its thread and its place. The time that the run may take goes on only
    while it has the thread.
    """

    locks: ThreadLocks
    key: str
    lock: asyncio.Lock
    held: bool = False
    placed: bool = True
    """Whether the run counts among those that work."""

    waits_for: set[str] = field(default_factory=set[str])
    """Ids of the questions that are not answered yet."""

    _timer: asyncio.Timeout | None = None
    _left: float = 0.0

    async def take(self) -> None:
        """Wait for the thread."""
        await self.lock.acquire()
        self.held = True
        if self._timer is not None:
            self._timer.reschedule(asyncio.get_running_loop().time() + self._left)

    def give(self) -> None:
        """Let others have the thread."""
        if not self.held:
            return
        self.held = False
        self.lock.release()
        when = self._timer.when() if self._timer is not None else None
        if self._timer is not None and when is not None:
            self._left = when - asyncio.get_running_loop().time()
            self._timer.reschedule(None)

    @property
    def expired(self) -> bool:
        """Whether the run has taken too long."""
        return self._timer is not None and self._timer.expired()

    def limit(self, seconds: float) -> asyncio.Timeout:
        """The time that the run may take, from now on."""
        self._timer = asyncio.timeout(seconds)
        return self._timer

    def asks(self, question: str) -> None:
        """The run waits for a person."""
        self.waits_for.add(question)
        self.give()
        self._leave()

    async def answered(self, question: str) -> None:
        """A question was answered, or has lapsed; the run goes on when it has a place again.

        The place comes before the thread, as with a new run: who has a thread has a place, so
        that no two runs wait for what the other has.
        """
        self.waits_for.discard(question)
        if self.waits_for or self.held:
            return
        if not self.placed:
            await self.locks.enter()
            self.placed = True
        await self.take()

    def end(self) -> None:
        """The run is over."""
        self._timer = None
        self.give()
        self._leave()
        self.locks.forget(self.key)

    def _leave(self) -> None:
        if self.placed:
            self.placed = False
            self.locks.leave()
