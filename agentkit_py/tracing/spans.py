"""Spans that begin now and end later, also where the code between is run again and again.

In a direct run a span is begun when a thing begins and ended when it ends. A durable run begins the
same thing in many requests, perhaps on many machines. There, a span that lasts longer than a step
has ids that follow from the run, so that what happens in it can name it as parent, and it is made
whole when it ends: once, by the code that is no replay.
"""

from __future__ import annotations

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

from agentkit_py.runtime.watch import Replaying
from agentkit_py.tracing.attributes import OPERATION, Attributes
from agentkit_py.tracing.ids import FixedIds, span_id_of, trace_id_of
from agentkit_py.tracing.instruments import Instruments

T = TypeVar("T")

_REMEMBERED = 10_000
"""Spans of durable runs whose beginning or end this process remembers."""


class Recent(OrderedDict[tuple[int, int], T]):
    """What is remembered of the latest spans, by trace and span id."""

    def __init__(self) -> None:
        """Begin empty."""
        super().__init__()
        self._lock = threading.Lock()

    def first(self, key: tuple[int, int], value: T) -> T:
        """What was remembered first under ``key``, now or earlier."""
        with self._lock:
            found = self.setdefault(key, value)
            if len(self) > _REMEMBERED:
                self.popitem(last=False)
        return found


@dataclass(slots=True)
class Bench:
    """What spans are made with, the same for all runs."""

    tracer: Tracer
    instruments: Instruments
    ids: FixedIds | None = field(init=False)
    begun: Recent[int] = field(default_factory=Recent[int], init=False)
    """When spans of durable runs began, in nanoseconds."""

    ended: Recent[object] = field(default_factory=Recent[object], init=False)

    def __post_init__(self) -> None:
        """Find out whether ids can be fixed."""
        self.ids = FixedIds.of(self.tracer)


class Opened(ABC):
    """A span that has begun.

    Attributes:
        context: The context in which it is the current span.
    """

    def __init__(
        self, bench: Bench, name: str, kind: SpanKind, attributes: Attributes, context: Context
    ) -> None:
        """Keep what it is."""
        self._bench = bench
        self._name = name
        self._kind = kind
        self._attributes = attributes
        self._parent = context
        self.context: Context = context

    @contextmanager
    def current(self) -> Generator[None]:
        """It is the current span in the block."""
        token = otel.attach(self.context)
        try:
            yield
        finally:
            otel.detach(token)

    def set(self, attributes: Attributes) -> None:
        """Say more of it."""
        self._attributes.update(attributes)

    @abstractmethod
    def end(
        self,
        attributes: Attributes | None = None,
        description: str | None = None,
        also: Callable[[], None] | None = None,
    ) -> None:
        """It has ended; with ``error.type`` among its attributes, badly.

        Args:
            attributes: What is known now.
            description: Of the error.
            also: What to do once it is made.
        """

    def _finish(self, span: Span, began: int, ended: int, description: str | None) -> None:
        span.set_attributes(self._attributes)
        if "error.type" in self._attributes:
            span.set_status(Status(StatusCode.ERROR, description))
        span.end(ended)
        operation = str(self._attributes.get(OPERATION, ""))
        with _use(trace.set_span_in_context(span, self._parent)):  # for exemplars
            self._bench.instruments.took(operation, (ended - began) / 1e9, self._attributes)


class OpenedNow(Opened):
    """A span of code that runs once."""

    def __init__(
        self, bench: Bench, name: str, kind: SpanKind, attributes: Attributes, context: Context
    ) -> None:
        """Begin it."""
        super().__init__(bench, name, kind, attributes, context)
        self._began = time.time_ns()
        self._span = bench.tracer.start_span(
            name, context, kind, attributes, start_time=self._began
        )
        self.context: Context = trace.set_span_in_context(self._span, context)

    def end(
        self,
        attributes: Attributes | None = None,
        description: str | None = None,
        also: Callable[[], None] | None = None,
    ) -> None:
        """End it."""
        self.set(attributes or {})
        self._finish(self._span, self._began, time.time_ns(), description)
        if also is not None:
            also()


class OpenedAgain(Opened):
    """A span of code that a durable run comes by again and again."""

    def __init__(
        self,
        bench: Bench,
        runtime: Replaying,
        key: str,
        name: str,
        kind: SpanKind,
        attributes: Attributes,
    ) -> None:
        """Know its ids; nothing is begun."""
        context = _stand_of(runtime)
        super().__init__(bench, name, kind, attributes, context)
        self._runtime = runtime
        parent = trace.get_current_span(context).get_span_context()
        trace_id = parent.trace_id if parent.is_valid else trace_id_of(runtime.execution)
        self._place = SpanContext(
            trace_id,
            span_id_of(runtime.execution, key),
            is_remote=True,
            trace_flags=parent.trace_flags if parent.is_valid else self._sampled(trace_id),
            trace_state=parent.trace_state,
        )
        marked = otel.set_value(_EXECUTION, runtime.execution, context)
        self.context: Context = trace.set_span_in_context(NonRecordingSpan(self._place), marked)
        now = time.time_ns() if runtime.is_new else int(runtime.recorded_time.timestamp() * 1e9)
        self._began = bench.begun.first(self._ids, now)

    @property
    def _ids(self) -> tuple[int, int]:
        return self._place.trace_id, self._place.span_id

    def _sampled(self, trace_id: int) -> TraceFlags:
        """Whether the sampler wants a trace that begins here; it is asked again when it ends."""
        sampler: Any = getattr(self._bench.tracer, "sampler", None)
        if sampler is None:
            return TraceFlags(TraceFlags.SAMPLED)
        result = sampler.should_sample(
            self._parent, trace_id, self._name, self._kind, self._attributes
        )
        wanted = result.decision.is_sampled()
        return TraceFlags(TraceFlags.SAMPLED if wanted else TraceFlags.DEFAULT)

    def end(
        self,
        attributes: Attributes | None = None,
        description: str | None = None,
        also: Callable[[], None] | None = None,
    ) -> None:
        """Make it, unless a replay came by its end."""
        self.set(attributes or {})
        ended = time.time_ns()

        def make() -> None:
            mine = object()
            if self._bench.ended.first(self._ids, mine) is not mine:
                return
            self._finish(self._make(), self._began, ended, description)
            if also is not None:
                also()

        self._runtime.when_new(make)

    def _make(self) -> Span:
        start = self._bench.tracer.start_span
        ids = self._bench.ids
        if ids is None:
            return start(self._name, self._parent, self._kind, start_time=self._began)
        with ids.fixed(*self._ids):
            return start(
                self._name, self._parent, self._kind, self._attributes, start_time=self._began
            )


@contextmanager
def _use(context: Context) -> Generator[None]:
    token = otel.attach(context)
    try:
        yield
    finally:
        otel.detach(token)


_EXECUTION = otel.create_key("agentkit-execution")


def _stand_of(runtime: Replaying) -> Context:
    """What something in a durable execution is part of: what it stands in, or what the event says.

    Each request of Inngest's server to the worker may have a trace of its own; the execution is
    not part of that.
    """
    current = otel.get_current()
    if otel.get_value(_EXECUTION, current) == runtime.execution:
        return current
    carried: Mapping[str, Any] = runtime.carried
    texts = {name: value for name, value in carried.items() if isinstance(value, str)}
    return propagate.extract(texts, Context())
