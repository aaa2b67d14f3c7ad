"""Tracing: spans and metrics of runs for OpenTelemetry's providers."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from opentelemetry import metrics, propagate, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from agentkit_py._engine.instrumentation import instrument_all_runs
from agentkit_py.processors.redaction import Redactor
from agentkit_py.runtime.port import Runtime
from agentkit_py.tracing.attributes import Words
from agentkit_py.tracing.run import MeasuredRun
from agentkit_py.tracing.spans import Instruments, SpanFactory

_SCOPE = "agentkit_py"


class Tracing:
    """Makes spans and metrics of runs: ``run(…, tracing=Tracing(…))``.

    One object serves any number of runs at the same time. See `instrument` for all runs of a
    process.

    Args:
        tracer_provider: Where spans go; the global one of OpenTelemetry unless given.
        meter_provider: Where metrics go; the global one unless given.
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
        tracer_provider: Where spans go; the global one of OpenTelemetry unless given.
        meter_provider: Where metrics go; the global one unless given.
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
    """Measure no more runs of this process; those that go on are measured to their end."""
    instrument_all_runs(None)


def _version() -> str:
    try:
        return version("pyagentkit")
    except PackageNotFoundError:  # used from a folder that was never installed
        return ""
