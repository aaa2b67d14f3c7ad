"""Encoding conversations: what the request bodies of all wire formats share.

An encoder reads a conversation as texts, reasoning, and groups of `ToolExchange`s that no format
can take apart. Names, ids, texts and arguments come out of here in a form that every provider
accepts.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from copy import copy
from functools import cache
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar, assert_never, cast

from agentkit_py._core.json import JsonValue, as_list, as_object, copied, dumps
from agentkit_py._core.untrusted import get_logger
from agentkit_py._core.urls import ALLOWED_HOSTS, private_address
from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import (
    ContentPart,
    FileContent,
    ImageContent,
    MediaContent,
    Message,
    OpaqueMessage,
    ReasoningMessage,
    TextContent,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
    may_hold_media,
    result_parts,
)
from agentkit_py.models.base import HostedTool, Model, ModelRequest
from agentkit_py.models.capabilities import Capabilities
from agentkit_py.models.replies import parse_call

logger: logging.Logger = get_logger("agentkit_py")

EMPTY_TURN = "Continue."
"""The user's turn where chat completions would be asked with no message at all."""

OPENING_TURN = "(The conversation begins here.)"
"""The user's turn where a conversation is empty, and where it begins with an assistant."""

AUTHOR_TURN = "(The last message is from agent {agent}.) Continue."
"""The user's turn between the closing text of an agent and the next reply, whoever gives it."""

NO_ANSWER = "(No answer followed.)"
"""An assistant's turn between results and a user, for hosts that refuse the one after the other."""

CLOSING_TURN = "Continue."
"""The user's turn after a closing text whose author is not known."""

PREFILL = "Begin each of your replies with exactly this text, and continue from there:\n\n{text}"
"""Ends the system prompt in place of a prefill, for models that refuse to continue a turn."""

CALL_A_TOOL = "Answer by calling one of your tools, not with text."
"""Ends the system prompt where a tool must be called and the model cannot be made to."""

CALL_THE_TOOL = "Answer by calling the tool {name}, not with text."
"""The instruction to call one certain tool."""

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
    """The result as text: strings as they are, all else as JSON, images and files in words."""

    parts: tuple[ContentPart, ...] = ()
    """The result as content parts, if there is an image or a file in it."""

    is_error: bool = False
    """True if the result says that the call failed."""

    agent: str | None = None
    """The agent that called; None: not known."""

    @property
    def words_beside(self) -> str:
        """The result's texts, without words for the images and files that are shown beside them."""
        return clean("\n".join(p.text for p in self.parts if isinstance(p, TextContent)))

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

    def is_call(self, name: object, arguments: object) -> bool:
        """Return whether a block with this name and these arguments says what the call says.

        Arguments that are no JSON never do, nor do refused names: no provider takes them back.
        """
        said, call = parse_call("", str(name), arguments), self.call
        readable = said.malformed is None and call.malformed is None
        same_name = said.name == call.name == self.name
        return readable and same_name and said.arguments == call.arguments

    @property
    def input(self) -> dict[str, Any]:
        """The arguments as a new object, for providers that take nothing but objects."""
        given: object = json.loads(self.arguments)
        found = as_object(given)
        return {VALUE_KEY: given} if found is None else found


Said: TypeAlias = TextMessage | ReasoningMessage | OpaqueMessage
"""A message that is no tool's."""

Entry: TypeAlias = "Said | list[Said | ToolExchange]"
"""A part of a conversation: a message, or a reply from its first call on, with the results."""


def _entries(messages: Sequence[Message], ids: _UniqueIds) -> list[Entry]:
    """Return the conversation with the calls of each reply as tool exchanges.

    What a model said between its calls, or after them, stands between them or after them. A result
    without a call cannot be sent anywhere and is left out; valid histories have none.
    """
    found: list[Entry] = []
    index = 0
    while index < len(messages):
        message = messages[index]
        index += 1
        if isinstance(message, ToolCallMessage):
            end = _end_of_group(messages, index)
            if group := _group(messages[index - 1 : end], ids):
                found.append(group)
            index = end
        elif not isinstance(message, ToolResultMessage):
            found.append(message)
    return found


def _group(messages: Sequence[Message], ids: _UniqueIds) -> list[Said | ToolExchange]:
    """Return the messages of a reply from its first call on, each call with its result."""
    calls = [call for m in messages if isinstance(m, ToolCallMessage) for call in m.tools]
    results = [m for m in messages if isinstance(m, ToolResultMessage)]
    contents = iter(_results_of(calls, results))
    group: list[Said | ToolExchange] = []
    for message in messages:
        if isinstance(message, ToolCallMessage):
            group += [
                exchange(call, ids.take(call.id), next(contents), message.agent)
                for call in message.tools
            ]
        elif not isinstance(message, ToolResultMessage):
            group.append(message)
    return group


def exchanges_of(entry: Sequence[Said | ToolExchange]) -> list[ToolExchange]:
    """Return the calls of a reply with their results."""
    return [one for one in entry if isinstance(one, ToolExchange)]


def _end_of_group(messages: Sequence[Message], start: int) -> int:
    """Return the index after the last result of the calls before ``start``.

    Calls may follow calls; what the model said else is the group's if a call or a result follows.
    """
    end, answered = start, False
    for index in range(start, len(messages)):
        message = messages[index]
        if isinstance(message, ToolResultMessage):
            answered = True
        elif answered or (isinstance(message, TextMessage) and message.role != "assistant"):
            break
        elif not isinstance(message, ToolCallMessage):
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


def exchange(call: ToolCall, call_id: str, content: JsonValue, agent: str | None) -> ToolExchange:
    """Return a call with its result in all forms that formats take."""
    if isinstance(content, str):
        return ToolExchange(call, call_id, clean(content), agent=agent)
    failed, text = "error" in (as_object(content) or {}), dumps(content)
    parts = result_parts(content) if may_hold_media(text) else None
    if parts is None:
        return ToolExchange(call, call_id, clean(text), is_error=failed, agent=agent)
    pieces = [part.text if isinstance(part, TextContent) else words_for(part) for part in parts]
    return ToolExchange(call, call_id, clean("\n".join(pieces)), tuple(parts), failed, agent)


class _UniqueIds:
    """Ids that are unique within one request and that every provider accepts.

    An id that is fine and new stays as it came. Others are derived from what came before only, so
    the beginning of a conversation is encoded the same as it grows (providers cache prefixes).
    """

    def __init__(self, length: int | None = None) -> None:
        self._length = length
        """The number of letters and digits that an id must have; None: all that `_ID` takes."""

        self._used: set[str] = set()
        self._next: dict[str, int] = {}

    def __copy__(self) -> _UniqueIds:
        made = _UniqueIds(self._length)
        made._used, made._next = self._used.copy(), self._next.copy()
        return made

    def take(self, call_id: str) -> str:
        if self._length is not None:
            return self._take_short(call_id, self._length)
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

    def _take_short(self, call_id: str, length: int) -> str:
        fits = len(call_id) == length and call_id.isascii() and call_id.isalnum()
        wire_id, number = call_id if fits else "", 0
        while not wire_id or wire_id in self._used:
            said = f"{call_id}\0{number}".encode("utf-8", "replace")
            wire_id = hashlib.blake2b(said).hexdigest()[:length]
            number += 1
        self._used.add(wire_id)
        return wire_id


class Writer(ABC):
    """A conversation as a wire format writes it, as far as it has been read."""

    def __init__(self, id_length: int | None = None) -> None:
        """Begin with nothing.

        Args:
            id_length: The number of letters and digits of calls' ids; None: any that fit.
        """
        self.read: Sequence[Message] = ()
        """Messages that are written, and with which later requests begin, too."""

        self.facts: Sequence[object] = ()
        """What the form of messages depends on besides."""

        self.reply: frozenset[int] = frozenset()
        """The `id()` of messages that the model has just given."""

        self._last: Entry | None = None
        self._ids = _UniqueIds(id_length)

    @abstractmethod
    def write(self, entry: Entry) -> None:
        """Write what comes next."""

    def add(self, messages: Sequence[Message]) -> None:
        """Write the next messages."""
        for entry in _entries(messages, self._ids):
            self.write(entry)
            self._last = entry

    def is_continued(self, reader: str) -> bool:
        """Return whether the conversation ends with a paused reply of the reader, to go on now."""
        last = self._last
        if last is None or isinstance(last, list):
            return False
        return last.stop_reason == "pause" and last.agent in (None, reader)

    def fork(self, reply: frozenset[int]) -> Self:
        """Return one that goes on by itself, with a reply."""
        made = copy(self)
        made.reply = reply
        for name, value in vars(made).items():
            if isinstance(value, list | dict | set | _UniqueIds):
                setattr(made, name, copy(cast("object", value)))
        return made

    def may_go_on(self, messages: Sequence[Message]) -> bool:
        """Return whether what is written stays as it is if these messages follow."""
        return True

    def begins(self, messages: Sequence[Message], facts: Sequence[object]) -> bool:
        """Return whether what is written is the beginning of a conversation.

        System messages are made anew for each request; others are the same objects.
        """
        count = len(self.read)
        same = count <= len(messages) and self.facts == facts
        same = same and all(
            old is new or (old.role == "system" and old == new)
            for old, new in zip(self.read, messages, strict=False)
        )
        return same and _is_between(messages, count) and self.may_go_on(messages[count:])


W = TypeVar("W", bound=Writer)
_MOST_WRITERS = 4
"""The agents whose conversations a run keeps as they were written."""


def written(
    request: ModelRequest,
    messages: Sequence[Message],
    own: Sequence[Message],
    facts: Sequence[object],
    begin: Callable[[], W],
) -> W:
    """Return a writer that has written a request's conversation, for the caller to end.

    A message has one form on the wire whatever follows it. So the next request of a run goes on
    with what was written for the last one, where that is its beginning.

    Args:
        request: The request.
        messages: What is written.
        own: Those at its end that later requests do not begin with: a prefill, or the reply.
        facts: What the form of the messages depends on besides.
        begin: Makes a writer that has read nothing.
    """
    kept, end = request.writers, max(0, len(messages) - len(own))
    reply = frozenset(map(id, own))
    if kept is None or not _is_between(messages, end):
        writer = begin()
        writer.reply = reply
        writer.add(messages)
        return writer
    last = kept.pop(request.agent, None)
    if last is None or not last.begins(messages[:end], facts):
        last = begin()
        last.facts = facts
    last.add(messages[len(last.read) : end])
    last.read = messages[:end]
    kept[request.agent] = last
    if len(kept) > _MOST_WRITERS:
        del kept[next(iter(kept))]
    writer = last.fork(reply)
    writer.add(messages[end:])
    return writer


def _is_between(messages: Sequence[Message], index: int) -> bool:
    """Return whether a place in a conversation is none inside a reply with its results."""
    if not 0 < index < len(messages):
        return True
    if messages[index].type == "tool_result":
        return False
    for before in range(index - 1, -1, -1):
        message = messages[before]
        if message.type == "tool_call":
            return False
        if message.role != "assistant":
            return True
    return True


def clean(text: str) -> str:
    """Return ``text`` without lone surrogates, which UTF-8 has no form for and providers refuse."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def wired(value: Any) -> Any:
    """Return a copy of JSON that goes back as it came, its names and texts `clean`."""
    if isinstance(value, str):
        return clean(value)
    fields, items = as_object(value), as_list(value)
    if fields is not None:
        return {clean(name): wired(one) for name, one in fields.items()}
    return value if items is None else [wired(one) for one in items]


def texts(message: TextMessage) -> list[str]:
    """Return the message's texts that hold more than white space; images and files in words."""
    content = message.content
    if isinstance(content, str):
        return [clean(content)] if content.strip() else []
    pieces = [p.text if isinstance(p, TextContent) else words_for(p) for p in content]
    return [clean(piece) for piece in pieces if piece.strip()]


def closing_turn(author: str | None) -> str:
    """Return the user's turn between an assistant's closing text and another reply.

    Anthropic and Gemini take a conversation that ends with an assistant for a reply to continue,
    or refuse it. The turn says who spoke last, whoever reads it, and stays in its place when the
    conversation goes on (see `blocks.turn_mark`): a message has one form on the wire for ever.
    """
    return CLOSING_TURN if author is None else AUTHOR_TURN.format(agent=clean(author))


def ends_with_assistant(request: ModelRequest) -> bool:
    """Return whether the last word of the conversation may be an assistant's."""
    last = next(
        (
            message
            for message in reversed(split_prefill(request)[0])
            if message.role != "system" and not isinstance(message, ReasoningMessage)
        ),
        None,
    )
    return last is not None and last.role == "assistant"


def role_message(text: str, added: Iterable[str], removed: Iterable[str]) -> TextMessage:
    """Return a system message that stands between others, where another agent begins to speak.

    Args:
        text: What it says.
        added: Tools that may be called from here on.
        removed: Tools that may not be called from here on.
    """
    changes = {"added": sorted(added), "removed": sorted(removed)}
    return TextMessage("system", text, provider_metadata={"role": changes})


def tool_changes(message: Message) -> tuple[Sequence[str], Sequence[str]] | None:
    """Return the tools that a `role_message` adds and removes; None: it is another message."""
    changes = as_object((message.provider_metadata or {}).get("role"))
    if changes is None or message.role != "system":
        return None
    added, removed = (as_list(changes.get(name)) or [] for name in ("added", "removed"))
    return [str(name) for name in added], [str(name) for name in removed]


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


def without_sampling(
    parameters: dict[str, Any], takes: Capabilities, effort: object
) -> dict[str, Any]:
    """Return OpenAI's parameters without those of sampling, which models that reason refuse.

    Without any effort they take them; from GPT-6.2 on, never.
    """
    if takes.sampling or (effort == "none" and not takes.checks_prefix):
        return parameters
    refused = ("temperature", "top_p", "logprobs", "top_logprobs")
    return {name: value for name, value in parameters.items() if name not in refused}


def asks_for_call(request: ModelRequest) -> str:
    """Return the words that ask for a call, for models that cannot be made to; may be empty."""
    if not request.tools or request.tool_choice == "auto":
        return ""
    if request.tool_choice == "any":
        return CALL_A_TOOL
    return CALL_THE_TOOL.format(name=named_choice(request))


def openai_mode(request: ModelRequest) -> str | None:
    """Return OpenAI's word for who chooses the tool; None: a certain tool is asked for."""
    if request.allowed_tools is not None and not request.allowed_tools:
        return "none"
    return {"auto": "auto", "any": "required"}.get(request.tool_choice)


def allowed_of(request: ModelRequest, takes: Capabilities) -> list[str]:
    """Return the tools that a choice is restricted to; empty: it is not, or cannot be."""
    allowed = request.allowed_tools
    if allowed is None or not takes.restricts_tools:
        return []
    return [spec.name for spec in request.tools if spec.name in allowed]


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
    assert not isinstance(message.content, str)
    return _encoded(message.content, text, media)


def result_content(
    one: ToolExchange,
    text: Callable[[str], Encoded],
    media: Callable[[MediaContent], Encoded | None],
) -> str | list[Encoded]:
    """Return a result as a format takes it that has images and files in results.

    That is its text, unless there is one; what the format has no form for is put in words.
    """
    return (_encoded(one.parts, text, media) if one.parts else "") or one.output


@cache
def warn_of_words(format_name: str) -> None:
    """Say once that images and files in results are sent to a format as words."""
    logger.warning(
        "An image or a file in a tool's result is named in words only: %s takes text alone there. "
        "Claude, OpenAI's Responses and Gemini 3 take images in results.",
        format_name,
    )


def _encoded(
    parts: Sequence[ContentPart],
    text: Callable[[str], Encoded],
    media: Callable[[MediaContent], Encoded | None],
) -> list[Encoded]:
    found: list[Encoded] = []
    for part in parts:
        if not isinstance(part, TextContent):
            found.append((may_be_sent(part) and media(part)) or text(clean(words_for(part))))
        elif part.text.strip():
            found.append(text(clean(part.text)))
    return found


def may_be_sent(part: MediaContent) -> bool:
    """Return False for a URL of a private network: a stranger could read it through the model."""
    reason = None if part.url is None else private_address(part.url)
    if reason is not None:
        logger.warning(
            "The URL of an image or file is not sent for the model to fetch, its words are: %s. "
            "Private hosts that may be read go into %s.",
            reason,
            ALLOWED_HOSTS,
        )
    return reason is None


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


def text_in_file(part: MediaContent) -> str | None:
    """Return the text in a text file's bytes; None: it is none."""
    if part.data is None or not media_type(part).startswith("text/"):
        return None
    try:
        return base64.b64decode(part.data, validate=True).decode()
    except ValueError:
        return None


def is_link_or(part: MediaContent, kinds: Container[str]) -> bool:
    """Return whether the part is a link, or bytes of one of these media types."""
    return part.data is None or media_type(part) in kinds


Tool: TypeAlias = dict[str, Any]

_NAMED: Mapping[str, Mapping[str, Tool]] = {
    "anthropic": {
        "web_search": {"type": "web_search_20250305", "name": "web_search"},
        "code_execution": {"type": "code_execution_20250825", "name": "code_execution"},
        "tool_search": {
            "type": "tool_search_tool_regex_20251119",
            "name": "tool_search_tool_regex",
        },
    },
    "openai-responses": {
        "web_search": {"type": "web_search"},
        "code_execution": {"type": "code_interpreter", "container": {"type": "auto"}},
        "image_generation": {"type": "image_generation"},
        "tool_search": {"type": "tool_search"},
    },
    "gemini": {
        "web_search": {"googleSearch": {}},
        "code_execution": {"codeExecution": {}},
    },
}


def hosted_tools(model: Model, request: ModelRequest, key: str) -> list[Tool]:
    """Return the hosted tools of a request as its format writes them.

    Raises:
        ConfigurationError: The format has no such tool, or none at all.
    """
    return [_tool(model, key, one) for one in request.hosted]


def _tool(model: Model, key: str, one: HostedTool) -> Tool:
    known = _NAMED.get(key)
    if known is None:
        raise ConfigurationError(
            f"hosted_tools={one!r:.80}: {model.provider} model {model.model!r} speaks a format "
            "without hosted tools. Use openai_responses, anthropic or gemini."
        )
    if not isinstance(one, str):
        return dict(copied(dict(one)))
    if one not in known:
        raise ConfigurationError(
            f"hosted_tools={one!r}: {model.provider} has no tool of this name that needs no "
            f"settings, only {', '.join(known)}. Pass the provider's own JSON as a dict."
        )
    return dict(copied(known[one]))
