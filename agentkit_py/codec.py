"""Messages to JSON and back, in the shapes of the TypeScript package.

Both languages can read the same thread table; each ignores
keys that only the other knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, cast, get_args

from agentkit_py._core.json import JsonValue
from agentkit_py.errors import InvalidRecordError
from agentkit_py.messages import (
    ContentPart,
    FileContent,
    ImageContent,
    Message,
    OpaqueMessage,
    ReasoningMessage,
    StopReason,
    TextContent,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
    UserMessage,
    part_to_json,
    user_message_reader,
)

Record = Mapping[str, Any]

_ROLES = ("system", "user", "assistant")
_STOPS = (None, *get_args(StopReason))
_PARTS = ("call", "result", "whole", "")

_STOP_BY_DEFAULT = ("tool_call", "tool_result")


def message_to_dict(message: Message) -> dict[str, Any]:
    """Return the message as JSON, without the run that it belongs to (``from_history``)."""
    record = _body(message)
    if message.stop_reason is not None:
        record["stop_reason"] = message.stop_reason
    if message.agent is not None:
        record["agent"] = message.agent
    if message.provider_metadata is not None:
        record["providerMetadata"] = message.provider_metadata
    if message.stop_reason is None and message.type in _STOP_BY_DEFAULT:
        record["stop_reason"] = None  # left out, it would be read as "tool"
    return record


def _body(message: Message) -> dict[str, Any]:
    match message:
        case TextMessage(role=role, content=content):
            return {"type": "text", "role": role, "content": _content_to_json(content)}
        case ToolCallMessage(tools=tools):
            calls = [call_to_dict(call) for call in tools]
            return {"type": "tool_call", "role": "assistant", "tools": calls}
        case ToolResultMessage(tool=tool, content=content):
            return {
                "type": "tool_result",
                "role": "tool_result",
                "tool": call_to_dict(tool),
                "content": content,
            }
        case ReasoningMessage(content=content):
            hidden = {"hidden": True} if message.hidden else {}
            return {"type": "reasoning", "role": "assistant", "content": content, **hidden}
        case OpaqueMessage():
            facts: dict[str, str] = {
                "host": message.host,
                "toolName": message.tool,
                "callId": message.call_id,
            }
            known = {
                name: value for name, value in (*facts.items(), ("part", message.part)) if value
            }
            own = {"content": message.content, "format": message.format}
            return {"type": "opaque", "role": "assistant", **own, **known}


def _content_to_json(content: object) -> object:
    if isinstance(content, str):
        return content
    return [part_to_json(part) for part in cast("list[ContentPart]", content)]


def call_to_dict(call: ToolCall) -> dict[str, Any]:
    """Return a tool call as JSON."""
    record: dict[str, Any] = {
        "type": "tool",
        "id": call.id,
        "name": call.name,
        "input": call.arguments,
    }
    if call.malformed is not None:
        record["malformed"] = call.malformed
    if call.provider_metadata is not None:
        record["providerMetadata"] = call.provider_metadata
    return record


def message_from_dict(
    record: object, *, where: str = "message", path: str = "", past: bool | None = None
) -> Message:
    """Read the message that ``record`` holds.

    Args:
        record: A message as JSON.
        where: The place of the record, as errors name it.
        path: The beginning of the path of a field that is wrong.
        past: Its ``from_history``, which JSON does not have.

    Raises:
        InvalidRecordError: Something is missing or of the wrong kind; it names ``where`` and the
            field, whose path begins with ``path``.
    """
    reader = _FieldReader(record, where, path, past=past)
    return _READERS[reader.one_of("type", _TYPES)](reader)


def _text(reader: _FieldReader) -> Message:
    role: Any = reader.one_of("role", _ROLES)
    return TextMessage(
        role,
        reader.content(),
        **reader.common(),
    )


def _tool_call(reader: _FieldReader) -> Message:
    return ToolCallMessage(tuple(reader.calls("tools")), **reader.common())


def _tool_result(reader: _FieldReader) -> Message:
    call = reader.call(reader.value("tool"), "tool")
    content = cast("JsonValue", reader.value("content"))
    return ToolResultMessage(call, content, **reader.common())


def _reasoning(reader: _FieldReader) -> Message:
    hidden = reader.flag("hidden")
    return ReasoningMessage(reader.string("content"), hidden=hidden, **reader.common())


def _opaque(reader: _FieldReader) -> Message:
    host, tool, call_id = map(reader.text_or_empty, ("host", "toolName", "callId"))
    part = reader.text_or_empty("part")
    if part:
        reader.one_of("part", _PARTS)
    return OpaqueMessage(
        reader.object("content"),
        reader.string("format"),
        host,
        tool,
        call_id,
        cast("Any", part),
        **reader.common(),
    )


class _FieldReader:
    """Reads fields of a JSON object; its errors name the wrong field."""

    __slots__ = ("_past", "_path", "_where", "record")

    def __init__(self, record: object, where: str, path: str, *, past: bool | None = None) -> None:
        self._where, self._path, self._past = where, path, past
        if type(record) is not dict and not isinstance(record, Mapping):  # quicker for nearly all
            raise self.wrong("", f"expected an object, got {record!r:.80}")
        given: Any = record  # pyright: ignore[reportUnknownVariableType] - `cast` would be a call
        self.record: Record = given

    def wrong(self, name: str, message: str) -> InvalidRecordError:
        path = ".".join(part for part in (self._path, name) if part)
        return InvalidRecordError(message, where=self._where, field=path or "(whole)")

    def value(self, name: str) -> object:
        if name not in self.record:
            raise self.wrong(name, "missing")
        return self.record[name]

    def string(self, name: str) -> str:
        value = self.value(name)
        if not isinstance(value, str):
            raise self.wrong(name, f"expected a string, got {value!r:.80}")
        return value

    def flag(self, name: str) -> bool:
        value = self.record.get(name, False)
        if not isinstance(value, bool):
            raise self.wrong(name, f"expected true or false, got {value!r:.80}")
        return value

    def text_or_empty(self, name: str) -> str:
        return self.maybe(name) or ""

    def object(self, name: str) -> dict[str, JsonValue]:
        value = self.value(name)
        if not isinstance(value, dict):
            raise self.wrong(name, f"expected an object, got {value!r:.80}")
        return cast("dict[str, JsonValue]", value)

    def one_of(self, name: str, allowed: tuple[str, ...]) -> str:
        value = self.record.get(name)
        if not isinstance(value, str) or value not in allowed:
            names = ", ".join(allowed)
            raise self.wrong(name, f"expected one of {names}, got {self.value(name)!r:.80}")
        return value

    def content(self) -> str | tuple[ContentPart, ...]:
        value = self.record.get("content")
        if isinstance(value, str):
            return value
        value = self.value("content")
        if not isinstance(value, list):
            raise self.wrong("content", f"expected a string or a list, got {value!r:.80}")
        parts = enumerate(cast("list[object]", value))
        return tuple(self._part(item, f"content[{index}]") for index, item in parts)

    def _part(self, item: object, name: str) -> ContentPart:
        part = cast("Record", item if isinstance(item, Mapping) else {})
        kind, text = part.get("type"), part.get("text")
        if kind in _MEDIA:
            return _MEDIA[kind](_FieldReader(part, self._where, self._at(name)))
        if kind != "text" or not isinstance(text, str):
            raise self.wrong(name, f"expected {{type: text, text: …}}, got {item!r:.80}")
        return TextContent(text)

    def medium(self, own: str) -> tuple[str | None, str | None, str | None, str | None]:
        """Read the fields of images and files, and the field that only this kind has."""
        data, url, media_type, last = map(self.maybe, ("data", "url", "mediaType", own))
        if (data is None) == (url is None):
            raise self.wrong("", "expected either data or url")
        if data is not None and not media_type:
            raise self.wrong("mediaType", "missing, but data is given")
        return data, url, media_type, last

    def maybe(self, name: str) -> str | None:
        value = self.record.get(name)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, f"expected a string, got {value!r:.80}")
        return value

    def _at(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name

    def calls(self, name: str) -> list[ToolCall]:
        value = self.value(name)
        if not isinstance(value, list):
            raise self.wrong(name, f"expected a list, got {value!r:.80}")
        items = enumerate(cast("list[object]", value))
        return [self.call(item, f"{name}[{index}]") for index, item in items]

    def call(self, item: object, name: str) -> ToolCall:
        reader = _FieldReader(item, self._where, self._at(name))
        record = reader.record
        malformed = record.get("malformed")
        if malformed is not None and not isinstance(malformed, str):
            raise reader.wrong("malformed", f"expected a string, got {malformed!r:.80}")
        return ToolCall(
            reader.string("id"),
            reader.string("name"),
            record.get("input", {}),
            malformed,
            reader.metadata(),
        )

    def metadata(self) -> dict[str, JsonValue] | None:
        value = self.record.get("providerMetadata")
        if value is not None and not isinstance(value, dict):
            raise self.wrong("providerMetadata", f"expected an object, got {value!r:.80}")
        return cast("dict[str, JsonValue] | None", value)

    def common(self) -> dict[str, Any]:
        stop = self.record.get("stop_reason")
        if stop not in _STOPS:
            words = ", ".join(get_args(StopReason))
            raise self.wrong("stop_reason", f"expected one of {words}, got {stop!r:.80}")
        agent = self.record.get("agent")
        if agent is not None and not isinstance(agent, str):
            raise self.wrong("agent", f"expected a string, got {agent!r:.80}")
        found: dict[str, Any] = {"agent": agent, "from_history": self._past}
        if "providerMetadata" in self.record:
            found["provider_metadata"] = self.metadata()
        if "stop_reason" in self.record:
            found["stop_reason"] = stop
        return found


def _image(reader: _FieldReader) -> ImageContent:
    data, url, media_type, detail = reader.medium("detail")
    if detail is not None:
        reader.one_of("detail", ("low", "high", "auto"))
    return ImageContent(data, url, media_type, cast("Any", detail))


def _file(reader: _FieldReader) -> FileContent:
    return FileContent(*reader.medium("name"), citations=reader.flag("citations"))


_MEDIA: dict[object, Callable[[_FieldReader], ContentPart]] = {"image": _image, "file": _file}

_READERS: dict[str, Callable[[_FieldReader], Message]] = {
    "text": _text,
    "tool_call": _tool_call,
    "tool_result": _tool_result,
    "reasoning": _reasoning,
    "opaque": _opaque,
}
_TYPES = tuple(_READERS)


def user_message_to_dict(message: UserMessage) -> dict[str, Any]:
    """Return the input of a run as JSON."""
    content = message.content if isinstance(message.content, str) else tuple(message.content)
    when = message.client_timestamp
    return {
        "id": message.id,
        "text": message_to_dict(TextMessage("user", content)),
        "state": None if message.state is None else dict(message.state),
        "clientTimestamp": None if when is None else when.isoformat(),
        "systemPrompt": message.system_prompt,
    }


def user_message_from_dict(record: object, *, where: str) -> UserMessage:
    """Read the output of `user_message_to_dict`.

    Raises:
        InvalidRecordError: It holds no message.
    """
    fields = cast("Record", record if isinstance(record, Mapping) else {})
    text = message_from_dict(fields.get("text"), where=where)
    assert isinstance(text, TextMessage)
    when = fields.get("clientTimestamp")
    return UserMessage(
        text.content,
        fields.get("id"),
        state=fields.get("state"),
        client_timestamp=None if when is None else datetime.fromisoformat(when),
        system_prompt=fields.get("systemPrompt"),
    )


_RENAMED = {"client_timestamp": "clientTimestamp", "system_prompt": "systemPrompt"}


@user_message_reader.register
def read_user_message(record: object, where: str) -> UserMessage:
    """Read a message as front ends and TypeScript write it.

    Raises:
        InvalidRecordError: A member is missing or of the wrong kind.
    """
    reader = _FieldReader(record, where, "")
    for name, known in _RENAMED.items():
        if name in reader.record:
            raise reader.wrong(name, f"is {known} in JSON")
    state = None if reader.record.get("state") is None else reader.object("state")
    return UserMessage(
        reader.content(),
        reader.maybe("id"),
        state=state,
        client_timestamp=_time(reader, "clientTimestamp"),
        system_prompt=reader.maybe("systemPrompt"),
    )


def _time(reader: _FieldReader, name: str) -> datetime | None:
    given = reader.maybe(name)
    if given is None:
        return None
    try:
        found = datetime.fromisoformat(given)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise reader.wrong(name, f"expected an ISO 8601 time, got {given!r:.80}") from None
