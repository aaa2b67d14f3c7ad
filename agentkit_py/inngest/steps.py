"""The SDK's steps as users' tools get them: with clear errors where Inngest has obscure ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, TypeVar

import inngest

from agentkit_py.errors import ConfigurationError

T = TypeVar("T")

inside_step: ContextVar[str | None] = ContextVar("agentkit_inside_step", default=None)
"""Name of the step whose handler runs now."""


class GuardedSteps:
    """``ctx.step`` of tools and hooks."""

    def __init__(self, step: inngest.Step, count: Callable[[str], None]) -> None:
        """Wrap ``step``; ``count`` is told of each step and may refuse it."""
        self._step = step
        self._count = count

    def _enter(self, step_id: str) -> None:
        outer = inside_step.get()
        if outer is not None:
            raise ConfigurationError(
                f"Step {step_id!r} was begun inside the step {outer!r}, and Inngest knows no steps "
                "in steps. A tool that uses ctx.step needs @tool(steps=True)."
            )
        self._count(step_id)

    async def run(self, step_id: str, handler: Callable[[], Awaitable[T]], /) -> T:
        """Run ``handler`` once; what it returns is remembered and must be JSON."""
        self._enter(step_id)
        return await self._step.run(step_id, handler)

    async def sleep(self, step_id: str, duration: int | timedelta) -> None:
        """Sleep (milliseconds, or a timedelta) without using compute."""
        self._enter(step_id)
        await self._step.sleep(step_id, duration)

    async def wait_for_event(
        self, step_id: str, *, event: str, if_exp: str | None = None, timeout: int | timedelta
    ) -> Any:
        """Wait for an event; None if it does not come in time."""
        self._enter(step_id)
        return await self._step.wait_for_event(step_id, event=event, if_exp=if_exp, timeout=timeout)

    async def invoke_by_id(
        self,
        step_id: str,
        *,
        function_id: str,
        app_id: str | None = None,
        data: dict[str, Any] | None = None,
        timeout: int | timedelta | None = None,
    ) -> Any:
        """Call another Inngest function and wait for what it returns."""
        self._enter(step_id)
        return await self._step.invoke_by_id(
            step_id, function_id=function_id, app_id=app_id, data=data, timeout=timeout
        )

    async def send_event(self, step_id: str, events: Any) -> list[str]:
        """Send events once."""
        self._enter(step_id)
        return await self._step.send_event(step_id, events)
