"""Steps of tools, hooks and processors: ``ctx.step``, the same over every runtime."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from inspect import isawaitable, iscoroutine
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from typing_extensions import Protocol

from agentkit_py.errors import ConfigurationError
from agentkit_py.runtime.scope import scoped

if TYPE_CHECKING:
    from agentkit_py.models.base import Model

T = TypeVar("T")


class StepTools(Protocol):
    """Steps for handlers, as ``ctx.step``; `inngest.Step` fits it by shape."""

    async def run(self, step_id: str, handler: Callable[[], Awaitable[T]], /) -> T:
        """Run ``handler`` as a step: durable runtimes remember its result."""
        ...

    async def sleep(self, step_id: str, duration: int | timedelta) -> None:
        """Wait for ``duration`` (milliseconds, or a timedelta)."""
        ...

    async def wait_for_event(
        self, step_id: str, *, event: str, if_exp: str | None = None, timeout: int | timedelta
    ) -> Any:
        """Wait for an event; None if it does not come within ``timeout`` (ms or timedelta)."""
        ...

    async def invoke_by_id(
        self,
        step_id: str,
        *,
        function_id: str,
        app_id: str | None = None,
        data: dict[str, Any] | None = None,
        timeout: int | timedelta | None = None,
    ) -> Any:
        """Call another Inngest function and wait for its result."""
        ...

    async def sleep_until(self, step_id: str, until: datetime) -> None:
        """Wait until a time, which has a time zone."""
        ...

    async def send_event(self, step_id: str, events: Any) -> list[str]:
        """Send an Inngest event, or a list of events, once; return their ids."""
        ...


class ToolSteps(StepTools, Protocol):
    """``ctx.step`` of a tool with ``steps=True``, as in TypeScript.

    Names of steps must be unique within a call of the tool, not across calls.
    """

    async def run(self, step_id: str, handler: Callable[[], T | Awaitable[T]], /) -> T:
        """Run ``handler``, a sync or async function, as a step: its result is remembered.

        Run a sync function that blocks in a thread: ``lambda: asyncio.to_thread(function)``.
        """
        ...

    @property
    def idempotency_key(self) -> str:
        """A name of the current step for other systems, the same if the step has to run again.

        Outside of a step it names the call.
        """
        ...

    async def receive(self, step_id: str, *, event: str, key: str, timeout: int | timedelta) -> Any:
        """Receive an event that came for ``key``, or comes within ``timeout`` (ms or timedelta).

        Unlike `wait_for_event` it finds earlier events, which have to be stored: see
        `agentkit_py.inngest.mailbox_function` and `agentkit_py.history.deliver`. Returns the
        event's data; None if no event came.
        """
        ...

    async def invoke(
        self,
        step_id: str,
        *,
        function: Any,
        data: dict[str, Any] | None = None,
        timeout: int | timedelta | None = None,
    ) -> Any:
        """Call another Inngest function, given itself or by its id, and wait for its result."""
        ...

    async def ai_infer(self, step_id: str, *, model: Model, body: dict[str, Any]) -> Any:
        """Send a request to a model's provider; return the reply's JSON.

        The Inngest server sends it, or this process inside the step, as for agents.
        """
        ...

    async def ai_wrap(
        self, step_id: str, function: Callable[..., T | Awaitable[T]], /, *arguments: Any
    ) -> T:
        """Call a function that asks a model, e.g. a provider's own client, as a step."""
        ...

    async def parallel(self, *calls: Callable[[], Any]) -> list[Any]:
        """Run calls with steps at the same time; return their results, in the order given.

        All run to their end; then the first error, if any, is raised. Steps must not overlap in any
        other way, e.g. by ``asyncio.gather``.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EventWait:
    """A wait for an event."""

    event: str
    if_exp: str | None
    timeout: int | timedelta

    def __str__(self) -> str:
        """Describe a step that needs a server."""
        return f"waits for the event {self.event!r}, which only an Inngest function can"


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """A call of another function."""

    function_id: str
    app_id: str | None
    data: dict[str, Any] | None
    timeout: int | timedelta | None

    def __str__(self) -> str:
        """Describe a step that needs a server."""
        return f"invokes the function {self.function_id!r}, which only an Inngest function can"


@dataclass(frozen=True, slots=True)
class Sending:
    """Events to send."""

    events: Sequence[Any]

    def __str__(self) -> str:
        """Describe a step that needs a server."""
        return "sends events, which only an Inngest function can"


ServerRequest: TypeAlias = EventWait | Invocation | Sending
"""The request of a step that only a server can carry out."""


class StepPrimitives(Protocol):
    """The methods of a runtime that `Steps` uses."""

    async def run_step(self, step_id: str, handler: Callable[[], Any], /) -> Any:
        """Run a sync or async handler once; return its result."""
        ...

    async def wait(self, step_id: str, time: timedelta | datetime, /) -> None:
        """Wait for a duration, or until a time."""
        ...

    async def server_step(self, step_id: str, request: ServerRequest, /) -> Any:
        """Let a server carry out a request; return the outcome."""
        ...

    async def infer(
        self, step_id: str, model: Model, make_body: Callable[[], dict[str, Any]], /
    ) -> object:
        """Ask a model."""
        ...

    async def parallel(self, calls: Sequence[Callable[[], Awaitable[Any]]], /) -> list[Any]:
        """Run all to their end; errors are values."""
        ...


class Steps:
    """The steps of a run over any runtime.

    Inside `Runtime.within` their names begin with its id.
    """

    def __init__(self, runtime: StepPrimitives) -> None:
        """Make the steps of a runtime."""
        self._runtime = runtime

    def name(self, step_id: str) -> str:
        """Return the name in the run of a step that is called ``step_id`` here."""
        return scoped(step_id, ".")

    async def waiting(
        self, step_id: str, wait: Callable[[], Awaitable[Any]], time: timedelta
    ) -> Any:
        """Wait; a subclass adds its work around each wait here.

        Args:
            step_id: The step's name in the run.
            wait: The wait.
            time: The maximum duration of the wait.
        """
        return await wait()

    async def run(self, step_id: str, handler: Callable[[], Awaitable[T]], /) -> T:
        """Run a sync or async ``handler``: durable runtimes remember its result."""
        return cast("T", await self._runtime.run_step(self.name(step_id), handler))

    async def sleep(self, step_id: str, duration: int | timedelta) -> None:
        """Wait for ``duration`` (milliseconds, or a timedelta)."""
        name, time = self.name(step_id), as_timedelta(duration)
        await self.waiting(name, partial(self._runtime.wait, name, time), time)

    async def sleep_until(self, step_id: str, until: datetime) -> None:
        """Wait until a time.

        Raises:
            ConfigurationError: The time has no time zone.
        """
        name = self.name(step_id)
        if until.tzinfo is None:
            raise ConfigurationError(f"Step {name!r}: sleep_until needs a time with a time zone")
        wait = partial(self._runtime.wait, name, until)
        await self.waiting(name, wait, until - datetime.now(UTC))

    async def wait_for_event(
        self, step_id: str, *, event: str, if_exp: str | None = None, timeout: int | timedelta
    ) -> Any:
        """Wait for an event; None if it does not come within ``timeout`` (ms or timedelta)."""
        name = self.name(step_id)
        request = EventWait(event=event, if_exp=if_exp, timeout=timeout)
        wait = partial(self._runtime.server_step, name, request)
        return await self.waiting(name, wait, as_timedelta(timeout))

    async def invoke_by_id(
        self,
        step_id: str,
        *,
        function_id: str,
        app_id: str | None = None,
        data: dict[str, Any] | None = None,
        timeout: int | timedelta | None = None,
    ) -> Any:
        """Call another Inngest function and wait for its result."""
        request = Invocation(function_id=function_id, app_id=app_id, data=data, timeout=timeout)
        return await self._runtime.server_step(self.name(step_id), request)

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
        """Send an Inngest event, or a list of events, once; return their ids."""
        listed = cast("list[Any]", events) if isinstance(events, list) else [events]
        return await self._runtime.server_step(self.name(step_id), Sending(listed))

    async def ai_infer(self, step_id: str, *, model: Model, body: dict[str, Any]) -> Any:
        """Send a request to a model's provider; return the reply's JSON."""
        return await self._runtime.infer(self.name(step_id), model, lambda: body)

    async def ai_wrap(
        self, step_id: str, function: Callable[..., T | Awaitable[T]], /, *arguments: Any
    ) -> T:
        """Call a function that asks a model as a step."""
        call: Any = partial(function, *arguments)
        return await self.run(step_id, call)

    async def parallel(self, *calls: Callable[[], Any]) -> list[Any]:
        """Run calls with steps at the same time; return their results, in the order given.

        Raises:
            ConfigurationError: A call is not a function.
            Exception: The first error of a call, after all have ended.
        """
        _expect_functions(calls)
        outcomes = await self._runtime.parallel(calls)
        errors = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        if errors:
            raise errors[0]
        return outcomes


def _expect_functions(calls: Sequence[object]) -> None:
    """Refuse a list of calls, and calls that have begun, as in TypeScript's ``Promise.all``."""
    begun = [call for call in calls if isawaitable(call)]
    for call in begun:
        if iscoroutine(call):
            call.close()  # otherwise Python warns that it was never awaited
    wrong = next((call for call in calls if not callable(call)), None)
    if wrong is None:
        return
    if isinstance(wrong, list | tuple):
        raise ConfigurationError(
            "ctx.step.parallel(…) takes its functions unpacked: write ctx.step.parallel(*calls)"
        )
    raise ConfigurationError(
        f"ctx.step.parallel(…) takes functions, got {wrong!r:.80}: write "
        'lambda: ctx.step.run("name", function) for each, not the result of ctx.step.run(…)'
    )


def as_timedelta(given: int | timedelta) -> timedelta:
    """Return a time that may be given in milliseconds."""
    return given if isinstance(given, timedelta) else timedelta(milliseconds=given)
