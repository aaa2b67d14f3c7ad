"""Exported spans, in forms that can be compared."""

from __future__ import annotations

from collections import Counter
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler

from agentkit_py.tracing import Tracing


class Collected:
    """A collector in this process."""

    def __init__(self, sampler: Sampler | None = None) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)

    def tracing(self, **options: Any) -> Tracing:
        """Return a tracing that exports here."""
        return Tracing(tracer_provider=self.provider, meter_provider=self.meters, **options)

    @property
    def spans(self) -> list[ReadableSpan]:
        """The spans, in the order in which they began."""
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def named(self, name: str) -> ReadableSpan:
        """The one span of this name."""
        (found,) = [span for span in self.spans if span.name == name]
        return found

    @property
    def traces(self) -> set[int]:
        """The ids of all traces."""
        return {span.context.trace_id for span in self.spans if span.context is not None}

    @property
    def parents(self) -> Counter[tuple[str, str | None]]:
        """The number of spans by their names and their parents' names."""
        names = {span_id_of(span): span.name for span in self.spans}
        return Counter(
            (span.name, names[span.parent.span_id] if span.parent is not None else None)
            for span in self.spans
        )

    @property
    def metrics(self) -> dict[str, list[Any]]:
        """The data points of each metric."""
        data = self.reader.get_metrics_data()
        if data is None:
            return {}
        return {
            metric.name: list(metric.data.data_points)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


def span_id_of(span: ReadableSpan) -> int:
    """A span's own id."""
    assert span.context is not None
    return span.context.span_id


def said(span: ReadableSpan) -> dict[str, Any]:
    """A span's attributes."""
    return dict(span.attributes or {})
