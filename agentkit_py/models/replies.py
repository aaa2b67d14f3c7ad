"""The reading of replies, whole or streamed, in all wire formats. The JSON is not trusted."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from agentkit_py._core.json import (
    JsonValue,
    as_list,
    as_object,
    dumps,
    loads_tamed,
    strict_loads,
    tamed,
)
from agentkit_py.messages import (
    Delta,
    Message,
    ReasoningDelta,
    ReasoningMessage,
    TextDelta,
    TextMessage,
    ToolCall,
    ToolCallDelta,
    ToolCallMessage,
)
from agentkit_py.models.base import Model
from agentkit_py.models.http_errors import (
    error_in_body,
    error_in_event,
    excerpt_of,
    unexpected,
)


def checked_body(model: Model, body: object) -> dict[str, Any]:
    """Return the body if it is an object without an error.

    Raises:
        ModelResponseError: It is not.
    """
    found = as_object(body)
    if found is not None and not found.get("error"):
        return found
    raise error_in_body(model, body) or unexpected(model, body, "the answer is no JSON object")


def objects(value: object) -> list[dict[str, Any]]:
    """Return the objects of a JSON array; nothing where it is none."""
    items = as_list(value) if value else None
    return [item for item in items if isinstance(item, dict)] if items else []


def count(source: object, *names: str) -> int:
    """Return the number under a name, or under a second name inside of that; 0: there is none."""
    value: Any = source
    for name in names:
        if not isinstance(value, dict):
            return 0
        fields: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType] - `cast` would be a call
        value = fields.get(name)
    return value if type(value) is int and value > 0 else 0


def text_or_empty(value: object) -> str:
    """Return ``value`` if it is text."""
    return value if isinstance(value, str) else ""


def text_in(content: object) -> str:
    """Return the text of a content that is a text, or a list of parts with texts."""
    if isinstance(content, str):
        return content
    return "".join(text_or_empty(part.get("text")) for part in objects(content))


# Tool arguments as models write them: JSON, more or less.

_BACKTICKS = re.compile(r"`([^`]*)`")


def parse_call(call_id: str, name: str, arguments: object) -> ToolCall:
    """Return the call with its arguments read; text that is no JSON goes to `ToolCall.malformed`.

    Missing arguments are an empty object. Text is JSON, with the repairs of TypeScript's AgentKit:
    a stray quote around it, and values in backticks. JSON in a JSON string is read too.
    """
    text = isinstance(arguments, str)
    value: Any = arguments if text else tamed({"input": arguments})["input"]
    malformed = None
    if isinstance(value, str):
        try:
            value = _read_arguments(value) if value.strip() else None
        except ValueError:
            value, malformed = None, value
    if value is None:
        value = {}
    return ToolCall(call_id, name, value, malformed=malformed)


def nameless_call(call_id: str, block: object) -> ToolCall:
    """Return a call without a tool's name as malformed; its result asks for a correction."""
    said = f"a call without a name: {excerpt_of(block)}"
    return ToolCall(call_id or UNNAMED, UNNAMED, {}, malformed=said)


UNNAMED = "malformed_function_call"
"""The name of calls of which the provider says no name."""


def written_arguments(call: ToolCall, arguments: object) -> str:
    """Return a call's arguments as its model wrote them, if that is an object in valid JSON."""
    try:
        if isinstance(arguments, str) and as_object(strict_loads(arguments)) is not None:
            return arguments
    except (ValueError, RecursionError):
        pass
    return dumps(call.arguments)


def _read_arguments(text: str) -> JsonValue:
    try:
        value = strict_loads(text)
    except ValueError:
        value = _repaired(text)
    # A string is never a tool's arguments: some models encode the object twice.
    return strict_loads(value) if isinstance(value, str) else value


def _repaired(text: str) -> JsonValue:
    unquoted = text.removeprefix('"').removeprefix("'").removesuffix('"').removesuffix("'")
    try:
        return strict_loads(unquoted)
    except ValueError:
        return strict_loads(_BACKTICKS.sub(lambda match: dumps(match[1]), unquoted))


# Streams. An assembler gets the events of a reply, gives the pieces that a user may see at once,
# and has in the end the JSON that the provider answers without streaming, so that everything after
# it is the same either way. Who reads the bytes is `agentkit_py.runtime`.

DONE = "[DONE]"
"""OpenAI's end marker, the only event of its streams that is not JSON."""

_HIGH_SURROGATES = ("\ud800", "\udbff")


class BaseAssembler(ABC):
    """Reads events of a stream, and the errors in it."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._deltas = PartDeltas()
        self._ended = False

    @property
    def ended(self) -> bool:
        """Return whether the end marker has come: nothing that counts follows."""
        return self._ended

    def feed(self, event: str | None, data: str) -> Sequence[Delta]:
        """Add an event; returns its pieces.

        Raises:
            ModelError: The event is an error of the provider, or no JSON.
        """
        if not data or data.isspace():
            return ()
        if data.strip() == DONE:
            self._ended = True
            return ()
        try:
            found = as_object(loads_tamed(data))
        except ValueError as error:
            raise unexpected(self._model, data, "an event of the stream is no JSON") from error
        if found is None:
            raise unexpected(self._model, data, "an event of the stream is no JSON object")
        failure = error_in_event(self._model, self._error_of(found))
        if failure is not None:
            raise failure
        return self._take(found)

    def _error_of(self, found: dict[str, Any]) -> dict[str, Any]:
        """Return the object that holds ``error`` if the event is an error."""
        return found

    @abstractmethod
    def _take(self, found: dict[str, Any]) -> Sequence[Delta]: ...


class PartDeltas:
    """Makes deltas; the parts of a reply are numbered in the order in which they begin.

    A text that begins with white space is held back until more comes: formats leave out texts of
    nothing else. So is half a surrogate pair, which no front end could show.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._held: dict[Hashable, str] = {}

    def begun(self, key: Hashable) -> bool:
        """Return whether there was a delta of this part."""
        return key in self._numbers

    def text(self, key: Hashable, piece: str) -> list[Delta]:
        """Return the next piece of a text."""
        ready = self._ready(key, piece)
        return [TextDelta(self._number(key), ready)] if ready else []

    def reasoning(self, key: Hashable, piece: str) -> list[Delta]:
        """Return the next piece of a reasoning."""
        ready = self._ready(key, piece)
        return [ReasoningDelta(self._number(key), ready)] if ready else []

    def call(self, key: Hashable, call_id: str, name: str, piece: str) -> list[Delta]:
        """Return the next piece of a call's arguments; the first may be empty."""
        if not piece and key in self._numbers:
            return []
        return [ToolCallDelta(self._number(key), call_id, name, piece)]

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _ready(self, key: Hashable, piece: str) -> str:
        text = joined_text([self._held.pop(key, ""), piece])
        if key not in self._numbers and not text.strip():
            self._held[key] = text
            return ""
        if text and _HIGH_SURROGATES[0] <= text[-1] <= _HIGH_SURROGATES[1]:
            self._held[key] = text[-1]
            return text[:-1]
        return text


def joined_text(pieces: Iterable[str]) -> str:
    """Return the pieces as a text, surrogate pairs that were cut in two made whole."""
    text = "".join(pieces)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text


def partial_messages(deltas: Iterable[Delta]) -> tuple[Message, ...]:
    """Return the pieces of a reply that broke off as messages; cut arguments are malformed."""
    pieces: dict[int, list[Delta]] = {}
    for delta in deltas:
        pieces.setdefault(delta.index, []).append(delta)
    return tuple(_message(found[-1], "".join(d.delta for d in found)) for found in pieces.values())


def _message(kind: Delta, content: str) -> Message:
    match kind:
        case TextDelta():
            return TextMessage("assistant", content)
        case ReasoningDelta():
            return ReasoningMessage(content)
        case ToolCallDelta():
            return ToolCallMessage([parse_call(kind.id, kind.name, content)])
