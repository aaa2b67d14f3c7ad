"""InngestRuntime: everything that touches the world happens in steps of an Inngest function.

The function runs again from the top for each new step, so nothing here may differ between two
runs: ids are computed from the run's id, times come from the event and from steps' outputs.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import Any, Literal, TypeAlias, TypeVar, cast

import inngest

from agentkit_py.errors import AgentKitError, ModelError, ModelHTTPError, NonRetriableError
from agentkit_py.events.approvals import APPROVAL_EVENT, ApprovalAnswer, ApprovalRequest
from agentkit_py.inngest import steps
from agentkit_py.inngest.gateway import (
    GatewayAdapter,
    model_error_from_json,
    model_error_to_json,
    to_model_error,
)
from agentkit_py.inngest.realtime import LivePublisher, Publish
from agentkit_py.inngest.steps import DeltaLog, GuardedSteps, StepMemory
from agentkit_py.models.base import Model, RetryPolicy
from agentkit_py.runtime.current import set_ambient
from agentkit_py.runtime.direct import DirectRuntime, shared_runtime
from agentkit_py.runtime.model_requests import copy_model
from agentkit_py.runtime.port import Codec, DeltaSink, Recordable
from agentkit_py.runtime.watch import take_watch

T = TypeVar("T")

Inference: TypeAlias = Literal["offload", "local"]
"""The caller of models: the Inngest server (``step.ai.infer``), or this process in a step."""

_ONCE = RetryPolicy(attempts=1)


DEFAULT_ATTEMPTS = 5
"""Attempts of a function whose retries are not known: Inngest's default of four retries."""


class InngestRuntime:
    """The runtime of agents inside an Inngest function.

    Args:
        ctx: The function's context.
        inference: Who calls the model.
        publish: Sends streaming chunks; see `agentkit_py.inngest.realtime`.
        local: What sends requests with ``inference="local"``, and knows the API keys.
        remembered: The steps that the SDK has outputs for, which only middleware gets to see.
            Without them each replay publishes its chunks again; consumers know them by their ids.
        attempts: How often the server tries.
    """

    durable = True

    def __init__(
        self,
        ctx: inngest.Context,
        *,
        inference: Inference = "offload",
        publish: Publish | None = None,
        local: DirectRuntime | None = None,
        remembered: inngest.StepMemos | None = None,
        attempts: int = DEFAULT_ATTEMPTS,
    ) -> None:
        self.ctx = ctx
        self._inference = inference
        self._local = local or shared_runtime()
        self._attempts = attempts
        self._memory = StepMemory(remembered)
        self._live = LivePublisher(publish, self._memory)
        self._steps = GuardedSteps(ctx.step, self._memory, self._live)
        self._claims: dict[str, int] = {}
        self._skips = 0
        self._time = datetime.fromtimestamp((ctx.event.ts or 0) / 1000, UTC)

    @property
    def step(self) -> GuardedSteps:
        """The steps that tools with ``steps=True`` and processors may use."""
        return self._steps

    def within(self, step_id: str) -> AbstractContextManager[None]:
        """Give steps and runs that begin inside the block ids that start with ``step_id``."""
        return steps.within(step_id)

    def claim(self, name: str) -> str:
        """Return ``name``, ``name:2``, …: no two runs in this function share step ids."""
        name = steps.scoped(name, "/")
        count = self._claims[name] = self._claims.get(name, 0) + 1
        return name if count == 1 else f"{name}:{count}"

    def new_id(self, key: str) -> str:
        """Return a UUID computed from the run's id and ``key``."""
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"inngest:{self.ctx.run_id}/{key}"))

    def now(self, key: str) -> datetime:  # noqa: ARG002
        """Return the latest time of a recorded step; later for each call, so that order is kept."""
        self._time += timedelta(microseconds=1)
        return self._time

    async def infer(
        self,
        step_id: str,
        model: Model,
        make_body: Callable[[], dict[str, Any]],
        on_delta: DeltaSink | None = None,
    ) -> object:
        """Ask the model in a step: by the Inngest server, or here."""
        if self._inference == "offload" and model.respond is None:
            return await self._infer_there(step_id, model, make_body)
        log = DeltaLog(on_delta) if on_delta is not None else None
        ask = partial(self._ask, step_id, model, make_body, log)
        try:
            found = await self._run(step_id, ask)
        except inngest.StepError as error:
            raise to_model_error(model, error) from error
        if log is not None:
            await log.replay(found.get("deltas", []))
        if "failed" in found:
            failed = found["failed"]
            raise model_error_from_json(model, failed) from steps.step_error(failed)
        return found["reply"]

    async def _infer_there(
        self, step_id: str, model: Model, make_body: Callable[[], dict[str, Any]]
    ) -> object:
        watch = take_watch()
        self._memory.enter(step_id)
        adapter = GatewayAdapter(model, self._local.api_key(model) or "")
        asked = self.ctx.step.ai.infer(step_id, adapter=adapter, body=make_body())
        try:
            body = await self._live.remembered(asked)
        except inngest.StepError as error:
            failure = to_model_error(model, error)
            if watch is not None:
                watch.elsewhere(failure)
            raise failure from error
        if watch is not None:
            watch.elsewhere(body)
        return body

    async def _ask(
        self,
        step_id: str,
        model: Model,
        make_body: Callable[[], dict[str, Any]],
        log: DeltaLog | None,
    ) -> dict[str, Any]:
        """Ask the model from here; return what the step keeps of the answer."""
        deltas = log.rows if log is not None else []
        once = copy_model(model, retry=_ONCE)  # Inngest tries the step again
        try:
            body = await self._local.infer(step_id, once, make_body, log)
        except ModelError as error:
            if isinstance(error, ModelHTTPError) and error.retriable and error.retry_after:
                wait = timedelta(seconds=error.retry_after)
                raise inngest.RetryAfterError(str(error), wait) from error
            if error.retriable:
                raise
            return {"failed": model_error_to_json(error), "deltas": deltas}
        return {"reply": body, "deltas": deltas}

    async def effect(
        self,
        step_id: str,
        handler: Callable[[], Awaitable[T]],
        changes: Recordable,
        codec: Codec[T] | None = None,
    ) -> T:
        """Run a callback in a step; its result and what it changed are the step's output."""
        found = await self._run(step_id, partial(_changing, handler, changes, codec))
        changes.replay(found["changes"])
        if "cursor" in found:
            assert codec is not None
            return codec.resume(await handler(), found["cursor"])
        value = found["value"]
        return codec.load(value) if codec is not None else cast("T", value)

    async def _run(
        self, step_id: str, handler: Callable[[], Awaitable[dict[str, Any]]]
    ) -> dict[str, Any]:
        """Run a step whose output says when it ran, and what must not be tried again.

        Raises:
            AgentKitError: What it recorded is an error.
        """

        async def recorded() -> dict[str, Any]:
            try:
                output = steps.check_output(step_id, await handler())
            except Exception as error:
                if not steps.is_final(error):
                    raise self._memory.failed(steps.to_sdk_error(error)) from error
                output = steps.check_output(step_id, steps.record_error(error))
            return {**output, "at": datetime.now(UTC).timestamp()}

        found = await self._steps.ask(step_id, recorded)
        self._time = max(self._time, datetime.fromtimestamp(found["at"], UTC))
        if "raised" in found:
            raised = found["raised"]
            raise steps.restore_error(raised) from steps.step_error(raised)
        return found

    async def parallel(self, calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T | Exception]:
        """Run all through the SDK's group; errors are values: none abandons its siblings."""

        async def result_or_error(call: Callable[[], Awaitable[T]]) -> T | Exception:
            try:
                return await call()
            except Exception as error:  # noqa: BLE001 - errors are values here
                return error

        with self._live.group():
            branches = tuple(partial(result_or_error, call) for call in calls)
            outcomes = list(await self.ctx.group.parallel(branches))
        if len(outcomes) < len(calls):
            self._memory.raise_failure()
            await self._leave_group()
        return outcomes

    async def _leave_group(self) -> None:
        """Stop here: this request is about a step outside of the group that was just gone through.

        The SDK's group (0.5.19) then gives what its branches had, without those that are not done,
        and what comes after it would go on with too little. Asking for a step that this request is
        not about ends the branch as the SDK itself ends them.
        """

        async def never() -> None:
            raise RuntimeError("the Inngest SDK left a group without its results")

        self._skips += 1
        await self.ctx.step.run(f"agentkit.left-group.{self._skips}", never)

    async def ask(self, step_id: str, request: ApprovalRequest) -> ApprovalAnswer | None:
        """Wait for the event `APPROVAL_EVENT` whose ``data.approvalId`` is the question's id.

        Where the event that began the run has ``data.answerableBy``, the answer's
        ``data.answeredBy`` must be the same.
        """
        wanted = f"async.data.approvalId == '{request.id}'"
        if "answerableBy" in self.ctx.event.data:
            wanted += " && async.data.answeredBy == event.data.answerableBy"
        event = await self._steps.wait_for_event(
            step_id,
            event=APPROVAL_EVENT,
            if_exp=wanted,
            timeout=timedelta(seconds=request.timeout),
        )
        return None if event is None else ApprovalAnswer.from_dict(event.data)

    async def publish(self, chunk: dict[str, Any]) -> None:
        """Publish a chunk unless a replay only repeats it."""
        await self._live.publish(chunk, inside=steps.inside_step() is not None)

    def publish_with(self, send: Publish) -> None:
        """Send the chunks of this execution with ``send``."""
        self._live.send = send

    @property
    def execution(self) -> str:
        """The id of Inngest's run."""
        return self.ctx.run_id

    @property
    def carried(self) -> Mapping[str, Any]:
        """The data of the event."""
        return self.ctx.event.data

    @property
    def recorded_time(self) -> datetime:
        """The event's time, or when the last step that says so was done."""
        return self._time

    @property
    def is_new(self) -> bool:
        """True if no remembered step is left."""
        return self._live.is_new

    def when_new(self, call: Callable[[], None]) -> None:
        """Make the call once the handler of a step is called, or no remembered one is left."""
        self._live.when_new(call)

    def is_final(self, error: BaseException) -> bool:
        """Return whether Inngest will not try again: a final error, or the last attempt."""
        if not isinstance(error, Exception):
            return False  # the worker is stopped, and the server will ask another
        raised = self.to_caller_error(error)
        if isinstance(raised, inngest.NonRetriableError | inngest.StepError):
            return True
        return self.ctx.attempt + 1 >= self._attempts

    def repeats(self, error: Exception) -> bool:
        """Return whether ``error`` comes from a step that is done."""
        return isinstance(error, inngest.StepError) or isinstance(
            error.__cause__, inngest.StepError
        )

    def to_caller_error(self, error: Exception) -> Exception:
        """Return the SDK's error for ``error``; what a replay only repeats is never retried."""
        if isinstance(error, inngest.StepError):
            return error
        if isinstance(error, _NEVER_RETRIED) or self.repeats(error):
            return inngest.NonRetriableError(f"{type(error).__name__}: {error}")
        return steps.to_sdk_error(error)


async def _changing(
    handler: Callable[[], Awaitable[T]], changes: Recordable, codec: Codec[T] | None
) -> dict[str, Any]:
    """Run a callback, and return what a step keeps of its result and changes."""
    before = changes.begin()
    value = await handler()
    return {**steps.to_output(value, codec), "changes": changes.record(before)}


_NEVER_RETRIED = (NonRetriableError, ModelError, *steps.NEVER_RETRIED)


_ATTRIBUTE = "agentkit_runtime"


def runtime_of(ctx: inngest.Context, **options: Any) -> InngestRuntime:
    """Return the one runtime of this execution of a function: all its runs share step ids.

    It is kept on the context, and so lives as long as that. With options it is made anew, as
    middleware does before the function's code begins.
    """
    found = getattr(ctx, _ATTRIBUTE, None)
    if found is None or options:
        found = InngestRuntime(ctx, **options)
        setattr(ctx, _ATTRIBUTE, found)
    return found


class AgentKitMiddleware(inngest.Middleware):
    """Give it to the client, and `network.run(…)` inside its functions is durable.

    Example:
        ::

            client = inngest.Inngest(app_id="support", middleware=[AgentKitMiddleware])

    Use `AgentKitMiddleware.configured(…)` for other settings than the defaults.
    """

    inference: Inference = "offload"
    publish: Publish | None = None
    local: DirectRuntime | None = None
    _runtime: InngestRuntime | None = None

    @classmethod
    def configured(
        cls,
        *,
        inference: Inference = "offload",
        publish: Publish | None = None,
        local: DirectRuntime | None = None,
    ) -> Callable[[inngest.Inngest, object], AgentKitMiddleware]:
        """Return the middleware with settings of its own.

        Args:
            inference: ``"offload"``: the Inngest server calls the model; ``"local"``: this process
                does, inside a step (the key stays here, errors keep their body, tokens stream).
            publish: Sends streaming chunks, e.g. `agentkit_py.inngest.realtime.publisher(…)`.
            local: The runtime that sends local requests, with its own keys or transport.
        """

        def make(client: inngest.Inngest, raw_request: object) -> AgentKitMiddleware:
            made = cls(client, raw_request)
            made.inference, made.publish, made.local = inference, publish, local
            return made

        return make

    async def transform_input(
        self,
        ctx: inngest.Context | inngest.ContextSync,
        function: inngest.Function[Any],
        steps: inngest.StepMemos,
    ) -> None:
        """Make this execution's runtime the ambient one."""
        if isinstance(ctx, inngest.ContextSync):
            return  # agents are async; a sync function runs them with run_sync, undurably
        # A function's own middleware comes after the client's and wins.
        self._runtime = runtime_of(
            ctx,
            inference=self.inference,
            publish=self.publish,
            local=self.local,
            remembered=steps,
            attempts=_attempts(function),
        )
        set_ambient(self._runtime)

    async def transform_output(self, result: inngest.TransformOutputResult) -> None:
        """Give the SDK its own errors for ours, also for those that the function raised."""
        error = result.error
        if not isinstance(error, AgentKitError) or self._runtime is None:
            return
        # A step may be tried again for what ends a run, such as a model that is overloaded.
        if result.step is None or steps.is_final(error):
            result.error = self._runtime.to_caller_error(error)


@lru_cache(maxsize=256)
def _attempts(function: inngest.Function[Any]) -> int:
    """Return how often the server tries a function."""
    retries = function.get_config("http://127.0.0.1").main.steps["step"].retries
    return DEFAULT_ATTEMPTS if retries is None else retries.attempts + 1
