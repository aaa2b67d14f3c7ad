"""Reports of the effect of each level and processor on the messages of a model call.

Counting tokens costs time, so a report keeps the lists it speaks of and counts when it is read;
counts of single messages are computed once for all reports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentkit_py.messages import (
    Message,
    Messages,
    ToolCall,
    ToolCallMessage,
)
from agentkit_py.processors.base import Level, Tokenizer
from agentkit_py.processors.pairing import is_own, is_same, tools_of
from agentkit_py.processors.tokenizers import count_messages


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportEntry:
    """Changes made by a processor, or by validity."""

    level: Level | str
    """``"history"``, ``"network"``, ``"agent"``, ``"run"``, ``"chain"``, ``"validity"`` or
    ``"on_start"``."""

    name: str
    before: Messages = field(repr=False)
    after: Messages = field(repr=False)
    tokenizer: Tokenizer = field(repr=False)
    reason: str = ""
    """Reason in words, e.g. ``"limit of 2000 tokens"``."""

    kept_back: int = 0
    """Messages of the agent's own current calls that were dropped and put back."""

    masks: bool = False
    """True if its processor masks words instead of leaving messages out."""

    parts: tuple[ReportEntry, ...] = ()
    """Entries of the processors that it ran itself, such as those of a `Threshold`."""

    @property
    def messages_before(self) -> int:
        """Number of messages it got."""
        return len(self.before)

    @property
    def messages_after(self) -> int:
        """Number of messages it left."""
        return len(self.after)

    @property
    def tokens_before(self) -> int:
        """Tokens of the messages it got."""
        return count_messages(self.before, self.tokenizer)

    @property
    def tokens_after(self) -> int:
        """Tokens of the messages it left."""
        return count_messages(self.after, self.tokenizer)

    @property
    def removed(self) -> list[Message]:
        """Messages that are gone, or were replaced by others."""
        left = {id(message) for message in self.after}
        return [message for message in self.before if id(message) not in left]

    @property
    def added(self) -> list[Message]:
        """Messages that were not there before, replacements among them."""
        had = {id(message) for message in self.before}
        return [message for message in self.after if id(message) not in had]

    @property
    def changed(self) -> bool:
        """True if it did anything at all."""
        return not is_same(self.before, self.after)

    @property
    def tool_call_ids(self) -> list[str]:
        """Ids of the tool calls that are gone, in order; of equal calls the older are gone."""
        left = Counter((call.id, call.name) for call in _calls(self.after))
        gone: list[str] = []
        for call in reversed(_calls(self.before)):
            key = (call.id, call.name)
            if left[key]:
                left[key] -= 1
            else:
                gone.append(call.id)
        return gone[::-1]

    def to_dict(self) -> dict[str, Any]:
        """The figures as JSON, under the names of the wire (camelCase)."""
        parts = {"parts": [part.to_dict() for part in self.parts]} if self.parts else {}
        return {
            "level": self.level,
            "name": self.name,
            "messagesBefore": self.messages_before,
            "messagesAfter": self.messages_after,
            "tokensBefore": self.tokens_before,
            "tokensAfter": self.tokens_after,
            "removedToolCallIds": self.tool_call_ids,
            "reason": self.reason,
            "keptBack": self.kept_back,
            **parts,
        }


def _calls(messages: Messages) -> list[ToolCall]:
    return [call for m in messages if isinstance(m, ToolCallMessage) for call in m.tools]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextReport:
    """Everything that a model call was allowed to see, level by level."""

    agent: str
    entries: Sequence[ReportEntry] = ()
    prompt: Messages = field(default=(), repr=False)
    """The messages around the history: system prompt, input, prefill."""

    history: Messages = field(default=(), repr=False)
    """The full history before any processor."""

    sent: Messages = field(default=(), repr=False)
    """Everything that was sent, prompt included, in its order."""

    tokenizer: Tokenizer = field(repr=False)
    own_tools: frozenset[str] | None = field(default=None, repr=False)
    """Names of the agent's own tools; None: not known."""

    repaired: tuple[str, ...] = ()
    """Arguments in the reply's calls that were repaired, in words, e.g.
    ``"find(tags: text read as a list)"``."""

    @property
    def foreign(self) -> Messages:
        """Calls, results and activity of hosted tools that were sent and are not the agent's own.

        They were made by another agent, or with a tool that this agent does not have; see
        ``ToolCallFilter(include="own")``.
        """
        own = self.own_tools
        if own is None:
            return ()
        return [
            message
            for message in self.sent
            if not all(is_own(message, name, self.agent, own) for name in tools_of(message))
        ]

    @property
    def foreign_tokens(self) -> int:
        """Tokens of the `foreign` messages."""
        return count_messages(self.foreign, self.tokenizer)

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt."""
        return count_messages(self.prompt, self.tokenizer)

    @property
    def tokens_before(self) -> int:
        """Tokens of the full history."""
        return count_messages(self.history, self.tokenizer)

    @property
    def tokens_after(self) -> int:
        """Tokens of the messages that were sent."""
        return count_messages(self.sent, self.tokenizer)

    def __str__(self) -> str:
        """One line: the size of the request, the effect of each processor, and unsent reasoning."""
        left = "".join(
            f"; {e.name}: {e.reason}"
            if e.level == e.name and e.reason
            else f"; {e.level} {e.name}: {e.messages_before} → {e.messages_after} messages"
            for e in self.entries
        )
        left += "".join(f"; repaired {repair}" for repair in self.repaired)
        return f"{self.agent} was sent {len(self.sent)} messages, {self.tokens_after} tokens{left}"

    def to_dict(self) -> dict[str, Any]:
        """The figures as JSON, under the names of the wire (camelCase)."""
        return {
            "agent": self.agent,
            "promptTokens": self.prompt_tokens,
            "historyMessages": len(self.history),
            "historyTokens": self.tokens_before,
            "sentMessages": len(self.sent),
            "sentTokens": self.tokens_after,
            "foreignMessages": len(self.foreign),
            "foreignTokens": self.foreign_tokens,
            "tokenizer": self.tokenizer.key,
            "processors": [entry.to_dict() for entry in self.entries],
            **({"repaired": list(self.repaired)} if self.repaired else {}),
        }
