"""Traces and metrics of runs, with the names of OpenTelemetry's GenAI conventions.

::

    from agentkit_py.tracing import instrument

    instrument()  # once, after the set-up of OpenTelemetry; or run(…, tracing=Tracing(…))

A span for each network, agent, model call, tool and processor; content only if asked for.

Needs the extra ``otel``.
"""

from agentkit_py._core.lazy import missing_package
from agentkit_py.errors import MissingDependencyError

if _missing := missing_package("opentelemetry"):
    raise MissingDependencyError(_missing, "otel", "agentkit_py.tracing")

# After the check, which names the extra.
from agentkit_py.tracing.tracing import Tracing, instrument, uninstrument

__all__ = ["Tracing", "instrument", "uninstrument"]
