"""The messages of a conversation: frozen values, with the JSON shapes of the TypeScript package.

A message is text, a model's tool calls, one tool's result, or a model's reasoning. Messages are
immutable by contract, their JSON content included: whoever wants another message makes one with
`dataclasses.replace`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Literal, TypeAlias, cast

from agentkit_py._core.json import JsonObject, JsonValue, dumps, quoted
from agentkit_py.contents import (
    ContentPart,
    FileContent,
    ImageContent,
    MediaContent,
    TextContent,
    text_of_parts,
)
from agentkit_py.deltas import Delta, ReasoningDelta, TextDelta, ToolCallDelta

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
    "as_present",
    "counter",
    "derived",
    "keep_on_wire",
    "kept_on_wire",
    "origin_of",
    "text_of",
    "text_of_parts",
    "token_memo",
]

StopReason: TypeAlias = Literal["tool", "stop"]


class _Memo:
    """Facts that are computed once per message, and what processors and encoders made of it.

    No dataclass, and what is not known yet is no attribute of its own: there is one per message.
    """

    text: str | None = None
    counted_by: str | None = None
    """The tokenizer that counted first, mostly the only one; `tokens` has those of others."""

    count: float = 0
    tokens: dict[str, float] | None = None
    present: Message | None = None
    wire: object = None
    derived: dict[Hashable, Message | None] | None = None
    origin: Message | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Base:
    """What all messages carry."""

    stop_reason: StopReason | None = None
    """Why the model stopped after this message: for a tool, or because it was done."""

    from_history: bool | None = None
    """Whether the message is older than the current run; unset: like the message before it."""

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
    """A model's wish to have a tool called."""

    id: str
    """The provider's id, as it came: it may be empty or repeat within a conversation."""

    name: str
    input: JsonValue = field(default_factory=dict[str, JsonValue])
    """The arguments, as they came."""

    malformed: str | None = None
    """The arguments' text if it was no JSON; `input` is empty then."""

    provider_metadata: JsonObject | None = None

    type: Literal["tool"] = field(default="tool", kw_only=True)


@dataclass(frozen=True, slots=True)
class ToolCallMessage(_Base):
    """Tool calls of one reply."""

    tools: Sequence[ToolCall]
    role: Literal["assistant"] = field(default="assistant", kw_only=True)
    stop_reason: StopReason | None = field(default="tool", kw_only=True)

    type: Literal["tool_call"] = field(default="tool_call", kw_only=True)


@dataclass(frozen=True, slots=True)
class ToolResultMessage(_Base):
    """What one tool call gave: ``{"data": …}`` or ``{"error": {name, message, …}}``."""

    tool: ToolCall
    content: JsonValue
    role: Literal["tool_result"] = field(default="tool_result", kw_only=True)
    stop_reason: StopReason | None = field(default="tool", kw_only=True)

    type: Literal["tool_result"] = field(default="tool_result", kw_only=True)

    @property
    def is_error(self) -> bool:
        """Whether the content is an error envelope."""
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
    """What a user said, with what a client may send beside it."""

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
    """Tokens that one model call, or several added up, cost."""

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
        """The sum, field by field."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )

    def __sub__(self, other: Usage) -> Usage:
        """The difference, field by field."""
        return Usage(
            self.input_tokens - other.input_tokens,
            self.output_tokens - other.output_tokens,
            self.cached_tokens - other.cached_tokens,
            self.reasoning_tokens - other.reasoning_tokens,
        )


def text_of(message: Message) -> str:
    """The text by which a message is counted, computed once per message.

    Texts count as they are, everything else (content lists, calls, results) by its compact JSON:
    what the upstream proposal counts. Images and files have no text.
    """
    if isinstance(message, TextMessage) and isinstance(message.content, str):
        return message.content
    memo = _memo(message)
    if memo.text is None:
        memo.text = _countable(message)
    return memo.text


def token_memo(message: Message) -> dict[str, float]:
    """Token counts of this message by tokenizer key; see `counter`."""
    memo = _memo(message)
    if memo.tokens is None:
        memo.tokens = {}
    if memo.counted_by is not None:
        memo.tokens[memo.counted_by] = memo.count
    return memo.tokens


def counter(
    key: str, count: Callable[[str], float], media: Callable[[TextMessage], float]
) -> Callable[[Message], float]:
    """A function that gives the tokens of a message, counted once per message and key.

    Args:
        key: Names the way of counting.
        count: Counts a text. It gives whole numbers unless a user's own tokenizer gives fractions.
        media: What the images and files of a content list count beside its text.
    """

    def tokens(message: Message) -> float:
        memo = message._memo or _memo(message)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - a message and this module share the memo
        if memo.counted_by == key:
            return memo.count
        known = None if memo.tokens is None else memo.tokens.get(key)
        if known is None:
            known = _counted(message, memo, count, media)
            if memo.counted_by is None:
                memo.count, memo.counted_by = known, key  # the key last: other threads read it
            else:
                token_memo(message)[key] = known
        return known

    return tokens


def _counted(
    message: Message,
    memo: _Memo,
    count: Callable[[str], float],
    media: Callable[[TextMessage], float],
) -> float:
    if not isinstance(message, TextMessage):
        if memo.text is None:
            memo.text = _countable(message)
        return count(memo.text)
    content = message.content
    return count(content) if isinstance(content, str) else count(text_of(message)) + media(message)


def kept_on_wire(message: Message) -> Any:
    """What encoders made of this message and keep with it, see `keep_on_wire`; None: nothing."""
    memo = message._memo  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - same module
    return None if memo is None else memo.wire


def keep_on_wire(message: Message, made: object) -> None:
    """Keep what encoders made of this message; nobody may be able to change it.

    It lives as long as the message, and what is made of the message and others holds those.
    """
    _memo(message).wire = made


def as_present(message: Message) -> Message:
    """The message marked as of the current run (``from_history=False``), made once per message."""
    if message.from_history is False:
        return message
    memo = _memo(message)
    if memo.present is None:
        memo.present = replace(message, from_history=False)
    return memo.present


def derived(message: Message, key: Hashable, make: Callable[[], Message]) -> Message:
    """What ``make`` makes of ``message``, made once per message and key.

    So a message that a processor rewrites for every model call is one object in all of them, and
    counted once. It remembers what it was made of: see `origin_of`.

    Args:
        message: The message that is rewritten.
        key: Names the way of rewriting with all its settings.
        make: Makes the new message; it may return ``message`` itself.
    """
    memo = _memo(message)
    if memo.derived is None:
        memo.derived = {}
    elif key in memo.derived:
        # None stands for the message itself, which must not hold itself.
        return memo.derived[key] or message
    made = make()
    if made is message:
        memo.derived[key] = None
    else:
        memo.derived[key] = made
        _memo(made).origin = message
    return made


def origin_of(message: Message) -> Message | None:
    """The message that this one was derived from, if it was."""
    memo = message._memo  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - same module
    return None if memo is None else memo.origin


def _memo(message: Message) -> _Memo:
    memo = message._memo  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - same module
    if memo is None:
        memo = _Memo()
        _keep_memo(message, memo)
    return memo


_keep_memo = cast("Any", _Base._memo).__set__  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - same module
"""`object.__setattr__` for a frozen message's memo, without looking the name up."""


def _countable(message: Message) -> str:
    match message.type:
        case "text":
            content = message.content
            return content if isinstance(content, str) else dumps([_part_text(p) for p in content])
        case "tool_call":
            return f"[{','.join([_call_text(call) for call in message.tools])}]"
        case "tool_result":
            return dumps(message.content)
        case "reasoning":
            return message.content


def _call_text(call: ToolCall) -> str:
    """What counts of a call, as compact JSON: in half the time that `dumps` takes for it."""
    # What could not be read as JSON is sent as the text it was, and costs as much.
    arguments = dumps(call.input if call.malformed is None else call.malformed)
    return (
        f'{{"type":"tool","id":{quoted(call.id)},"name":{quoted(call.name)},"input":{arguments}}}'
    )


def _part_text(part: ContentPart) -> dict[str, JsonValue]:
    if isinstance(part, TextContent):
        return {"type": part.type, "text": part.text}
    return {"type": part.type}
