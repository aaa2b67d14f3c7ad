"""Sync or async, decided in one place."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import TypeVar, cast

T = TypeVar("T")


async def resolve(value: T | Awaitable[T]) -> T:
    """The value, awaited if it is awaitable: hooks, routers and prompts may be sync or async."""
    if inspect.isawaitable(value):
        return await cast("Awaitable[T]", value)
    return cast("T", value)


def is_async_callable(function: object) -> bool:
    """Whether calling ``function`` gives a coroutine (also for objects with an async __call__)."""
    while hasattr(function, "func"):  # functools.partial
        function = function.func  # type: ignore[attr-defined]
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - the method itself is wanted
    )
