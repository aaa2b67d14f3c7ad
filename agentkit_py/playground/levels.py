"""Levels of a model call as JSON for the page: each processor's removals, changes and additions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any, Literal, TypeAlias

from agentkit_py._core.json import dumps
from agentkit_py.messages import Message, lineage, without_ciphers
from agentkit_py.processors.base import Tokenizer
from agentkit_py.processors.report import ContextReport, ReportEntry
from agentkit_py.processors.tokenizers import count_messages

Fate: TypeAlias = Literal["kept", "removed", "rewritten", "added"]


@dataclass(frozen=True, slots=True)
class MessageRow:
    """The fate of a message, at a level or at all of them."""

    change: Fate
    before: Message | None
    after: Message | None
    by: ReportEntry | None = None
    """The processor that removed, rewrote or added it; set by `overview_of`."""

    is_prompt: bool = False

    @property
    def message(self) -> Message:
        """The message now, or before it was removed."""
        found = self.before if self.after is None else self.after
        assert found is not None
        return found


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


def rows_of(before: Sequence[Message], after: Sequence[Message]) -> Iterator[MessageRow]:
    """Yield the fate of each message from a list to the next, in order."""
    matcher = SequenceMatcher(None, [id(m) for m in before], [id(m) for m in after], autojunk=False)
    for kind, start, end, first, last in matcher.get_opcodes():
        if kind == "equal":
            for message in before[start:end]:
                yield MessageRow("kept", message, message)
        else:
            yield from _replaced(before[start:end], after[first:last])


def _replaced(removed: Sequence[Message], added: Sequence[Message]) -> Iterator[MessageRow]:
    """Yield the rows of a replaced stretch, each rewritten message next to its original."""
    place = 0
    alike = [_kind(m) for m in removed] == [_kind(m) for m in added]
    for index, message in enumerate(removed):
        found = index if alike else _follower(message, added, place)
        if found is None:
            yield MessageRow("removed", message, None)
            continue
        for new in added[place:found]:
            yield MessageRow("added", None, new)
        yield MessageRow("rewritten", message, added[found])
        place = found + 1
    for new in added[place:]:
        yield MessageRow("added", None, new)


def _follower(message: Message, added: Sequence[Message], place: int) -> int | None:
    """Return the index of the message that was made of this message."""
    for index in range(place, len(added)):
        if any(found is message for found in lineage(added[index])):
            return index
    return None


def _kind(message: Message) -> tuple[str, ...]:
    names = [c.name for c in message.tools] if message.type == "tool_call" else []
    return (message.type, message.role, message.agent or "", *names)


def overview_of(report: ContextReport) -> Iterator[MessageRow]:
    """Yield the request message by message, with removed messages at their places."""
    fates = _fates(report)
    positions = {id(message): index for index, message in enumerate(report.sent)}
    rows = {id(row.after): row for row in fates if row.after is not None}
    prompt = {id(message) for message in report.prompt}

    def sent(message: Message) -> MessageRow:
        if id(message) in prompt:
            return MessageRow("kept", message, message, is_prompt=True)
        if known := rows.get(id(message)):
            return known
        adding = (one for one in report.entries if any(message is added for added in one.added))
        return MessageRow("added", None, message, next(adding, None))

    shown = 0
    for row in fates:
        position = None if row.after is None else positions.get(id(row.after))
        if position is None:
            yield MessageRow("removed", row.before, None, row.by)
        elif position >= shown:
            yield from map(sent, report.sent[shown : position + 1])
            shown = position + 1
    yield from map(sent, report.sent[shown:])


def _fates(report: ContextReport) -> list[MessageRow]:
    """Return the fate of each message of the history, and the last processor that changed it."""
    fates = [MessageRow("kept", message, message) for message in report.history]
    for entry in report.entries:
        if not entry.changed:
            continue
        rows = {id(row.before): row for row in rows_of(entry.before, entry.after) if row.before}
        for index, fate in enumerate(fates):
            row = None if fate.after is None else rows.get(id(fate.after))
            if row is not None and row.change != "kept":
                fates[index] = MessageRow(row.change, fate.before, row.after, entry)
    return fates


def _by(row: MessageRow) -> str:
    if row.by is None:
        return "prompt" if row.is_prompt else ""
    name, level = row.by.name, row.by.level
    return name if level == name else f"{level}: {name}"
