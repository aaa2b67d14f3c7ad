"""The steps of one tool call: ``ctx.step`` of its handler."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar, cast

from agentkit_py._core.json import JsonValue
from agentkit_py.errors import ConfigurationError
from agentkit_py.history.mail import box_of
from agentkit_py.history.stopping import OpenCall
from agentkit_py.history.thread import Thread
from agentkit_py.models.base import Model
from agentkit_py.runtime.containing import contained
from agentkit_py.runtime.port import Runtime, StepTools

T = TypeVar("T")


@dataclass(slots=True)
class CallSteps:
    """The run's steps under names that only this call has.

    A model may call a tool as often as it likes, so what the handler calls ``"charge"`` is another
    step in each call.
    """

    runtime: Runtime = field(repr=False)
    prefix: str
    thread: Thread = field(kw_only=True, repr=False)
    """The run's thread; other runs may lease it while the call waits."""

    allowed: bool = field(kw_only=True)
    """True if the tool has steps of its own, instead of being one."""

    open_call: OpenCall | None = field(default=None, kw_only=True, repr=False)
    """The call, which says what its steps do."""

    _count: int = field(default=0, init=False)
    _keys: dict[str, str] = field(default_factory=dict[str, str], init=False, repr=False)

    @property
    def tools(self) -> StepTools:
        """The run's steps."""
        return self.runtime.step

    @property
    def idempotency_key(self) -> str:
        """Names the step that runs now, or else the call."""
        name = _running.get() or self.prefix
        if name not in self._keys:
            self._keys[name] = self.runtime.new_id(name)
        return self._keys[name]

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

    async def run(self, step_id: str, handler: Callable[[], T | Awaitable[T]], /) -> T:
        """Run ``handler`` as a step: durable runtimes remember what it returned."""
        call, name = self.open_call, self.full_id(step_id)

        async def noted() -> T:
            if call is not None:
                await call.begin()
            token = _running.set(name)
            try:
                output = await contained(handler)
            finally:
                _running.reset(token)
            if call is not None:
                await call.did(step_id, cast("JsonValue", output))
            return output

        found = await self.tools.run(name, noted)
        if call is not None:  # a step that is remembered has noted nothing here
            call.step_seen(step_id, cast("JsonValue", found))
        return found

    async def sleep(self, step_id: str, duration: int | timedelta) -> None:
        """Wait for ``duration`` (milliseconds, or a timedelta)."""
        name = self.full_id(step_id)
        wait = partial(self.tools.sleep, name, duration)
        await self.thread.released_while(name, wait, _time(duration))

    async def sleep_until(self, step_id: str, until: datetime) -> None:
        """Wait until a time.

        Raises:
            ConfigurationError: The time has no time zone.
        """
        name = self.full_id(step_id)
        if until.tzinfo is None:
            raise ConfigurationError(f"Step {name!r}: sleep_until needs a time with a time zone")
        wait = partial(self.tools.sleep_until, name, until)
        await self.thread.released_while(name, wait, until - datetime.now(UTC))

    async def wait_for_event(
        self, step_id: str, *, event: str, if_exp: str | None = None, timeout: int | timedelta
    ) -> Any:
        """Wait for an event; None if it does not come within ``timeout`` (ms or timedelta)."""
        name = self.full_id(step_id)
        wait = partial(self.tools.wait_for_event, name, event=event, if_exp=if_exp, timeout=timeout)
        return await self.thread.released_while(name, wait, _time(timeout))

    async def receive(self, step_id: str, *, event: str, key: str, timeout: int | timedelta) -> Any:
        """Receive an event that came, or comes within ``timeout`` (ms or timedelta), for ``key``.

        Returns:
            Its data; None if none came. Each is received once.

        Raises:
            ConfigurationError: The run's store keeps no mail.
        """
        name, store, box = self.full_id(step_id), self.thread.mail, box_of(event, key)
        taker = self.runtime.new_id(name)
        limit = _time(timeout)

        async def look() -> dict[str, Any]:
            return {"mail": await store.take_mail(box, taker), "at": time.time()}

        async def has_come() -> bool:
            return await store.take_mail(box, taker) is not None

        async def wait() -> Any:
            tries, until, is_over = 0, 0.0, limit <= timedelta(0)
            while True:
                step = f"{name}.{tries}"
                found = await self.tools.run(step, look)
                if found["mail"] is not None or is_over:
                    return found["mail"]
                until = until or found["at"] + limit.total_seconds()
                left = max(0.0, until - found["at"])
                is_over = await self.runtime.wait_for_signal(step, box, has_come, left) is None
                tries += 1

        return await self.thread.released_while(name, wait, limit)

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

    async def invoke(
        self,
        step_id: str,
        *,
        function: Any,
        data: dict[str, Any] | None = None,
        timeout: int | timedelta | None = None,
    ) -> Any:
        """Call another Inngest function, given itself or by its id, and wait for its result."""
        function_id = function if isinstance(function, str) else function.local_id
        return await self.invoke_by_id(step_id, function_id=function_id, data=data, timeout=timeout)

    async def send_event(self, step_id: str, events: Any) -> list[str]:
        """Send one Inngest event, or a list of them, once."""
        return await self.tools.send_event(self.full_id(step_id), events)

    async def ai_infer(self, step_id: str, *, model: Model, body: dict[str, Any]) -> Any:
        """Send a request to a model's provider; return the reply's JSON."""
        return await self.runtime.infer(self.full_id(step_id), model, lambda: body)

    async def ai_wrap(
        self, step_id: str, function: Callable[..., T | Awaitable[T]], /, *arguments: Any
    ) -> T:
        """Call a function that asks a model as a step."""
        return await self.run(step_id, partial(function, *arguments))

    async def parallel(self, *calls: Callable[[], Any]) -> list[Any]:
        """Run calls with steps at the same time; return what they gave, in the order given."""
        self.full_id("parallel")
        outcomes = await self.runtime.parallel(calls)
        errors = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        if errors:
            raise errors[0]
        return outcomes


_running: ContextVar[str | None] = ContextVar("agentkit_tool_step", default=None)
"""The name of the step of a tool whose handler runs now."""


def _time(given: int | timedelta) -> timedelta:
    """Return a time that may be given in milliseconds."""
    return given if isinstance(given, timedelta) else timedelta(milliseconds=given)
