"""Recorded conversations, a JSON object per line: OpenAI's chat format, or a provider's request.

Read line by line, so that a file may be larger than memory. A line that cannot be used is an error
that names line and field; the lines after it are read all the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from pydantic import (
    BaseModel,
    Discriminator,
    PlainValidator,
    Tag,
    ValidationError,
    field_validator,
)

from agentkit_py._core.json import JsonObject, JsonValue, as_list, as_object, dumps, strict_loads
from agentkit_py._core.validation import TOOL_NAME
from agentkit_py.errors import InvalidRecordError
from agentkit_py.messages import (
    ContentPart,
    Message,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
    part_to_json,
    text_of_parts,
)
from agentkit_py.models.chat_records import as_chat, records_of
from agentkit_py.models.conversations import format_of, read_turns
from agentkit_py.results import AgentResult


@dataclass(slots=True)
class RecordedCall:
    """A tool call of a recorded reply, and the tool's answer."""

    id: str
    name: str
    arguments: JsonObject
    written: str
    """The arguments as the model wrote them."""

    result: JsonValue = None
    """The tool's text, or a list of parts with images; None only while the recording is read."""


@dataclass(frozen=True, slots=True)
class RecordedReply:
    """One assistant message, with the tool messages that answer it."""

    text: str | None
    calls: tuple[RecordedCall, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """A user message, and everything until the next."""

    content: str | Sequence[ContentPart]
    replies: list[RecordedReply]

    @property
    def text(self) -> str:
        """The text of the message; images and files have none."""
        return text_of_parts(self.content)


@dataclass(frozen=True, slots=True)
class Conversation:
    """One line of a recording."""

    id: str
    line: int
    system: str
    turns: list[RecordedTurn]
    opening: Sequence[RecordedReply] = ()
    """Replies before the first user message, as a greeting."""

    @property
    def replies(self) -> list[RecordedReply]:
        """All replies, in order."""
        return [*self.opening, *(reply for turn in self.turns for reply in turn.replies)]

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

        Results of a reply are in the order of its calls.
        """
        found = [message for reply in self.opening for message in _reply_messages(reply)]
        for turn in self.turns:
            found.append({"role": "user", "content": plain_content(turn.content)})
            for reply in turn.replies:
                found += _reply_messages(reply)
        return found


def plain_content(content: str | Sequence[ContentPart]) -> JsonValue:
    """Return a message's content in the form that threads are compared in."""
    if isinstance(content, str):
        return content
    return [part_to_json(part) for part in content]


def unwrapped(content: JsonValue) -> JsonValue:
    """Return a tool's value out of the engine's envelope."""
    found = as_object(content)
    return found["data"] if found is not None and list(found) == ["data"] else content


def _reply_messages(reply: RecordedReply) -> list[dict[str, Any]]:
    calls = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in reply.calls]
    asked = {"role": "assistant", "content": reply.text, "tool_calls": calls}
    answers = [
        {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": call.result}
        for call in reply.calls
    ]
    return [asked, *answers]


def agent_result_of(reply: RecordedReply, agent: str) -> AgentResult:
    """Return a reply as an agent's result."""
    calls = [ToolCall(call.id, call.name, call.arguments) for call in reply.calls]
    said = [] if reply.text is None else [TextMessage("assistant", reply.text)]
    answers = [
        ToolResultMessage(made, {"data": call.result})
        for made, call in zip(calls, reply.calls, strict=True)
    ]
    return AgentResult(agent, [*said, *([ToolCallMessage(calls)] if calls else [])], answers)


def read_conversations(path: Path) -> Iterator[Conversation | InvalidRecordError]:
    """Yield the conversations of a file, and in place of a line that cannot be used its error.

    Raises:
        OSError: The file cannot be read.
    """
    seen: dict[str, int] = {}
    with path.open("rb") as file:
        for number, raw in enumerate(records_of(file), start=1):
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
    """Return the conversation as a single line.

    Raises:
        InvalidRecordError: It is no JSON, or no conversation that can be replayed.
    """
    where = f"line {number}"
    given = _json_of_line(raw, where)
    record = as_object(given)
    if record is not None:
        record = given = dict(as_chat(record, where))
    if record is not None and (format_of(record) not in (None, "chat") or _shows_media(record)):
        return _of_turns(record, number, where)
    try:
        line = _LineRecord.model_validate(given)
    except ValidationError as error:
        raise _invalid(error, where) from None
    reading = _Reading(where)
    for index, message in enumerate(line.messages):
        _read_chat(reading, message, f"messages[{index}]")
    reading.check_answered()
    return reading.conversation(line.id or f"line-{number}", number, "messages")


class _Reading:
    """A conversation as it is read, message by message."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._turns: list[RecordedTurn] = []
        self._opening: list[RecordedReply] = []
        self.system: list[str] = []
        self.waiting: list[tuple[RecordedCall, str]] = []
        """Calls that no result has answered yet, with their places."""

    def wrong(self, field: str, problem: str) -> NoReturn:
        raise InvalidRecordError(problem, where=self._where, field=field)

    def user(self, content: str | Sequence[ContentPart]) -> None:
        """Begin a turn."""
        self._turns.append(RecordedTurn(content, []))

    def reply(self, text: str | None, calls: Sequence[tuple[RecordedCall, str]]) -> None:
        """Add a reply; its calls are given with their places."""
        replies = self._turns[-1].replies if self._turns else self._opening
        replies.append(RecordedReply(text, tuple(call for call, _ in calls)))
        self.waiting += calls

    def check_answered(self) -> None:
        """Refuse a call without a result."""
        if self.waiting:
            call, place = self.waiting[0]
            self.wrong(place, f"the call of {call.name!r} has no result that answers it")

    def conversation(self, name: str, number: int, whole: str) -> Conversation:
        """Return the conversation; ``whole`` is the field of all messages."""
        if not self._turns:
            self.wrong(whole, "no user message, so nothing to replay")
        system = "\n\n".join(self.system)
        return Conversation(name, number, system, self._turns, self._opening)


def _shows_media(record: dict[str, Any]) -> bool:
    messages = [as_object(message) or {} for message in as_list(record.get("messages")) or ()]
    parts = [part for message in messages for part in as_list(message.get("content")) or ()]
    kinds = {(as_object(part) or {}).get("type", "text") for part in parts}
    return not kinds <= {"text"}


def _of_turns(record: dict[str, Any], number: int, where: str) -> Conversation:
    """Return the conversation of a request in any provider's format.

    Of replies it keeps texts and calls, of tools the results; later system messages count
    from the beginning.
    """
    reading = _Reading(where)
    for turn in read_turns(record, where=where):
        place = f"(item {turn.index})"
        if turn.side == "assistant":
            _read_reply(reading, turn.messages, place)
            continue
        for message in turn.messages:
            if isinstance(message, ToolResultMessage):
                _read_result(reading, message, place)
            elif isinstance(message, TextMessage) and turn.side == "user":
                reading.user(message.content)
            elif isinstance(message, TextMessage):
                reading.system.append(message.text)
    reading.check_answered()
    name = record.get("id")
    known = name if isinstance(name, str) and name else f"line-{number}"
    return reading.conversation(known, number, _WHOLE)


def _read_reply(reading: _Reading, messages: Sequence[Message], place: str) -> None:
    texts = [m.text for m in messages if isinstance(m, TextMessage) and m.text.strip()]
    calls: list[tuple[RecordedCall, str]] = []
    for call in (call for m in messages if isinstance(m, ToolCallMessage) for call in m.tools):
        arguments = as_object(call.arguments)
        if call.malformed is not None or arguments is None or not TOOL_NAME.fullmatch(call.name):
            problem = f"this call of {call.name!r:.80} cannot be made: its name or its arguments"
            reading.wrong(place, problem)
        calls.append((RecordedCall(call.id, call.name, arguments, dumps(arguments)), place))
    if texts or calls:
        reading.reply("".join(texts) or None, calls)


def _read_result(reading: _Reading, message: ToolResultMessage, place: str) -> None:
    given, waiting = message.tool, reading.waiting
    fitting = [one for one in waiting if one[0].id == given.id] or [
        one for one in waiting if one[0].name == given.name
    ]
    if not fitting:
        reading.wrong(place, f"this result of {given.name or given.id!r:.80} answers no call")
    waiting.remove(fitting[0])
    fitting[0][0].result = unwrapped(message.content)


def _read_chat(reading: _Reading, message: _MessageRecord, path: str) -> None:
    """Read the next message of OpenAI's chat format; a reply's results come right after it."""
    if message.role == "tool":
        _read_chat_result(reading, message, path)
        return
    reading.check_answered()
    if message.role == "user":
        text = message.text or reading.wrong(f"{path}.content", "a user message needs text")
        reading.user(text)
    elif message.role == "assistant":
        _read_chat_reply(reading, message, path)
    elif message.text is None:
        reading.wrong(f"{path}.content", "a message of the system needs text")
    else:
        reading.system.append(message.text)


def _read_chat_reply(reading: _Reading, message: _MessageRecord, path: str) -> None:
    calls = [
        (
            RecordedCall(call.id, call.function.name, *call.function.parsed()),
            f"{path}.tool_calls[{index}]",
        )
        for index, call in enumerate(message.tool_calls or ())
    ]
    if message.text is None and not calls:
        reading.wrong(f"{path}.content", "an assistant message without tool calls needs text")
    # Models send blank text with calls, and some programs keep empty replies; no thread does.
    text = message.text if message.text and message.text.strip() else None
    if text is not None or calls:
        reading.reply(text, calls)


def _read_chat_result(reading: _Reading, message: _MessageRecord, path: str) -> None:
    if not reading.waiting:
        reading.wrong(f"{path}.role", "this tool message answers no call")
    # The first open call of this id: ids repeat, but within a reply the order decides.
    ids = [call.id for call, _ in reading.waiting]
    if message.tool_call_id not in ids:
        problem = f"expected {', '.join(map(repr, ids)):.200}, got {message.tool_call_id!r:.80}"
        reading.wrong(f"{path}.tool_call_id", problem)
    call, _ = reading.waiting.pop(ids.index(message.tool_call_id))
    if message.name not in (None, call.name):
        problem = f"the call is of {call.name!r}, got {message.name!r:.80}"
        reading.wrong(f"{path}.name", problem)
    if message.text is None:
        reading.wrong(f"{path}.content", "a tool message needs content")
    call.result = message.text


# The shape of a line. Fields that are not named here are ignored.

_WHOLE = "(whole line)"


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("expected a string")  # noqa: TRY004 - pydantic expects it
    return value


def _non_empty(value: object) -> str:
    if not _text(value):
        raise ValueError("expected a string with something in it")
    return _text(value)


# Not pydantic's own strings, which refuse the half surrogate pairs that JSON may hold.
_Text = Annotated[str, PlainValidator(_text)]
_NonEmpty = Annotated[str, PlainValidator(_non_empty)]


class _Function(BaseModel):
    name: _Text
    arguments: _Text

    @field_validator("name")
    @classmethod
    def _is_tool_name(cls, name: str) -> str:
        if not TOOL_NAME.fullmatch(name):
            raise ValueError("no tool name (1 to 64 letters, digits, _ or -, a letter or _ first)")
        return name

    @field_validator("arguments")
    @classmethod
    def _is_object(cls, written: str) -> str:
        # Models leave them empty for tools that take none.
        written = written if written.strip() else "{}"
        found = as_object(strict_loads(written))
        if found is None:
            raise ValueError("expected a JSON object as a string")
        return written

    def parsed(self) -> tuple[JsonObject, str]:
        """Return the arguments as an object, and as the model wrote them."""
        return json.loads(self.arguments), self.arguments


class _CallRecord(BaseModel):
    id: _NonEmpty
    type: Literal["function"] = "function"
    function: _Function


class _TextPart(BaseModel):
    type: Literal["text"]
    text: _Text


class _MessageRecord(BaseModel):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Annotated[
        Annotated[_Text | None, Tag("(text)")] | Annotated[list[_TextPart], Tag("(parts)")],
        Discriminator(lambda value: "(parts)" if isinstance(value, list) else "(text)"),
    ] = None
    tool_calls: list[_CallRecord] | None = None
    tool_call_id: _Text | None = None
    name: _Text | None = None

    @property
    def text(self) -> str | None:
        """The content as a text."""
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content)
        return self.content


class _LineRecord(BaseModel):
    id: _NonEmpty = ""
    messages: list[_MessageRecord]


def _invalid(error: ValidationError, where: str) -> InvalidRecordError:
    """Return the first fault of a line, with the path of its field."""
    fault = error.errors(include_url=False)[0]
    path = ""
    for part in fault["loc"]:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not part.startswith("("):
            path += f".{part}" if path else part
    problem = f"{fault['msg']}, got {fault['input']!r:.80}"
    return InvalidRecordError(problem, where=where, field=path or _WHOLE)


def _json_of_line(raw: bytes, where: str) -> object:
    """Return the JSON value of a line.

    Raises:
        InvalidRecordError: It is not UTF-8 or no JSON.
    """
    try:
        return strict_loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        problem = f"not UTF-8 (byte {error.start + 1})"
    except json.JSONDecodeError as error:
        problem = f"no JSON: {error.msg} (column {error.colno})"
        if not raw.endswith(b"\n"):
            problem += "; the file ends here, perhaps it was cut off"
    except ValueError as error:
        problem = f"no JSON: {error}"
    raise InvalidRecordError(problem, where=where, field=_WHOLE) from None
