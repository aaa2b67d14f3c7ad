"""The pieces of a reply that is still being written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of text as it arrives."""

    index: int
    """Which part of the reply it belongs to, counted over all its parts from 0."""

    delta: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of reasoning as it arrives."""

    index: int
    delta: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of a tool call's arguments as it arrives."""

    index: int
    id: str
    name: str
    delta: str
    """The next piece of the arguments' JSON; may be empty in the first one."""


Delta: TypeAlias = TextDelta | ReasoningDelta | ToolCallDelta
"""A piece of a reply that is still being written."""
