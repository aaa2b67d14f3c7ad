"""Model calls: a request, the alternatives where it fails, and the pieces of the reply."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from agentkit_py._engine.agent_spec import Turn
from agentkit_py._engine.instrumentation import Monitor
from agentkit_py._engine.model_input import ModelInput, ModelInputBuilder
from agentkit_py._engine.reasoning import bound_reply, can_heal, fallback_entry
from agentkit_py._engine.written_replies import WrittenReply
from agentkit_py.errors import BadRequestError, ContextOverflowError, ModelError
from agentkit_py.events.types import ContextBuilt, ModelFailedOver, OutputDelta, ReplyDelta
from agentkit_py.messages import Delta, ReasoningDelta
from agentkit_py.models.base import Model, ModelReply
from agentkit_py.models.fallback import FallbackModel
from agentkit_py.processors.report import ReportEntry
from agentkit_py.results import NO_VALUE, AgentResult, replied
from agentkit_py.runtime.asking import first_answer, read_reply, say_failover

if TYPE_CHECKING:
    from agentkit_py.output.schema import PartialOutput


class ModelAnswer(NamedTuple):
    """The reply of a model call, and the request that it answers."""

    model: Model | None
    """None: a deploy has exchanged it, so its reasoning belongs to no model that is called now."""

    input: ModelInput
    body: object
    """The reply as the provider sent it."""

    reply: ModelReply

    def result(self, agent: str, created_at: datetime, result_id: str) -> AgentResult:
        """Return the reply as a result of an agent, its reasoning bound to the request.

        Args:
            agent: The agent's name.
            created_at: The time of the call.
            result_id: The result's id.
        """
        model, sent = self.model, self.input
        output = [replied(message, agent) for message in self.reply.messages]
        if model is not None:
            output = bound_reply(model, sent.request, output, healed=sent.healed)
        return AgentResult(
            agent,
            tuple(output),
            (),
            created_at,
            sent.report.prompt,
            sent.history,
            reply=self.body,
            id=result_id,
            usage=self.reply.usage,
            finish=self.reply.finish,
            context=sent.report,
        )


CallModel: TypeAlias = Callable[[], Awaitable[ModelAnswer]]
"""Makes a model call."""


def model_caller(
    builder: ModelInputBuilder,
    model_input: ModelInput,
    *,
    streams: bool,
    hides_reasoning: bool = False,
    written: WrittenReply | None = None,
) -> CallModel:
    """Return the call of an agent's model, or of its alternatives in sequence.

    Args:
        builder: Builds the inputs of alternatives, and smaller ones.
        model_input: The input.
        streams: Emit the reply piece by piece,
        hides_reasoning: but not its reasoning.
        written: Collects the reply as it is streamed; None: it is not streamed, or not kept.
    """
    step_id = f"{builder.path}.infer"
    request = _Request(builder, model_input, step_id, streams, hides_reasoning, written)
    if isinstance(builder.turn.model, FallbackModel):
        return partial(_call_alternatives, request)
    return request.call


async def emit_context(builder: ModelInputBuilder, model_input: ModelInput) -> None:
    """Emit the report of an input that is about to be sent."""
    await builder.run.monitor.emit(ContextBuilt(**builder.turn.facts, report=model_input.report))


async def _call_alternatives(request: _Request) -> ModelAnswer:
    """Call the model's alternatives in order until a call succeeds."""
    builder, report, failures = request.builder, request.input.report, list[ReportEntry]()
    model, run = builder.turn.model, builder.run

    async def call(alternative: Model, suffix: str) -> ModelAnswer:
        own = replace(request, step_id=f"{request.step_id}{suffix}")
        if alternative is not model:
            other_builder, other_input = builder.for_model(request.input, alternative, failures)
            own = replace(own, builder=other_builder, input=other_input)
        return await own.call()

    async def failed(following: Model, error: ModelError) -> None:
        failures.append(fallback_entry(report, following, error))
        message = "Agent %r: %s; %s model %r is asked instead"
        say_failover(message, following, error, builder.agent.name)
        if run.monitor.is_active:
            named = f"{following.provider}:{following.model}"
            event = ModelFailedOver(**builder.turn.facts, error=error, model=named)
            await run.monitor.emit(event)

    return await first_answer(model, call, run.runtime, request.step_id, failed)


@dataclass(frozen=True, slots=True)
class _Request:
    """A request to a single model."""

    builder: ModelInputBuilder
    input: ModelInput
    step_id: str
    streams: bool
    hides_reasoning: bool
    written: WrittenReply | None

    async def call(self) -> ModelAnswer:
        """Send the request, a second time with less where the provider refuses it."""
        request, refusal, body = self, None, None
        try:
            body = await request.send()
        except BadRequestError as error:
            refusal = error
        if refusal is not None:
            request = await self._smaller(refusal)
            await emit_context(request.builder, request.input)
            body = await request.send()
        run, model = self.builder.run, self.builder.turn.model
        read_as, reply = read_reply(model, body, run.runtime, self.step_id, run.spending.meter.read)
        return ModelAnswer(model if read_as is model else None, request.input, body, reply)

    def send(self) -> Awaitable[object]:
        """Return the request to await, watched if anything watches the run."""
        run, model = self.builder.run, self.builder.turn.model
        model_of_request = model.for_request(self.input.request)
        request = self.input.request
        # HTTP bodies are not copied, since no other code sees them.
        encode = partial(model.adapter.encode, model)
        if model.answers:
            encode = model.encode
            request = replace(request, call_id=run.runtime.new_id(f"{self.step_id}/call"))
        make_body = partial(encode, request)
        if run.monitor.is_active:
            return self._send_watched(model_of_request, make_body)
        return run.runtime.infer(self.step_id, model_of_request, make_body)

    async def _send_watched(self, model: Model, make_body: Callable[[], dict[str, Any]]) -> object:
        run, call = self.builder.run, self.builder.model_call(self.step_id, self.input)
        on_delta = None
        if self.streams:
            if self.written is not None:
                self.written.begin()
            turn = self.builder.turn
            on_delta = ReplyDeltas(run.monitor, turn, self.hides_reasoning, self.written)

        def watched() -> dict[str, Any]:
            run.monitor.request_sent(call)  # here, since a replay makes no body
            return make_body()

        with run.monitor.model_call(call):
            return await run.runtime.infer(self.step_id, model, watched, on_delta)

    async def _smaller(self, refusal: BadRequestError) -> _Request:
        """Return a request with less, which the provider may take.

        Raises:
            BadRequestError: The refusal, where nothing can be left out.
        """
        builder, refused = self.builder, self.input
        if can_heal(refusal, refused.request):
            unsigned = builder.build_unsigned(refused)
            return replace(self, input=unsigned, step_id=f"{self.step_id}.unsigned")
        if builder.run.choices.mode == "typescript" or not isinstance(
            refusal, ContextOverflowError
        ):
            raise refusal
        shorter = await builder.build_shorter(refused)
        if shorter.request.messages == refused.request.messages:
            raise refusal
        return replace(self, input=shorter, step_id=f"{self.step_id}.shorter")


@dataclass(frozen=True, slots=True)
class ReplyDeltas:
    """Emits the pieces of a reply, and the output as it grows."""

    monitor: Monitor
    turn: Turn
    hides_reasoning: bool
    written: WrittenReply | None = None
    output: PartialOutput | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Begin to read the output, if any."""
        if self.turn.output is not None:
            from agentkit_py.output.schema import PartialOutput  # noqa: PLC0415 - loads pydantic

            object.__setattr__(self, "output", PartialOutput(self.turn.output))

    def _hides(self, delta: Delta) -> bool:
        return self.hides_reasoning and isinstance(delta, ReasoningDelta)

    async def __call__(self, delta: Delta, /) -> None:
        if self._hides(delta):
            return
        if self.written is not None:
            self.written.add(delta)  # before it is shown, so that no text is seen and lost
        await self.monitor.emit(ReplyDelta(**self.turn.facts, delta=delta))
        grown = None if self.output is None else self.output.feed(delta)
        if grown is not None:
            event = OutputDelta(
                **self.turn.facts,
                json=grown.json,
                output=None if grown.value is NO_VALUE else grown.value,
            )
            await self.monitor.emit(event)

    async def skip(self, delta: Delta, count: int, /) -> None:
        if self._hides(delta):
            return
        await self.monitor.skip(ReplyDelta(**self.turn.facts, delta=delta), count)

    def noting(self) -> AbstractAsyncContextManager[None]:
        written = self.written
        return nullcontext() if written is None or written.notes is None else written.noting()
