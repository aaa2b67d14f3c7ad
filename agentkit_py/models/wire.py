"""What all wire formats share: call groups, ids, names, and the words we put in ourselves.

Between our messages and a provider's stands a list of *units*: a text, a reasoning, or an
`Exchange`, which is one group of tool calls with the result of each. Encoders work on units, so
that no format can separate a call from its result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, assert_never

from agentkit_py._core.json import JsonValue, dumps
from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import (
    Message,
    ReasoningMessage,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
    wire_memo,
)
from agentkit_py.models.arguments import arguments_object, arguments_text
from agentkit_py.models.base import ModelRequest
from agentkit_py.models.media import text_pieces

EMPTY_TURN = "Continue."
"""The user's turn where a provider wants one and there is none at all."""

OPENING_TURN = "(The conversation so far:)"
"""The user's turn before a conversation that begins with an assistant, where one is required."""

AUTHOR_TURN = "Agent {agent} said:\n\n{text}"
"""A user turn with the text of another agent that was last to speak."""

OWN_TURN = "You said:\n\n{text}"
"""A user turn with the text of the agent itself, which was last to speak."""

UNKNOWN_AUTHOR_TURN = "The assistant said:\n\n{text}"
"""A user turn with the last text where nobody knows who wrote it."""

PREFILL_TURN = "Begin your reply with exactly this text, and continue from there:\n\n{text}"
"""A user turn in place of a prefill, for models that refuse to continue a turn of their own."""

CALL_TEXT = "[Called tool {name} with {arguments}]"
"""A tool call as text, where the request has no tools."""

RESULT_TEXT = "[Result of tool {name}: {content}]"
"""A tool's result as text, where the request has no tools."""

NO_RESULT = "No result."
"""Result of a call that has none. The engine never sends one; encoders stay total."""

_MAX_ID = 40  # OpenAI's limit for tool_call_id; Anthropic's pattern is the stricter one.
_NOT_IN_ID = re.compile(r"[^a-zA-Z0-9_-]")
_ID = re.compile(rf"[a-zA-Z0-9_-]{{1,{_MAX_ID}}}")
_MAX_NAME = 64
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")


@dataclass(slots=True)
class Exchange:
    """One group of tool calls, each with its result, in the order of the calls.

    Texts are made when they are first asked for. Where a group is one message and its results, as
    it mostly is, `units` keeps it with that message: what was encoded once is not encoded again
    when the conversation grows.
    """

    calls: tuple[ToolCall, ...]
    results: tuple[JsonValue, ...]
    _arguments: tuple[str, ...] | None = field(default=None, init=False, repr=False, compare=False)
    _outputs: tuple[str, ...] | None = field(default=None, init=False, repr=False, compare=False)
    _inputs: tuple[dict[str, Any], ...] | None = field(
        default=None, init=False, repr=False, compare=False
    )
    _names: tuple[str, ...] | None = field(default=None, init=False, repr=False, compare=False)
    _rows: tuple[tuple[str, bool, str, str, str], ...] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each call's tool, see `wire_name`."""
        if self._names is None:
            self._names = tuple([wire_name(call.name) for call in self.calls])
        return self._names

    @property
    def arguments(self) -> tuple[str, ...]:
        """Each call's arguments as JSON text."""
        if self._arguments is None:
            self._arguments = tuple([clean(arguments_text(call)) for call in self.calls])
        return self._arguments

    @property
    def inputs(self) -> tuple[dict[str, Any], ...]:
        """Each call's arguments as an object; encoders do not change it."""
        if self._inputs is None:
            self._inputs = tuple([clean_json(arguments_object(call)) for call in self.calls])
        return self._inputs

    @property
    def rows(self) -> tuple[tuple[str, bool, str, str, str], ...]:
        """Each call's own id, whether that may be sent, its name, arguments and output."""
        if self._rows is None:
            ids = [call.id for call in self.calls]
            fit = [_ID.fullmatch(one) is not None for one in ids]
            self._rows = tuple(zip(ids, fit, self.names, self.arguments, self.outputs, strict=True))
        return self._rows

    @property
    def outputs(self) -> tuple[str, ...]:
        """Each call's result as text, see `result_text`."""
        if self._outputs is None:
            self._outputs = tuple([result_text(result) for result in self.results])
        return self._outputs


Unit: TypeAlias = TextMessage | ReasoningMessage | Exchange


def units(messages: Sequence[Message]) -> list[Unit]:
    """The messages with each group of calls and results made one `Exchange`."""
    found: list[Unit] = []
    index, last = 0, len(messages)
    while index < last:
        message = messages[index]
        if type(message) is TextMessage:  # most of them
            found.append(message)
            index += 1
            continue
        if isinstance(message, ToolCallMessage):
            index = _read_group(messages, index, message, found)
            continue
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
    results = tuple(messages[index + 1 : end])
    further = end < len(messages) and isinstance(messages[end], ToolResultMessage)
    exchange = None if further else _exchange_of(message, results)
    if exchange is not None:
        found.append(exchange)
        return end
    group = _Group()
    end = group.read(messages, index)
    found += group.thoughts
    if group.calls:
        found.append(pair(group.calls, group.results))
    return end


def _exchange_of(message: ToolCallMessage, results: tuple[Message, ...]) -> Exchange | None:
    """The exchange of a message and what follows it, made once; None if that is not its results."""
    memo = wire_memo(message)
    known = memo.get("exchange")
    if known is not None and known[0] == results:  # the same objects, mostly
        return known[1]
    calls = message.tools
    if not calls or len(results) != len(calls):
        return None
    answers = [result for result in results if isinstance(result, ToolResultMessage)]
    keys = [(result.tool.id, result.tool.name) for result in answers]
    if keys != [(call.id, call.name) for call in calls]:
        return None
    exchange = Exchange(tuple(calls), tuple([answer.content for answer in answers]))
    memo["exchange"] = (results, exchange)
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

    def take(self, call_id: str, *, fits: bool | None = None) -> str:
        """A wire id for the next call, whose own id is ``call_id``.

        Args:
            call_id: The call's own id.
            fits: Whether it is of the form that every provider accepts, where that is known.
        """
        fits = _ID.fullmatch(call_id) is not None if fits is None else fits
        if fits and call_id not in self._used:
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


def wire_name(name: str) -> str:
    """``name`` as a tool may be called everywhere; history may hold names from anywhere."""
    if _NAME.fullmatch(name):
        return name
    cleaned = _NOT_IN_ID.sub("_", name)[:_MAX_NAME]
    return cleaned if _NAME.fullmatch(cleaned) else f"_{cleaned}"[:_MAX_NAME]


def result_text(content: JsonValue) -> str:
    """A tool result as text: strings as they are, all else as JSON."""
    return clean(content if isinstance(content, str) else dumps(content))


def clean(text: str) -> str:
    """``text`` without lone surrogates, which UTF-8 has no form for and providers refuse."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def clean_json(value: dict[str, Any]) -> dict[str, Any]:
    """JSON without lone surrogates; the same object where there are none."""
    text = dumps(value)
    cleaned = clean(text)
    return value if cleaned is text else json.loads(cleaned)


def texts(message: TextMessage) -> list[str]:
    """The message's pieces of text that hold more than whitespace; images and files in words."""
    content = message.content
    if isinstance(content, str):
        return [clean(content)] if content.strip() else []
    return [clean(piece) for piece in text_pieces(content) if piece.strip()]


def closing_turn(message: TextMessage, text: str, reader: str) -> str:
    """What ``message`` reads like as a user's turn that says who wrote it.

    Anthropic and Gemini take a conversation that ends with an assistant for a reply to continue,
    or refuse it; so an agent that answers another one's closing text gets it as the user's words.
    """
    if message.agent is None:
        return UNKNOWN_AUTHOR_TURN.format(text=text)
    if message.agent == reader:
        return OWN_TURN.format(text=text)
    return AUTHOR_TURN.format(agent=message.agent, text=text)


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


def system_text(items: Sequence[Unit]) -> str:
    """All system messages, wherever they stand, as one text.

    Anthropic and Gemini know instructions beside the conversation only; what the system says in
    the middle keeps its authority there, at the price of its place.
    """
    said = [
        piece
        for unit in items
        if isinstance(unit, TextMessage) and unit.role == "system"
        for piece in texts(unit)
    ]
    return "\n\n".join(said)


def call_text(call: ToolCall) -> str:
    """A tool call as text."""
    return clean(CALL_TEXT.format(name=call.name, arguments=arguments_text(call)))


def call_result_text(call: ToolCall, content: JsonValue) -> str:
    """A tool result as text."""
    return clean(RESULT_TEXT.format(name=call.name, content=result_text(content)))


def split_prefill(request: ModelRequest) -> tuple[Sequence[Message], str]:
    """The conversation, and the text with which the agent wants its answer to begin."""
    if request.prefill <= 0:
        return request.messages, ""
    conversation = request.messages[: -request.prefill]
    texts_ = [
        piece
        for message in request.messages[-request.prefill :]
        if isinstance(message, TextMessage)
        for piece in texts(message)
    ]
    return conversation, "".join(texts_).rstrip()


def named_choice(request: ModelRequest) -> str:
    """The name of the tool that must be called.

    Raises:
        ConfigurationError: The agent has no such tool.
    """
    names = [spec.name for spec in request.tools]
    if request.tool_choice not in names:
        raise ConfigurationError(
            f"tool_choice={request.tool_choice!r}: agent {request.agent!r} has no such tool, only "
            f"{', '.join(names)}."
        )
    return request.tool_choice
