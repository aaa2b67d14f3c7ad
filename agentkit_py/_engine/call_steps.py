"""The steps of a tool call: ``ctx.step`` of its handler."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, TypeVar, cast

from agentkit_py._core.json import JsonValue
from agentkit_py.errors import ConfigurationError
from agentkit_py.history.mail import box_of
from agentkit_py.history.stopping import OpenCall
from agentkit_py.history.thread import Thread
from agentkit_py.runtime.containing import contained
from agentkit_py.runtime.port import Runtime
from agentkit_py.runtime.steps import Steps, as_timedelta

T = TypeVar("T")


class CallSteps(Steps):
    """The run's steps under names that only this call has.

    A model may call a tool many times, so the handler's step ``"charge"`` is a different step in
    each call.

    Args:
        runtime: The run's runtime.
        prefix: The prefix of the call's step names.
        thread: The run's thread; other runs may lease it while the call waits.
        allowed: True if the tool has steps of its own, instead of being a step.
        open_call: The call, which records its steps.
    """

    def __init__(
        self,
        runtime: Runtime,
        prefix: str,
        *,
        thread: Thread,
        allowed: bool,
        open_call: OpenCall | None = None,
    ) -> None:
        super().__init__(runtime)
        self.runtime = runtime
        self.prefix = prefix
        self.thread = thread
        self.allowed = allowed
        self.open_call = open_call
        self._count = 0
        self._keys: dict[str, str] = {}

    @property
    def idempotency_key(self) -> str:
        """Names the step that runs now, or else the call."""
        name = _running.get() or self.prefix
        if name not in self._keys:
            self._keys[name] = self.runtime.new_id(name)
        return self._keys[name]

    def name(self, step_id: str) -> str:
        """The step's name in the run.

        Raises:
            ConfigurationError: The tool runs inside a step and can have none of its own.
        """
        if not self.allowed:
            raise ConfigurationError(
                f"Step {step_id!r} was begun inside the step {self.prefix!r}, and there are no "
                "steps in steps. A tool that uses ctx.step, asks or waits needs steps=True: "
                "@tool(steps=True), create_tool(…, steps=True)."
            )
        return super().name(f"{self.prefix}.{step_id}")

    def next_id(self, name: str) -> str:
        """Return a counted id for an unnamed step: a handler asks in the same order each time."""
        self._count += 1
        return f"{name}.{self._count}"

    async def waiting(
        self, step_id: str, wait: Callable[[], Awaitable[Any]], time: timedelta
    ) -> Any:
        """Wait while other runs may lease the thread."""
        return await self.thread.released_while(step_id, wait, time)

    async def run(self, step_id: str, handler: Callable[[], T | Awaitable[T]], /) -> T:
        """Run ``handler`` as a step: durable runtimes remember its result."""
        call, name = self.open_call, self.name(step_id)

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

        found = await self.runtime.run_step(name, noted)
        if call is not None:  # a step that is remembered has noted nothing here
            call.step_seen(step_id, cast("JsonValue", found))
        return found

    async def receive(self, step_id: str, *, event: str, key: str, timeout: int | timedelta) -> Any:
        """Receive an event that came, or comes within ``timeout`` (ms or timedelta), for ``key``.

        Returns:
            Its data; None if none came. Each is received once.

        Raises:
            ConfigurationError: The run's store keeps no mail.
        """
        name, store, box = self.name(step_id), self.thread.mail, box_of(event, key)
        taker = self.runtime.new_id(name)
        limit = as_timedelta(timeout)

        async def look() -> dict[str, Any]:
            return {"mail": await store.take_mail(box, taker), "at": time.time()}

        async def has_come() -> bool:
            return await store.take_mail(box, taker) is not None

        async def wait() -> Any:
            tries, until, is_over = 0, 0.0, limit <= timedelta(0)
            while True:
                step = f"{name}.{tries}"
                found = await self.runtime.run_step(step, look)
                if found["mail"] is not None or is_over:
                    return found["mail"]
                until = until or found["at"] + limit.total_seconds()
                left = max(0.0, until - found["at"])
                is_over = await self.runtime.wait_for_signal(step, box, has_come, left) is None
                tries += 1

        return await self.waiting(name, wait, limit)

    async def parallel(self, *calls: Callable[[], Any]) -> list[Any]:
        """Run calls with steps at the same time; return their results, in the given order."""
        self.name("parallel")
        return await super().parallel(*calls)


_running: ContextVar[str | None] = ContextVar("agentkit_tool_step", default=None)
"""The name of the step of a tool whose handler runs now."""
