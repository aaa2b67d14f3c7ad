"""Ctrl-C for an event loop that waits."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


def run_interruptibly(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` that Ctrl-C always ends, also while a thread works or nothing happens.

    A signal that comes right before the loop waits, or that another thread gets, does not wake
    the loop by itself: asyncio's handler would run only with the next thing that happens.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    return asyncio.run(interruptible(main))


async def interruptible(main: Coroutine[Any, Any, T]) -> T:
    """Await ``main``; as long as it runs, each signal wakes the event loop."""
    with _woken_by_signals(asyncio.get_running_loop()):
        return await main


@contextmanager
def _woken_by_signals(loop: asyncio.AbstractEventLoop) -> Generator[None, None, None]:
    """Let each signal write to a socket that ``loop`` reads; handlers run as before."""
    reader, writer = socket.socketpair()
    with reader, writer:
        reader.settimeout(0)
        writer.settimeout(0)
        is_set = _write_signals_to(writer)
        if is_set:
            loop.add_reader(reader, reader.recv, 4096)
        try:
            yield
        finally:
            if is_set:
                loop.remove_reader(reader)
                _restore(writer)


def _write_signals_to(writer: socket.socket) -> bool:
    """Let signals write to ``writer``; False where they write elsewhere already."""
    try:
        before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    except ValueError:  # not in the main thread, which alone runs handlers
        return False
    if before != -1:  # uvloop and the loop of Windows do this themselves
        signal.set_wakeup_fd(before, warn_on_full_buffer=False)
    return before == -1


def _restore(writer: socket.socket) -> None:
    now = signal.set_wakeup_fd(-1)
    if now not in (-1, writer.fileno()):  # set meanwhile by `loop.add_signal_handler`
        signal.set_wakeup_fd(now, warn_on_full_buffer=False)
