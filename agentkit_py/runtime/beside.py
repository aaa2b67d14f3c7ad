"""A call beside its checks, in a runtime that can end what it has begun."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import anyio

Parallel: TypeAlias = Callable[[Sequence[Callable[[], Awaitable[Any]]]], Awaitable[list[Any]]]
"""Runs all to their end; errors are values."""


async def ended_by(
    parallel: Parallel,
    call: Callable[[], Awaitable[Any]],
    checks: Sequence[Callable[[], Awaitable[Any]]],
) -> list[Any]:
    """Run a call and its checks at the same time; see `Runtime.beside`."""
    scope = anyio.CancelScope()

    async def scoped() -> Any:
        with scope:
            return await call()
        return None  # it was cancelled

    async def checked(check: Callable[[], Awaitable[Any]]) -> Any:
        try:
            found = await check()
        except Exception:
            scope.cancel()
            raise
        if found is not None:
            scope.cancel()
        return found

    return await parallel([scoped, *[partial(checked, check) for check in checks]])
