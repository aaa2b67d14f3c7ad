"""InngestRuntime: everything that touches the world happens in steps of an Inngest function.

The function runs again from the top for each new step, so nothing here may differ between two
runs: ids are computed from the run's id, times come from the event and from steps' outputs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar, cast

import inngest

from agentkit_py.errors import ModelError, ModelHTTPError, NonRetriableError
from agentkit_py.events.approvals import APPROVAL_EVENT, ApprovalAnswer, ApprovalRequest
from agentkit_py.inngest import outputs
from agentkit_py.inngest.bridge import (
    Bridge,
    error_of_step,
    failure_from_json,
    failure_to_json,
)
from agentkit_py.inngest.ids import uuid5
from agentkit_py.inngest.live import LivePublisher, Publish
from agentkit_py.inngest.sdk import Memos, max_attempts
from agentkit_py.inngest.steps import GuardedSteps, Ledger, inside, inside_step, scoped, within
from agentkit_py.inngest.tape import Tape
from agentkit_py.models.base import Model, RetryPolicy
from agentkit_py.runtime.direct import DirectRuntime, shared_runtime
from agentkit_py.runtime.port import Codec, DeltaSink, Recordable
from agentkit_py.runtime.watch import take_watch

T = TypeVar("T")

Inference: TypeAlias = Literal["offload", "local"]
"""Who calls the model: the Inngest server (``step.ai.infer``), or this process inside a step."""

_ONCE = RetryPolicy(attempts=1)


class InngestRuntime:
    """The runtime of agents inside an Inngest function.

    Args:
        ctx: The function's context.
        inference: Who calls the model.
        publish: Sends streaming chunks; see `agentkit_py.inngest.realtime`.
        local: What sends requests with ``inference="local"``, and knows the API keys.
    """

    durable = True

    def __init__(
        self,
        ctx: inngest.Context,
        *,
        inference: Inference = "offload",
        publish: Publish | None = None,
        local: DirectRuntime | None = None,
    ) -> None:
        """Keep the context; nothing happens yet."""
        self.ctx = ctx
        self._inference = inference
        self._local = local or shared_runtime()
        self._memos = Memos(ctx)
        self._live = LivePublisher(publish, self._memos)
        self._ledger = Ledger(self._live, self._memos)
        self._steps = GuardedSteps(ctx.step, self._ledger)
        self._claims: dict[str, int] = {}
        self._skips = 0
        self._time = datetime.fromtimestamp((ctx.event.ts or 0) / 1000, UTC)

    @property
    def step(self) -> GuardedSteps:
        """The steps that tools with ``steps=True`` and processors may use."""
        return self._steps

    def within(self, step_id: str) -> AbstractContextManager[None]:
        """Steps and runs that begin inside the block carry ``step_id`` in their ids."""
        return within(step_id)

    def claim(self, name: str) -> str:
        """``name``, ``name:2``, …: no two runs in this function share step ids."""
        name = scoped(name, "/")
        count = self._claims[name] = self._claims.get(name, 0) + 1
        return name if count == 1 else f"{name}:{count}"

    def new_id(self, key: str) -> str:
        """A UUID computed from the run's id and ``key``."""
        return uuid5(f"inngest:{self.ctx.run_id}/{key}")

    def remembers(self, step_id: str) -> bool:
        """Whether an earlier execution has done the step."""
        return self._memos.knows(step_id)

    def now(self, key: str) -> datetime:  # noqa: ARG002
        """The latest time that a step has recorded; later for each call, so that order is kept."""
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
        tape = Tape(on_delta) if on_delta is not None else None
        found = self._remembered(step_id)
        if found is None:
            try:
                found = await self._run(
                    step_id, partial(self._ask, step_id, model, make_body, tape)
                )
            except inngest.StepError as error:
                raise error_of_step(model, error) from error
        if tape is not None:
            await tape.replay(found.get("deltas", []))
        if "failed" in found:
            failed = found["failed"]
            raise failure_from_json(model, failed) from outputs.step_error(failed)
        return found["reply"]

    async def _infer_there(
        self, step_id: str, model: Model, make_body: Callable[[], dict[str, Any]]
    ) -> object:
        watch = take_watch()
        body: object = self._ledger.recall(step_id)
        if body is None:
            await self._ledger.enter(step_id)
            bridge = Bridge(model, self._local.api_key(model) or "")
            # The SDK wants a body even where it only repeats the answer.
            asked = {} if self.remembers(step_id) else make_body()
            try:
                body = await self.ctx.step.ai.infer(step_id, adapter=bridge, body=asked)
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
        tape: Tape | None,
    ) -> dict[str, Any]:
        """Ask it here; what the step keeps of the answer."""
        deltas = tape.runs if tape is not None else []
        try:
            body = await self._local.infer(step_id, _without_retries(model), make_body, tape)
        except ModelError as error:
            if isinstance(error, ModelHTTPError) and error.retriable and error.retry_after:
                wait = timedelta(seconds=error.retry_after)
                raise inngest.RetryAfterError(str(error), wait) from error
            if error.retriable:
                raise
            return {"failed": failure_to_json(error), "deltas": deltas}
        return {"reply": body, "deltas": deltas}

    async def effect(
        self,
        step_id: str,
        handler: Callable[[], Awaitable[T]],
        changes: Recordable,
        codec: Codec[T] | None = None,
    ) -> T:
        """Run a callback in a step; its result and what it changed are the step's output."""
        found = self._remembered(step_id)
        if found is None:
            found = await self._run(step_id, partial(_changing, handler, changes, codec))
        changes.replay(found["changes"])
        if "cursor" in found:
            assert codec is not None
            return codec.resume(await handler(), found["cursor"])
        value = found["value"]
        return codec.load(value) if codec is not None else cast("T", value)

    def recall(self, step_id: str, changes: Recordable) -> Any:
        """The result of a callback that ran before, and what it changed."""
        found = self._remembered(step_id)
        if found is None:
            return None
        changes.replay(found["changes"])
        return found["value"]

    def _remembered(self, step_id: str) -> dict[str, Any] | None:
        """The output of a step of `_run` that was done before; None: `_run` it."""
        found = self._ledger.recall(step_id)
        return None if found is None else self._read(found)

    async def _run(
        self, step_id: str, handler: Callable[[], Awaitable[dict[str, Any]]]
    ) -> dict[str, Any]:
        """A step whose output says when it ran, and what must not be tried again."""
        await self._ledger.enter(step_id)

        async def recorded() -> dict[str, Any]:
            with inside(step_id):
                try:
                    output = outputs.check_output(step_id, await handler())
                except Exception as error:
                    if not outputs.is_final(error):
                        raise self._ledger.failed(outputs.sdk_error(error)) from error
                    output = outputs.check_output(step_id, outputs.recorded(error))
            return {**output, "at": datetime.now(UTC).timestamp()}

        return self._read(await self.ctx.step.run(step_id, recorded))

    def _read(self, found: dict[str, Any]) -> dict[str, Any]:
        """What a step recorded, and when it did.

        Raises:
            AgentKitError: What it recorded is an error.
        """
        at = datetime.fromtimestamp(found["at"], UTC)
        self._time = max(self._time, at)
        if "raised" in found:
            raised = found["raised"]
            raise outputs.restored(raised) from outputs.step_error(raised)
        return found

    async def parallel(self, calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T | Exception]:
        """Run all through the SDK's group; errors are values: none abandons its siblings."""

        async def settle(call: Callable[[], Awaitable[T]]) -> T | Exception:
            try:
                return await call()
            except Exception as error:  # noqa: BLE001 - errors are values here
                return error

        with self._live.group():
            branches = tuple(partial(settle, call) for call in calls)
            outcomes = list(await self.ctx.group.parallel(branches))
        if len(outcomes) < len(calls):
            self._ledger.raise_failure()
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
        """Publish a chunk unless it belongs to what a replay only repeats."""
        await self._live.publish(chunk, inside=inside_step() is not None)

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
        """Whether no remembered step is left."""
        return self._live.is_new

    def when_new(self, tell: Callable[[], None]) -> None:
        """Call ``tell`` once a step is asked for that was not done before, or none is left."""
        self._live.tell(tell)

    def is_final(self, error: BaseException) -> bool:
        """Whether Inngest will not try again: never-retried errors, or the last attempt."""
        if not isinstance(error, Exception):
            return False  # the worker is stopped, and the server will ask another
        outward = self.outward(error)
        if isinstance(outward, inngest.NonRetriableError | inngest.StepError):
            return True
        return self.ctx.attempt + 1 >= max_attempts(self.ctx)

    def repeats(self, error: Exception) -> bool:
        """Whether ``error`` comes from a step that is done."""
        return isinstance(error, inngest.StepError) or isinstance(
            error.__cause__, inngest.StepError
        )

    def outward(self, error: Exception) -> Exception:
        """``error`` in the SDK's words: what a replay would only repeat is never retried."""
        if isinstance(error, inngest.StepError):
            return error
        if isinstance(error, _NEVER_RETRIED) or self.repeats(error):
            return inngest.NonRetriableError(f"{type(error).__name__}: {error}")
        return outputs.sdk_error(error)


async def _changing(
    handler: Callable[[], Awaitable[T]], changes: Recordable, codec: Codec[T] | None
) -> dict[str, Any]:
    """What a step keeps of a callback's result, and of what it changed."""
    before = changes.begin()
    value = await handler()
    return {**outputs.kept(value, codec), "changes": changes.record(before)}


_NEVER_RETRIED = (NonRetriableError, ModelError, *outputs.NEVER_RETRIED)


def _without_retries(model: Model) -> Model:
    """The model without retries of its own: Inngest tries the step again."""
    known: dict[str, Any] = {field.name: getattr(model, field.name) for field in fields(Model)}
    known["retry"] = _ONCE
    return Model(**known)


_ATTRIBUTE = "agentkit_runtime"


def runtime_of(ctx: inngest.Context, **options: Any) -> InngestRuntime:
    """The one runtime of this execution of a function: all its runs share step counters.

    It is kept on the context, and so lives as long as that. With options it is made anew, as
    middleware does before the function's code begins.
    """
    found = getattr(ctx, _ATTRIBUTE, None)
    if found is None or options:
        found = InngestRuntime(ctx, **options)
        setattr(ctx, _ATTRIBUTE, found)
    return found
