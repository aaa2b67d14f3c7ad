"""Awaiting: values that may be awaitable, heavy work outside of the event loop, and Ctrl-C."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, TypeVar, cast

import anyio

T = TypeVar("T")


async def resolve(value: T | Awaitable[T]) -> T:
    """Return the value, awaited if it is awaitable: hooks, routers and prompts may be either."""
    if inspect.isawaitable(value):
        return await cast("Awaitable[T]", value)
    return cast("T", value)


async def finished(work: Coroutine[Any, Any, T]) -> T:
    """Await ``work`` to its end in a task of its own, which a cancellation here leaves alone.

    Raises:
        CancelledError: This task was cancelled meanwhile; ``work`` has ended all the same.
    """
    task, cancelled = asyncio.create_task(work), None
    while not task.done():
        try:
            with anyio.CancelScope(shield=True):
                await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()


def is_async_callable(function: object) -> bool:
    """Return whether calling ``function`` gives a coroutine, also by an async ``__call__``."""
    inner: Any = function
    while isinstance(inner, partial):
        inner = cast("Any", inner).func
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(
        getattr(inner, "__call__", None)  # noqa: B004 - the method itself is wanted
    )


def generator_kind(function: object) -> Literal["async", "sync"] | None:
    """Return which kind of generator calling ``function`` gives, also by its ``__call__``."""
    inner: Any = function
    while isinstance(inner, partial):
        inner = cast("Any", inner).func
    call = getattr(inner, "__call__", None)  # noqa: B004 - the method itself is wanted
    if inspect.isasyncgenfunction(inner) or inspect.isasyncgenfunction(call):
        return "async"
    is_sync = inspect.isgeneratorfunction(inner) or inspect.isgeneratorfunction(call)
    return "sync" if is_sync else None


def takes_two(function: Callable[..., Any]) -> bool:
    """Return whether ``function`` takes two or more arguments by position."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    places = [p for p in inspect.signature(function).parameters.values() if p.kind in kinds]
    return len(places) > 1


MOST_CHARACTERS = 2**16
"""Work on more than so many goes to a thread of its own."""


async def off_loop(work: Callable[[], T], *texts: object) -> T:
    """Call ``work``, which does not await, in a worker thread if its input is long."""
    if _left_of(MOST_CHARACTERS, texts) > 0:
        return work()
    return await asyncio.to_thread(work)


def _left_of(most: int, value: object) -> int:
    """Return how many characters are left of a budget; it stops where none is."""
    if isinstance(value, str):
        return most - len(value)
    if isinstance(value, Mapping):
        found = cast("Mapping[object, object]", value)
        items: Iterable[Any] = (part for pair in found.items() for part in pair)
    elif isinstance(value, list | tuple):
        items = cast("Iterable[Any]", value)
    else:
        return most - 1
    for item in items:
        most = _left_of(most, item)
        if most <= 0:
            break
    return most


def run_interruptibly(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` that Ctrl-C always ends, also while a thread works or nothing happens.

    A signal that comes right before the loop waits, or that another thread gets, does not wake
    the loop by itself: asyncio's handler would run only with the next thing that happens.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    return asyncio.run(interruptible(main))


def run_in_thread(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` to its end in an event loop of a thread of its own, and wait for it here.

    It sees the context variables of the caller. What runs in the caller's own event loop waits,
    too. Ctrl-C cancels it, and is raised when it has ended.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[T]]] = Future()

    async def begin() -> T:
        task = asyncio.ensure_future(main)
        begun.set_result((asyncio.get_running_loop(), task))
        return await task

    context = contextvars.copy_context()
    with _raising_ctrl_c(), ThreadPoolExecutor(1, "agentkit-run-sync") as threads:
        ended = threads.submit(context.run, asyncio.run, begin())
        try:
            return ended.result()
        except KeyboardInterrupt:
            loop, task = begun.result()
            if not ended.done():
                loop.call_soon_threadsafe(task.cancel)
            raise


@contextmanager
def _raising_ctrl_c() -> Generator[None, None, None]:
    """Let Ctrl-C raise at once: the handler of a running event loop waits for that loop."""
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or before in (None, signal.SIG_IGN, signal.SIG_DFL):
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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
