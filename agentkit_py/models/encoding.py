"""Encoding conversations: what the request bodies of all wire formats share.

An encoder reads a conversation as texts, reasoning, and groups of `ToolExchange`s that no format
can take apart. Names, ids, texts and arguments come out of here in a form that every provider
accepts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Sequence
from typing import Any, NamedTuple, TypeAlias, assert_never

from agentkit_py._core.json import JsonValue, as_object, dumps
from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import (
    FileContent,
    ImageContent,
    MediaContent,
    Message,
    ReasoningMessage,
    TextContent,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
)
from agentkit_py.models.base import ModelRequest

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

NO_RESULT = "No result."
"""Result of a call that has none. The engine never sends one; encoders stay total."""

MALFORMED_KEY = "malformed_arguments"
"""Under this name a model gets back arguments that were no JSON, where an object is due."""

VALUE_KEY = "value"
"""Under this name arguments that are JSON but no object go back where an object is due."""

_MAX_ID = 40  # OpenAI's limit for tool_call_id; Anthropic's pattern is the stricter one.
_ID = re.compile(rf"[a-zA-Z0-9_-]{{1,{_MAX_ID}}}")
_MAX_NAME = 64
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


class ToolExchange(NamedTuple):
    """A tool call and its result."""

    call: ToolCall
    id: str
    """The call's id, unique within the request."""

    output: str
    """The result as text: strings as they are, all else as JSON."""

    @property
    def name(self) -> str:
        """The tool's name; history may hold names that providers refuse."""
        name = self.call.name
        if _NAME.fullmatch(name):
            return name
        cleaned = _NOT_IN_NAMES.sub("_", name)[:_MAX_NAME]
        return cleaned if _NAME.fullmatch(cleaned) else f"_{cleaned}"[:_MAX_NAME]

    @property
    def arguments(self) -> str:
        """The arguments as JSON text, always valid JSON."""
        malformed = self.call.malformed
        return clean(
            dumps(self.call.arguments if malformed is None else {MALFORMED_KEY: malformed})
        )

    @property
    def input(self) -> dict[str, Any]:
        """The arguments as a new object, for providers that take nothing but objects."""
        given: object = json.loads(self.arguments)
        found = as_object(given)
        return {VALUE_KEY: given} if found is None else found


Entry: TypeAlias = TextMessage | ReasoningMessage | list[ToolExchange]
"""A part of a conversation: a message, or the calls of one reply with their results."""


def entries(messages: Sequence[Message]) -> list[Entry]:
    """Return the conversation with each group of calls and results as tool exchanges.

    A result without a call cannot be sent anywhere and is left out; valid histories have none.
    """
    ids = _UniqueIds()
    found: list[Entry] = []
    index = 0
    while index < len(messages):
        message = messages[index]
        index += 1
        if isinstance(message, ToolCallMessage):
            end = _end_of_group(messages, index)
            group = messages[index:end]
            calls, results = [*message.tools], list[ToolResultMessage]()
            for other in group:
                if isinstance(other, ToolCallMessage):
                    calls += other.tools
                elif isinstance(other, ToolResultMessage):
                    results.append(other)
                else:
                    assert isinstance(other, ReasoningMessage)
                    found.append(other)
            if calls:
                contents = _results_of(calls, results)
                found.append(
                    [
                        ToolExchange(call, ids.take(call.id), _result_text(content))
                        for call, content in zip(calls, contents, strict=True)
                    ]
                )
            index = end
        elif not isinstance(message, ToolResultMessage):
            found.append(message)
    return found


def _end_of_group(messages: Sequence[Message], start: int) -> int:
    """Return the index after the last result of the calls before ``start``.

    Calls may follow calls; reasoning is the group's if a further call or a result follows.
    """
    end, answered = start, False
    for index in range(start, len(messages)):
        message = messages[index]
        if isinstance(message, ToolResultMessage):
            answered = True
        elif answered or isinstance(message, TextMessage):
            break
        elif isinstance(message, ReasoningMessage):
            continue
        end = index + 1
    return end


def _results_of(calls: Sequence[ToolCall], results: Sequence[ToolResultMessage]) -> list[JsonValue]:
    """Return the result of each call: by id and name, and what is left over by order."""
    wanted = [(call.id, call.name) for call in calls]
    if wanted == [(result.tool.id, result.tool.name) for result in results]:
        return [result.content for result in results]
    waiting: dict[tuple[str, str], list[int]] = {}
    for index in reversed(range(len(calls))):
        waiting.setdefault(wanted[index], []).append(index)
    matched: dict[int, JsonValue] = {}
    unmatched: list[JsonValue] = []
    for result in results:
        same = waiting.get((result.tool.id, result.tool.name))
        if same:
            matched[same.pop()] = result.content
        else:
            unmatched.append(result.content)
    spare = iter(unmatched)
    return [
        matched[index] if index in matched else next(spare, NO_RESULT)
        for index in range(len(calls))
    ]


def _result_text(content: JsonValue) -> str:
    return clean(content if isinstance(content, str) else dumps(content))


class _UniqueIds:
    """Ids that are unique within one request and that every provider accepts.

    An id that is fine and new stays as it came. Others are derived from what came before only, so
    the beginning of a conversation is encoded the same as it grows (providers cache prefixes).
    """

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._next: dict[str, int] = {}

    def take(self, call_id: str) -> str:
        if call_id not in self._used and _ID.fullmatch(call_id):
            self._used.add(call_id)
            return call_id
        base = _NOT_IN_NAMES.sub("_", call_id)[:_MAX_ID] or "call"
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


def clean(text: str) -> str:
    """Return ``text`` without lone surrogates, which UTF-8 has no form for and providers refuse."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def texts(message: TextMessage) -> list[str]:
    """Return the message's texts that hold more than white space; images and files in words."""
    content = message.content
    if isinstance(content, str):
        return [clean(content)] if content.strip() else []
    pieces = [p.text if isinstance(p, TextContent) else words_for(p) for p in content]
    return [clean(piece) for piece in pieces if piece.strip()]


def closing_turn(entries: Sequence[Entry], reader: str) -> tuple[TextMessage | None, str]:
    """Return the assistant's text that ends the conversation, and how it reads as a user's turn.

    Anthropic and Gemini take a conversation that ends with an assistant for a reply to continue,
    or refuse it; so an agent that answers another one's closing text gets it as the user's words,
    which say who wrote it.
    """
    message = _closing_text(entries)
    if message is None:
        return None, ""
    text = "".join(texts(message)).strip()
    if message.agent is None:
        return message, UNKNOWN_AUTHOR_TURN.format(text=text)
    if message.agent == reader:
        return message, OWN_TURN.format(text=text)
    return message, AUTHOR_TURN.format(agent=message.agent, text=text)


def _closing_text(entries: Sequence[Entry]) -> TextMessage | None:
    for entry in reversed(entries):
        if isinstance(entry, list):
            return None
        if isinstance(entry, TextMessage) and entry.role != "system" and texts(entry):
            return entry if entry.role == "assistant" else None
    return None


def split_prefill(request: ModelRequest) -> tuple[Sequence[Message], str]:
    """Return the conversation, and the text with which the agent wants its answer to begin."""
    if request.prefill <= 0:
        return request.messages, ""
    prefill = [
        piece
        for message in request.messages[-request.prefill :]
        if isinstance(message, TextMessage)
        for piece in texts(message)
    ]
    return request.messages[: -request.prefill], "".join(prefill).rstrip()


def named_choice(request: ModelRequest) -> str:
    """Return the name of the tool that must be called.

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


# Images and files. Only users' messages can carry them; there is no wire format in which the
# system or an assistant may.

Encoded: TypeAlias = dict[str, Any]


def has_media(message: TextMessage) -> bool:
    """Return whether the message holds an image or a file."""
    return not isinstance(message.content, str) and any(
        not isinstance(part, TextContent) for part in message.content
    )


def encoded_parts(
    message: TextMessage,
    text: Callable[[str], Encoded],
    media: Callable[[MediaContent], Encoded | None],
) -> list[Encoded]:
    """Return the parts of a user's message with something in them, in their order.

    Args:
        message: Its content is a list.
        text: Gives a provider's form of a text.
        media: Gives that of an image or file; what it has no form for is put in words.
    """
    found: list[Encoded] = []
    for part in message.content:
        assert not isinstance(part, str)
        if not isinstance(part, TextContent):
            found.append(media(part) or text(clean(words_for(part))))
        elif part.text.strip():
            found.append(text(clean(part.text)))
    return found


def words_for(part: MediaContent) -> str:
    """Return words for an image or file, where the format or the role has none."""
    where = f" at {part.url}" if part.url else ""
    match part:
        case ImageContent():
            return f"[image{where}]"
        case FileContent():
            return f"[file{f' {part.name}' if part.name else ''}{where}]"
        case _:
            assert_never(part)


def media_type(part: MediaContent) -> str:
    """Return the type of a part's bytes as providers write it: ``image/jpg`` is ``image/jpeg``."""
    kind = (part.media_type or "").partition(";")[0].strip().lower()
    return "image/jpeg" if kind == "image/jpg" else kind


def data_url(part: MediaContent) -> str:
    """Return the part's URL, or its bytes as one."""
    return part.url or f"data:{media_type(part)};base64,{part.data}"


def is_link_or(part: MediaContent, kinds: Container[str]) -> bool:
    """Return whether the part is a link, or bytes of one of these media types."""
    return part.data is None or media_type(part) in kinds
