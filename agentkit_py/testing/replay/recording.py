"""Recorded conversations: OpenAI's chat format, one JSON object per line.

Read line by line, so that a file may be larger than memory. A line that cannot be used is an error
that names line and field; the lines after it are read all the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from agentkit_py._core.json import JsonObject, as_list, as_object
from agentkit_py._core.naming import TOOL_NAME
from agentkit_py.errors import InvalidRecordError

_SYSTEM = ("system", "developer")
_ROLES = (*_SYSTEM, "user", "assistant", "tool")


@dataclass(slots=True)
class RecordedCall:
    """A tool call of a recorded reply, and what the tool answered."""

    id: str
    name: str
    arguments: JsonObject
    written: str
    """The arguments as the model wrote them."""

    result: str | None = None
    """None only while the recording is read."""


@dataclass(frozen=True, slots=True)
class RecordedReply:
    """One assistant message, with the tool messages that answer it."""

    text: str | None
    calls: tuple[RecordedCall, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """A user message, and everything until the next one."""

    text: str
    replies: list[RecordedReply]


@dataclass(frozen=True, slots=True)
class Conversation:
    """One line of a recording."""

    id: str
    line: int
    system: str
    turns: list[RecordedTurn]

    @property
    def replies(self) -> list[RecordedReply]:
        """All replies, in order."""
        return [reply for turn in self.turns for reply in turn.replies]

    @property
    def calls(self) -> list[RecordedCall]:
        """All calls, in order."""
        return [call for reply in self.replies for call in reply.calls]

    @property
    def tools(self) -> list[str]:
        """Names of the tools that are called, each once, in order of their first call."""
        return list(dict.fromkeys(call.name for call in self.calls))

    def messages(self) -> list[dict[str, Any]]:
        """Return the messages without the system's, in the form that threads are compared in.

        Results of one reply stand in the order of its calls.
        """
        found: list[dict[str, Any]] = []
        for turn in self.turns:
            found.append({"role": "user", "content": turn.text})
            for reply in turn.replies:
                found += _reply_messages(reply)
        return found


def _reply_messages(reply: RecordedReply) -> list[dict[str, Any]]:
    calls = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in reply.calls]
    asked = {"role": "assistant", "content": reply.text, "tool_calls": calls}
    answers = [
        {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": call.result}
        for call in reply.calls
    ]
    return [asked, *answers]


def read_conversations(path: Path) -> Iterator[Conversation | InvalidRecordError]:
    """Yield the conversations of a file, and in place of a line that cannot be used its error.

    Raises:
        OSError: The file cannot be read.
    """
    seen: dict[str, int] = {}
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if not raw.strip():
                continue
            try:
                found = conversation_of_line(raw, number)
                _check_new(found, seen)
            except InvalidRecordError as error:
                yield error
            else:
                yield found


def _check_new(conversation: Conversation, seen: dict[str, int]) -> None:
    first = seen.setdefault(conversation.id, conversation.line)
    if first != conversation.line:
        raise InvalidRecordError(
            f"{conversation.id!r:.80} is the id of line {first} already",
            where=f"line {conversation.line}",
            field="id",
        )


def conversation_of_line(raw: bytes, number: int) -> Conversation:
    """Return the conversation in one line.

    Raises:
        InvalidRecordError: It is no JSON, or no conversation that can be replayed.
    """
    where = f"line {number}"
    fields = _Fields.of(_json_of_line(raw, where), where, "")
    name = fields.string("id") if "id" in fields.record else f"line-{number}"
    reader = _Messages(where)
    for index, item in enumerate(fields.list("messages")):
        reader.read(_Fields.of(item, where, f"messages[{index}]"))
    return Conversation(name, number, reader.system, reader.finish())


class _Messages:
    """Reads the messages of one conversation, in order."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._system: list[str] = []
        self._turns: list[RecordedTurn] = []
        # Calls of the last reply that no tool message has answered yet, with their paths.
        self._open: list[tuple[RecordedCall, str]] = []

    @property
    def system(self) -> str:
        """The system messages, joined; empty if there is none."""
        return "\n\n".join(self._system)

    def read(self, fields: _Fields) -> None:
        """Read the next message."""
        role = fields.string("role")
        if role not in _ROLES:
            fields.wrong("role", f"unknown role {role!r:.40}; known are {', '.join(_ROLES)}")
        if role == "tool":
            self._result(fields)
            return
        self._check_answered()
        if role in _SYSTEM:
            if self._turns:
                fields.wrong(
                    "role", f"a {role} message can only be replayed before the first user's"
                )
            self._system.append(_content_of(fields))
        elif role == "user":
            self._turns.append(RecordedTurn(self._users_text(fields), []))
        else:
            self._reply(fields)

    def finish(self) -> list[RecordedTurn]:
        """Return the turns, once all messages are read."""
        self._check_answered()
        if not self._turns:
            raise InvalidRecordError(
                "there is no user message, so nothing to replay",
                where=self._where,
                field="messages",
            )
        return self._turns

    def _users_text(self, fields: _Fields) -> str:
        return _content_of(fields) or fields.wrong("content", "a user message needs text")

    def _reply(self, fields: _Fields) -> None:
        if not self._turns:
            fields.wrong(
                "role", "an assistant message before the first user message answers nothing"
            )
        optional = "content" not in fields.record or fields.record["content"] is None
        text = None if optional else _content_of(fields)
        given = fields.record.get("tool_calls")
        calls = [] if given is None else as_list(given)
        if calls is None:
            fields.wrong("tool_calls", f"expected a list, got {given!r:.80}")
        read = tuple(
            self._call(_Fields.of(call, self._where, fields.at(f"tool_calls[{index}]")))
            for index, call in enumerate(calls)
        )
        # Models send blank text beside calls; no thread keeps it.
        said = text if text and text.strip() else None
        if said is None and not read:
            fields.wrong("content", "an assistant message without tool calls needs text")
        self._turns[-1].replies.append(RecordedReply(said, read))

    def _call(self, fields: _Fields) -> RecordedCall:
        kind = fields.record.get("type", "function")
        if kind != "function":
            fields.wrong("type", f"only function calls can be replayed, not {kind!r:.40}")
        function = _Fields.of(fields.value("function"), self._where, fields.at("function"))
        arguments, written = _arguments_of(function)
        call = RecordedCall(fields.string("id"), _tool_name(function), arguments, written)
        self._open.append((call, fields.path))
        return call

    def _result(self, fields: _Fields) -> None:
        if not self._open:
            fields.wrong("role", "this tool message answers no call")
        call = self._answered(fields)
        name = fields.record.get("name")
        if name not in (None, call.name):
            fields.wrong("name", f"the call is one of {call.name!r}, got {name!r:.80}")
        call.result = _content_of(fields)

    def _answered(self, fields: _Fields) -> RecordedCall:
        """Take the first open call of this id: ids repeat, but within a reply the order tells."""
        call_id = fields.string("tool_call_id")
        for index, (call, _) in enumerate(self._open):
            if call.id == call_id:
                del self._open[index]
                return call
        waiting = ", ".join(repr(call.id) for call, _ in self._open)
        return fields.wrong("tool_call_id", f"expected {waiting:.200}, got {call_id!r:.80}")

    def _check_answered(self) -> None:
        if self._open:
            call, path = self._open[0]
            problem = f"the call of {call.name!r} has no result (a tool message that answers it)"
            raise InvalidRecordError(problem, where=self._where, field=path)


# One line: JSON objects whose fields are checked, with errors that name them.

_WHOLE = "(whole line)"


@dataclass(frozen=True, slots=True)
class _Fields:
    """One JSON object of a line."""

    record: Mapping[str, Any]
    where: str
    path: str

    @classmethod
    def of(cls, value: object, where: str, path: str) -> _Fields:
        """Return the fields of ``value``.

        Raises:
            InvalidRecordError: It is no object.
        """
        record = as_object(value)
        if record is None:
            problem = f"expected an object, got {value!r:.80}"
            raise InvalidRecordError(problem, where=where, field=path or _WHOLE)
        return cls(record, where, path)

    def at(self, name: str) -> str:
        """Return the path of a field."""
        return f"{self.path}.{name}" if self.path else name

    def wrong(self, name: str, problem: str) -> NoReturn:
        """Raise what is wrong with a field."""
        raise InvalidRecordError(problem, where=self.where, field=self.at(name))

    def value(self, name: str) -> object:
        """Return a field that has to be there."""
        if name not in self.record:
            self.wrong(name, "missing")
        return self.record[name]

    def string(self, name: str) -> str:
        """Return a field that has to be a string with something in it."""
        value = self.value(name)
        if not isinstance(value, str) or not value:
            self.wrong(name, f"expected a non-empty string, got {value!r:.80}")
        return value

    def list(self, name: str) -> list[Any]:
        """Return a field that has to be a list."""
        value = self.value(name)
        found = as_list(value)
        if found is None:
            self.wrong(name, f"expected a list, got {value!r:.80}")
        return found


def _json_of_line(raw: bytes, where: str) -> object:
    """Return the JSON value of a line.

    Raises:
        InvalidRecordError: It is not UTF-8 or no JSON.
    """
    try:
        return json.loads(raw.decode("utf-8-sig"), parse_constant=_refuse)
    except UnicodeDecodeError as error:
        problem = f"not UTF-8 (byte {error.start + 1})"
    except json.JSONDecodeError as error:
        problem = f"no JSON: {error.msg} (column {error.colno})"
        if not raw.endswith(b"\n"):
            problem += "; the file ends here, perhaps it was cut off"
    except (ValueError, RecursionError) as error:
        problem = f"no JSON: {error}"
    raise InvalidRecordError(problem, where=where, field=_WHOLE) from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def _content_of(fields: _Fields) -> str:
    """Return the text of a message: a string, or a list of text parts, which are joined.

    Raises:
        InvalidRecordError: It is something else, such as an image.
    """
    content = fields.value("content")
    if isinstance(content, str):
        return content
    parts = as_list(content)
    if parts is None:
        fields.wrong("content", f"expected a string or a list of text parts, got {content!r:.80}")
    return "".join(
        _part(_Fields.of(part, fields.where, fields.at(f"content[{index}]")))
        for index, part in enumerate(parts)
    )


def _part(fields: _Fields) -> str:
    kind = fields.string("type")
    if kind != "text":
        fields.wrong("type", f"only text can be replayed, not {kind!r:.40}")
    text = fields.value("text")
    if not isinstance(text, str):
        fields.wrong("text", f"expected a string, got {text!r:.80}")
    return text


def _tool_name(function: _Fields) -> str:
    """Return a tool's name that all providers accept.

    Raises:
        InvalidRecordError: It is not.
    """
    name = function.string("name")
    if not TOOL_NAME.fullmatch(name):
        function.wrong(
            "name",
            f"{name!r:.80} is no tool name (1 to 64 letters, digits, _ or -, a letter or _ first)",
        )
    return name


def _arguments_of(function: _Fields) -> tuple[JsonObject, str]:
    """Return a call's arguments as an object, and as the model wrote them.

    Raises:
        InvalidRecordError: They are not the text of a JSON object.
    """
    given = function.value("arguments")
    if not isinstance(given, str):
        function.wrong("arguments", f"expected JSON as a string, got {given!r:.80}")
    # Models leave them empty for tools that take none.
    written = given if given.strip() else "{}"
    try:
        found = as_object(json.loads(written, parse_constant=_refuse))
    except (ValueError, RecursionError) as error:
        function.wrong("arguments", f"no JSON: {error}; got {given!r:.80}")
    if found is None:
        function.wrong("arguments", f"expected a JSON object as a string, got {given!r:.80}")
    return found, written
