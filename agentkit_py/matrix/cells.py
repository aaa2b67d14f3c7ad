"""Rows, calls and cells of a `ContextMatrix`, made from the reports of a conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Message, lineage
from agentkit_py.processors.base import Tokenizer
from agentkit_py.processors.fates import MessageRow, in_words, label_of, overview_of
from agentkit_py.processors.report import ContextReport, ReportEntry
from agentkit_py.processors.tokenizers import count_messages
from agentkit_py.results import AgentResult

CellFate: TypeAlias = Literal[
    "seen", "shortened", "as text", "masked", "changed", "left out", "added"
]
"""What became of a message in a model call.

``"as text"``: a call or a result that was sent as a text. ``"added"``: a processor made the
message, e.g. a summary.
"""

Section: TypeAlias = Literal["prompt", "made", "thread"]
"""Where a row's message is from: a prompt, a processor, or the thread."""

_FATES: tuple[CellFate, ...] = get_args(CellFate)
_SECTIONS: tuple[Section, ...] = get_args(Section)
_MAX_TEXT = 20_000


class MatrixRow(NamedTuple):
    """A message of the conversation."""

    message: Message
    section: Section
    tokens: int


class MatrixCell(NamedTuple):
    """The fate of a row's message in a call."""

    fate: CellFate
    by: str = ""
    """The level and the name of the processor, e.g. ``"agent: MessageWindow"``; ``""``: none."""

    sent: Message | None = None
    """The message that was sent in its place; None: the row's own, or none at all."""

    is_cached: bool = False
    """True if the agent's call before began with the same messages up to here, so that the
    provider can read them from its cache."""

    of: tuple[int, ...] = ()
    """Rows of the messages of which a processor made this message."""


class MatrixCall(NamedTuple):
    """A model call."""

    agent: str
    run: int
    """The number of the run, from 1: of the user's message that it answers."""

    tokens: int
    """Tokens that were sent, the prompt included."""

    cached: int
    """Those of them that the agent's call before began with as well."""

    read_from_cache: int | None
    """Tokens that the provider read from its cache; None: it did not report them."""

    reply: tuple[int, ...]
    """Rows of the reply and of its tools' results."""


@dataclass(frozen=True, slots=True)
class ContextMatrix:
    """The fate of each message in each model call of a conversation.

    Rows are messages: the prompts, then messages that processors made, then the thread in its
    order. A message that a call could not have seen, as it came later, has no cell there.
    """

    rows: Sequence[MatrixRow]
    calls: Sequence[MatrixCall]
    cells: Mapping[tuple[int, int], MatrixCell] = field(repr=False)
    """The cells, by the numbers of row and call."""

    @classmethod
    def of(cls, results: Iterable[AgentResult]) -> ContextMatrix:
        """Return the matrix of results, in their order.

        Args:
            results: The results of runs of a thread, with their ``context``: those of
                a run, or of `explain_thread`.

        Raises:
            ConfigurationError: No result has a report, as none comes from a run of this process.
        """
        building = _Building()
        for result in results:
            if result.context is not None:
                building.add(result, result.context)
        if not building.calls:
            raise ConfigurationError(
                "No result has a report of its model call. Pass the results of a run, or those of "
                "explain_thread(target, thread_id) for a stored thread."
            )
        return building.made()

    def to_dict(self) -> dict[str, Any]:
        """Return the matrix as JSON, each text once; long texts are cut at 20,000 characters.

        ``cells`` has a list for each call, of ``[row, fate, by, text, cached, of]``: ``fate``,
        ``by`` and ``text`` are places in ``fates``, ``processors`` and ``texts``; a text of -1 is
        the row's own.
        """
        texts, names = _Places(), _Places()
        rows = [
            {
                "section": row.section,
                "role": row.message.role,
                "type": row.message.type,
                "agent": row.message.agent,
                "tokens": row.tokens,
                "text": texts.place(text_in_matrix(row.message)),
            }
            for row in self.rows
        ]
        columns: list[list[list[Any]]] = [[] for _ in self.calls]
        for (row, call), cell in sorted(self.cells.items()):
            text = -1 if cell.sent is None else texts.place(text_in_matrix(cell.sent))
            fate, by = _FATES.index(cell.fate), names.place(cell.by)
            columns[call].append([row, fate, by, text, int(cell.is_cached), list(cell.of)])
        return {
            "rows": rows,
            "calls": [
                {
                    "agent": call.agent,
                    "run": call.run,
                    "tokens": call.tokens,
                    "cachedTokens": call.cached,
                    "readFromCache": call.read_from_cache,
                    "reply": list(call.reply),
                }
                for call in self.calls
            ],
            "cells": columns,
            "fates": list(_FATES),
            "processors": names.values,
            "texts": texts.values,
        }


def text_in_matrix(message: Message) -> str:
    """Return a message in words, cut at 20,000 characters."""
    text = in_words(message)
    rest = len(text) - _MAX_TEXT
    return text if rest <= 0 else f"{text[:_MAX_TEXT]}… ({rest:,} more characters)"


class _Places:
    """Values, each once, with its place in the list of all."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self._places: dict[str, int] = {}

    def place(self, value: str) -> int:
        place = self._places.get(value)
        if place is None:
            place = self._places[value] = len(self.values)
            self.values.append(value)
        return place


@dataclass(frozen=True, slots=True, eq=False)
class _Row:
    """A row; its number is known once all are there."""

    message: Message
    section: Section
    key: tuple[object, ...]
    tokens: int


class _Cell(NamedTuple):
    row: _Row
    call: int
    make: Callable[[tuple[int, ...]], MatrixCell]
    of: tuple[_Row, ...]


class _Call(NamedTuple):
    make: Callable[[tuple[int, ...]], MatrixCall]
    reply: tuple[_Row, ...]


class _Building:
    """Makes a matrix call by call: finds each message of a report among those of earlier calls.

    Each run loads the thread again, so messages are compared by their words and their order.
    """

    def __init__(self) -> None:
        self.calls: list[_Call] = []
        self._thread: list[_Row] = []
        self._others: dict[tuple[object, ...], _Row] = {}
        self._cells: list[_Cell] = []
        self._began_with: dict[str, list[tuple[object, ...]]] = {}
        self._runs: list[_Row | None] = []
        self._keys: dict[int, tuple[Message, tuple[object, ...]]] = {}

    def made(self) -> ContextMatrix:
        """Return the matrix of the calls that were added."""
        others = sorted(self._others.values(), key=lambda row: _SECTIONS.index(row.section))
        rows = [*others, *self._thread]
        numbers = {row: number for number, row in enumerate(rows)}

        def places(found: tuple[_Row, ...]) -> tuple[int, ...]:
            return tuple(numbers[row] for row in found)

        return ContextMatrix(
            rows=tuple(MatrixRow(row.message, row.section, row.tokens) for row in rows),
            calls=tuple(call.make(places(call.reply)) for call in self.calls),
            cells={
                (numbers[found.row], found.call): found.make(places(found.of))
                for found in self._cells
            },
        )

    def add(self, result: AgentResult, report: ContextReport) -> None:
        """Add a call."""
        asked = [m for m in report.prompt if m.role == "user"]
        begin = _first_of_this_run(report.history)
        said = [*report.history[:begin], *asked, *report.history[begin:]]
        rows = self._aligned(said, report.tokenizer)
        by_id = dict(zip(map(id, said), rows, strict=True))
        reply = self._reply(result, report.tokenizer)
        cached = self._count_cached(report)
        self._add_cells(report, by_id, cached)
        usage = result.usage
        make = partial(
            MatrixCall,
            report.agent,
            self._run(by_id[id(asked[-1])] if asked else None),
            report.tokens_after,
            count_messages(report.sent[:cached], report.tokenizer),
            None if usage is None else usage.cached_tokens,
        )
        self.calls.append(_Call(make, reply))

    def _run(self, question: _Row | None) -> int:
        """Return the number of the run that answers a question."""
        if question is None or question not in self._runs:
            self._runs.append(question)
            return len(self._runs)
        return self._runs.index(question) + 1

    def _key(self, message: Message) -> tuple[object, ...]:
        """Return a key that a message has in every run."""
        known = self._keys.get(id(message))
        if known is None:
            agent = None if message.role in ("user", "system") else message.agent
            ids: tuple[str, ...] = ()
            if message.type == "tool_call":
                ids = tuple(call.id for call in message.tools)
            elif message.type == "tool_result":
                ids = (message.tool.id,)
            key = (message.type, message.role, agent, ids, in_words(message))
            known = self._keys[id(message)] = (message, key)  # the message keeps its id
        return known[1]

    def _aligned(self, messages: Sequence[Message], tokenizer: Tokenizer) -> list[_Row]:
        """Return the row of each message of a transcript; new messages get new rows."""
        keys = [self._key(message) for message in messages]
        known = [row.key for row in self._thread]
        found: list[_Row] = []
        thread: list[_Row] = []
        for kind, start, end, first, last in _opcodes(known, keys):
            thread += self._thread[start:end]
            if kind == "equal":
                found += self._thread[start:end]
                continue
            for message, key in zip(messages[first:last], keys[first:last], strict=True):
                row = _Row(message, "thread", key, count_messages([message], tokenizer))
                found.append(row)
                thread.append(row)
        self._thread = thread
        return found

    def _reply(self, result: AgentResult, tokenizer: Tokenizer) -> tuple[_Row, ...]:
        """Return new rows for a reply and its tools' results, at the end of the thread."""
        reply = tuple(
            _Row(message, "thread", self._key(message), count_messages([message], tokenizer))
            for message in (*result.output, *result.tool_calls)
        )
        self._thread += reply
        return reply

    def _other(self, message: Message, section: Section, tokenizer: Tokenizer) -> _Row:
        """Return the row of a prompt, or of a message that a processor made."""
        key = self._key(message)
        row = self._others.get(key)
        if row is None:
            tokens = count_messages([message], tokenizer)
            row = self._others[key] = _Row(message, section, key, tokens)
        return row

    def _add_cells(
        self, report: ContextReport, by_id: Mapping[int, _Row], cached_count: int
    ) -> None:
        call, tokenizer = len(self.calls), report.tokenizer
        cached = set(map(id, report.sent[:cached_count]))
        for found in overview_of(report):
            fate = self._fate(found)
            make = partial(
                MatrixCell,
                fate,
                "" if found.by is None or fate == "seen" else label_of(found.by),
                found.after if found.before is not None and fate not in _UNCHANGED else None,
                found.after is not None and id(found.after) in cached,
            )
            if found.before is not None and not found.is_prompt:
                row, of = by_id[id(found.before)], ()
            else:
                section: Section = "prompt" if found.is_prompt else "made"
                row = by_id.get(id(found.message)) or self._other(found.message, section, tokenizer)
                of = () if found.by is None else tuple(_sources(found.by, by_id))
            self._cells.append(_Cell(row, call, make, of))

    def _fate(self, found: MessageRow) -> CellFate:
        before, after = found.before, found.after
        if after is None:
            return "left out"
        if before is None:
            return "added"
        if before is after or self._key(before) == self._key(after):
            return "seen"
        if after.type == "text" and before.type != "text":
            return "as text"
        if found.by is not None and found.by.masks:
            return "masked"
        return "shortened" if len(in_words(after)) < len(in_words(before)) else "changed"

    def _count_cached(self, report: ContextReport) -> int:
        """Return how many messages the call begins with as the agent's call before did."""
        sent = [self._key(message) for message in report.sent]
        before = self._began_with.get(report.agent, [])
        self._began_with[report.agent] = sent
        pairs = enumerate(zip(sent, before, strict=False))
        return next((i for i, (new, old) in pairs if new != old), min(len(sent), len(before)))


_UNCHANGED: tuple[CellFate, ...] = ("seen", "left out")


def _first_of_this_run(history: Sequence[Message]) -> int:
    present = (i for i, message in enumerate(history) if message.from_history is False)
    return next(present, len(history))


def _sources(entry: ReportEntry, by_id: Mapping[int, _Row]) -> Iterable[_Row]:
    """Yield the rows of the messages that a processor replaced."""
    for message in entry.removed:
        rows = (by_id[id(m)] for m in lineage(message) if id(m) in by_id)
        row = next(rows, None)
        if row is not None:
            yield row


def _opcodes(
    known: Sequence[object], new: Sequence[object]
) -> Iterable[tuple[str, int, int, int, int]]:
    """Yield the edits from ``known`` to ``new``, like `difflib`; equal messages match from the end.

    A run that has loaded only the end of its thread begins in the middle of ``known``.
    """
    begin = 0
    while begin < min(len(known), len(new)) and known[begin] == new[begin]:
        begin += 1
    if begin:
        yield "equal", 0, begin, 0, begin
    matcher = SequenceMatcher(None, known[begin:][::-1], new[begin:][::-1], autojunk=False)
    for kind, start, end, first, last in reversed(matcher.get_opcodes()):
        yield kind, len(known) - end, len(known) - start, len(new) - last, len(new) - first
