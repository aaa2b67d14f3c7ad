"""Streaming chunks as the TypeScript package and its React hook know them (camelCase).

`without_details` is a chunk as strangers may see it, `for_hook` a chunk as the useAgent hook reads
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from agentkit_py._core.json import as_object

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

TOOL_PROGRESS = "tool_progress"
"""The type of the ``metadata.updated`` with the progress of a tool."""

TEXT_CHUNK = 50
"""UTF-16 units of text or arguments in a simulated delta, as in the TypeScript package."""

OUTPUT_CHUNK = 80
"""UTF-16 units of a tool's output in a simulated delta, as in the TypeScript package."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One event on the wire, but for its time."""

    event: EventName
    data: dict[str, Any]
    sequence: int
    """Its place in the stream; below 0: it has none, and is read when it comes."""

    id: str = ""
    """Names a chunk without a place."""

    def to_dict(self, timestamp: int) -> dict[str, Any]:
        """Return the chunk as JSON.

        Args:
            timestamp: When it is published, in milliseconds since 1970.
        """
        return {
            "event": self.event,
            "data": self.data,
            "timestamp": timestamp,
            "sequenceNumber": self.sequence,
            "id": f"{self.id or f'publish-{self.sequence}'}:{self.event}",
        }


def split_text(text: str, size: int) -> list[str]:
    """Cut ``text`` into pieces of at most ``size`` UTF-16 units; no character is cut in two.

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


FAILED = "Something went wrong on the server."
"""The text in place of an error that is not for the user."""

_HARMLESS = frozenset({"interrupted", "removed from the reply"})
"""Reasons of failed parts that the projector gives itself."""


def without_details(
    chunk: Mapping[str, Any], words: str = FAILED, *, recoverable: bool = False
) -> dict[str, Any]:
    """Return the chunk with another text for why a run or a part failed.

    Errors name providers, files and hosts; users of an agent need not know them.

    Args:
        chunk: A chunk as it was published.
        words: The text in place of the error.
        recoverable: Whether trying again may help.
    """
    data = as_object(chunk.get("data")) or {}
    event = chunk.get("event")
    if event == "run.failed":
        return {**chunk, "data": {**data, "error": words, "recoverable": recoverable}}
    if event == "part.failed" and data.get("error") not in _HARMLESS:
        return {**chunk, "data": {**data, "error": words}}
    return dict(chunk)


def for_hook(chunk: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chunk of an output that names its call under the id of that call's part.

    The hook looks for a call with the output's id, and else takes the last that is open.
    """
    data = as_object(chunk.get("data")) or {}
    call = data.get("callPartId")
    if not isinstance(call, str):
        return dict(chunk)
    return {**chunk, "data": {**data, "partId": call}}
