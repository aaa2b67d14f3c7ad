"""The wire: streaming chunks as the TypeScript package and its React hook know them (camelCase)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

EventName: TypeAlias = Literal[
    "run.started",
    "run.completed",
    "run.failed",
    "run.interrupted",
    "step.started",
    "step.completed",
    "step.failed",
    "part.created",
    "part.completed",
    "part.failed",
    "text.delta",
    "tool_call.arguments.delta",
    "tool_call.output.delta",
    "reasoning.delta",
    "data.delta",
    "hitl.requested",
    "hitl.resolved",
    "usage.updated",
    "metadata.updated",
    "stream.ended",
    "error",
]
"""Every event that a chunk may carry: those of the TypeScript package, version 0.13.2."""

TEXT_CHUNK = 50
"""UTF-16 units of text or arguments in one simulated delta, as in the TypeScript package."""

OUTPUT_CHUNK = 80
"""UTF-16 units of a tool's output in one simulated delta, as in the TypeScript package."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One event on the wire, but for its time."""

    event: EventName
    data: dict[str, Any]
    sequence: int

    def to_dict(self, timestamp: int) -> dict[str, Any]:
        """The chunk as JSON.

        Args:
            timestamp: When it is published, in milliseconds since 1970.
        """
        return {
            "event": self.event,
            "data": self.data,
            "timestamp": timestamp,
            "sequenceNumber": self.sequence,
            "id": f"publish-{self.sequence}:{self.event}",
        }


def split_text(text: str, size: int) -> list[str]:
    """``text`` in pieces of at most ``size`` UTF-16 units; no character is cut in two.

    TypeScript cuts surrogate pairs; otherwise its pieces are the same.
    """
    if text.isascii():
        return [text[start : start + size] for start in range(0, len(text), size)]
    pieces: list[str] = []
    start, used = 0, 0
    for index, character in enumerate(text):
        units = 2 if character > "\uffff" else 1
        if used + units > size:
            pieces.append(text[start:index])
            start, used = index, 0
        used += units
    return [*pieces, text[start:]] if start < len(text) else pieces
