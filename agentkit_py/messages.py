"""The messages of a conversation, with the JSON shapes of the TypeScript package.

A message is text, a model's tool calls, one tool's result, or a model's reasoning::

    TextMessage("user", "Where is my parcel?")
    ToolCallMessage((ToolCall("call-1", "track", {"parcel": 17}),))
    ToolResultMessage(ToolCall("call-1", "track", {"parcel": 17}), {"data": "in Linz"})
    TextMessage("assistant", "It is in Linz.")

Text may be a list of content parts: texts, images and files. While a reply is still being written,
its pieces are deltas. All of these are frozen values, their JSON content included: to change a
message, make another one with `dataclasses.replace`.

`text_of` and `counter` say what a message counts in tokens, and keep the count with it; `derived`
makes a rewritten message once, so that it is counted once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Literal, TypeAlias, cast

from agentkit_py._core.json import JsonObject, JsonValue, dumps
from agentkit_py.errors import ConfigurationError

__all__ = [
    "ContentPart",
    "Delta",
    "FileContent",
    "ImageContent",
    "MediaContent",
    "Message",
    "ReasoningDelta",
    "ReasoningMessage",
    "StopReason",
    "TextContent",
    "TextDelta",
    "TextMessage",
    "ToolCall",
    "ToolCallDelta",
    "ToolCallMessage",
    "ToolResultMessage",
    "Usage",
    "UserMessage",
    "counter",
    "derived",
    "origin_of",
    "text_of",
    "text_of_parts",
    "token_memo",
]

StopReason: TypeAlias = Literal["tool", "stop"]


# --------------------------------------------------------------------------- content


@dataclass(frozen=True, slots=True)
class TextContent:
    """One piece of a text message whose content is a list."""

    text: str

    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class ImageContent:
    """A picture in a user's message: its bytes in base64, or a URL that the provider can read.

    Raises:
        ConfigurationError: There are both or neither, or bytes without a media type.
    """

    data: str | None = field(default=None, repr=False)
    """The bytes in base64, without a ``data:`` prefix."""

    url: str | None = None
    media_type: str | None = None
    """E.g. ``image/png``; needed with bytes, and by Gemini (``image/jpeg`` where missing)."""

    detail: Literal["low", "high", "auto"] | None = None
    """The detail in which the model looks at it; only OpenAI, Azure and Grok know it."""

    type: Literal["image"] = field(default="image", kw_only=True)

    def __post_init__(self) -> None:
        _check_medium(self)


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file in a user's message: its bytes in base64, or a URL that the provider can read.

    Raises:
        ConfigurationError: There are both or neither, or bytes without a media type.
    """

    data: str | None = field(default=None, repr=False)
    """The bytes in base64, without a ``data:`` prefix."""

    url: str | None = None
    media_type: str | None = None
    """E.g. ``application/pdf``; needed with bytes."""

    name: str | None = None
    """The file's name, which some providers show the model."""

    type: Literal["file"] = field(default="file", kw_only=True)

    def __post_init__(self) -> None:
        _check_medium(self)


MediaContent: TypeAlias = ImageContent | FileContent
"""Content without text: only users' messages can show it to a model."""

ContentPart: TypeAlias = TextContent | ImageContent | FileContent
"""One item of a message's content list."""


def _check_medium(part: MediaContent) -> None:
    kind = type(part).__name__
    if (part.data is None) == (part.url is None):
        raise ConfigurationError(f"{kind} needs data=… (base64) or url=…, and not both.")
    if part.data is not None and not part.media_type:
        raise ConfigurationError(f"{kind}(data=…) needs media_type=…, e.g. 'image/png'.")


def text_of_parts(content: str | Sequence[ContentPart]) -> str:
    """Return the text of a message's content; images and files have none."""
    if isinstance(content, str):
        return content
    return "".join(part.text for part in content if isinstance(part, TextContent))


# --------------------------------------------------------------------------- messages


@dataclass(frozen=True, slots=True, kw_only=True)
class _Base:
    """The fields of all messages."""

    stop_reason: StopReason | None = None
    """Why the model stopped after this message: for a tool, or because it was done."""

    from_history: bool | None = field(default=None, compare=False)
    """True if the message is older than the current run; unset: like the message before it."""

    agent: str | None = None
    """Name of the agent that wrote it."""

    provider_metadata: JsonObject | None = None
    """Opaque data of the provider that made it, under the provider's name; sent back to it."""

    _memo: _Memo | None = field(default=None, init=False, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the memo. (Not __getstate__: frozen slotted dataclasses each get their own.)
        facts = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        return _restore, (type(self), facts)


def _restore(kind: type[Any], facts: dict[str, Any]) -> Any:
    return kind(**facts)


@dataclass(frozen=True, slots=True)
class TextMessage(_Base):
    """Text of the system, the user or a model."""

    role: Literal["system", "user", "assistant"]
    content: str | Sequence[ContentPart]

    type: Literal["text"] = field(default="text", kw_only=True)

    @property
    def text(self) -> str:
        """The whole text, also of a content list; images and files have none."""
        return text_of_parts(self.content)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's request to call a tool."""

    id: str
    """The provider's id, as it came: it may be empty or repeat within a conversation."""

    name: str
    arguments: JsonValue = field(default_factory=dict[str, JsonValue])
    """The arguments, as they came."""

    malformed: str | None = None
    """The arguments' text if it was no JSON; `arguments` is empty then."""

    provider_metadata: JsonObject | None = None

    type: Literal["tool"] = field(default="tool", kw_only=True)


@dataclass(frozen=True, slots=True)
class ToolCallMessage(_Base):
    """The tool calls of one reply."""

    tools: Sequence[ToolCall]
    role: Literal["assistant"] = field(default="assistant", kw_only=True)
    stop_reason: StopReason | None = field(default="tool", kw_only=True)

    type: Literal["tool_call"] = field(default="tool_call", kw_only=True)


@dataclass(frozen=True, slots=True)
class ToolResultMessage(_Base):
    """The result of one tool call: ``{"data": …}`` or ``{"error": {name, message, …}}``."""

    tool: ToolCall
    content: JsonValue
    role: Literal["tool_result"] = field(default="tool_result", kw_only=True)
    stop_reason: StopReason | None = field(default="tool", kw_only=True)

    type: Literal["tool_result"] = field(default="tool_result", kw_only=True)

    @property
    def is_error(self) -> bool:
        """True if the content is an error envelope."""
        return isinstance(self.content, dict) and "error" in self.content


@dataclass(frozen=True, slots=True)
class ReasoningMessage(_Base):
    """A model's reasoning; only its own provider gets it back, and only whole."""

    content: str
    role: Literal["assistant"] = field(default="assistant", kw_only=True)

    type: Literal["reasoning"] = field(default="reasoning", kw_only=True)


Message: TypeAlias = TextMessage | ToolCallMessage | ToolResultMessage | ReasoningMessage
"""Every kind of message; match on the class or on ``type``, and end with `assert_never`."""


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A user's message with a client's extra fields: the input of a run."""

    content: str | Sequence[ContentPart]
    id: str | None = None
    """The client's id of this message; generated where missing."""

    role: Literal["user"] = field(default="user", kw_only=True)
    state: JsonObject | None = field(default=None, kw_only=True)
    """Client state, kept with the message in the thread; the library does not read it."""

    client_timestamp: datetime | None = field(default=None, kw_only=True)
    system_prompt: str | None = field(default=None, kw_only=True)
    """Added to the agents' system prompts for this run."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one model call, or of several added up."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Those of `input_tokens` that came from the provider's prompt cache."""

    reasoning_tokens: int = 0
    """Those of `output_tokens` that were reasoning."""

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        """Add field by field."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )

    def __sub__(self, other: Usage) -> Usage:
        """Subtract field by field."""
        return Usage(
            self.input_tokens - other.input_tokens,
            self.output_tokens - other.output_tokens,
            self.cached_tokens - other.cached_tokens,
            self.reasoning_tokens - other.reasoning_tokens,
        )


# --------------------------------------------------------------------------- deltas


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of text as it arrives."""

    index: int
    """Which part of the reply it belongs to, counted over all its parts from 0."""

    delta: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of reasoning as it arrives."""

    index: int
    delta: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of a tool call's arguments as it arrives."""

    index: int
    id: str
    name: str
    delta: str
    """The next piece of the arguments' JSON; may be empty in the first one."""


Delta: TypeAlias = TextDelta | ReasoningDelta | ToolCallDelta
"""A piece of a reply that is still being written."""


# --------------------------------------------------------------------------- counting


@dataclass(slots=True)
class _Memo:
    """Facts about a message that are computed once."""

    text: str | None = None
    tokens: dict[str, float] = field(default_factory=dict[str, float])
    """Token counts by tokenizer key."""

    derived: dict[Hashable, Message | None] = field(default_factory=dict[Hashable, Any])
    """Rewritten messages by key; None stands for the message itself, which must not hold itself."""

    origin: Message | None = None
    """The message that this one was derived from."""


def _memo(message: Message) -> _Memo:
    memo = message._memo  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - same module
    if memo is None:
        memo = _Memo()
        object.__setattr__(message, "_memo", memo)
    return memo


def text_of(message: Message) -> str:
    """Return the text by which a message is counted, computed once per message.

    Texts count as they are, everything else (content lists, calls, results) by its compact JSON,
    as in the upstream proposal. Images and files have no text.
    """
    if isinstance(message, TextMessage) and isinstance(message.content, str):
        return message.content
    memo = _memo(message)
    if memo.text is None:
        memo.text = _countable(message)
    return memo.text


def _countable(message: Message) -> str:
    match message.type:
        case "text":
            parts = cast("Sequence[ContentPart]", message.content)
            return dumps([_countable_part(part) for part in parts])
        case "tool_call":
            return dumps([_countable_call(call) for call in message.tools])
        case "tool_result":
            return dumps(message.content)
        case "reasoning":
            return message.content


def _countable_call(call: ToolCall) -> dict[str, JsonValue]:
    # What could not be read as JSON is sent as the text it was, and costs as much.
    arguments = call.arguments if call.malformed is None else call.malformed
    return {"type": "tool", "id": call.id, "name": call.name, "input": arguments}


def _countable_part(part: ContentPart) -> dict[str, JsonValue]:
    if isinstance(part, TextContent):
        return {"type": part.type, "text": part.text}
    return {"type": part.type}


def token_memo(message: Message) -> dict[str, float]:
    """Return the known token counts of a message by tokenizer key, to read or add to."""
    return _memo(message).tokens


def counter(
    key: str, count: Callable[[str], float], media: Callable[[TextMessage], float]
) -> Callable[[Message], float]:
    """Return a function that gives the tokens of a message, counted once per message and key.

    Args:
        key: Names the way of counting.
        count: Counts a text. It gives whole numbers unless a user's own tokenizer gives fractions.
        media: The tokens of the images and files of a content list, without its text.
    """

    def tokens(message: Message) -> float:
        memo = _memo(message)
        known = memo.tokens.get(key)
        if known is None:
            known = count(text_of(message))
            if isinstance(message, TextMessage) and not isinstance(message.content, str):
                known += media(message)
            memo.tokens[key] = known
        return known

    return tokens


def derived(message: Message, key: Hashable, make: Callable[[], Message]) -> Message:
    """Return ``make()``, made once per message and key.

    So a message that a processor rewrites for every model call is one object in all of them, and
    counted once. `origin_of` finds the message that it was made of.

    Args:
        message: The message that is rewritten.
        key: Names the way of rewriting with all its settings.
        make: Makes the new message; it may return ``message`` itself.
    """
    memo = _memo(message)
    if key not in memo.derived:
        made = make()
        if made is message:
            memo.derived[key] = None
        else:
            memo.derived[key] = made
            _memo(made).origin = message
    return memo.derived[key] or message


def origin_of(message: Message) -> Message | None:
    """Return the message that this one was derived from, if it was."""
    memo = message._memo  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - same module
    return None if memo is None else memo.origin
