"""Keeping the newest tool calls only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Message, ToolCallMessage
from agentkit_py.processors.base import ProcessorContext
from agentkit_py.processors.groups import is_joined
from agentkit_py.processors.pairing import pair_adjacent
from agentkit_py.processors.removal import texts_of_whole, without_calls
from agentkit_py.processors.settings import Check, ConfiguredProcessor, limits, optional, whole


@dataclass(frozen=True)
class RecentToolCalls(ConfiguredProcessor):
    """Keeps the newest ``n`` tool calls with their results; texts stay, also those beside calls.

    Calls are counted, not messages, whether answered or not. Calls that this agent made in the
    current run, and pinned ones, stay in addition and are not counted: ``RecentToolCalls(3)`` gives
    three old calls plus the current one.

    Args:
        n: How many calls; None: all but those of the tools in ``per_tool``.
        per_tool: Tools with a count of their own, beside ``n``.

    Raises:
        ConfigurationError: A count is no whole number of at least 0, or nothing is limited.
    """

    looks_back: ClassVar[bool] = False

    n: int | None = None
    per_tool: Mapping[str, int] | None = None

    settings: ClassVar[Mapping[str, Check]] = {
        "n": optional(whole()),
        "per_tool": optional(limits),
    }
    aliases: ClassVar[Mapping[str, str]] = {"max_tool_calls_from_history": "n"}

    def __post_init__(self) -> None:
        """Check the counts."""
        self._check()
        if self.n is None and self.per_tool is None:
            raise ConfigurationError("RecentToolCalls needs n=… or per_tool=…, or both.")

    @property
    def reason(self) -> str:
        """How many calls it keeps."""
        parts = [] if self.n is None else [f"the newest {self.n} tool calls"]
        parts += [f"{count} of {tool}" for tool, count in sorted((self.per_tool or {}).items())]
        return ", ".join(parts)

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """The messages without older calls and their results."""
        if self.per_tool is None and not context.held:
            left = self._newest_only(messages)
            if left is not None:
                return left
        gone = self._older(messages, context.held)
        if not gone and all(m.type != "tool_call" or m.tools for m in messages):
            return messages
        return without_calls(messages, lambda index, place: (index, place) not in gone)

    def _newest_only(self, messages: Sequence[Message]) -> Sequence[Message] | None:
        """What is left where it is cut between two replies; None: that needs a closer look.

        Only the newest messages are paired: what is before them loses all its calls.
        """
        assert self.n is not None
        first = _first_of_newest(messages, self.n)
        newest = messages[first:]
        if (
            first == 0
            or pair_adjacent(newest) is None
            or (newest and is_joined(messages[first - 1], newest[0]))
        ):
            return None
        texts = texts_of_whole(messages[:first])
        if texts is None:
            return None
        return messages if len(texts) == first else [*texts, *newest]

    def _older(self, messages: Sequence[Message], held: frozenset[int]) -> set[tuple[int, int]]:
        """The calls that are too old, as index of the message and place in it."""
        own = self.per_tool or {}
        counts: dict[str | None, int | None] = {None: self.n, **own}
        gone: set[tuple[int, int]] = set()
        for index in range(len(messages) - 1, -1, -1):
            message = messages[index]
            if not isinstance(message, ToolCallMessage) or id(message) in held:
                continue
            for place in range(len(message.tools) - 1, -1, -1):
                name = message.tools[place].name
                key = name if name in own else None
                left = counts[key]
                if left == 0:
                    gone.add((index, place))
                elif left is not None:
                    counts[key] = left - 1
        return gone


def _first_of_newest(messages: Sequence[Message], count: int) -> int:
    """Where the oldest of the newest ``count`` calls stands; 0: its message has more of them."""
    index = len(messages)
    while count > 0 and index > 0:
        index -= 1
        message = messages[index]
        if isinstance(message, ToolCallMessage):
            if not 0 < len(message.tools) <= count:
                return 0
            count -= len(message.tools)
    return index
