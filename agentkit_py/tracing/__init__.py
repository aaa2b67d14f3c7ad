"""Traces and metrics of runs, with the names of OpenTelemetry's GenAI conventions.

::

    from agentkit_py.tracing import instrument

    instrument()  # once, beside the set-up of OpenTelemetry; or run(…, tracing=Tracing(…))

A span for each network, agent, model call, tool and processor; what was said only if asked for.

Needs the extra ``otel``.
"""

import agentkit_py.tracing._needed  # noqa: F401  # pyright: ignore[reportUnusedImport] - imported for its check
from agentkit_py.tracing.tracing import Tracing, instrument, uninstrument

__all__ = ["Tracing", "instrument", "uninstrument"]
