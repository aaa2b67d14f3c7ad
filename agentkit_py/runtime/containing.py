"""Containing: a `BaseException` of code that a run calls is an error of that code.

``CancelledError`` is the run's own only where the run's task was asked to end. What a runtime uses
itself, such as a step that ends a request, passes through.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from inspect import isawaitable
from typing import Any, TypeVar, cast

from agentkit_py.errors import AbruptExitError

T = TypeVar("T")


async def contained(call: Callable[[], T | Awaitable[T]]) -> T:
    """Call a sync or async function; exceptions that do not end this task become errors.

    Raises:
        AbruptExitError: It was left by a `BaseException` of its own.
    """
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop runs
        task = None
    before = 0 if task is None else task.cancelling()
    try:
        result = call()
        return await cast("Awaitable[T]", result) if isawaitable(result) else cast("T", result)
    except asyncio.CancelledError as error:
        if task is None or task.cancelling() > before:
            raise
        raise as_error(error) from error
    except GeneratorExit as error:
        if task is None or _current_task() is not task:  # the coroutine is closed from outside
            raise
        raise as_error(error) from error
    except SystemExit as error:
        raise as_error(error) from error
    except BaseExceptionGroup as group:
        if isinstance(group, Exception):
            raise
        is_cancelled = task is not None and task.cancelling() > before
        raise _meant_by(group, is_cancelled=is_cancelled) from group


_UNMEANT = (Exception, asyncio.CancelledError, GeneratorExit, SystemExit)
"""Exceptions that, raised inside of a function, are not meant for the code around it."""


def as_error(error: BaseException) -> AbruptExitError:
    """Return an error of the same name and text that is an `Exception`."""
    is_cancelled = isinstance(error, asyncio.CancelledError)
    text = str(error) or ("something inside it was cancelled" if is_cancelled else "")
    return type(type(error).__name__, (AbruptExitError,), {})(text)


def _meant_by(group: BaseExceptionGroup[BaseException], *, is_cancelled: bool) -> BaseException:
    meant = next((one for one in _leaves(group) if not isinstance(one, _UNMEANT)), None)
    if meant is not None:  # a step that ends a request, Ctrl-C
        return meant
    return asyncio.CancelledError() if is_cancelled else as_error(group)


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for one in group.exceptions:
        if isinstance(one, BaseExceptionGroup):
            yield from _leaves(cast("BaseExceptionGroup[BaseException]", one))
        else:
            yield one


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no event loop runs
        return None
