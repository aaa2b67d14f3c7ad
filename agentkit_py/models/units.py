"""What encoders work on: texts, reasoning, and call groups that no format can take apart.

Between our messages and a provider's stands a list of *units*: a text, a reasoning, or an
`Exchange`, which is one group of tool calls with the result of each. What a format needs of a
group is made once and kept with its message, as values that nobody can change: texts, and the
message's own JSON. Bodies are put together anew from them, so that whoever changes one changes no
other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import is_
from typing import Any, TypeAlias, assert_never

from agentkit_py._core.json import JsonValue, copied, is_flat
from agentkit_py.messages import (
    Message,
    ReasoningMessage,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
    keep_on_wire,
    kept_on_wire,
    text_of,
)
from agentkit_py.models.arguments import arguments_object, arguments_text
from agentkit_py.models.wire import (
    NO_RESULT,
    call_result_text,
    call_text,
    clean,
    clean_json,
    result_text,
    texts,
    wire_name,
)

_MAX_ID = 40  # OpenAI's limit for tool_call_id; Anthropic's pattern is the stricter one.
_NOT_IN_ID = re.compile(r"[^a-zA-Z0-9_-]")
_ID = re.compile(rf"[a-zA-Z0-9_-]{{1,{_MAX_ID}}}")


Row: TypeAlias = tuple[str, str, str, str]
"""A call's id, the name of its tool (see `wire_name`), its arguments as JSON text, its output."""

InputRow: TypeAlias = tuple[str, str, Callable[[], dict[str, Any]], str]
"""The same with what makes a new object of the arguments in place of their text."""


@dataclass(slots=True, eq=False)
class Exchange:
    """One group of tool calls, each with its result, in the order of the calls.

    Texts are made when they are first asked for. Where a group is one message and its results, as
    it mostly is, `units` keeps it with that message: what was encoded once is not encoded again
    when the conversation grows.
    """

    calls: tuple[ToolCall, ...]
    results: tuple[JsonValue, ...]
    answers: tuple[ToolResultMessage, ...] = ()
    """The messages that the results are of, where there is one for each call."""

    only: ToolResultMessage | None = field(default=None, init=False)
    """The one of them, where there is one call."""

    only_id: str = field(default="", init=False)
    """The id of the call, if there is one and its id is fit to be sent; see `WireIds`."""

    has_metadata: bool = field(default=False, init=False)
    """Whether a call carries its provider's opaque data."""

    _outputs: tuple[str, ...] | None = field(default=None, init=False, repr=False)
    _rows: tuple[Row, ...] | None = field(default=None, init=False, repr=False)
    _inputs: tuple[InputRow, ...] | None = field(default=None, init=False, repr=False)
    _told: tuple[tuple[str, ...], tuple[str, ...]] | None = field(
        default=None, init=False, repr=False
    )

    def __post_init__(self) -> None:
        if len(self.calls) == 1 and _ID.fullmatch(self.calls[0].id):
            self.only_id = self.calls[0].id
        self.has_metadata = any(call.provider_metadata for call in self.calls)
        if len(self.answers) == 1:
            self.only = self.answers[0]

    @property
    def outputs(self) -> tuple[str, ...]:
        """Each call's result as text, see `result_text`."""
        if self._outputs is None:
            if self.answers:
                self._outputs = tuple([_answer_text(answer) for answer in self.answers])
            else:
                self._outputs = tuple([result_text(result) for result in self.results])
        return self._outputs

    @property
    def rows(self) -> tuple[Row, ...]:
        """What formats need that take arguments as text."""
        if self._rows is None:
            self._rows = tuple(
                [
                    (call.id, wire_name(call.name), clean(arguments_text(call)), output)
                    for call, output in zip(self.calls, self.outputs, strict=True)
                ]
            )
        return self._rows

    @property
    def inputs(self) -> tuple[InputRow, ...]:
        """What formats need that take arguments as an object."""
        if self._inputs is None:
            given = [clean_json(arguments_object(call)) for call in self.calls]
            self._inputs = tuple(
                [
                    (call.id, wire_name(call.name), _copies(one), output)
                    for call, one, output in zip(self.calls, given, self.outputs, strict=True)
                ]
            )
        return self._inputs

    @property
    def told(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The calls in words, and their results, for requests without tools."""
        if self._told is None:
            answered = zip(self.calls, self.outputs, strict=True)
            self._told = (
                tuple([call_text(call) for call in self.calls]),
                tuple([call_result_text(call, output) for call, output in answered]),
            )
        return self._told


def _copies(given: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """What gives the arguments as an object of the caller's own; in one step if they are flat."""
    return given.copy if is_flat(given) else partial(copied, given)


def _answer_text(answer: ToolResultMessage) -> str:
    """An answer's content as text, of the JSON that its tokens are counted by."""
    content = answer.content
    return result_text(content if isinstance(content, str) else text_of(answer))


Unit: TypeAlias = TextMessage | ReasoningMessage | Exchange


def units(messages: Sequence[Message]) -> list[Unit]:
    """The messages with each group of calls and results made one `Exchange`."""
    found: list[Unit] = []
    given = (*messages, None, None)
    index = 0
    while (message := given[index]) is not None:
        if type(message) is TextMessage:  # most of them
            found.append(message)
            index += 1
        elif isinstance(message, ToolCallMessage):
            known: Exchange | None = kept_on_wire(message)
            answer = given[index + 1]
            if (
                known is not None
                and answer is not None
                and answer is known.only
                and not isinstance(given[index + 2], ToolResultMessage)
            ):
                found.append(known)
                index += 2
            else:
                index = _read_group(messages, index, message, found)
        else:
            # A result without a call cannot be sent anywhere; valid histories have none.
            if not isinstance(message, ToolResultMessage):
                found.append(message)
            index += 1
    return found


def _read_group(
    messages: Sequence[Message], index: int, message: ToolCallMessage, found: list[Unit]
) -> int:
    """Add the group that begins with ``message``, at ``index``; returns the index after it."""
    end = index + 1 + len(message.tools)
    if end >= len(messages) or not isinstance(messages[end], ToolResultMessage):
        exchange = _exchange_of(message, messages[index + 1 : end])
        if exchange is not None:
            found.append(exchange)
            return end
    group = _Group()
    end = group.read(messages, index)
    found += group.thoughts
    if group.calls:
        found.append(pair(group.calls, group.results))
    return end


def _exchange_of(message: ToolCallMessage, results: Sequence[Message]) -> Exchange | None:
    """The exchange of a message and its results, kept with it; None if they are not its."""
    calls = message.tools
    if not calls or len(results) != len(calls):
        return None
    known: Exchange | None = kept_on_wire(message)
    # The same objects: what is equal need not be the same JSON, as True and 1 are not.
    if known is not None and all(map(is_, known.answers, results)):
        return known
    answers = tuple([result for result in results if isinstance(result, ToolResultMessage)])
    keys = [(answer.tool.id, answer.tool.name) for answer in answers]
    if keys != [(call.id, call.name) for call in calls]:
        return None
    exchange = Exchange(tuple(calls), tuple([answer.content for answer in answers]), answers)
    keep_on_wire(message, exchange)
    return exchange


class _Group:
    """Consecutive calls with their results, and what the model thought between the calls."""

    def __init__(self) -> None:
        self.calls: list[ToolCall] = []
        self.thoughts: list[ReasoningMessage] = []
        self.results: list[ToolResultMessage] = []

    def read(self, messages: Sequence[Message], index: int) -> int:
        """Read the group that begins at ``index``; returns the index after it."""
        end = index
        pending: list[ReasoningMessage] = []
        for place in range(index, len(messages)):
            message = messages[place]
            if isinstance(message, ToolResultMessage):
                self.results.append(message)
            elif self.results or isinstance(message, TextMessage):
                break
            elif isinstance(message, ToolCallMessage):
                self.calls.extend(message.tools)
                self.thoughts += pending
                pending = []
            else:
                # Thoughts are the group's if a further call or a result follows.
                pending.append(message)
                continue
            end = place + 1
        if self.results:
            self.thoughts += pending
        return end


def pair(calls: Sequence[ToolCall], results: Sequence[ToolResultMessage]) -> Exchange:
    """Give each call its result: by id and name, and what is left over by order."""
    matched: list[ToolResultMessage | None] = [None] * len(calls)
    waiting: dict[tuple[str, str], list[int]] = {}
    for index in reversed(range(len(calls))):
        waiting.setdefault((calls[index].id, calls[index].name), []).append(index)
    unmatched: list[ToolResultMessage] = []
    for result in results:
        same = waiting.get((result.tool.id, result.tool.name))
        if same:
            matched[same.pop()] = result
        else:
            unmatched.append(result)
    spare = iter(unmatched)
    whole = [result if result is not None else next(spare, None) for result in matched]
    return Exchange(
        calls=tuple(calls),
        results=tuple(NO_RESULT if result is None else result.content for result in whole),
    )


class WireIds:
    """Ids that are unique within one request and that every provider accepts.

    An id that is fine and new stays as it came. Others are derived from what came before only, so
    the beginning of a conversation is encoded the same as it grows (providers cache prefixes).
    """

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._next: dict[str, int] = {}

    def rows(self, exchange: Exchange) -> Sequence[Row]:
        """The group's rows with ids unlike all before them."""
        only = exchange.only_id
        if only and only not in self._used:  # mostly
            self._used.add(only)
            return exchange.rows
        return [(self._take(row[0]), *row[1:]) for row in exchange.rows]

    def inputs(self, exchange: Exchange) -> Sequence[InputRow]:
        """As `rows`, of `Exchange.inputs`."""
        only = exchange.only_id
        if only and only not in self._used:
            self._used.add(only)
            return exchange.inputs
        return [(self._take(row[0]), *row[1:]) for row in exchange.inputs]

    def _take(self, call_id: str) -> str:
        if call_id not in self._used and _ID.fullmatch(call_id):
            self._used.add(call_id)
            return call_id
        base = _NOT_IN_ID.sub("_", call_id)[:_MAX_ID] or "call"
        number = self._next.get(base, 1)
        # A cleaned id is tried as it is first; an empty or repeated one is numbered at once.
        wire_id = base if call_id and base not in self._used else ""
        while not wire_id or wire_id in self._used:
            suffix = f"_{number}"
            wire_id = base[: _MAX_ID - len(suffix)] + suffix
            number += 1
        self._next[base] = number
        self._used.add(wire_id)
        return wire_id


def closing_text(items: Sequence[Unit]) -> TextMessage | None:
    """The assistant's text with which the conversation ends, if it does."""
    for unit in reversed(items):
        match unit:
            case Exchange():
                return None
            case ReasoningMessage():
                continue
            case TextMessage():
                if unit.role != "system" and texts(unit):
                    return unit if unit.role == "assistant" else None
            case _:
                assert_never(unit)
    return None
