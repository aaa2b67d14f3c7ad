"""Work that a request begins, and that continues when the request's connection is gone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from agentkit_py._core.untrusted import get_logger
from agentkit_py.errors import AgentKitError
from agentkit_py.server.errors import ApiError

T = TypeVar("T")
logger: logging.Logger = get_logger("agentkit_py.server")


class Decisions:
    """The answers and messages that are being taken, each in a task of its own.

    A decision is final: a client that disconnects stops neither it nor the compensation
    of a failure.
    """

    def __init__(self) -> None:
        """Begin without any."""
        self._tasks: set[asyncio.Task[Any]] = set()

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin the work; await the task with `asyncio.shield`."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._end)
        return task

    async def carry_out(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the work's result; the work continues if this task is cancelled."""
        return await asyncio.shield(self.begin(work))

    @property
    def is_busy(self) -> bool:
        """True while any is being taken."""
        return bool(self._tasks)

    async def idle(self) -> None:
        """Wait until all is done."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, ApiError | AgentKitError):
            logger.error("What a request began has failed: %s", error, exc_info=error)
