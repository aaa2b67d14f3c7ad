"""InngestRuntime: everything that touches the world happens in steps of an Inngest function.

The function runs again from its top for each new step, so all values here must be the same in each
replay: ids are computed from the run's id, times come from the event and from steps' outputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from math import ceil
from typing import Any, Literal, TypeAlias, TypeVar, cast

import inngest
from inngest import experimental

from agentkit_py._core.json import JsonValue, as_object
from agentkit_py._engine.option_checks import expect_one_of
from agentkit_py.errors import (
    ConfigurationError,
    ModelError,
    ModelHTTPError,
    NonRetriableError,
    ReplayError,
    RetryAfterError,
    ThreadNotFoundError,
)
from agentkit_py.events.approvals import APPROVAL_EVENT, ApprovalAnswer, ApprovalRequest
from agentkit_py.inngest import steps
from agentkit_py.inngest.memory import StepMemory
from agentkit_py.inngest.overlap import GuardedGroup, inside_step
from agentkit_py.inngest.realtime import LivePublisher, Publish
from agentkit_py.inngest.sending import SIGNAL_EVENT, send_signal
from agentkit_py.inngest.steps import (
    GatewayAdapter,
    GuardedSteps,
    error_of_step,
    usage_to_show,
)
from agentkit_py.models.base import Model, RetryPolicy, copy_model
from agentkit_py.runtime.concurrent import result_or_error
from agentkit_py.runtime.current import (
    choose_runtime,
    runtime_of_context,
    undurable_refusal,
)
from agentkit_py.runtime.direct import DirectRuntime, shared_runtime
from agentkit_py.runtime.port import (
    Codec,
    DeltaSink,
    Publisher,
    Recordable,
    Runtime,
    computed_id,
    take_watch,
)
from agentkit_py.runtime.recorded import (
    DeltaLog,
    model_error_from_json,
    model_error_to_json,
    to_output,
)
from agentkit_py.runtime.replay import Versioning
from agentkit_py.runtime.scope import unique, within
from agentkit_py.runtime.steps import ServerRequest

T = TypeVar("T")

Inference: TypeAlias = Literal["offload", "local"]
"""Who calls models: the Inngest server (``step.ai.infer``), or this process in a step."""

_ONCE = RetryPolicy(attempts=1)

DEFAULT_ATTEMPTS = 5
"""Attempts of a function whose number of retries is unknown: Inngest's default is four retries."""


def _may_offload(model: Model) -> bool:
    """Return whether the Inngest server may call the model: no part of the call happens here."""
    here = (model.answers, model.signer, *model.guards)
    return model.retry.durable and not callable(model.api_key) and not any(here)


def _reply_in(model: Model, found: dict[str, Any]) -> object:
    """Return the reply in a step's output, whether the server or a worker called the model."""
    if "deltas" not in found:
        return found  # the server called the model
    if "failed" in found:
        failed = found["failed"]
        raise model_error_from_json(model, failed) from steps.step_error(failed)
    return found["reply"]


class InngestRuntime(Runtime):
    """The runtime of agents inside an Inngest function.

    Args:
        ctx: The function's context.
        inference: Who calls the model.
        publish: Sends streaming chunks; see `agentkit_py.inngest.realtime`.
        local: Sends requests with ``inference="local"``, and holds the API keys.
        remembered: The SDK's outputs of completed steps, which only middleware receives. Without
            them each replay publishes its chunks again; consumers recognise them by their ids.
        attempts: The number of attempts that the server makes.
        client: Sends signals to other runs; without it they notice within a minute.
        versioning: The version of the code.
    """

    durable = True

    def __init__(
        self,
        ctx: inngest.Context,
        *,
        inference: Inference = "local",
        publish: Publish | None = None,
        local: DirectRuntime | None = None,
        remembered: inngest.StepMemos | None = None,
        attempts: int = DEFAULT_ATTEMPTS,
        client: inngest.Inngest | None = None,
        versioning: Versioning | None = None,
    ) -> None:
        expect_one_of("InngestRuntime", "inference", inference, ("offload", "local"))
        self.ctx = ctx
        self.execution: str | None = ctx.run_id
        self.attempt: int = ctx.attempt
        self._client = client
        self._inference = inference
        self._local = local or shared_runtime()
        self._attempts = attempts
        self._memory = StepMemory(remembered, versioning)
        guarded: Any = ctx.group
        if not isinstance(guarded, GuardedGroup):
            guarded = GuardedGroup(ctx.group)
            ctx.group = guarded
        self._group = guarded
        self._live = LivePublisher(publish, self._memory)
        self._steps = GuardedSteps(
            ctx.step, self._memory, self._live, lambda e: self._is_tried_again(e) and self._has_more
        )
        self._claims = Counter[str]()
        self._skips = 0
        self._time = datetime.fromtimestamp((ctx.event.ts or 0) / 1000, UTC)

    @property
    def steps_taken(self) -> int:
        """Number of steps that this function has requested; in parallel calls, before them."""
        return self._memory.guard.steps_taken

    def within(self, step_id: str) -> AbstractContextManager[None]:
        """Prefix the ids of steps and runs that begin in the block with ``step_id``."""
        return within(step_id)

    def claim(self, name: str) -> str:
        """Return ``name``, ``name:2``, …: no two runs in this function share step ids."""
        return unique(name, self._claims)

    def define(self, prefix: str, parts: Callable[[], dict[str, str]]) -> None:
        """Compare the definition of a run's agents with the definition at the run's beginning."""
        self._memory.guard.define(prefix, parts)

    def decide(self, key: str, value: Callable[[], JsonValue], what: str) -> None:
        """Record a decision with the next step; a replay that decides otherwise ends the run."""
        if inside_step() is None:  # a step's output depends on decisions inside it
            self._memory.guard.decide(key, value(), what)

    def recorded(self, key: str) -> JsonValue:
        """Return the recorded decision; None: no step has recorded it."""
        return self._memory.guard.recorded(key) if inside_step() is None else None

    def remembers(self, step_id: str) -> bool:
        """Return whether a step is done; an id that ends with a dot: any step in it."""
        return self._memory.guard.remembers(step_id)

    def may_remember(self, step_id: str) -> bool:
        """Return whether a step may be done, which is unknown without middleware."""
        return not self._memory.remembered.is_known or self.remembers(step_id)

    def patched(self, name: str) -> bool:
        """Return whether the run takes the new code at the patch ``name``."""
        return self._memory.patched(name)

    def new_id(self, key: str) -> str:
        """Return a UUID (version 5) computed from the run's id and ``key``."""
        return computed_id(f"inngest:{self.execution}/{key}")

    def now(self, key: str) -> datetime:
        """Return the latest time of a recorded step, a little later with each call."""
        self._time += timedelta(microseconds=1)
        return self._time

    def account(self, model: Model) -> str:
        """Return a tag of the account that requests go to."""
        return self._local.account(model)

    async def run_step(self, step_id: str, handler: Callable[[], T | Awaitable[T]], /) -> T:
        """Run a handler in a step; its result must be JSON."""
        return await self._steps.run(step_id, handler)

    async def wait(self, step_id: str, time: timedelta | datetime, /) -> None:
        """Wait without using compute."""
        await self._steps.wait(step_id, time)

    async def server_step(self, step_id: str, request: ServerRequest, /) -> Any:
        """Let the Inngest server wait for an event, call a function or send events."""
        return await self._steps.server_step(step_id, request)

    async def infer(
        self,
        step_id: str,
        model: Model,
        make_body: Callable[[], dict[str, Any]],
        on_delta: DeltaSink | None = None,
    ) -> object:
        """Call the model in a step: by the Inngest server, or from here."""
        if inside_step() is not None:  # the call is part of that step
            return await self._infer_here(step_id, model, make_body, on_delta)
        if self._inference == "offload" and _may_offload(model):
            return await self._infer_there(step_id, model, make_body)
        log = DeltaLog(on_delta) if on_delta is not None else None
        ask = partial(self._ask, step_id, model, make_body, log)
        try:
            found = await self._run(step_id, ask)
        except inngest.StepError as error:
            raise error_of_step(model, error) from error
        if log is not None:
            await log.replay(found.get("deltas", []))
        return _reply_in(model, found)

    async def _infer_here(
        self,
        step_id: str,
        model: Model,
        make_body: Callable[[], dict[str, Any]],
        on_delta: DeltaSink | None,
    ) -> object:
        """Call the model from here, inside a step; the pieces of the reply are noted."""
        async with nullcontext() if on_delta is None else on_delta.noting():
            return await self._local.infer(step_id, model, make_body, on_delta)

    async def _infer_there(
        self, step_id: str, model: Model, make_body: Callable[[], dict[str, Any]]
    ) -> object:
        watch = take_watch()
        adapter = GatewayAdapter(model, self._local.api_key(model) or "")
        try:
            body = await self._steps.infer(step_id, adapter, make_body)
            if (found := as_object(body)) is not None:
                body = _reply_in(model, self._restored(found))
        except inngest.StepError as error:
            failure = error_of_step(model, error)
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
        """Call the model from here; return the answer as the step's output."""
        deltas = log.rows if log is not None else []
        retry = _ONCE if model.retry.durable else model.retry
        once = copy_model(model, retry=retry)  # Inngest tries the step again
        try:
            body = await self._infer_here(step_id, once, make_body, log)
        except ModelError as error:
            if not model.retry.durable:
                return {"failed": model_error_to_json(error), "deltas": deltas}
            if isinstance(error, ModelHTTPError) and error.retriable and error.retry_after:
                wait = timedelta(seconds=error.retry_after)
                raise inngest.RetryAfterError(str(error), wait) from error
            if error.retriable:
                raise
            return {"failed": model_error_to_json(error), "deltas": deltas}
        return {"reply": body, "deltas": deltas, **usage_to_show(model, body)}

    async def effect(
        self,
        step_id: str,
        handler: Callable[[], Awaitable[T]],
        changes: Recordable,
        codec: Codec[T] | None = None,
    ) -> T:
        """Run a callback in a step; its result and its changes are the step's output."""
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
        """Run a step whose output records when it ran, and errors that must not be retried.

        Raises:
            AgentKitError: The recorded error.
        """

        async def recorded() -> dict[str, Any]:
            output = await self._steps.outcome(step_id, handler)
            return {**output, "at": datetime.now(UTC).timestamp()}

        return self._restored(await self._steps.ask(step_id, recorded))

    def _restored(self, output: dict[str, Any]) -> dict[str, Any]:
        if steps.KEY not in output:
            return output  # the server called a model
        found = steps.restored(output)
        self._time = max(self._time, datetime.fromtimestamp(found["at"], UTC))
        steps.raise_recorded(found)
        return found

    async def parallel(self, calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T | Exception]:
        """Run all calls through the SDK's group to their end; errors are values."""
        with self._live.group():
            branches = tuple(partial(result_or_error, call) for call in calls)
            outcomes = list(await self._group.parallel(branches))
        if len(outcomes) < len(calls):
            self._memory.raise_failure()
            await self._leave_group()
        return outcomes

    async def with_checks(
        self, call: Callable[[], Awaitable[T]], checks: Sequence[Callable[[], Awaitable[Any]]]
    ) -> list[Any]:
        """Run all through the SDK's group; the call is not cancelled, since no step can be."""
        return await self.parallel([call, *checks])

    async def _leave_group(self) -> None:
        """End this branch: the request is for a step outside of the group that has just ended.

        The SDK's group (0.5.19) then returns the results of completed branches only, and the code
        after it would continue without the others. Requesting a step that this request is not for
        ends the branch, as the SDK itself ends branches.
        """

        async def never() -> None:
            raise RuntimeError("the Inngest SDK left a group without its results")

        self._skips += 1
        await self.ctx.step.run(f"agentkit.left-group.{self._skips}", never)

    def published_by_next_step(self, follows: bool, /) -> AbstractContextManager[None]:  # noqa: FBT001 - the port
        """Hold the block's chunks until a step's handler is called, if a step follows."""
        return self._live.hold() if follows else nullcontext()

    async def ask(
        self,
        step_id: str,
        request: ApprovalRequest,
        opening: Callable[[], Awaitable[None]] | None = None,
    ) -> ApprovalAnswer | None:
        """Wait for the event `APPROVAL_EVENT` whose ``data.approvalId`` is the question's id.

        Where the event that began the run has ``data.answerableBy``, the answer's
        ``data.answeredBy`` must be the same. The question is made known in a step of the group that
        also waits: the server begins the wait first, so that no answer comes too early.
        """
        wanted = f"async.data.approvalId == '{request.id}'"
        if "answerableBy" in self.ctx.event.data:
            wanted += " && async.data.answeredBy == event.data.answerableBy"
        wait = partial(
            self.step.wait_for_event,
            step_id,
            event=APPROVAL_EVENT,
            if_exp=wanted,
            timeout=timedelta(seconds=request.timeout),
        )
        if opening is None:
            event = await wait()
        else:
            event, _ = await self._while_waiting(wait, f"{step_id}.asked", opening)
        if event is None:
            return None
        if event.data.get("approvalId") != request.id:
            problem = f"The answer that step {step_id!r} remembers is about other calls."
            raise self._memory.guard.stop(problem, step_id)
        return ApprovalAnswer.from_dict(event.data)

    async def publish(self, chunk: dict[str, Any]) -> None:
        """Publish a chunk, unless a replay repeats it."""
        await self._live.publish(chunk, inside=inside_step() is not None)

    def publisher(self, send: Publisher[T], /) -> Publisher[T]:
        """Return ``send`` so that a replay drops repeated chunks and events."""

        async def publish(item: T) -> None:
            await self._live.publish(item, inside=inside_step() is not None, send=send)

        return publish

    def publish_with(self, send: Publish) -> None:
        """Send the chunks of this execution with ``send``."""
        self._live.publish_with(send)

    @property
    def carried(self) -> Mapping[str, Any]:
        """The data of the event."""
        return self.ctx.event.data

    @property
    def recorded_time(self) -> datetime:
        """The time of the event, or of the last step that recorded its time."""
        return self._time

    @property
    def is_new(self) -> bool:
        """True if no remembered step is left."""
        return self._live.is_new

    def when_new(self, call: Callable[[], None]) -> None:
        """Make the call when a step's handler is called, or when no remembered step is left."""
        self._live.when_new(call)

    async def try_again(self, seconds: float, error: Exception) -> None:
        """Let the server try the step again, or this process after the function's last attempt."""
        if not self._has_more:
            await self._local.try_again(seconds, error)
            return
        raise RetryAfterError(f"{type(error).__name__}: {error}", seconds) from error

    async def wait_for_signal(
        self, step_id: str, key: str, enter: Callable[[], Awaitable[bool]], seconds: float
    ) -> bool | None:
        """Wait for `SIGNAL_EVENT` without using further steps.

        The server begins the wait before ``enter`` is called, which is in the same group.
        """

        async def entered() -> bool:
            found = await enter()
            if found:
                await self.signal(key)  # which ends the wait
            return found

        wait = partial(
            self.step.wait_for_event,
            f"{step_id}.signal",
            event=SIGNAL_EVENT,
            if_exp=f"async.data.key == '{key}'",
            timeout=timedelta(seconds=max(1, ceil(seconds))),
        )
        event, found = await self._while_waiting(wait, f"{step_id}.line", entered)
        return found or (None if event is None else False)

    async def _while_waiting(
        self,
        wait: Callable[[], Awaitable[Any]],
        step_id: str,
        handler: Callable[[], Awaitable[Any]],
    ) -> tuple[Any, Any]:
        """Wait for an event, and run a step after the wait has begun; return both outputs."""
        outcomes = await self.parallel([wait, partial(self.step.run, step_id, handler)])
        errors = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        if errors:
            raise errors[0]
        return outcomes[0], outcomes[1]

    async def signal(self, key: str) -> None:
        """Send `SIGNAL_EVENT`, and wake runs in this process."""
        if self._client is None:
            await self._local.signal(key)
        else:
            await send_signal(self._client, key)

    def is_final(self, error: BaseException) -> bool:
        """Return whether Inngest will not try again: a final error, or the last attempt."""
        if not isinstance(error, Exception):
            return False  # the worker stops, and the server will ask another worker
        raised = self.to_caller_error(self._memory.guard.refused or error)
        if isinstance(raised, inngest.NonRetriableError | inngest.StepError):
            return True
        return not self._has_more

    @property
    def _has_more(self) -> bool:
        """True if the server tries again after this attempt."""
        return self.attempt + 1 < self._attempts

    def _is_tried_again(self, error: Exception) -> bool:
        """Return whether another worker may have the code or the store that the run needs.

        A run that has begun has found its thread; where it is not found any more, a deploy may have
        moved the store.
        """
        if isinstance(error, ThreadNotFoundError):
            return bool(self._memory.remembered.steps) and not (error.acted or self.repeats(error))
        return isinstance(error, ReplayError) and error.tried_again

    def check(self, result: inngest.TransformOutputResult) -> None:
        """Check the answer to a request: a new step, or the function's output or error.

        Raises:
            Exception: The guard refuses it.
        """
        try:
            if type(result.error).__name__ == "StepUnexpectedError":  # the SDK does not export it
                problem = (
                    f"The server requested a step that this code does not have: {result.error}."
                )
                raise self._memory.guard.stop(problem)
            if result.step is not None:
                self._memory.guard.check_new(result.step.id)
            elif result.error is None or self._memory.guard.refused is not None:
                self._memory.check_end()
        except ReplayError as error:
            raise self.to_caller_error(error) from error

    def repeats(self, error: Exception) -> bool:
        """Return whether ``error`` comes from a completed step."""
        return isinstance(error, inngest.StepError) or isinstance(
            error.__cause__, inngest.StepError
        )

    def to_caller_error(self, error: Exception) -> Exception:
        """Return the SDK's error for ``error``; an error that a replay repeats is not retried."""
        if isinstance(error, inngest.StepError) or self._is_tried_again(error):
            return error
        if isinstance(error, _NEVER_RETRIED) or self.repeats(error):
            name = type(error).__name__  # the SDK says the name of its own error before the text
            return inngest.NonRetriableError(
                str(error) if name == "NonRetriableError" else f"{name}: {error}"
            )
        return steps.to_sdk_error(error)


async def _changing(
    handler: Callable[[], Awaitable[T]], changes: Recordable, codec: Codec[T] | None
) -> dict[str, Any]:
    """Run a callback; return its result and changes as a step's output."""
    before = changes.begin()
    value = await handler()
    with steps.acting():
        return {**to_output(value, codec), "changes": changes.record(before)}


_NEVER_RETRIED = (NonRetriableError, ModelError, *steps.NEVER_RETRIED)


_ATTRIBUTE = "agentkit_runtime"


def runtime_of(ctx: inngest.Context, **options: Any) -> InngestRuntime:
    """Return the runtime of this execution of a function: all its runs share step ids.

    The context holds it. With options a new runtime is made, as middleware does before the
    function's code begins.
    """
    found = getattr(ctx, _ATTRIBUTE, None)
    if found is None or options:
        found = InngestRuntime(ctx, **options)
        setattr(ctx, _ATTRIBUTE, found)
    return found


runtime_of_context.register(runtime_of)


def patched(name: str) -> bool:
    """Return whether the current run takes the new code: True, unless it has already passed here.

    A run that passed here before the patch was deployed takes the old code to its end. All other
    runs take the new code, and record that in a step. Needs `AgentKitMiddleware`.

    Example:
        ::

            if patched("ask-fraud-first"):
                return fraud

    Args:
        name: A name of the change, used in this place only.
    """
    runtime = choose_runtime()
    return runtime.patched(name) if isinstance(runtime, InngestRuntime) else True


@undurable_refusal.register
def refuse_undurable() -> None:
    """Refuse a run inside a function whose client lacks our middleware.

    Raises:
        ConfigurationError: The code runs in an async function.
    """
    try:
        step = experimental.get_step_context()
    except LookupError:  # in no function
        return
    if isinstance(step, inngest.Step):
        raise ConfigurationError(
            "This run is in an Inngest function whose client has no AgentKitMiddleware, so that "
            "all of it would be repeated with each step of the function. Give the client "
            "middleware=[AgentKitMiddleware], or pass ctx=ctx to run(). A run that is all inside "
            "a ctx.step.run of yours is passed runtime=DirectRuntime()."
        )
