"""Fates of messages: kept, removed, rewritten or added by processors, message by message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, TypeAlias

from agentkit_py._core.json import dumps
from agentkit_py.messages import Message, lineage, text_of, without_ciphers
from agentkit_py.processors.report import ContextReport, ReportEntry

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
        adding = (e for e in report.entries if any(message is added for added in e.added))
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


def label_of(entry: ReportEntry) -> str:
    """Return the level and name of a processor, or the name alone where both are the same."""
    return entry.name if entry.level == entry.name else f"{entry.level}: {entry.name}"


def in_words(message: Message) -> str:
    """Return a message as a person reads it: its text, or its calls with their arguments."""
    match message.type:
        case "tool_call":
            called = (f"{c.name}({c.malformed or dumps(c.arguments)})" for c in message.tools)
            return f"calls {', '.join(called)}"
        case "tool_result":
            return f"{message.tool.name} gives {text_of(message)}"
        case "opaque":
            return f"{message} {dumps(without_ciphers(message.content))}"
        case "reasoning":
            return message.content
        case _:
            return text_of(message)
