"""The messages of a conversation, with the JSON shapes of the TypeScript package.

A message is text, a model's tool calls, a tool's result, a model's reasoning, or a block of a
reply for which the library has no type (`OpaqueMessage`)::

    TextMessage("user", "Where is my parcel?")
    ToolCallMessage((ToolCall("call-1", "track", {"parcel": 17}),))
    ToolResultMessage(ToolCall("call-1", "track", {"parcel": 17}), {"data": "in Linz"})
    TextMessage("assistant", "It is in Linz.")

Text may be a list of content parts: texts, images and files. While a reply is still being written,
its pieces are deltas. All of these are frozen values, their JSON content included: to change a
message, make another with `dataclasses.replace`.

`text_of` and `counter` return a message's tokens, and keep the count with it; `derived`
makes a rewritten message once, so that it is counted once.
"""

from __future__ import annotations

import marshal
import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from operator import is_
from typing import Any, Literal, TypeAlias, cast

from agentkit_py._core.extension_points import ExtensionPoint
from agentkit_py._core.json import JsonObject, JsonValue, as_list, as_object, dumps
from agentkit_py._core.spellings import options_spelled_here, spelled_here
from agentkit_py._core.validation import wrong_word
from agentkit_py.errors import ConfigurationError

__all__ = [
    "CITATIONS",
    "CONTINUES",
    "EMPTY",
    "ORIGIN",
    "ContentPart",
    "Delta",
    "FileContent",
    "Finish",
    "FinishReason",
    "ImageContent",
    "MediaContent",
    "Message",
    "Messages",
    "OpaqueMessage",
    "ReasoningDelta",
    "ReasoningMessage",
    "Sealed",
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
    "goes_on",
    "lineage",
    "medium_in",
    "part_to_json",
    "result_parts",
    "seal",
    "text_of",
    "text_of_parts",
    "token_memo",
    "unseal",
    "with_media",
    "without_ciphers",
]

StopReason: TypeAlias = Literal[
    "tool",
    "stop",
    "length",
    "content_filter",
    "refusal",
    "pause",
    "context_window",
    "compaction",
    "error",
    "other",
]
"""Why a reply ended: for a tool, because it was done (both are TypeScript's words), or else."""

FinishReason: TypeAlias = Literal[
    "stop",
    "tool_calls",
    "length",
    "content_filter",
    "refusal",
    "pause",
    "context_window",
    "compaction",
    "error",
    "other",
]
"""Why a reply ended, in a common vocabulary for all providers.

The model was done, calls tools, reached a limit of tokens, was stopped by a filter, refused, pauses
and continues if asked, filled its context window, wrote a compaction, or made an error.
``"other"``: the provider gave a reason that this version does not know; `Finish.word` has it.
"""


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of a reply: the reason, the provider's word for it, and further details."""

    reason: FinishReason
    word: str = ""
    """The provider's own word, e.g. ``"end_turn"``; empty: it gave none."""

    details: JsonObject | None = None
    """Further facts under the provider's names: stop details, safety ratings, a refusal."""

    @property
    def is_cut(self) -> bool:
        """Return whether the reply was stopped before the model was done with it."""
        return self.reason in ("length", "content_filter", "refusal", "context_window", "error")

    @property
    def stop(self) -> StopReason:
        """The reason as messages say it."""
        return "tool" if self.reason == "tool_calls" else self.reason

    def __str__(self) -> str:
        """The reason, and the provider's word where it is another."""
        return self.reason if self.word in ("", self.reason) else f"{self.reason} ({self.word})"


ORIGIN = "origin"
"""The key in `provider_metadata` that names the block's maker: ``{"host": …}``."""

EMPTY = "empty"
"""The key in the details of an end, and in the origin of messages: the reply says nothing."""

CITATIONS = "citations"
"""The key in `provider_metadata` of sources that the provider lists separately from a text."""

CONTINUES = "continues"
"""The key in the origin that marks a text as the continuation of the previous text."""


def goes_on(message: Message) -> bool:
    """Return whether a text continues the previous text: the provider split a text in two."""
    origin = as_object((message.provider_metadata or {}).get(ORIGIN))
    return origin is not None and origin.get(CONTINUES) is True


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
        wrong = wrong_word("detail", self.detail, ("low", "high", "auto", None))
        if wrong:
            raise ConfigurationError(f"ImageContent: {wrong}")


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

    citations: bool = field(default=False, kw_only=True)
    """The answer should cite it; Claude's documents only. The places are in the answer's
    `provider_metadata`."""

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


def _parts_of(what: str, content: object) -> Sequence[ContentPart]:
    """Return the parts of a content that is a list, each text a part.

    Raises:
        ConfigurationError: It holds something else.
    """
    is_list = isinstance(content, Sequence) and not isinstance(content, str | bytes)
    given = cast("Any", content)
    parts: list[Any] = list(given) if is_list else [given]
    kinds = (str, TextContent, ImageContent, FileContent)
    wrong = [part for part in parts if not isinstance(part, kinds)]
    if wrong or not is_list:
        raise ConfigurationError(
            f"{what}: content must be a text or a list of texts, ImageContent(…) and "
            f"FileContent(…), got {[*wrong, content][0]!r:.80}"
        )
    if not any(isinstance(part, str) for part in parts):
        return cast("Sequence[ContentPart]", content)
    made = [TextContent(part) if isinstance(part, str) else part for part in parts]
    return cast("Sequence[ContentPart]", made)


def part_to_json(part: ContentPart) -> dict[str, JsonValue]:
    """Return a content part as JSON."""
    match part:
        case TextContent():
            return {"type": "text", "text": part.text}
        case ImageContent():
            own: dict[str, JsonValue] = {"detail": part.detail}
        case FileContent():
            own = {"name": part.name, "citations": part.citations or None}
    found: dict[str, JsonValue] = {
        "data": part.data,
        "url": part.url,
        "mediaType": part.media_type,
        **own,
    }
    return {"type": part.type, **{k: v for k, v in found.items() if v is not None}}


# Images and files in tools' results, which are JSON: as `part_to_json` writes them, as dataclasses
# become, and as MCP servers give them.

_TYPE_KEYS = frozenset({"mediaType", "mimeType", "media_type"})
_MEDIA_KEYS = _TYPE_KEYS | {
    *("type", "data", "url", "detail", "name", "annotations", "_meta", "citations")
}
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")


def medium_in(value: object) -> MediaContent | None:
    """Return the image or file of a JSON object, or None."""
    found = as_object(value)
    if found is None:
        return None
    kind = found.get("type")
    resource = as_object(found.get("resource")) if kind == "resource" else None
    if resource is not None:  # of an MCP server
        found = {"data": resource.get("blob"), "name": resource.get("uri"), **resource}
        return _medium("file", {k: v for k, v in found.items() if k != "url"})
    if kind not in ("image", "file", "audio") or not found.keys() <= _MEDIA_KEYS:
        return None
    return _medium("image" if kind == "image" else "file", found)


def _medium(kind: str, found: dict[str, Any]) -> MediaContent | None:
    data, url = found.get("data"), found.get("url")
    typed = found.get("mediaType") or found.get("mimeType") or found.get("media_type")
    if not isinstance(typed, str):
        typed = None
    is_data = isinstance(data, str) and typed is not None and _BASE64.fullmatch(data) is not None
    if not (url is None if is_data else data is None and isinstance(url, str)):
        return None
    if kind == "image" or (typed or "").startswith("image/"):
        detail = found.get("detail")
        return ImageContent(data, url, typed, detail if detail in ("low", "high", "auto") else None)
    name = found.get("name")
    cited = found.get("citations") is True
    return FileContent(data, url, typed, name if isinstance(name, str) else None, citations=cited)


def may_hold_media(written: str) -> bool:
    """Return False if a tool's result, as `dumps` writes it, holds no image and no file."""
    return _MEDIUM.search(written) is not None


_MEDIUM = re.compile('"type":"(?:image|file|audio|resource)"')


def content_parts(message: Message) -> Sequence[ContentPart]:
    """Return the texts, images and files of a message that holds more than a text."""
    match message:
        case TextMessage() if not isinstance(message.content, str):
            return message.content
        case ToolResultMessage():
            return result_parts(message.content) or ()
        case OpaqueMessage():
            return message.media
        case _:
            return ()


def result_parts(content: JsonValue) -> list[ContentPart] | None:
    """Return a tool's result as content parts; None if it has no images or files.

    A list of parts stays a list of parts. In any other JSON each image or file is named where
    it stood (`[image 1]`), and follows after it.
    """
    wrapped = as_object(content) or {}
    inner: Any = wrapped["data"] if list(wrapped) == ["data"] else content
    items = as_list(inner) or [inner]
    if any(medium_in(item) is not None for item in items):
        return [_part_in(item) for item in items]
    found: list[MediaContent] = []

    def name(medium: MediaContent) -> JsonValue:
        found.append(medium)
        return f"[{medium.type} {len(found)}]"

    named = with_media(content, name)
    return [TextContent(dumps(named)), *found] if found else None


def _part_in(item: Any) -> ContentPart:
    medium = medium_in(item)
    if medium is not None:
        return medium
    match item:
        case {"type": "text", "text": str(text)} | str(text):
            return TextContent(text)
        case _:
            return TextContent(dumps(item))


def with_media(value: JsonValue, change: Callable[[MediaContent], JsonValue]) -> JsonValue:
    """Return a tool's result with each image and file replaced by the result of ``change``.

    A value without images and files stays the same object.
    """
    if isinstance(value, dict):
        medium = medium_in(value) if "type" in value else None
        if medium is not None:
            return change(medium)
        fields = {k: with_media(v, change) for k, v in value.items() if isinstance(v, _CONTAINERS)}
        if all(fields[key] is value[key] for key in fields):
            return value
        return {**value, **fields}
    if isinstance(value, _ROWS):
        items = [with_media(v, change) if isinstance(v, _CONTAINERS) else v for v in value]
        return value if all(map(is_, items, value)) else items
    return value


_ROWS = (list, tuple)
_CONTAINERS = (dict, *_ROWS)


# --------------------------------------------------------------------------- messages


@dataclass(frozen=True, slots=True, kw_only=True)
class _Base:
    """The fields of all messages."""

    stop_reason: StopReason | None = None
    """Why the reply ended that this message is of; all but `tool` and `stop`: it is not whole."""

    from_history: bool | None = field(default=None, compare=False)
    """True if the message is older than the current run; unset: like the message before it."""

    agent: str | None = None
    """Name of the agent that wrote it."""

    provider_metadata: JsonObject | None = None
    """Opaque data of the provider that made it, under the provider's name; sent back to it."""

    _memo: _Memo | None = field(default=None, init=False, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the memo, and without an exception, which may be nothing that can be copied.
        # (Not __getstate__: frozen slotted dataclasses each get their own.)
        names = [f.name for f in fields(self) if f.init and f.name != "error"]
        facts = {name: getattr(self, name) for name in names}
        return _restore, (type(self), facts)


def _restore(kind: type[Any], facts: dict[str, Any]) -> Any:
    return kind(**facts)


_ROLES = ("system", "user", "assistant")


@options_spelled_here
@spelled_here
@dataclass(frozen=True, slots=True)
class TextMessage(_Base):
    """Text of the system, the user or a model.

    Raises:
        ConfigurationError: The role is unknown.
    """

    role: Literal["system", "user", "assistant"]
    content: str | Sequence[ContentPart]

    type: Literal["text"] = field(default="text", kw_only=True)

    def __post_init__(self) -> None:
        """Refuse roles that no provider knows."""
        if self.role not in _ROLES:
            raise ConfigurationError(
                f"TextMessage(role={self.role!r:.80}): unknown role. Use 'system', 'user' "
                "or 'assistant'; tools' calls and results have messages of their own."
            )

    @property
    def text(self) -> str:
        """The whole text, also of a content list; images and files have none."""
        return text_of_parts(self.content)


@options_spelled_here
@spelled_here
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

    @property
    def written(self) -> str:
        """The arguments as text: JSON, or the model's text if it was not JSON."""
        return dumps(self.arguments) if self.malformed is None else self.malformed


@options_spelled_here
@spelled_here
@dataclass(frozen=True, slots=True)
class ToolCallMessage(_Base):
    """The tool calls of a reply."""

    tools: Sequence[ToolCall]
    role: Literal["assistant"] = field(default="assistant", kw_only=True)
    stop_reason: StopReason | None = field(default="tool", kw_only=True)

    type: Literal["tool_call"] = field(default="tool_call", kw_only=True)


@options_spelled_here
@spelled_here
@dataclass(frozen=True, slots=True)
class ToolResultMessage(_Base):
    """The result of a tool call: ``{"data": …}`` or ``{"error": {name, message, …}}``."""

    tool: ToolCall
    content: JsonValue
    role: Literal["tool_result"] = field(default="tool_result", kw_only=True)
    stop_reason: StopReason | None = field(default="tool", kw_only=True)

    type: Literal["tool_result"] = field(default="tool_result", kw_only=True)
    error: Exception | None = field(default=None, kw_only=True, repr=False, compare=False)
    """The exception that the tool raised, with its traceback, in the run that made the call; it is
    no part of the JSON, so replays of a durable run and later runs do not have it."""

    @property
    def is_error(self) -> bool:
        """True if the content is an error envelope."""
        return isinstance(self.content, dict) and "error" in self.content


@dataclass(frozen=True, slots=True)
class ReasoningMessage(_Base):
    """A model's reasoning; only its own provider gets it back, and only whole."""

    content: str
    role: Literal["assistant"] = field(default="assistant", kw_only=True)
    hidden: bool = field(default=False, kw_only=True)
    """True: users do not see it, since guardrails check or mask the agent's output."""

    type: Literal["reasoning"] = field(default="reasoning", kw_only=True)


@dataclass(frozen=True, slots=True)
class OpaqueMessage(_Base):
    """A block of a reply for which the library has no type, e.g. the call of a hosted tool.

    It keeps its place in the reply and goes back unchanged to the host that made it, unless a
    processor replaced it; other hosts get the model's texts and calls without it.
    """

    content: JsonObject
    """The block as it came."""

    format: str
    """Its wire format, e.g. ``"anthropic"``."""

    host: str = ""
    """The host that made it, e.g. ``"api.anthropic.com"``; empty: unknown, so no host gets it."""

    tool: str = ""
    """The hosted tool that the block belongs to; empty if none."""

    call_id: str = ""
    """The id that the call of a hosted tool shares with its result."""

    part: Literal["call", "result", "whole", ""] = ""
    """The role of a hosted tool's block: its call, its result, or both; empty for other blocks."""

    role: Literal["assistant"] = field(default="assistant", kw_only=True)

    type: Literal["opaque"] = field(default="opaque", kw_only=True)

    @property
    def kind(self) -> str:
        """The provider's word for it, e.g. ``"web_search_call"``."""
        kind = self.content.get("type")
        return kind if isinstance(kind, str) else next(iter(self.content), "")

    @property
    def medium(self) -> MediaContent | None:
        """The image or file that the model made, if the block holds it."""
        match self.content:
            case {"inlineData": {"mimeType": str(kind), "data": str(data)}}:
                made = {"mediaType": kind, "data": data}
                return _medium("image" if kind.startswith("image/") else "file", made)
            case {"type": "image_generation_call", "result": str(data)}:
                kind = self.content.get("output_format") or "png"
                return _medium("image", {"mediaType": f"image/{kind}", "data": data})
            case {"type": "audio", "audio": {"data": str(data)}} if data:
                return _medium("file", {"mediaType": _type_of_sound(data), "data": data})
            case {"type": "image_url", "image_url": {"url": str(url)}}:
                return _linked_picture(url)
            case _:
                return None

    @property
    def media(self) -> Sequence[MediaContent]:
        """All pictures and files in the block: itself, or the pictures that its code has drawn."""
        if self.medium is not None:
            return (self.medium,)
        drawn = (_drawn(output) for output in as_list(self.content.get("outputs")) or ())
        return tuple(medium for medium in drawn if medium is not None)

    def __str__(self) -> str:
        """A short description in square brackets."""
        what = {"call": "call of ", "result": "result of ", "whole": "", "": ""}[self.part]
        return f"[{what}{self.tool or self.kind}]"


_DATA_URL = re.compile(r"data:(?P<kind>[\w.+/-]{1,100});base64,")
_SOUNDS = {"UklGR": "wav", "SUQz": "mpeg", "//": "mpeg", "ZkxhQ": "flac", "T2dnUw": "ogg"}


def _type_of_sound(data: str) -> str:
    """Return the type of an audio by its first bytes: a reply does not say it."""
    known = (kind for beginning, kind in _SOUNDS.items() if data.startswith(beginning))
    return f"audio/{next(known, 'pcm')}"


def _linked_picture(url: str) -> MediaContent | None:
    found = _DATA_URL.match(url)
    if found is None:
        return _medium("image", {"url": url})
    return _medium("image", {"mediaType": found["kind"], "data": url[found.end() :]})


def _drawn(output: JsonValue) -> MediaContent | None:
    """Return the picture among the outputs of OpenAI's code interpreter; None: it is another."""
    match output:
        case {"type": "image", "url": str(url)} if found := _DATA_URL.match(url):
            return _medium("image", {"mediaType": found["kind"], "data": url[found.end() :]})
        case _:
            return None


def without_drawn(
    message: OpaqueMessage, change: Callable[[MediaContent], str | None]
) -> OpaqueMessage:
    """Return a block with words in place of pictures that its code has drawn.

    Args:
        message: The block.
        change: Gives the words for a picture; None: it stays.
    """
    outputs: list[JsonValue] = []
    for output in as_list(message.content.get("outputs")) or ():
        medium = _drawn(output)
        words = None if medium is None else change(medium)
        outputs.append(output if words is None else {"type": "logs", "logs": words})
    return replace(message, content={**message.content, "outputs": outputs})


Message: TypeAlias = (
    TextMessage | ToolCallMessage | ToolResultMessage | ReasoningMessage | OpaqueMessage
)
"""Every kind of message; match on the class or on ``type``, and end with `assert_never`."""

Messages: TypeAlias = Sequence[Message]
"""Messages in order: a history, or a part of it."""


def calls_of(messages: Sequence[Message]) -> list[ToolCall]:
    """Return all tool calls in ``messages``, in order."""
    return [call for m in messages if isinstance(m, ToolCallMessage) for call in m.tools]


user_message_reader: ExtensionPoint[Callable[[object, str], UserMessage]] = ExtensionPoint(
    "messages.user_message"
)
"""Reads a `UserMessage` from JSON; `agentkit_py.codec` knows the shapes."""


@options_spelled_here
@spelled_here
@dataclass(frozen=True, slots=True)
class UserMessage:
    """A user's message with a client's extra fields: the input of a run.

    Raises:
        ConfigurationError: Its content is neither a text nor a list of texts, images and files.
    """

    content: str | Sequence[ContentPart]
    """A text, or a list of texts, images and files; a ``str`` in the list is a `TextContent`."""

    id: str | None = None
    """The client's id of this message; generated where missing."""

    role: Literal["user"] = field(default="user", kw_only=True)
    state: JsonObject | None = field(default=None, kw_only=True)
    """Client state, kept with the message in the thread; the library does not read it."""

    client_timestamp: datetime | None = field(default=None, kw_only=True)
    system_prompt: str | None = field(default=None, kw_only=True)
    """Added to the agents' system prompts for this run."""

    def __post_init__(self) -> None:
        """Convert texts in a list to parts; refuse invalid content."""
        content: object = self.content
        if not isinstance(content, str):
            object.__setattr__(self, "content", _parts_of("UserMessage", content))

    def to_dict(self) -> dict[str, Any]:
        """Return the message as JSON, in the shape of TypeScript's ``UserMessage``."""
        content = self.content
        if not isinstance(content, str):
            content = [part_to_json(part) for part in content]
        when = self.client_timestamp
        found = {
            "id": self.id,
            "state": self.state,
            "clientTimestamp": None if when is None else when.isoformat(),
            "systemPrompt": self.system_prompt,
        }
        given = {name: value for name, value in found.items() if value is not None}
        return {"role": "user", "content": content, **given}

    @staticmethod
    def from_dict(record: object, *, where: str = "input") -> UserMessage:
        """Read a message as front ends send it, e.g. ``event.data["userMessage"]``.

        Args:
            record: ``{content, id?, state?, clientTimestamp?, systemPrompt?}``; other members are
                left out, as all messages leave them out.
            where: What errors name as its place.

        Raises:
            InvalidRecordError: A member is missing or of the wrong kind; the message names it.
        """
        return user_message_reader.get()(record, where)


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of a model call, or the sum of several calls."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Those of `input_tokens` that came from the provider's prompt cache."""

    reasoning_tokens: int = 0
    """Those of `output_tokens` that were reasoning."""

    cache_write_tokens: int = 0
    """Those of `input_tokens` that were written to the provider's prompt cache, where it counts
    them: Claude and newer OpenAI models charge more for them."""

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
            self.cache_write_tokens + other.cache_write_tokens,
        )

    def __sub__(self, other: Usage) -> Usage:
        """Subtract field by field."""
        return Usage(
            self.input_tokens - other.input_tokens,
            self.output_tokens - other.output_tokens,
            self.cached_tokens - other.cached_tokens,
            self.reasoning_tokens - other.reasoning_tokens,
            self.cache_write_tokens - other.cache_write_tokens,
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
    """The next piece of the arguments' JSON; may be empty in the first piece."""


Delta: TypeAlias = TextDelta | ReasoningDelta | ToolCallDelta
"""A piece of a reply that is still being written."""


# --------------------------------------------------------------------------- counting


@dataclass(slots=True)
class _Memo:
    """Facts about a message that are computed once."""

    counted_text: str | None = None
    tokens: dict[str, float] = field(default_factory=dict[str, float])
    """Token counts by tokenizer key."""

    derived: dict[Hashable, Message | None] = field(default_factory=dict[Hashable, Any])
    """Rewritten messages by key; None means the message itself, which must not refer to itself."""

    origin: Message | None = None
    """The message that this message was derived from."""


def _memo(message: Message) -> _Memo:
    memo = message._memo  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - same module
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
    if memo.counted_text is None:
        memo.counted_text = _countable(message)
    return memo.counted_text


def _countable(message: Message) -> str:
    match message.type:
        case "text":
            parts = cast("Sequence[ContentPart]", message.content)
            return dumps([_countable_part(part) for part in parts])
        case "tool_call":
            return dumps([_countable_call(call) for call in message.tools])
        case "tool_result":
            return dumps(with_media(message.content, lambda medium: {"type": medium.type}))
        case "reasoning":
            return message.content
        case "opaque":
            return dumps(without_ciphers(message.content))


Sealed: TypeAlias = "tuple[Message, list[bytes]]"
"""A message with its JSON as it was."""


def seal(message: Message) -> Sealed:
    """Return a snapshot with which `unseal` undoes changes in place."""
    return message, [_written(value) for value in _json_in(message)]


def unseal(sealed: Sealed) -> bool:
    """Undo changes that were made in place since `seal`; return whether there were any."""
    message, written = sealed
    was_changed = False
    for value, before in zip(_json_in(message), written, strict=True):
        if before and _written(value) != before:
            was_changed = True
            if isinstance(value, dict):
                value.clear()
                value.update(marshal.loads(before))  # noqa: S302 - written here a moment ago
            else:
                value[:] = marshal.loads(before)  # noqa: S302 - written here a moment ago
    return was_changed


def _json_in(message: Message) -> list[dict[str, Any] | list[Any]]:
    """Return the objects and arrays of a message that can be changed in place."""
    calls: Sequence[ToolCall] = ()
    found: list[object] = [message.provider_metadata]
    if isinstance(message, ToolCallMessage):
        calls = message.tools
    elif isinstance(message, ToolResultMessage):
        calls = (message.tool,)
    if isinstance(message, ToolResultMessage | OpaqueMessage):
        found.append(message.content)
    for call in calls:
        found += (call.arguments, call.provider_metadata)
    return [cast("dict[str, Any]", one) for one in found if isinstance(one, dict | list)]


def _written(value: dict[str, Any] | list[Any]) -> bytes:
    """Return JSON in the quickest form there is; empty: it is none."""
    try:
        return marshal.dumps(value, 2)  # later versions depend on who else holds its parts
    except ValueError:
        return b""


_CIPHERS = frozenset({"encrypted_content", "encrypted_index", "signature", "thoughtSignature"})
_LONGEST_BYTES = 4_000


def without_ciphers(value: JsonValue) -> JsonValue:
    """Return JSON without signatures, encrypted data and long bytes, which no model reads."""
    if isinstance(value, dict):
        return {k: without_ciphers(v) for k, v in value.items() if k not in _CIPHERS}
    if isinstance(value, list | tuple):
        return [without_ciphers(item) for item in value]
    if isinstance(value, str) and len(value) > _LONGEST_BYTES and _LONG_BASE64.match(value):
        return ""
    return value


_LONG_BASE64 = re.compile(r"(?:data:[\w.+/-]{1,100};base64,)?[A-Za-z0-9+/_-]{4000}")


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
    key: str, count: Callable[[str], float], media: Callable[[Message], float]
) -> Callable[[Message], float]:
    """Return a function that gives the tokens of a message, counted once per message and key.

    Args:
        key: Names the way of counting.
        count: Counts a text. It gives whole numbers unless a user's own tokenizer gives fractions.
        media: The tokens of the images and files of a message, without its text.
    """

    def tokens(message: Message) -> float:
        memo = _memo(message)
        known = memo.tokens.get(key)
        if known is None:
            known = memo.tokens[key] = count(text_of(message)) + media(message)
        return known

    return tokens


def derived(message: Message, key: Hashable, make: Callable[[], Message]) -> Message:
    """Return ``make()``, made once per message and key.

    So a message that a processor rewrites for every model call is the same object each time, and
    counted once. `lineage` finds the original message.

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


def lineage(message: Message) -> Iterator[Message]:
    """Yield the message, then the message it was derived from, and so on to the original."""
    current: Message | None = message
    while current is not None:
        yield current
        memo = current._memo  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - same module
        current = None if memo is None else memo.origin
