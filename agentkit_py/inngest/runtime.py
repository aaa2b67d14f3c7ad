"""InngestRuntime: everything that touches the world happens in steps of an Inngest function.

The function runs again from the top for each new step, so nothing here may differ between two
runs: ids are computed from the run's id, times come from the event and from steps' outputs.
"""

from __future__ import annotations

import logging
import uuid
import weakref
from collections.abc import Awaitable, Callable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

import inngest

from agentkit_py._core.json import dumps
from agentkit_py.errors import (
    AgentKitError,
    ConfigurationError,
    ModelError,
    ModelHTTPError,
    NonRetriableError,
    RetryAfterError,
    StateError,
    passes_through,
)
from agentkit_py.events.approvals import APPROVAL_EVENT, ApprovalAnswer, ApprovalRequest
from agentkit_py.inngest.bridge import (
    Bridge,
    error_of_step,
    failure_from_json,
    failure_to_json,
)
from agentkit_py.inngest.live import LivePublisher, Publish
from agentkit_py.inngest.steps import GuardedSteps, inside_step
from agentkit_py.messages import Delta, ReasoningDelta, TextDelta, ToolCallDelta
from agentkit_py.models.base import Model, RetryPolicy
from agentkit_py.runtime.direct import DirectRuntime, shared_runtime
from agentkit_py.runtime.port import Codec, DeltaSink, Recordable

if TYPE_CHECKING:
    from collections.abc import Generator

T = TypeVar("T")
logger = logging.getLogger("agentkit_py.inngest")

Inference: TypeAlias = Literal["offload", "local"]
"""Who calls the model: the Inngest server (``step.ai.infer``), or this process inside a step."""

MAX_OUTPUT = 4 * 1024 * 1024
"""Bytes of one step's output at the most (inngest/pkg/consts)."""

MAX_STEPS = 1000
"""Steps of one run at the most (inngest/pkg/consts)."""

MAX_INLINE = 256 * 1024
"""Bytes of a loaded thread that are kept in a step's output; longer ones are read again."""

_WARN_AT = 0.8
_ONCE = RetryPolicy(attempts=1)
_DEFAULT_ATTEMPTS = 5


class InngestRuntime:
    """The runtime of agents inside an Inngest function.

    Args:
        ctx: The function's context.
        inference: Who calls the model.
        publish: Sends streaming chunks; see `agentkit_py.inngest.realtime`.
        local: What sends requests with ``inference="local"``, and knows the API keys.
        remaining: How many remembered steps have not been asked for yet (from the middleware).
    """

    durable = True

    def __init__(
        self,
        ctx: inngest.Context,
        *,
        inference: Inference = "offload",
        publish: Publish | None = None,
        local: DirectRuntime | None = None,
        remaining: Callable[[], int] | None = None,
    ) -> None:
        """Keep the context; nothing happens yet."""
        self.ctx = ctx
        self._inference = inference
        self._local = local or shared_runtime()
        self._steps = GuardedSteps(ctx.step, self._count)
        self._claims: dict[str, int] = {}
        self._ids: set[str] = set()
        self._time = datetime.fromtimestamp((ctx.event.ts or 0) / 1000, UTC)
        self._live = LivePublisher(publish, remaining)

    @property
    def step(self) -> GuardedSteps:
        """The steps that tools with ``steps=True`` and hooks may use."""
        return self._steps

    def claim(self, name: str) -> str:
        """``name``, ``name:2``, …: no two runs in this function share step ids."""
        count = self._claims[name] = self._claims.get(name, 0) + 1
        return name if count == 1 else f"{name}:{count}"

    def new_id(self, key: str) -> str:
        """A UUID computed from the run's id and ``key``."""
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"inngest:{self.ctx.run_id}/{key}"))

    def now(self, key: str) -> datetime:  # noqa: ARG002
        """The latest time that a step has recorded; later for each call, so that order is kept."""
        self._time += timedelta(microseconds=1)
        return self._time

    def _count(self, step_id: str) -> None:
        if step_id in self._ids:
            raise ConfigurationError(
                f"Two steps of this function are called {step_id!r}. Inngest would number them by "
                "the order in which they come, which a replay may change; name them differently."
            )
        self._ids.add(step_id)
        if len(self._ids) > MAX_STEPS:
            raise ConfigurationError(
                f"This function has more than {MAX_STEPS} steps, Inngest's limit for one run. Let "
                " the network end earlier (max_iter, RunLimits) and go on in another run."
            )
        if len(self._ids) == int(MAX_STEPS * _WARN_AT):
            logger.warning("This function has %d of %d possible steps", len(self._ids), MAX_STEPS)

    async def infer(
        self,
        step_id: str,
        model: Model,
        make_body: Callable[[], dict[str, Any]],
        on_delta: DeltaSink | None = None,
    ) -> object:
        """Ask the model in a step: by the Inngest server, or here."""
        if self._inference == "local" or model.respond is not None:
            return await self._infer_here(step_id, model, make_body, on_delta)
        self._count(step_id)
        bridge = Bridge(model, self._local.api_key(model) or "")
        try:
            body = await self.ctx.step.ai.infer(step_id, adapter=bridge, body=make_body())
        except inngest.StepError as error:
            raise error_of_step(model, error) from error
        self._live.remembered()
        return body

    async def _infer_here(
        self,
        step_id: str,
        model: Model,
        make_body: Callable[[], dict[str, Any]],
        on_delta: DeltaSink | None,
    ) -> object:
        tape = _Tape(on_delta)

        async def ask() -> dict[str, Any]:
            try:
                sink = tape if on_delta is not None else None
                body = await self._local.infer(step_id, _without_retries(model), make_body, sink)
            except ModelError as error:
                if isinstance(error, ModelHTTPError) and error.retriable and error.retry_after:
                    wait = timedelta(seconds=error.retry_after)
                    raise inngest.RetryAfterError(str(error), wait) from error
                if error.retriable:
                    raise
                return {"failed": failure_to_json(error)}
            return {"reply": body, "deltas": tape.runs}

        try:
            found = await self._run(step_id, ask)
        except inngest.StepError as error:
            raise error_of_step(model, error) from error
        if "failed" in found:
            raise failure_from_json(model, found["failed"])
        if on_delta is not None:
            await tape.replay(found["deltas"])
        return found["reply"]

    async def effect(
        self,
        step_id: str,
        handler: Callable[[], Awaitable[T]],
        changes: Recordable,
        codec: Codec[T] | None = None,
    ) -> T:
        """Run a callback in a step; its result and what it changed are the step's output."""

        async def call() -> dict[str, Any]:
            before = changes.begin()
            value = await handler()
            kept = _keep(value, codec)
            return {**kept, "changes": changes.record(before)}

        found = await self._run(step_id, call)
        changes.replay(found["changes"])
        if "cursor" in found:
            assert codec is not None
            return codec.resume(await handler(), found["cursor"])
        value = found["value"]
        return codec.load(value) if codec is not None else cast("T", value)

    async def _run(
        self, step_id: str, handler: Callable[[], Awaitable[dict[str, Any]]]
    ) -> dict[str, Any]:
        """A step whose output says when it ran, and what must not be tried again."""
        self._count(step_id)

        async def recorded() -> dict[str, Any]:
            await self._live.flush()
            with _inside(step_id):
                try:
                    output = await handler()
                    _check_size(step_id, output)
                except Exception as error:
                    raised = _raised(error)
                    if raised is None:
                        raise
                    output = {"raised": raised}
            return {**output, "at": datetime.now(UTC).timestamp()}

        found = await self.ctx.step.run(step_id, recorded)
        self._live.remembered()
        self._time = max(self._time, datetime.fromtimestamp(found["at"], UTC))
        if "raised" in found:
            raise _restored(found["raised"])
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
            return list(await self.ctx.group.parallel(branches))

    async def ask(self, step_id: str, request: ApprovalRequest) -> ApprovalAnswer | None:
        """Wait for the event `APPROVAL_EVENT` whose ``data.approvalId`` is the question's id."""
        event = await self._steps.wait_for_event(
            step_id,
            event=APPROVAL_EVENT,
            if_exp=f"async.data.approvalId == '{request.id}'",
            timeout=timedelta(seconds=request.timeout),
        )
        self._live.remembered()
        return None if event is None else ApprovalAnswer.from_dict(event.data)

    async def publish(self, chunk: dict[str, Any]) -> None:
        """Publish a chunk unless it belongs to what a replay only repeats."""
        await self._live.publish(chunk)

    def publish_with(self, send: Publish) -> None:
        """Send the chunks of this execution with ``send``."""
        self._live.send = send

    def is_final(self, error: Exception) -> bool:
        """Whether Inngest will not try again: never-retried errors, or the last attempt."""
        outward = self.outward(error)
        if isinstance(outward, inngest.NonRetriableError | inngest.StepError):
            return True
        return self.ctx.attempt + 1 >= max_attempts(self.ctx)

    def outward(self, error: Exception) -> Exception:
        """``error`` in the SDK's words: what a replay would only repeat is never retried."""
        if isinstance(error, RetryAfterError):
            wait = timedelta(seconds=error.retry_after)
            return inngest.RetryAfterError(str(error), wait)
        if isinstance(error, _NEVER_RETRIED) or isinstance(error.__cause__, inngest.StepError):
            return inngest.NonRetriableError(f"{type(error).__name__}: {error}")
        return error


_NEVER_RETRIED = (NonRetriableError, ConfigurationError, StateError, ModelError)


def max_attempts(ctx: inngest.Context) -> int:
    """How often the server tries; the SDK knows but does not say, so this looks inside it."""
    execution = getattr(ctx.step, "_execution", None)
    request = getattr(execution, "_request", None)
    found = getattr(getattr(request, "ctx", None), "max_attempts", None)
    return found if isinstance(found, int) else _DEFAULT_ATTEMPTS


@contextmanager
def _inside(step_id: str) -> Generator[None]:
    token = inside_step.set(step_id)
    try:
        yield
    finally:
        inside_step.reset(token)


def _without_retries(model: Model) -> Model:
    return replace(model, retry=_ONCE)


def _keep(value: T, codec: Codec[T] | None) -> dict[str, Any]:
    if codec is None:
        return {"value": value}
    dumped = codec.dump(value)
    if len(dumps(dumped).encode()) > MAX_INLINE:
        return {"cursor": codec.cursor(value)}
    return {"value": dumped}


def _check_size(step_id: str, output: dict[str, Any]) -> None:
    try:
        size = len(dumps(output).encode())
    except (TypeError, ValueError) as error:
        raise StateError(f"Step {step_id!r} gave something that is not JSON: {error}") from error
    if size > MAX_OUTPUT:
        raise StateError(
            f"Step {step_id!r} gave {size:,} bytes; Inngest keeps at most {MAX_OUTPUT:,}. Store "
            "the data yourself and return a reference."
        )
    if size > MAX_OUTPUT * _WARN_AT:
        logger.warning("Step %r gave %d of at most %d bytes", step_id, size, MAX_OUTPUT)


def _raised(error: Exception) -> dict[str, Any] | None:
    """What a step records of an error that must not make the server try it again."""
    if isinstance(error, RetryAfterError):
        raise inngest.RetryAfterError(str(error), timedelta(seconds=error.retry_after)) from error
    if isinstance(error, inngest.RetryAfterError):
        return None
    if isinstance(error, ConfigurationError | StateError) or passes_through(error):
        return {"name": type(error).__name__, "message": str(error)}
    return None


def _restored(record: dict[str, Any]) -> AgentKitError:
    kinds: dict[str, type[AgentKitError]] = {"StateError": StateError}
    return kinds.get(record["name"], NonRetriableError)(record["message"])


class _Tape:
    """Tells deltas on, and remembers how many of which kind there were."""

    def __init__(self, sink: DeltaSink | None) -> None:
        self._sink = sink
        self.runs: list[list[Any]] = []

    async def __call__(self, delta: Delta, /) -> None:
        assert self._sink is not None
        await self._sink(delta)
        head = [
            type(delta).__name__,
            delta.index,
            getattr(delta, "id", ""),
            getattr(delta, "name", ""),
        ]
        head.append(bool(delta.delta))
        if self.runs and self.runs[-1][:-1] == head:
            self.runs[-1][-1] += 1
        else:
            self.runs.append([*head, 1])

    async def skip(self, delta: Delta, count: int, /) -> None:
        assert self._sink is not None
        await self._sink.skip(delta, count)

    async def replay(self, runs: list[list[Any]]) -> None:
        assert self._sink is not None
        for kind, index, identity, name, told, count in runs:
            text = "…" if told else ""
            if kind == "ToolCallDelta":
                delta = ToolCallDelta(index, identity, name, text)
            else:
                delta = (TextDelta if kind == "TextDelta" else ReasoningDelta)(index, text)
            await self._sink.skip(delta, count)


_known: weakref.WeakKeyDictionary[inngest.Step, InngestRuntime] = weakref.WeakKeyDictionary()


def runtime_of(ctx: inngest.Context, **options: Any) -> InngestRuntime:
    """The one runtime of this execution of a function: all its runs share step counters."""
    found = _known.get(ctx.step)
    if found is None:
        found = _known[ctx.step] = InngestRuntime(ctx, **options)
    return found
