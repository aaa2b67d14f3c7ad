"""Survival: the information that a policy loses, measured without a model.

A recorded agent's reply needs values: ids, dates, amounts and names in the arguments of its calls
and in its answers. Each value of the full request should still be in the request
after a policy; a call that lacks a value could not have been made.

Strictly: a value of a tool's result is kept only with its key and in a row with
the id of its record, as JSON or as a table; a value of a text only in its whole line. A list of
bare values counts as lost.
"""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, cast

from agentkit_py.messages import (
    Message,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
    text_of,
)
from agentkit_py.network import Target
from agentkit_py.processors.apply import run_chain
from agentkit_py.processors.base import Processor, ProcessorContext
from agentkit_py.processors.compose import ContextPolicy
from agentkit_py.processors.shortening import parsed
from agentkit_py.processors.tables import SEPARATOR, TableResults
from agentkit_py.processors.tokenizers import ApproximateTokenizer, Tokenizer, count_messages
from agentkit_py.processors.tool_results import (
    CompressToolResults,
    ToolCallFilter,
    TruncateToolResults,
    id_of,
    is_id,
    payload_of,
)
from agentkit_py.processors.validity import ensure_valid
from agentkit_py.processors.windowing import MessageWindow
from agentkit_py.testing.replay.networks import Speakers
from agentkit_py.testing.replay.recording import Conversation, RecordedReply

ValuePlace: TypeAlias = tuple[str, ...]
"""The place of a value: ``(key, record)`` in a result, ``(line,)`` in a text."""

Policy: TypeAlias = Callable[[], Sequence[Processor]]
"""Makes new processors for each conversation."""

_MONTHS = "january february march april may june july august september october november december"
_MONTH = {name[:3]: f"{number:02}" for number, name in enumerate(_MONTHS.split(), 1)}
_SPOKEN = re.compile(
    rf"\b({'|'.join(_MONTHS.split())}|{'|'.join(_MONTH)})\.? (\d{{1,2}})\b", re.IGNORECASE
)
_TOKEN = re.compile(r"\$?[^\W_](?:[\w@.:,+-]*\w)?")
_DATE = re.compile(r"\d{4}-(\d\d-\d\d)(?!\d)")
_NUMBER = re.compile(r"\$?\d[\d,]*(?:\.\d+)?")
_KEY = re.compile(r"\w[\w.-]*(?: [\w.-]+)*|\"(?:[^\"\\]|\\.)*\"")
_PAIR = re.compile(rf"({_KEY.pattern})(?:\(([^()]*)\))?=(.*)")
_DASHES = re.compile(r"[\s|:-]+")
_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|[^"|,;()\[\]{}]+|.')
_OPENING, _CLOSING = frozenset("[{("), frozenset("]})")
_LONG = 60
_MIN_DIGITS = 2
_MIN_NAME = 3


def values_in(text: str) -> Iterator[str]:
    """Yield the values of a text, normalised: dates, amounts, ids, and words that may be names.

    ``$1,024.00`` is ``1024``, ``May 27`` and ``2024-05-27`` are ``05-27``; single digits are
    left out, since lists are numbered with them.
    """
    for month, day in _SPOKEN.findall(text):
        yield f"{_MONTH[month[:3].lower()]}-{int(day):02}"
    for token in _TOKEN.findall(text):
        found = _DATE.match(token)
        if found:
            yield found[1]
        elif _NUMBER.fullmatch(token):
            if token[0] == "$" or sum(map(str.isdigit, token)) >= _MIN_DIGITS:
                yield _spelled(token)
        elif any(map(str.isdigit, token)) or (token[0].isupper() and len(token) >= _MIN_NAME):
            yield token.strip("$")


def _spelled(number: str) -> str:
    """Return a number without its sign of money, commas, and zeros at its end: all its digits."""
    digits = number.strip("$").replace(",", "")
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def _is_name(value: str) -> bool:
    return not any(map(str.isdigit, value))


@dataclass(slots=True)
class Places:
    """Positions of values in a list of messages."""

    of: dict[str, set[ValuePlace]] = field(
        default_factory=lambda: defaultdict[str, set[ValuePlace]](set)
    )

    def needed(self, values: Iterable[str]) -> set[str]:
        """Return the values at this place; names only where they are a value of a record."""
        return {
            value
            for value in values
            if any(len(place) > 1 for place in self.of.get(value, ()))
            or (value in self.of and not _is_name(value))
        }

    def keeps(self, value: str, full: Places) -> bool:
        """Return whether a value is at a place that it had in the full request."""
        return not self.of.get(value, set()).isdisjoint(full.of[value])


_Found: TypeAlias = list[tuple[str, ValuePlace]]


class _PlaceReader:
    """Finds the values of messages, reading each once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Message, _Found]] = {}

    def places(self, messages: Sequence[Message]) -> Places:
        found = Places()
        owners: dict[str, str] = {}
        for message in messages:
            if isinstance(message, ToolCallMessage):
                owners |= {call.id: _owner(call.arguments) for call in message.tools}
            known = self._known.get(id(message))
            if known is None:
                known = self._known[id(message)] = (message, list(_read(message, owners)))
            for value, place in known[1]:
                found.of[value].add(place)
        return found


def _owner(arguments: object) -> str:
    """Return the id that a call's arguments name."""
    if not isinstance(arguments, Mapping):
        return ""
    found = id_of(cast("Mapping[str, Any]", arguments))
    return "" if found is None else str(found[1])


def _read(message: Message, owners: Mapping[str, str]) -> Iterator[tuple[str, ValuePlace]]:
    if isinstance(message, ToolCallMessage):
        for call in message.tools:
            yield from _in_json(call.arguments, _owner(call.arguments))
    elif isinstance(message, ToolResultMessage):
        inner: Any = parsed(payload_of(message)[1])
        owner = owners.get(message.tool.id, "")
        yield from _in_table(inner, owner) if isinstance(inner, str) else _in_json(inner, owner)
    else:
        yield from _in_text(text_of(message))


def _in_text(text: str) -> Iterator[tuple[str, ValuePlace]]:
    for line in text.splitlines():
        for value in values_in(line):
            yield value, (line.strip(),)


def _in_json(
    value: Any, owner: str, path: str = "", near: tuple[str, str] | None = None
) -> Iterator[tuple[str, ValuePlace]]:
    """Yield the values of JSON with their places.

    Args:
        value: The JSON.
        owner: The id of the outermost record.
        path: The keys that lead here.
        near: The keys that lead here from the nearest record that has an id, and that id.
    """
    if isinstance(value, Mapping):
        yield from _in_record(cast("Mapping[str, Any]", value), owner, path, near)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            if isinstance(item, Mapping) or _nested(item):
                yield from _in_json(item, owner)
            else:
                yield from _in_json(item, owner, path, near)
    elif isinstance(value, str) and len(value) > _LONG:
        yield from _in_text(value)
    elif value is not None and not isinstance(value, bool):
        for one in values_in(str(value)):
            yield one, (path, owner)
            if near is not None:
                yield one, near


def _in_record(
    record: Mapping[str, Any], owner: str, path: str, near: tuple[str, str] | None
) -> Iterator[tuple[str, ValuePlace]]:
    own = next((str(v) for k, v in record.items() if is_id(k) and not _nested(v)), "")
    for key, inner in record.items():
        inside = f"{path}.{key}" if path else key
        if path and own:
            below: tuple[str, str] | None = (key, own)
        else:
            below = near and (f"{near[0]}.{key}", near[1])
        yield from _in_json(inner, owner if path and owner else own or owner, inside, below)
        if isinstance(inner, Mapping):
            yield from _under_its_key(cast("Mapping[str, Any]", inner), key)


def _under_its_key(record: Mapping[str, Any], key: str) -> Iterator[tuple[str, ValuePlace]]:
    """Yield the values of a record whose id may be its key in a mapping."""
    for name, value in record.items():
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            yield from ((one, (name, key)) for one in values_in(str(value)))


def _nested(value: object) -> bool:
    return isinstance(value, Mapping | list)


def _in_table(text: str, owner: str) -> Iterator[tuple[str, ValuePlace]]:
    """Read lines of ``key=value`` pairs, and lines of keys with rows below them."""
    columns: list[str] = []
    split = _cells_of(text)
    for line in text.splitlines():
        cells = split(line)
        pairs = [_PAIR.fullmatch(cell) for cell in cells]
        if all(pairs):
            columns = []
            yield from _in_line([pair.groups() for pair in pairs if pair], owner)
        elif len(cells) > 1 and len(cells) == len(columns):
            if not all(map(_DASHES.fullmatch, cells)):
                yield from _in_row(list(zip(columns, cells, strict=True)), owner)
        elif len(cells) > 1 and all(_KEY.fullmatch(cell) for cell in cells):
            columns = [_unquoted(cell) for cell in cells]
        else:
            columns = []
            yield from _in_text(line)


def _cells_of(text: str) -> Callable[[str], list[str]]:
    """Return the function that splits the lines of a text: of a table, of Markdown, or of CSV."""
    if SEPARATOR not in text and all(map(_KEY.fullmatch, text.split("\n", 1)[0].split(","))):
        return lambda line: [cell for row in csv.reader([line]) for cell in row]
    if any(SEPARATOR in line and _DASHES.fullmatch(line) for line in text.splitlines()):
        return lambda line: [cell.strip() for cell in line.strip(" |").split(SEPARATOR)]
    return lambda line: _split(line, SEPARATOR)


def _split(text: str, separator: str) -> list[str]:
    """Split a text at a separator that is neither in quotes nor in brackets."""
    parts: list[str] = [""]
    depth = 0
    for piece in _PIECE.findall(text):
        if piece == separator and not depth:
            parts.append("")
            continue
        depth = max(0, depth + (piece in _OPENING) - (piece in _CLOSING))
        parts[-1] += piece
    return parts


def _unquoted(text: str) -> str:
    return str(json.loads(text)) if text[:1] == '"' == text[-1:] and len(text) > 1 else text


def _in_line(
    pairs: Sequence[tuple[str | Any, ...]], owner: str
) -> Iterator[tuple[str, ValuePlace]]:
    single = [(_unquoted(key), value) for key, columns, value in pairs if columns is None]
    yield from _in_row(single, owner)
    own = next((value for key, value in single if is_id(key)), owner)
    for _, columns, value in pairs:
        if columns is not None:
            names = [_unquoted(name) for name in _split(columns, ",")]
            for row in _split(value[1:-1], ";"):
                yield from _in_row(list(zip(names, _split(row, ","), strict=False)), own)


def _in_row(cells: Sequence[tuple[str, str]], owner: str) -> Iterator[tuple[str, ValuePlace]]:
    own = [value.strip('"') for key, value in cells if is_id(key) and value] or [owner]
    for key, value in cells:
        inner = parsed(value) if value[:1] in "[{" else None
        for record in own:
            if isinstance(inner, dict | list):
                yield from _in_json(inner, record, key)
            for one in values_in(value.replace(",", " ") if value[:1] == "[" else value):
                yield one, (key, record)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A recorded reply that lacks values in the request that a policy makes."""

    conversation: str
    turn: int
    """Number of the user's message, from 1."""

    agent: str
    call: str
    """Name of the tool that could not have been called; empty: an answer."""

    values: tuple[str, ...]


@dataclass(slots=True)
class Survival:
    """The characters that a policy sends, and the values that it loses."""

    characters: int = 0
    """Characters of all requests without the policy; system prompts, which no policy changes, are
    not counted."""

    characters_sent: int = 0
    tokens: int = 0
    """Tokens of all requests without the policy, as of the characters, if they were counted."""

    tokens_sent: int = 0
    calls: int = 0
    """Recorded calls that need a value of the request."""

    calls_whole: int = 0
    values: int = 0
    """Values of the request that answers need."""

    values_kept: int = 0
    losses: list[Loss] = field(default_factory=list[Loss])
    unknown_tools: set[str] = field(default_factory=set[str])
    """Tools that were called, and that no agent of the network has."""

    @property
    def share_sent(self) -> float:
        """Characters sent, as a share of those of the full requests."""
        return self.characters_sent / max(self.characters, 1)

    @property
    def share_of_calls(self) -> float:
        """Share of the calls that have all their values."""
        return self.calls_whole / max(self.calls, 1)

    @property
    def share_of_values(self) -> float:
        """Share of the answers' values that are kept."""
        return self.values_kept / max(self.values, 1)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures and losses as JSON."""
        return {
            "charactersSent": round(self.share_sent, 4),
            "callsWhole": round(self.share_of_calls, 4),
            "answerValuesKept": round(self.share_of_values, 4),
            "calls": self.calls,
            "answerValues": self.values,
            "losses": [
                {
                    "conversation": loss.conversation,
                    "turn": loss.turn,
                    "agent": loss.agent,
                    "call": loss.call,
                    "values": list(loss.values),
                }
                for loss in self.losses
            ],
        }


STOCK: Mapping[str, Policy] = {
    "ContextPolicy.balanced(128000)": lambda: [ContextPolicy.balanced(128_000)],
    "ContextPolicy.lean(128000)": lambda: [ContextPolicy.lean(128_000)],
    "TableResults()": lambda: [TableResults()],
    "TableResults(used_rows=True, keep_recent=5)": lambda: [
        TableResults(used_rows=True, keep_recent=5)
    ],
    "CompressToolResults()": lambda: [CompressToolResults()],
    "TruncateToolResults(500)": lambda: [TruncateToolResults(500)],
    "MessageWindow(20)": lambda: [MessageWindow(20)],
    'ToolCallFilter(include="own")': lambda: [ToolCallFilter(include="own")],
    "ToolCallFilter()": lambda: [ToolCallFilter()],
}
"""The policies that `agentkit replay --survival` compares."""


async def survival(
    conversations: Iterable[Conversation],
    policy: Policy = tuple,
    *,
    network: bool | Target = False,
    tokenizer: Tokenizer | None = None,
) -> Survival:
    """Measure how many values needed by recorded replies a policy keeps.

    Each reply's request is made twice, without the policy and with it; nothing is sent. What the
    agent called in the same turn is protected, as in runs.

    Args:
        conversations: Recorded ones.
        policy: Makes the processors, in addition to those that a network has.
        network: A network or agent, whose processors of all levels are measured; True: distribute
            the tools over the agents of `RecordedNetwork`; False: a single agent has all.
        tokenizer: Counts tokens as well; None: they are not counted.

    Raises:
        ProcessorError: A processor failed.
    """
    found = Survival()
    own = None if isinstance(network, bool) else await Speakers.of_network(network, policy())
    for conversation in conversations:
        if isinstance(network, bool):
            speakers = Speakers.recorded(conversation, tuple(policy()), network=network)
        else:
            assert own is not None
            speakers = own.begun()
        await _measure(conversation, speakers, found, tokenizer)
        found.unknown_tools |= speakers.unknown
    return found


async def _measure(
    conversation: Conversation, speakers: Speakers, found: Survival, counter: Tokenizer | None
) -> None:
    reader, tokenizer = _PlaceReader(), ApproximateTokenizer()
    past: list[Message] = []
    memory: dict[str, Any] = {}
    system = [TextMessage("system", conversation.system)]
    for number, turn in enumerate(conversation.turns, 1):
        user = TextMessage("user", turn.text, from_history=False)
        run: list[Message] = []
        for reply in turn.replies:
            speaker = speakers.of(reply)
            agent = speaker.name
            said, needs = _messages(reply, agent)
            history = [*past, *run]
            mine = [m for m in run if m.type != "text" and m.agent == agent]
            context = ProcessorContext(
                agent=agent,
                prompt=(*system, user),
                protected=frozenset(map(id, mine)),
                own_tools=speaker.tools,
                history=history,
                input=turn.text,
                tokenizer=tokenizer,
                memory=memory,
            )
            outcome = await run_chain(history, speaker.levels, context)
            left, _ = ensure_valid(outcome.messages)
            full = reader.places([*system, *history, user])
            sent = reader.places([*system, *left, user])
            around = len(turn.text)  # no policy changes the system prompt
            found.characters += around + sum(_length(m) for m in history)
            found.characters_sent += around + sum(_length(m) for m in left)
            if counter is not None:
                found.tokens += count_messages([*history, user], counter)
                found.tokens_sent += count_messages([*left, user], counter)
            for call, values in needs:
                wanted = full.needed(values)
                lost = sorted(v for v in wanted if not sent.keeps(v, full))
                if call:
                    found.calls += bool(wanted)
                    found.calls_whole += bool(wanted) and not lost
                else:
                    found.values += len(wanted)
                    found.values_kept += len(wanted) - len(lost)
                if lost:
                    found.losses.append(
                        Loss(
                            conversation=conversation.id,
                            turn=number,
                            agent=agent,
                            call=call,
                            values=tuple(lost),
                        )
                    )
            run += said
        past += [replace(m, from_history=True) for m in (user, *run)]


def _length(message: Message) -> int:
    """Return the characters of a message as its text, without the escapes of JSON in JSON."""
    if isinstance(message, ToolResultMessage):
        inner = payload_of(message)[1]
        return len(inner if isinstance(inner, str) else json.dumps(inner))
    return len(text_of(message))


def _messages(
    reply: RecordedReply, agent: str
) -> tuple[list[Message], list[tuple[str, list[str]]]]:
    """Return a reply with the results of its calls, and the values that each part needs."""
    messages: list[Message] = []
    needs: list[tuple[str, list[str]]] = []
    if reply.text:
        messages.append(TextMessage("assistant", reply.text, agent=agent, from_history=False))
        needs.append(("", list(values_in(reply.text))))
    calls = [ToolCall(c.id, c.name, c.arguments) for c in reply.calls]
    if calls:
        messages.append(ToolCallMessage(calls, agent=agent, from_history=False))
    for call, recorded in zip(calls, reply.calls, strict=True):
        result: Any = recorded.result
        content = {"data": result}
        messages.append(ToolResultMessage(call, content, agent=agent, from_history=False))
        needs.append((call.name, [value for value, _ in _in_json(call.arguments, "")]))
    return messages, needs
