"""Conversations as requests to providers hold them, read into our messages.

What a model replied is read like any reply of its format, so that all of it can be sent back to the
same host unchanged. Messages of users, tools and systems become our own.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, TypeAlias

from agentkit_py._core.json import JsonValue, as_list, as_object, camel, dumps, strict_loads
from agentkit_py.errors import AgentKitError, InvalidRecordError
from agentkit_py.messages import (
    ContentPart,
    FileContent,
    ImageContent,
    Message,
    TextContent,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
    part_to_json,
)
from agentkit_py.models.anthropic import anthropic
from agentkit_py.models.base import Model, ModelRequest
from agentkit_py.models.claude_results import own_block_in
from agentkit_py.models.compaction import has_compaction, with_compactions_bound
from agentkit_py.models.compatible import openai, openai_responses
from agentkit_py.models.gemini import gemini
from agentkit_py.models.provider_tools import ANTHROPIC, RESPONSES, program_call, read_output

ConversationFormat: TypeAlias = Literal["chat", "responses", "anthropic", "gemini"]

_SYSTEMS = ("system", "developer")
_LISTS = ("messages", "input", "contents")
_BLOCKS = frozenset(
    [
        "tool_use",
        "tool_result",
        "thinking",
        "redacted_thinking",
        "document",
        "image",
        "container_upload",
        "tool_addition",
        "tool_removal",
    ]
)


def format_of(record: Mapping[str, Any]) -> ConversationFormat | None:
    """Return the format of a request's body, or of a line with such a body; None: unknown."""
    if "contents" in record:
        return "gemini"
    if isinstance(record.get("input"), str | list) and "messages" not in record:
        return "responses"
    messages = as_list(record.get("messages"))
    if messages is None:
        return None
    if "system" in record or "anthropic_version" in record or any(map(_is_anthropic, messages)):
        return "anthropic"
    return "chat"


def _is_anthropic(message: object) -> bool:
    blocks = as_list((as_object(message) or {}).get("content")) or []
    return any((as_object(block) or {}).get("type") in _BLOCKS for block in blocks)


def reader_for(form: ConversationFormat, model: str = "", base_url: str | None = None) -> Model:
    """Return a model that reads replies in a format, as if they came from this host."""
    make = {"chat": openai, "responses": openai_responses, "anthropic": anthropic, "gemini": gemini}
    return make[form](model or "unknown", base_url=base_url, api_key="none")


def read_conversation(
    record: Mapping[str, Any],
    *,
    form: ConversationFormat | None = None,
    model: Model | None = None,
    where: str = "request",
) -> tuple[Message, ...]:
    """Return the messages of a conversation, those of the system among them.

    Args:
        record: A request's body, or a line with its ``messages``, ``input`` or ``contents``.
        form: Its format; None: as the record looks.
        model: A model whose replies it holds, made by `reader_for` or like that; None: any host's.
        where: A name of the record for errors.

    Raises:
        InvalidRecordError: It is of no known format, or a message violates its format; the
            error names the field.
    """
    turns = read_turns(record, form=form, model=model, where=where)
    return tuple(message for turn in turns for message in turn.messages)


@dataclass(frozen=True, slots=True)
class ReadTurn:
    """Messages that a side sent together, or the result of a call."""

    index: int
    """The number of the item of the record that it was read from."""

    side: Literal["system", "user", "assistant", "tool"]
    messages: tuple[Message, ...]
    name: str = ""
    """The name that the record gives the speaker."""


def read_turns(
    record: Mapping[str, Any],
    *,
    form: ConversationFormat | None = None,
    model: Model | None = None,
    where: str = "request",
) -> list[ReadTurn]:
    """Return a conversation turn by turn; see `read_conversation`."""
    form = form or format_of(record)
    if form is None:
        problem = "expected messages, input or contents"
        raise InvalidRecordError(problem, where=where, field="(whole)")
    reading = _READERS[form](model or reader_for(form), where)
    reading.read(record)
    return reading.found


@dataclass(slots=True)
class _Reading:
    """A conversation as it is read; how is the format's."""

    model: Model
    where: str
    found: list[ReadTurn] = field(default_factory=list[ReadTurn])
    index: int = 0
    name: str = ""
    calls: dict[str, ToolCall] = field(default_factory=dict[str, ToolCall])
    """The last call of each id, or of each name where a format has no ids."""

    format: ClassVar[str] = ""
    """The name of the format in messages, where it has summaries of its own."""

    def read(self, record: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def wrong(self, place: str, expected: str) -> InvalidRecordError:
        return InvalidRecordError(f"expected {expected}", where=self.where, field=place)

    def items(self, value: object, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the objects of a list with their places."""
        listed = as_list(value)
        if listed is None:
            raise self.wrong(place, "a list")
        for number, one in enumerate(listed):
            found = as_object(one)
            if found is None:
                raise self.wrong(f"{place}[{number}]", "an object")
            if place in _LISTS:
                self.index, self.name = number, str(found.get("name") or "")
            yield f"{place}[{number}]", found

    def say(self, role: Any, parts: str | list[ContentPart]) -> None:
        """Add a message of the system or the user, unless it is empty."""
        if isinstance(parts, list) and all(isinstance(part, TextContent) for part in parts):
            texts = [part.text for part in parts if isinstance(part, TextContent)]
            parts = texts[0] if len(texts) == 1 else parts
        if parts:
            self._add(role, TextMessage(role, parts))

    def _add(self, side: Any, *messages: Message) -> None:
        self.found.append(ReadTurn(self.index, side, messages, self.name))

    def reply(self, body: Any, place: str) -> None:
        """Add a model's message, read as a reply in the format of the model."""
        try:
            messages = self.model.decode(body).messages
        except AgentKitError as error:
            raise self.wrong(place, f"a model's reply ({error})") from error
        if has_compaction(messages):  # it summarises what the record holds before it
            earlier = tuple(message for turn in self.found for message in turn.messages)
            request = ModelRequest(messages=earlier)
            messages = with_compactions_bound(self.model, request, self.format, messages)
        self._add("assistant", *messages)
        for message in messages:
            if isinstance(message, ToolCallMessage):
                self.calls |= {call.id: call for call in message.tools}
                self.calls |= {f"name:{call.name}": call for call in message.tools}

    def result(self, call_id: str, content: JsonValue, name: str = "") -> None:
        """Add a tool's result; a missing call is replaced by a call of that id and name."""
        call = self.calls.get(call_id) or (None if call_id else self.calls.get(f"name:{name}"))
        self._add("tool", ToolResultMessage(call or ToolCall(call_id, name), content))

    def parts(self, content: object, place: str) -> list[ContentPart]:
        """Return the parts of a content that is a text or a list."""
        if content is None:
            return []
        if isinstance(content, str):
            return [TextContent(content)]
        return [self.part(part, at) for at, part in self.items(content, place)]

    def part(self, part: dict[str, Any], place: str) -> ContentPart:
        """Return a part; parts without a form of ours stay JSON."""
        raise NotImplementedError

    def unknown(self, part: dict[str, Any], place: str) -> ContentPart:
        """Return a part that we have no form for."""
        if not isinstance(part.get("type", ""), str) or not part:
            raise self.wrong(
                place, f"a part with a type, got {part.get('type') or ', '.join(part)!r:.80}"
            )
        return TextContent(dumps(part))


def result_of(text: str) -> JsonValue:
    """Return a tool's result that was sent as text: our own envelope, or the text as it is.

    Anything else that looks like JSON stays text: `1.10` is not read as a number, nor are 20
    digits.
    """
    try:
        found = as_object(strict_loads(text))
    except ValueError:
        return text
    is_ours = found is not None and list(found) in (["data"], ["error"]) and dumps(found) == text
    return found if is_ours else text


def parts_in_result(parts: Sequence[ContentPart]) -> JsonValue:
    """Return a tool's result that was sent in parts: a text if all parts are, else the parts."""
    texts = [part.text for part in parts if isinstance(part, TextContent)]
    if len(texts) == len(parts):
        return result_of("\n".join(texts))
    return [part_to_json(part) for part in parts]


_DATA_URL = re.compile(r"data:(?P<kind>[^;,]*)(?:;[^,]*)?;base64,(?P<data>.*)", re.DOTALL)


def _medium(
    url: str, name: str | None = None, detail: Any = None, *, image: bool
) -> ImageContent | FileContent:
    """Return an image or file by its address, or by the content of a data URL."""
    found = _DATA_URL.fullmatch(url)
    data, kind = (found["data"], found["kind"]) if found else (None, None)
    address = None if found else url
    if image:
        return ImageContent(data, address, kind, detail)
    return FileContent(data, address, kind, name)


class _Chat(_Reading):
    def read(self, record: Mapping[str, Any]) -> None:
        for place, message in self.items(record.get("messages"), "messages"):
            role = message.get("role")
            if role == "assistant":
                self.reply({"choices": [{"message": message}]}, place)
            elif role in ("tool", "function"):
                self._answer(message, place)
            elif role in (*_SYSTEMS, "user"):
                parts = self.parts(message.get("content"), f"{place}.content")
                self.say("user" if role == "user" else "system", parts)
            else:
                raise self.wrong(f"{place}.role", f"a known role, got {role!r:.80}")

    def _answer(self, message: dict[str, Any], place: str) -> None:
        parts = self.parts(message.get("content"), f"{place}.content")
        call_id, name = message.get("tool_call_id") or "", message.get("name") or ""
        self.result(str(call_id), parts_in_result(parts), str(name))

    def part(self, part: dict[str, Any], place: str) -> ContentPart:
        match part:
            case {"type": "text", "text": str(text)} | {"type": "text", "value": str(text)}:
                return TextContent(text)
            case {"type": "image_url", "image_url": {"url": str(url), **rest}}:
                return _medium(url, detail=rest.get("detail"), image=True)
            case {"type": "image_url", "image_url": str(url)}:  # Mistral's
                return _medium(url, image=True)
            case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(kind)}}:
                return FileContent(data, None, f"audio/{_AUDIO.get(kind, kind)}")
            case {"type": "input_audio", "input_audio": str(data)} if (
                "://" not in data
            ):  # Mistral's
                kind = "audio/wav" if data.startswith(_WAV) else "audio/mpeg"
                return FileContent(data, None, kind)
            case {"type": "file", "file": {"file_data": str(data), **rest}}:
                return _medium(data, rest.get("filename"), image=False)
            case {"type": "file", "file": {"file_id": str(stored), **rest}}:
                return FileContent(None, f"openai:{stored}", None, rest.get("filename"))
            case {"type": "document_url", "document_url": str(url)}:  # Mistral's
                return _medium(url, image=False)
            case {"type": "video_url", "video_url": {"url": str(url)}}:  # OpenRouter's
                return _medium(url, image=False)
            case _:
                return self.unknown(part, place)


_AUDIO = {"mp3": "mpeg"}
_WAV = "UklGR"
"""What a WAV file in base64 begins with."""


class _Responses(_Reading):
    format = RESPONSES

    def read(self, record: Mapping[str, Any]) -> None:
        if isinstance(record.get("instructions"), str):
            self.say("system", record["instructions"])
        given = record.get("input")
        if isinstance(given, str):
            self.say("user", given)
            return
        said: list[dict[str, Any]] = []
        for place, item in self.items(given, "input"):
            if item.get("role") in (*_SYSTEMS, "user") and item.get("type", "message") == "message":
                self._end_reply(said, place)
                parts = self.parts(item.get("content"), f"{place}.content")
                self.say("user" if item["role"] == "user" else "system", parts)
            elif item.get("type") == "function_call_output":
                self._end_reply(said, place)
                self.result(str(item.get("call_id")), self._output(item.get("output"), place))
            elif (output := self._program_output(item, said)) is not None:
                self._end_reply(said, place)
                call_id, value = output
                parts = as_list(value)
                self.result(call_id, value if parts is None else self._output(parts, place))
            else:
                # A message of the assistant may go without its type.
                typed = {"type": "message", **item} if "role" in item else item
                said.append(_said(typed))
        self._end_reply(said, "input")

    def _program_output(
        self, item: dict[str, Any], said: list[dict[str, Any]]
    ) -> tuple[str, JsonValue] | None:
        """Return a result of a tool that the program has run; None: it is another item."""
        output = read_output(item)
        here = [one for one in said if output and one.get("call_id") == output[0]]
        hosted = any(program_call(one) is None for one in here)
        return None if hosted else output

    def _end_reply(self, said: list[dict[str, Any]], place: str) -> None:
        if said:
            self.reply({"status": "completed", "output": list(said)}, place)
            said.clear()

    def _output(self, output: object, place: str) -> JsonValue:
        if isinstance(output, str):
            return result_of(output)
        return parts_in_result(self.parts(output, f"{place}.output"))

    def part(self, part: dict[str, Any], place: str) -> ContentPart:
        match part:
            case {"type": "input_text" | "output_text" | "text", "text": str(text)}:
                return TextContent(text)
            case {"type": "input_image", "image_url": str(url)}:
                return _medium(url, detail=_detail(part), image=True)
            case {"type": "input_image", "file_id": str(stored)}:
                return ImageContent(None, f"openai:{stored}", None, _detail(part))
            case {"type": "input_file", "file_id": str(stored)}:
                return FileContent(None, f"openai:{stored}", None, part.get("filename"))
            case {"type": "input_file", "file_data": str(data)}:
                return _medium(data, part.get("filename"), image=False)
            case {"type": "input_file", "file_url": str(url)}:
                return _medium(url, part.get("filename"), image=False)
            case _:
                return self.unknown(part, place)


def _detail(part: dict[str, Any]) -> Any:
    detail = part.get("detail")
    return detail if detail in ("low", "high", "auto") else None


def _said(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item of a model's; a message's content may be a text, and its type left out."""
    if item.get("role") != "assistant" or not isinstance(item.get("content"), str):
        return item
    part: dict[str, Any] = {"type": "output_text", "text": item["content"], "annotations": []}
    return {"type": "message", **item, "content": [part]}


class _Anthropic(_Reading):
    format = ANTHROPIC

    def read(self, record: Mapping[str, Any]) -> None:
        self.say("system", self.parts(record.get("system"), "system"))
        for place, message in self.items(record.get("messages"), "messages"):
            role, content = message.get("role"), message.get("content")
            at = f"{place}.content"
            if role == "assistant":
                self.reply({"type": "message", "content": _text_blocks(content)}, place)
            elif role == "system":
                self.say("system", self.parts(content, at))
            elif role == "user":
                self._user(content, at)
            else:
                raise self.wrong(f"{place}.role", f"user, assistant or system, got {role!r}")

    def _user(self, content: object, place: str) -> None:
        parts: list[ContentPart] = []
        for at, block in self.items(_text_blocks(content), place):
            if block.get("type") == "tool_result":
                result = block.get("content") or ""
                value = result_of(result) if isinstance(result, str) else self._parts(result, at)
                self.result(str(block.get("tool_use_id")), value)
            else:
                parts.append(self.part(block, at))
        self.say("user", parts)

    def _parts(self, content: object, place: str) -> JsonValue:
        at = f"{place}.content"
        own = [own_block_in(block) for block in as_list(content) or []]
        if not any(own):
            return parts_in_result(self.parts(content, at))
        blocks = zip(own, self.parts(content, at), strict=True)
        return [block or part_to_json(part) for block, part in blocks]

    def part(self, part: dict[str, Any], place: str) -> ContentPart:
        match part:
            case {"type": "text", "text": str(text)}:
                return TextContent(text)
            case {"type": "image" | "document" as kind, "source": dict()}:
                source: dict[str, Any] = part["source"]
                found = self._source(source, part.get("title"), place, image=kind == "image")
                cited = (as_object(part.get("citations")) or {}).get("enabled") is True
                is_file = cited and isinstance(found, FileContent)
                return replace(found, citations=True) if is_file else found
            case _:
                return self.unknown(part, place)

    def _source(
        self, source: dict[str, Any], title: str | None, place: str, *, image: bool
    ) -> ContentPart:
        match source:
            case {"type": "url", "url": str(url)}:
                return _medium(url, title, image=image)
            case {"type": "file", "file_id": str(stored)}:
                return _medium(f"anthropic:{stored}", title, image=image)
            case {"type": "base64", "data": str(data), "media_type": str(kind)}:
                if image:
                    return ImageContent(data, None, kind)
                return FileContent(data, None, kind, title)
            case {"type": "text", "data": str(text)}:
                return FileContent(
                    base64.b64encode(text.encode()).decode(), None, "text/plain", title
                )
            case _:
                return self.unknown(source, f"{place}.source")


def _text_blocks(content: Any) -> Any:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _listed(given: object) -> object:
    """Return a lone object as a list of one, as Google's JSON reads it."""
    return given if as_object(given) is None else [given]


class _Gemini(_Reading):
    def read(self, record: Mapping[str, Any]) -> None:
        record = _camel(record)
        self._system(record.get("systemInstruction"))
        for place, given in self.items(_listed(record.get("contents")), "contents"):
            content = {**given, "parts": _listed(given.get("parts"))}
            role = content.get("role") or "user"
            if role == "model":
                said = {"content": _camel(content)}
                self.reply({"candidates": [said]}, place)
            elif role in ("user", "function"):
                self._user(content.get("parts"), f"{place}.parts")
            else:
                raise self.wrong(f"{place}.role", f"user or model, got {role!r}")

    def _system(self, given: object) -> None:
        """Add the system instruction: a content, or a text."""
        if given is None or isinstance(given, str):
            self.say("system", given or "")
            return
        content = as_object(given)
        if content is None:
            raise self.wrong("systemInstruction", "a content with parts, or a text")
        self.say("system", self.parts(content.get("parts"), "systemInstruction.parts"))

    def _user(self, given: object, place: str) -> None:
        parts: list[ContentPart] = []
        for at, raw in self.items(given, place):
            part = _camel(raw)
            response = as_object(part.get("functionResponse"))
            if response is None:
                parts += [] if part.keys() <= {"videoMetadata"} else [self.part(part, at)]
                continue
            media = [self.part(one, at) for _, one in self.items(response.get("parts") or [], at)]
            value = _payload(response.get("response"))
            if media:
                text = value if isinstance(value, str) else dumps(value)
                value = [part_to_json(one) for one in (TextContent(text), *media)]
            name = str(response.get("name") or "")
            self.result(str(response.get("id") or ""), value, name)
        self.say("user", parts)

    def part(self, part: dict[str, Any], place: str) -> ContentPart:
        match _camel(part):
            case {"text": str(text)}:
                return TextContent(text)
            case {"inlineData": {"data": str(data), "mimeType": str(kind), **rest}}:
                data = data.replace("-", "+").replace("_", "/")
                if kind.startswith("image/"):
                    return ImageContent(data, None, kind)
                return FileContent(data, None, kind, rest.get("displayName"))
            case {"fileData": {"fileUri": str(url), **rest}}:
                kind = rest.get("mimeType")
                if str(kind).startswith("image/"):
                    return ImageContent(None, url, kind)
                return FileContent(None, url, kind, rest.get("displayName"))
            case _:
                return self.unknown(part, place)


def _payload(response: object) -> JsonValue:
    """Return a function's response; our own envelope is removed."""
    found = as_object(response) or {}
    if found.keys() == {"name", "content"} and isinstance(found["content"], str):
        return result_of(found["content"])
    return result_of(dumps(response))


def _camel(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return JSON of Google's with camelCase names and lists of parts.

    Google takes snake_case, too, and a lone part for a list.
    """
    found: dict[str, Any] = {}
    for name, value in record.items():
        key = camel(name)
        inner = None if key in ("args", "response") else as_object(value)
        if key == "parts":
            parts = [value] if inner is not None else as_list(value) or ()
            found[key] = [_camel(as_object(part) or {}) for part in parts]
        else:
            found[key] = value if inner is None else _camel(inner)
    return found


_READERS = {
    "chat": _Chat,
    "responses": _Responses,
    "anthropic": _Anthropic,
    "gemini": _Gemini,
}
