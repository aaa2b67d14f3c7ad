"""What is to be done when: virtual time, so that no test ever sleeps."""

from __future__ import annotations

import heapq
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

Action = Callable[[], Awaitable[None]]


@dataclass(order=True, slots=True)
class _Item:
    at: float
    tie: float
    number: int
    action: Action = field(compare=False)
    patient: bool = field(compare=False)


class Schedule:
    """A queue in virtual time; what is due at the same time comes in an order of the seed."""

    def __init__(self, seed: int | None) -> None:
        """Begin now; without a seed, what came first is done first."""
        self.now: float = datetime.now(UTC).timestamp()
        self._items: list[_Item] = []
        self._random = None if seed is None else random.Random(seed)  # noqa: S311 - an order
        self._count = 0

    def add(self, action: Action, *, after: float = 0.0, patient: bool = False) -> None:
        """Do ``action`` after so many seconds.

        Args:
            action: What is to be done.
            after: Seconds from now.
            patient: It is a time-out, for which nobody waits who waits for an event.
        """
        self._count += 1
        tie = 0.0 if self._random is None else self._random.random()
        item = _Item(self.now + max(0.0, after), tie, self._count, action, patient)
        heapq.heappush(self._items, item)

    def until(self, time: str) -> float:
        """Seconds from now to a time of the worker's clock, which is the real one."""
        parsed = datetime.fromisoformat(time.replace("Z", "+00:00"))
        return max(0.0, (parsed - datetime.now(UTC)) / timedelta(seconds=1))

    def pop(self, *, patience: bool, limit: float | None = None) -> Action | None:
        """The next thing to do, if there is one; time goes on to when it is due.

        Args:
            patience: Also time-outs.
            limit: Not what is due after this time.
        """
        items = self._items if patience else [item for item in self._items if not item.patient]
        if not items:
            return None
        item = min(items)
        if limit is not None and item.at > limit:
            return None
        self._items.remove(item)
        heapq.heapify(self._items)
        self.now = max(self.now, item.at)
        return item.action


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def seconds_of(duration: str) -> float:
    """Seconds of a duration as the SDK writes it: ``"90s"``, ``"4h"``."""
    return float(duration[:-1]) * _UNITS[duration[-1]]
