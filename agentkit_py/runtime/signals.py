"""Signals between runs of the same process; other processes cannot be reached from here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import anyio


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    """A run that waits for a signal, in whichever thread its event loop runs."""

    loop: asyncio.AbstractEventLoop
    event: asyncio.Event


_waiters: dict[str, list[_Waiter]] = {}
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 0.5
"""Seconds between two checks for changes of other processes."""


async def wait_for_signal(
    key: str, enter: Callable[[], Awaitable[bool]], seconds: float
) -> bool | None:
    """Wait until `send_signal` is called with ``key``, and try ``enter`` now and then.

    Returns:
        True: ``enter`` returned True. None: it did not in time.
    """
    waiter = _Waiter(asyncio.get_running_loop(), asyncio.Event())
    _waiters.setdefault(key, []).append(waiter)
    wait, left = _FIRST_WAIT, seconds
    try:
        while not await enter():
            if left <= 0:
                return None
            with anyio.move_on_after(min(wait, left)):
                await waiter.event.wait()
            waiter.event.clear()
            wait, left = min(2 * wait, _LONGEST_WAIT), left - wait
        return True
    finally:
        _waiters[key].remove(waiter)
        if not _waiters[key]:
            del _waiters[key]


def send_signal(key: str) -> None:
    """Wake the runs of this process that wait for ``key``."""
    for waiter in list(_waiters.get(key, ())):
        with suppress(RuntimeError):  # its event loop is closed
            waiter.loop.call_soon_threadsafe(waiter.event.set)
