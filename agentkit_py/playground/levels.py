"""Levels of a model call as JSON for the page: each processor's removals, changes and additions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agentkit_py._core.json import dumps
from agentkit_py.messages import Message, without_ciphers
from agentkit_py.processors.base import Tokenizer
from agentkit_py.processors.fates import MessageRow, label_of, overview_of, rows_of
from agentkit_py.processors.report import ContextReport, ReportEntry
from agentkit_py.processors.tokenizers import count_messages


@dataclass(slots=True)
class _NumberedMessages:
    """All messages, each once and with a number."""

    tokenizer: Tokenizer
    messages: list[Message] = field(default_factory=list[Message])
    numbers: dict[int, int] = field(default_factory=dict[int, int])

    def number(self, message: Message | None) -> int | None:
        """Return the message's number; None for None."""
        if message is None:
            return None
        known = self.numbers.get(id(message))
        if known is None:
            known = self.numbers[id(message)] = len(self.messages)
            self.messages.append(message)
        return known

    def to_list(self) -> list[dict[str, Any]]:
        """Return the messages as JSON."""
        return [message_json(message, self.tokenizer) for message in self.messages]


CUT = ("length", "content_filter", "refusal", "context_window", "error")
"""Why a text ends before its end."""


def message_json(message: Message, tokenizer: Tokenizer | None = None) -> dict[str, Any]:
    """Return a message as the page shows it; with a tokenizer also its tokens."""
    found: dict[str, Any] = {
        "type": message.type,
        "role": message.role,
        "agent": message.agent,
        "past": message.from_history is not False,
    }
    match message.type:
        case "text":
            found["text"] = message.text
            if message.stop_reason in CUT:
                found["cut"] = message.stop_reason
            if not isinstance(message.content, str):
                found["media"] = [p.type for p in message.content if p.type != "text"]
        case "reasoning":
            found["text"] = message.content
        case "opaque":
            found["text"] = f"{message} {dumps(without_ciphers(message.content))}"
        case "tool_call":
            found["calls"] = [
                {"id": c.id, "name": c.name, "input": c.malformed or c.arguments}
                for c in message.tools
            ]
        case "tool_result":
            found |= {
                "tool": message.tool.name,
                "callId": message.tool.id,
                "content": message.content,
                "isError": message.is_error,
            }
    if tokenizer is not None:
        found["tokens"] = count_messages([message], tokenizer)
    return found


def levels_json(report: ContextReport) -> dict[str, Any]:
    """Return the levels of a call.

    ``{messages, levels: [{level, name, reason, tokensBefore, tokensAfter, rows}], overview, …}``;
    rows name messages by their number in ``messages``.
    """
    table = _NumberedMessages(report.tokenizer)
    levels = [_level(entry, table) for entry in report.entries]
    overview = [
        {"change": row.change, "before": table.number(row.before), "after": table.number(row.after)}
        | ({"by": by} if (by := _by(row)) else {})
        for row in overview_of(report)
    ]
    prompt = {id(message) for message in report.prompt}
    return {
        "levels": levels,
        "overview": overview,
        "history": [table.number(message) for message in report.history],
        "sent": [table.number(message) for message in report.sent],
        "prompt": [table.number(m) for m in report.sent if id(m) in prompt],
        "messages": table.to_list(),
        "figures": report.to_dict(),
    }


def _level(entry: ReportEntry, table: _NumberedMessages) -> dict[str, Any]:
    return {
        **entry.to_dict(),
        "changed": entry.changed,
        "rows": [
            [row.change, table.number(row.before), table.number(row.after)]
            for row in rows_of(entry.before, entry.after)
        ],
    }


def _by(row: MessageRow) -> str:
    if row.by is None:
        return "prompt" if row.is_prompt else ""
    return label_of(row.by)
