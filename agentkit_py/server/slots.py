"""Slots of runs: how many run at once, and whose turn it is in a thread."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from weakref import WeakValueDictionary


class RunSlots:
    """Bounds the simultaneous runs, and lets a single run at a time work in a thread."""

    def __init__(self, most: int) -> None:
        self._permits = asyncio.Semaphore(most)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.working: int = 0
        """Number of runs that have a permit."""

    @property
    def full(self) -> bool:
        """True if all permits are in use, or wanted by runs that were answered."""
        return self._permits.locked()

    async def new(self, key: str) -> RunSlot:
        """Return a slot with a permit; its thread is not locked yet."""
        await self.acquire()
        return self.later(key, permitted=True)

    def later(self, key: str, *, permitted: bool = False) -> RunSlot:
        """Return a slot that gets its permit when the run takes it."""
        return RunSlot(self, self._locks.setdefault(key, asyncio.Lock()), permitted)

    async def acquire(self) -> None:
        """Wait for a permit."""
        await self._permits.acquire()
        self.working += 1

    def release(self) -> None:
        """Give a permit back."""
        self._permits.release()
        self.working -= 1


@dataclass(slots=True)
class RunSlot:
    """One run's permit and lock of its thread.

    The permit comes before the lock: a run with the lock has a permit, so that no two runs wait for
    each other.
    """

    slots: RunSlots
    lock: asyncio.Lock
    permitted: bool = True
    locked: bool = False
    _timer: asyncio.Timeout | None = None

    def limit(self, seconds: float) -> asyncio.Timeout:
        """Return the timer of the run, which starts now."""
        self._timer = asyncio.timeout(seconds)
        return self._timer

    @property
    def expired(self) -> bool:
        """True once the run has taken too long."""
        return self._timer is not None and self._timer.expired()

    @property
    def is_contended(self) -> bool:
        """True if it waits for a permit or the thread, which others have."""
        if self.locked:
            return False
        return self.lock.locked() or (not self.permitted and self.slots.full)

    async def take(self) -> None:
        """Wait for a permit, if the run has none, and for the thread."""
        if not self.permitted:
            await self.slots.acquire()
            self.permitted = True
        await self.lock.acquire()
        self.locked = True

    def end(self) -> None:
        """Give up lock and permit."""
        if self.locked:
            self.locked = False
            self.lock.release()
        if self.permitted:
            self.permitted = False
            self.slots.release()
