"""What processors that shorten tool results have in common: which results, and the envelope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

from agentkit_py._core.json import JsonValue
from agentkit_py.messages import Message, ToolResultMessage

Rewrites: TypeAlias = Mapping[int, Message]
"""Index of a message → what stands for it."""


def older_results(
    messages: Sequence[Message], spared: frozenset[int], keep_recent: int
) -> list[int]:
    """Indices of the results that are neither spared nor among the newest, newest first.

    Args:
        messages: The history.
        spared: `id()` of messages that stay as they are and are not counted.
        keep_recent: How many of the others stay as they are.
    """
    found = [
        index
        for index in range(len(messages) - 1, -1, -1)
        if messages[index].type == "tool_result" and id(messages[index]) not in spared
    ]
    return found[keep_recent:]


def rewritten(messages: Sequence[Message], rewrites: Rewrites) -> Sequence[Message]:
    """The messages with some replaced; ``messages`` itself if none is."""
    changed = {i: m for i, m in rewrites.items() if m is not messages[i]}
    if not changed:
        return messages
    left = list(messages)
    for index, message in changed.items():
        left[index] = message
    return left


def payload(message: ToolResultMessage) -> tuple[str, JsonValue]:
    """The envelope's key and what is in it; content without an envelope counts as data."""
    content = message.content
    if isinstance(content, Mapping):
        found = cast("Mapping[str, JsonValue]", content)
        for key in ("error", "data"):
            if key in found:
                return key, found[key]
    return "data", content
