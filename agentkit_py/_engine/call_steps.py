"""The steps of one tool call: ``ctx.step`` of its handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from agentkit_py.errors import ConfigurationError
from agentkit_py.history.thread import Thread
from agentkit_py.runtime.port import StepTools

T = TypeVar("T")


@dataclass(slots=True)
class CallSteps:
    """The run's steps under names that only this call has.

    A model may call a tool as often as it likes, so what the handler calls ``"charge"`` is another
    step in each call.
    """

    tools: StepTools = field(repr=False)
    prefix: str
    thread: Thread = field(kw_only=True, repr=False)
    """The run's thread; other runs may lease it while the call waits."""

    allowed: bool = field(kw_only=True)
    """True if the tool has steps of its own, instead of being one."""

    _count: int = field(default=0, init=False)

    def full_id(self, step_id: str) -> str:
        """The step's name in the run.

        Raises:
            ConfigurationError: The tool runs inside one step and can have none of its own.
        """
        if not self.allowed:
            raise ConfigurationError(
                f"Step {step_id!r} was begun inside the step {self.prefix!r}, and there are no "
                "steps in steps. A tool that uses ctx.step, asks or waits needs @tool(steps=True)."
            )
        return f"{self.prefix}.{step_id}"

    def next_id(self, name: str) -> str:
        """Return a counted id for an unnamed step: a handler asks in the same order each time."""
        self._count += 1
        return f"{name}.{self._count}"

    async def run(self, step_id: str, handler: Callable[[], Awaitable[T]], /) -> T:
        """Run ``handler`` as a step: durable runtimes remember what it returned."""
        return await self.tools.run(self.full_id(step_id), handler)

    async def sleep(self, step_id: str, duration: int | timedelta) -> None:
        """Wait for ``duration`` (milliseconds, or a timedelta)."""
        name = self.full_id(step_id)
        await self.thread.released_while(name, partial(self.tools.sleep, name, duration))

    async def wait_for_event(
        self, step_id: str, *, event: str, if_exp: str | None = None, timeout: int | timedelta
    ) -> Any:
        """Wait for an event; None if it does not come within ``timeout`` (ms or timedelta)."""
        name = self.full_id(step_id)
        wait = partial(self.tools.wait_for_event, name, event=event, if_exp=if_exp, timeout=timeout)
        return await self.thread.released_while(name, wait)

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
        return await self.tools.invoke_by_id(
            self.full_id(step_id),
            function_id=function_id,
            app_id=app_id,
            data=data,
            timeout=timeout,
        )
