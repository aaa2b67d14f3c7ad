"""Calls at the same time. Errors are values, so that a failure does not abandon other calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

import anyio

from agentkit_py.runtime.containing import contained

T = TypeVar("T")

Parallel: TypeAlias = Callable[[Sequence[Callable[[], Awaitable[Any]]]], Awaitable[list[Any]]]
"""Runs all calls to their end; errors are values."""


async def result_or_error(call: Callable[[], Awaitable[T]]) -> T | Exception:
    """Return a call's result, or the error that it raises."""
    try:
        return await contained(call)
    except Exception as error:  # noqa: BLE001 - errors are values here
        return error


async def run_together(calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T | Exception]:
    """Run all calls in this process to their end; results in the order given, errors as values."""
    return list(await asyncio.gather(*map(result_or_error, calls)))


async def ended_by(
    parallel: Parallel,
    call: Callable[[], Awaitable[Any]],
    checks: Sequence[Callable[[], Awaitable[Any]]],
) -> list[Any]:
    """Run a call and its checks at the same time; see `Runtime.with_checks`."""
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
