"""Calls that may be sync or async."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar, cast

T = TypeVar("T")


async def resolve(value: T | Awaitable[T]) -> T:
    """Return the value, awaited if it is awaitable: hooks, routers and prompts may be either."""
    if inspect.isawaitable(value):
        return await cast("Awaitable[T]", value)
    return cast("T", value)


def is_async_callable(function: object) -> bool:
    """Return whether calling ``function`` gives a coroutine, also by an async ``__call__``."""
    inner: Any = function
    while isinstance(inner, partial):
        inner = cast("Any", inner).func
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(
        getattr(inner, "__call__", None)  # noqa: B004 - the method itself is wanted
    )


def takes_two(function: Callable[..., Any]) -> bool:
    """Return whether ``function`` takes more than one argument by position."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    places = [p for p in inspect.signature(function).parameters.values() if p.kind in kinds]
    return len(places) > 1
