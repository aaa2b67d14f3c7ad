"""The metrics of the GenAI conventions."""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry.metrics import Histogram, Meter

from agentkit_py.messages import Usage
from agentkit_py.tracing.attributes import Attributes

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


class Instruments:
    """Histograms of how long things took and how many tokens they cost."""

    def __init__(self, meter: Meter) -> None:
        """Make the instruments."""
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
        """Something ended; nothing is recorded of what has no metric."""
        known = _OF_KIND.get(operation)
        if known is not None:
            kept = _some(attributes, (*known[1], "gen_ai.operation.name", "error.type"))
            self._durations[operation].record(max(0.0, seconds), kept)

    def cost(self, usage: Usage, attributes: Attributes) -> None:
        """A model call said what it cost."""
        kept = _some(attributes, _OF_TOKENS)
        self._tokens.record(usage.input_tokens, {**kept, "gen_ai.token.type": "input"})
        self._tokens.record(usage.output_tokens, {**kept, "gen_ai.token.type": "output"})


def _some(attributes: Attributes, names: tuple[str, ...]) -> Attributes:
    return {name: attributes[name] for name in names if name in attributes}
