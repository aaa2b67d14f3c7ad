"""Running to the end without an event loop around."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from agentkit_py._core.interrupting import run_interruptibly
from agentkit_py.errors import ConfigurationError
from agentkit_py.runtime.current import close_shared_runtime

T = TypeVar("T")


def run_to_end(begin: Callable[[], Awaitable[T]]) -> T:
    """Run what ``begin`` gives in an event loop of its own.

    Raises:
        ConfigurationError: An event loop is running here already.
    """
    if _loop_is_running():
        raise ConfigurationError(
            "run_sync was called inside a running event loop; await run(…) instead"
        )
    return run_interruptibly(_closing(begin))


def _loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _closing(begin: Callable[[], Awaitable[T]]) -> T:
    # Nothing durable runs here, so closing in finally happens exactly once.
    try:
        return await begin()
    finally:
        await close_shared_runtime()
