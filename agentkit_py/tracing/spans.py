"""Spans of direct and durable runs, and their metrics.

In a direct run a span is started when an operation begins and ended when it ends. A durable run
reaches the beginning of an operation in many requests, perhaps on many machines. There, a span
that lasts longer than a step has ids computed from the run, so that spans inside it can name it as
their parent, and it is created when it ends: once, by code that is not a replay.
"""

from __future__ import annotations

import hashlib
import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from opentelemetry import context as otel
from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.metrics import Histogram, Meter
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
)

from agentkit_py.messages import Usage
from agentkit_py.runtime.port import Replaying
from agentkit_py.tracing.attributes import ERROR, OPERATION, Attributes

T = TypeVar("T")

_MAX_RECENT = 10_000
"""Spans of durable runs whose beginning or end this process keeps."""

_EXECUTION = otel.create_key("agentkit-execution")

_TOKENS = [4**n for n in range(14)]
_SECONDS = [0.01 * 2**n for n in range(14)]
"""Bounds of the buckets, as the conventions (semantic-conventions-genai, gen-ai-metrics) give."""

_OF_TOKENS = (
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.request.model",
    "gen_ai.response.model",
    "server.address",
    "server.port",
)
_OF_KIND: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "chat": ("gen_ai.client.operation.duration", _OF_TOKENS),
    "invoke_workflow": ("gen_ai.workflow.duration", ("gen_ai.workflow.name",)),
    "invoke_agent": ("gen_ai.invoke_agent.duration", ("gen_ai.agent.name",)),
    "execute_tool": (
        "gen_ai.execute_tool.duration",
        ("gen_ai.tool.name", "gen_ai.tool.type"),
    ),
}


class Recent(OrderedDict[tuple[int, int], T]):
    """Facts of the latest spans, by trace and span id."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def first(self, key: tuple[int, int], value: T) -> T:
        """Return the first value that was stored under ``key``: ``value``, or an earlier value."""
        with self._lock:
            found = self.setdefault(key, value)
            if len(self) > _MAX_RECENT:
                self.popitem(last=False)
        return found


class FixedIds:
    """An id generator of the SDK's that gives fixed ids inside a block.

    It wraps the generator of our own tracer; other tracers keep theirs.
    """

    def __init__(self, others: Any) -> None:
        self._others = others
        self._fixed = threading.local()

    @classmethod
    def of(cls, tracer: Tracer) -> FixedIds | None:
        """Return the generator of ``tracer``; None where it is not of the SDK."""
        found: Any = getattr(tracer, "id_generator", None)
        if found is None or isinstance(found, cls):
            return found
        made = cls(found)
        setattr(tracer, "id_generator", made)  # noqa: B010 - the API's class does not have it
        return made

    @contextmanager
    def fixed(self, trace_id: int, span_id: int) -> Generator[None]:
        """Give these ids to spans that this thread starts in the block."""
        self._fixed.ids = (trace_id, span_id)
        try:
            yield
        finally:
            self._fixed.ids = None

    def _now(self) -> tuple[int, int] | None:
        return getattr(self._fixed, "ids", None)

    def generate_trace_id(self) -> int:
        """Return the id of a new trace."""
        fixed = self._now()
        return self._others.generate_trace_id() if fixed is None else fixed[0]

    def generate_span_id(self) -> int:
        """Return the id of a new span."""
        fixed = self._now()
        return self._others.generate_span_id() if fixed is None else fixed[1]

    def is_trace_id_random(self) -> bool:
        """Return True if trace ids are random; fixed ones are not."""
        asked = getattr(self._others, "is_trace_id_random", None)
        return self._now() is None and asked is not None and asked()


class Instruments:
    """The histograms of durations and tokens in the GenAI conventions."""

    def __init__(self, meter: Meter) -> None:
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self._durations: dict[str, Histogram] = {
            operation: meter.create_histogram(
                name,
                unit="s",
                description=f"Duration of {operation} operations.",
                explicit_bucket_boundaries_advisory=_SECONDS,
            )
            for operation, (name, _) in _OF_KIND.items()
        }

    def took(self, operation: str, seconds: float, attributes: Attributes) -> None:
        """Record the duration of an operation, if it has a metric."""
        known = _OF_KIND.get(operation)
        if known is not None:
            kept = _some(attributes, (*known[1], "gen_ai.operation.name", "error.type"))
            self._durations[operation].record(max(0.0, seconds), kept)

    def cost(self, usage: Usage, attributes: Attributes) -> None:
        """Record the tokens of a model call."""
        kept = _some(attributes, _OF_TOKENS)
        self._tokens.record(usage.input_tokens, {**kept, "gen_ai.token.type": "input"})
        self._tokens.record(usage.output_tokens, {**kept, "gen_ai.token.type": "output"})


@dataclass(slots=True)
class SpanFactory:
    """The tracer, the metrics and the recent spans that all runs share."""

    tracer: Tracer
    instruments: Instruments
    ids: FixedIds | None = field(init=False)
    begun: Recent[int] = field(default_factory=Recent[int], init=False)
    """Start times of spans of durable runs, in nanoseconds."""

    ended: Recent[object] = field(default_factory=Recent[object], init=False)

    def __post_init__(self) -> None:
        """Fix ids, if the tracer's generator is from the SDK."""
        self.ids = FixedIds.of(self.tracer)


@dataclass(eq=False, repr=False)
class Opened(ABC):
    """A span that has begun."""

    factory: SpanFactory
    name: str
    kind: SpanKind
    attributes: Attributes
    parent: Context
    context: Context = field(init=False)
    """The context in which it is the current span."""

    exception: Attributes | None = field(default=None, init=False)
    """The exception that its code raised, in OpenTelemetry's attributes."""

    @contextmanager
    def current(self) -> Generator[None]:
        """Make it the current span in the block."""
        with _use(self.context):
            yield

    def set(self, attributes: Attributes) -> None:
        """Add attributes."""
        self.attributes.update(attributes)

    def end(
        self,
        attributes: Attributes | None = None,
        description: str | None = None,
        also: Callable[[], None] | None = None,
    ) -> None:
        """End the span; with ``error.type`` among its attributes, as failed.

        Args:
            attributes: Attributes that are known now.
            description: The error's text.
            also: Called once the span is exported.
        """
        self.set(attributes or {})
        self._end(time.time_ns(), description, also)

    @abstractmethod
    def _end(
        self, ended: int, description: str | None, also: Callable[[], None] | None
    ) -> None: ...

    def _finish(self, span: Span, began: int, ended: int, description: str | None) -> None:
        span.set_attributes(self.attributes)
        if self.exception is not None:
            span.add_event("exception", self.exception, timestamp=ended)
        if ERROR in self.attributes:
            span.set_status(Status(StatusCode.ERROR, description))
        span.end(ended)
        operation = str(self.attributes.get(OPERATION, ""))
        with _use(trace.set_span_in_context(span, self.parent)):  # for exemplars
            self.factory.instruments.took(operation, (ended - began) / 1e9, self.attributes)


@dataclass(eq=False, repr=False)
class OpenedNow(Opened):
    """A span of code that runs once."""

    def __post_init__(self) -> None:
        self._began = time.time_ns()
        self._span = self.factory.tracer.start_span(
            self.name, self.parent, self.kind, self.attributes, start_time=self._began
        )
        self.context: Context = trace.set_span_in_context(self._span, self.parent)

    def _end(self, ended: int, description: str | None, also: Callable[[], None] | None) -> None:
        self._finish(self._span, self._began, ended, description)
        if also is not None:
            also()


@dataclass(eq=False, repr=False)
class OpenedAgain(Opened):
    """A span of code that each replay of a durable run runs again."""

    runtime: Replaying
    key: str
    """Names the operation in its execution."""

    def __post_init__(self) -> None:
        """Compute its ids, and find when it began."""
        runtime, parent = self.runtime, trace.get_current_span(self.parent).get_span_context()
        trace_id = parent.trace_id if parent.is_valid else _hashed(f"trace:{runtime.execution}", 16)
        self._place = SpanContext(
            trace_id,
            _hashed(f"span:{runtime.execution}/{self.key}", 8),
            is_remote=True,
            trace_flags=parent.trace_flags if parent.is_valid else self._sampled(trace_id),
            trace_state=parent.trace_state,
        )
        marked = otel.set_value(_EXECUTION, runtime.execution, self.parent)
        self.context: Context = trace.set_span_in_context(NonRecordingSpan(self._place), marked)
        now = time.time_ns() if runtime.is_new else int(runtime.recorded_time.timestamp() * 1e9)
        self._began = self.factory.begun.first(self._ids, now)

    @property
    def _ids(self) -> tuple[int, int]:
        return self._place.trace_id, self._place.span_id

    def _sampled(self, trace_id: int) -> TraceFlags:
        """Ask the sampler about a trace that begins here; it is asked again when the span ends."""
        sampler: Any = getattr(self.factory.tracer, "sampler", None)
        if sampler is None:
            return TraceFlags(TraceFlags.SAMPLED)
        result = sampler.should_sample(self.parent, trace_id, self.name, self.kind, self.attributes)
        wanted = result.decision.is_sampled()
        return TraceFlags(TraceFlags.SAMPLED if wanted else TraceFlags.DEFAULT)

    def _end(self, ended: int, description: str | None, also: Callable[[], None] | None) -> None:
        def make() -> None:
            mine = object()
            if self.factory.ended.first(self._ids, mine) is not mine:
                return
            self._finish(self._make(), self._began, ended, description)
            if also is not None:
                also()

        self.runtime.when_new(make)

    def _make(self) -> Span:
        start = self.factory.tracer.start_span
        ids = self.factory.ids
        if ids is None:
            return start(self.name, self.parent, self.kind, start_time=self._began)
        with ids.fixed(*self._ids):
            return start(self.name, self.parent, self.kind, self.attributes, start_time=self._began)


@contextmanager
def _use(context: Context) -> Generator[None]:
    token = otel.attach(context)
    try:
        yield
    finally:
        otel.detach(token)


def parent_of(runtime: Replaying) -> Context:
    """Return the parent's context in a durable execution: the current context, or the event's.

    Each request of Inngest's server to the worker may have a trace of its own; the execution is
    not part of that.
    """
    current = otel.get_current()
    if otel.get_value(_EXECUTION, current) == runtime.execution:
        return current
    carried: Mapping[str, Any] = runtime.carried
    texts = {name: value for name, value in carried.items() if isinstance(value, str)}
    return propagate.extract(texts, Context())


def _hashed(text: str, size: int) -> int:
    """Return an id of ``size`` bytes, the same for the same text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:size])


def _some(attributes: Attributes, names: tuple[str, ...]) -> Attributes:
    return {name: attributes[name] for name in names if name in attributes}
