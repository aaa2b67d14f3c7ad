"""Tracing: the engine's events and calls as spans and metrics, for OpenTelemetry's providers."""

from __future__ import annotations

import time
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    contextmanager,
    nullcontext,
)
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

from opentelemetry import context as otel
from opentelemetry import metrics, propagate, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import SpanKind, TracerProvider

from agentkit_py._core.json import JsonValue, as_object
from agentkit_py._engine.instrumentation import (
    CallTool,
    Instrumentation,
    ModelCall,
    instrument_all_runs,
)
from agentkit_py.events.types import (
    Event,
    GuardrailChecked,
    ModelReplied,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
)
from agentkit_py.messages import Delta, Message, ToolCall, Usage
from agentkit_py.models.base import Model
from agentkit_py.processors.apply import Around
from agentkit_py.processors.base import HistoryProcessor, Level
from agentkit_py.processors.redaction import Redactor
from agentkit_py.runtime.port import DeltaSink, Replaying, Runtime, Send
from agentkit_py.tracing.attributes import (
    ERROR,
    OPERATION,
    Attributes,
    Words,
    exception_attributes,
    of_error,
    of_guardrail,
    of_model,
    of_reply,
    of_usage,
)
from agentkit_py.tracing.spans import (
    Instruments,
    Opened,
    OpenedAgain,
    OpenedNow,
    SpanFactory,
    parent_of,
)


@dataclass(slots=True)
class _RunSpan:
    """A network's or agent's run that has begun."""

    opened: Opened
    thread_id: str | None
    usage: Usage | None = None


@dataclass(slots=True)
class MeasuredRun(Instrumentation):
    """Makes the spans of a run, and of the runs inside it."""

    factory: SpanFactory
    runtime: Runtime
    words: Words | None
    """Writes content into spans; None: spans have no content."""

    _runs: dict[str, _RunSpan] = field(default_factory=dict[str, _RunSpan])

    def at_once(self, event: Event) -> None:
        """Begin or end the span of a run."""
        if isinstance(event, RunStarted):
            self._begin(event)
            return
        run = self._runs.get(event.run_id)
        if run is None:
            return
        if isinstance(event, ModelReplied) and event.usage is not None:
            run.usage = event.usage if run.usage is None else run.usage + event.usage
        elif isinstance(event, GuardrailChecked) and event.verdict == "tripped":
            run.opened.set(of_guardrail(event))
        elif isinstance(event, RunCompleted | RunFailed | RunInterrupted):
            self._end(run, event)

    def _begin(self, event: RunStarted) -> None:
        operation = "invoke_workflow" if event.scope == "network" else "invoke_agent"
        name = "gen_ai.workflow.name" if event.scope == "network" else "gen_ai.agent.name"
        attributes: Attributes = {
            OPERATION: operation,
            name: event.name,
            "agentkit.run.id": event.run_id,
        }
        if event.thread_id:
            attributes["gen_ai.conversation.id"] = event.thread_id
        if event.routing:
            attributes["agentkit.agent.routing"] = True
        opened = self.open(f"{operation} {event.name}", attributes, key=event.run_id)
        self._runs[event.run_id] = _RunSpan(opened, event.thread_id)

    def _end(self, run: _RunSpan, event: RunCompleted | RunFailed | RunInterrupted) -> None:
        del self._runs[event.run_id]
        attributes: Attributes = {} if run.usage is None else of_usage(run.usage)
        description = None
        if isinstance(event, RunFailed):
            attributes.update(of_error(event.error))
            description = self.describe(event.error)
        elif isinstance(event, RunInterrupted):
            attributes.update(of_error(CancelledError()))
        elif event.stop_reason:
            attributes["agentkit.stop_reason"] = event.stop_reason
        run.opened.end(attributes, description)

    def open(
        self, name: str, attributes: Attributes, *, key: str, kind: SpanKind = SpanKind.INTERNAL
    ) -> Opened:
        """Begin the span of something that may last longer than a step."""
        runtime = self.runtime
        if not isinstance(runtime, Replaying):
            return self.open_now(name, attributes, kind)
        return OpenedAgain(self.factory, name, kind, attributes, parent_of(runtime), runtime, key)

    def open_now(
        self, name: str, attributes: Attributes, kind: SpanKind = SpanKind.INTERNAL
    ) -> Opened:
        """Begin the span of something that happens here and now."""
        return OpenedNow(self.factory, name, kind, attributes, otel.get_current())

    @contextmanager
    def measuring(self, opened: Opened, *, lasting: bool = True) -> Generator[None]:
        """Make a span the current span, and end it with an error: a lasting span if final."""
        try:
            with opened.current():
                yield
        except (Exception, CancelledError) as error:
            if not lasting or self.runtime.is_final(error):
                opened.end(of_error(error), self.describe(error))
            raise

    def describe(self, error: BaseException) -> str | None:
        """Return the error's text if content may be written, since it may quote a conversation."""
        return None if self.words is None else self.words.text(str(error))

    def inside(self, run_id: str) -> AbstractContextManager[None]:
        """Make the run's span the current span."""
        run = self._runs.get(run_id)
        return nullcontext() if run is None else run.opened.current()

    def model_call(self, call: ModelCall) -> MeasuredCall:
        """Return the span of a model call, wherever the call is made."""
        model, request = call.model, call.request
        attributes: Attributes = {OPERATION: "chat", **of_model(model)}
        run = self._runs.get(call.run_id)
        if run is not None:
            which = ("gen_ai.provider.name", "gen_ai.request.model")
            run.opened.set({name: attributes[name] for name in which})
            if run.thread_id:
                attributes["gen_ai.conversation.id"] = run.thread_id
        if request.agent:
            attributes["gen_ai.agent.name"] = request.agent
        if self.words is not None:
            attributes.update(self.words.request(request))
        return MeasuredCall(self, call.step_id, model, attributes)

    def tool_call(
        self,
        step_id: str,
        call: ToolCall,
        description: str,
        handler: CallTool,
        *,
        lasting: bool,
        raised: Callable[[], Exception | None],
    ) -> CallTool:
        """The handler with a span around it."""
        attributes: Attributes = {
            OPERATION: "execute_tool",
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.type": "function",
        }
        if call.id:
            attributes["gen_ai.tool.call.id"] = call.id
        if description:
            attributes["gen_ai.tool.description"] = description
        if self.words is not None:
            attributes["gen_ai.tool.call.arguments"] = self.words.value(call.arguments)

        async def measured() -> JsonValue:
            name = f"execute_tool {call.name}"
            opened = (
                self.open(name, attributes, key=step_id)
                if lasting
                else self.open_now(name, attributes)
            )
            with self.measuring(opened, lasting=lasting):
                content = await handler()
            self._end_tool(opened, content, raised())
            return content

        return measured

    def _end_tool(self, opened: Opened, content: JsonValue, raised: Exception | None) -> None:
        error = as_object((as_object(content) or {}).get("error"))
        attributes: Attributes = {}
        description = None
        if error is not None:
            attributes[ERROR] = str(error.get("name") or "_OTHER")
        if self.words is not None:
            attributes["gen_ai.tool.call.result"] = self.words.value(content)
            description = None if error is None else self.words.text(str(error.get("message", "")))
        if raised is not None:
            opened.exception = exception_attributes(raised, self.words)
        opened.end(attributes, description)

    def processors(self, step_id: str) -> Around:
        """Puts a span around each processor of an inference."""
        number = 0

        async def around(
            processor: HistoryProcessor,
            level: Level,
            messages: Sequence[Message],
            run: Callable[[], Awaitable[tuple[Message, ...]]],
        ) -> tuple[Message, ...]:
            nonlocal number
            number += 1
            attributes: Attributes = {
                "agentkit.processor.name": processor.name,
                "agentkit.processor.level": level,
                "agentkit.processor.messages_before": len(messages),
            }
            key = f"{step_id}/processor.{number}"
            opened = self.open(f"process_history {processor.name}", attributes, key=key)
            with self.measuring(opened):
                left = await run()
            opened.end({"agentkit.processor.messages_after": len(left)})
            return left

        return around


@dataclass(slots=True)
class MeasuredCall:
    """Sees a single model call."""

    run: MeasuredRun
    key: str
    model: Model
    attributes: Attributes
    _again: Opened | None = field(init=False)
    """The span, should the request be sent elsewhere: it began when it was asked for."""

    def __post_init__(self) -> None:
        self._again = None
        if isinstance(self.run.runtime, Replaying):
            attributes: Attributes = {**self.attributes, "agentkit.inference": "offload"}
            self._again = self.run.open(self._name, attributes, key=self.key, kind=SpanKind.CLIENT)

    @property
    def _name(self) -> str:
        return f"chat {self.model.model}"

    async def here(self, send: Send, on_delta: DeltaSink | None) -> object:
        """Measure the request that this process sends; in a durable run it is inside the step."""
        run = self.run
        opened = run.open_now(self._name, self.attributes, SpanKind.CLIENT)
        sink = None if on_delta is None else _FirstDelta(on_delta, time.perf_counter())
        if sink is not None:
            opened.set({"gen_ai.request.stream": True})
        with run.measuring(opened, lasting=False):
            body = await send(sink)
        if sink is not None and sink.waited is not None:
            opened.set({"gen_ai.response.time_to_first_chunk": sink.waited})
        self._answered(opened, body)
        return body

    def elsewhere(self, outcome: object) -> None:
        """Measure a request that Inngest's server sent, as far as it can be seen from here."""
        opened = self._again
        assert opened is not None
        if isinstance(outcome, Exception):
            opened.end(of_error(outcome), self.run.describe(outcome))
        else:
            self._answered(opened, outcome)

    def _answered(self, opened: Opened, body: object) -> None:
        try:
            reply = self.model.decode(body)
        except Exception as error:  # noqa: BLE001 - the engine will meet it, too, and say so
            opened.end(of_error(error), self.run.describe(error))
            return
        found = of_reply(body, reply)
        usage, attributes = reply.usage, {**self.attributes, **found}
        if self.run.words is not None:
            found.update(self.run.words.reply(reply))

        def cost() -> None:
            if usage is not None:
                self.run.factory.instruments.cost(usage, attributes)

        opened.end(found, also=cost)


class _FirstDelta:
    """Hands pieces on, and remembers when the first came."""

    def __init__(self, sink: DeltaSink, began: float) -> None:
        self._sink = sink
        self._began = began
        self.waited: float | None = None

    async def __call__(self, delta: Delta, /) -> None:
        if self.waited is None:
            self.waited = time.perf_counter() - self._began
        await self._sink(delta)

    async def skip(self, delta: Delta, count: int, /) -> None:
        await self._sink.skip(delta, count)

    def noting(self) -> AbstractAsyncContextManager[None]:
        return self._sink.noting()


_SCOPE = "agentkit_py"


class Tracing:
    """Makes spans and metrics of runs: ``run(…, tracing=Tracing(…))``.

    One object serves any number of runs at the same time. See `instrument` for all runs of a
    process.

    Args:
        tracer_provider: Receives spans; the global provider of OpenTelemetry unless given.
        meter_provider: Receives metrics; the global provider unless given.
        content: Also write content: prompts, messages, tools' arguments and results, and the texts
            of errors, which may quote them.
        redactor: Masks the content.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        content: bool = False,
        redactor: Redactor | None = None,
    ) -> None:
        """Ask the providers for a tracer and a meter."""
        tracer = trace.get_tracer(_SCOPE, _version(), tracer_provider)
        meter = metrics.get_meter(_SCOPE, _version(), meter_provider)
        self._factory = SpanFactory(tracer, Instruments(meter))
        self._words = Words(redactor) if content else None

    def of_run(self, runtime: Runtime) -> MeasuredRun:
        """Return the instrumentation of a run that begins now."""
        return MeasuredRun(self._factory, runtime, self._words)

    def carrier(self) -> dict[str, str]:
        """Return the current trace as OpenTelemetry's propagators write it (``traceparent``)."""
        found: dict[str, str] = {}
        propagate.inject(found)
        return found


def instrument(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    content: bool = False,
    redactor: Redactor | None = None,
) -> Tracing:
    """Trace all runs of this process from now on, except those with a ``tracing`` of their own.

    A second call replaces the first.

    Args:
        tracer_provider: Receives spans; the global provider of OpenTelemetry unless given.
        meter_provider: Receives metrics; the global provider unless given.
        content: Also write content; see `Tracing`.
        redactor: Masks the content.
    """
    tracing = Tracing(
        tracer_provider=tracer_provider,
        meter_provider=meter_provider,
        content=content,
        redactor=redactor,
    )
    instrument_all_runs(tracing)
    return tracing


def uninstrument() -> None:
    """Measure no more runs of this process; those that are running are measured to their end."""
    instrument_all_runs(None)


def _version() -> str:
    try:
        return version("pyagentkit")
    except PackageNotFoundError:  # used from a folder that was never installed
        return ""
