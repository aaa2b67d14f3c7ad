"""Streamed replies, format by format: what all assemblers share.

An assembler gets the events of one reply, tells the pieces that a user may see at once, and has in
the end the JSON that the provider would have answered without streaming, so that everything after
it is the same either way. Pure: who reads the bytes is `agentkit_py.runtime.streaming`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NoReturn

from agentkit_py._core.json import as_object, dumps
from agentkit_py.errors import ModelError
from agentkit_py.messages import (
    Delta,
    Message,
    ReasoningDelta,
    ReasoningMessage,
    TextDelta,
    TextMessage,
    ToolCallDelta,
    ToolCallMessage,
)
from agentkit_py.models.arguments import parse_call
from agentkit_py.models.base import Model
from agentkit_py.models.http_errors import error_from_response, error_in_body
from agentkit_py.models.reply import text_or_empty, unexpected

DONE = "[DONE]"
"""OpenAI's end marker, the one event of its streams that is no JSON."""

# What providers call an error in an event, where the status has been sent already.
_STATUS = {
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "context_length_exceeded": 400,
    "INVALID_ARGUMENT": 400,
    "authentication_error": 401,
    "UNAUTHENTICATED": 401,
    "permission_error": 403,
    "PERMISSION_DENIED": 403,
    "not_found_error": 404,
    "NOT_FOUND": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "RESOURCE_EXHAUSTED": 429,
    "api_error": 500,
    "server_error": 500,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "timeout_error": 504,
    "DEADLINE_EXCEEDED": 504,
    "overloaded_error": 529,
}
_ERROR_STATUS = range(400, 600)
_HIGH_SURROGATES = ("\ud800", "\udbff")


class BaseAssembler(ABC):
    """What the assemblers share: reading an event, and the errors that one may hold."""

    def __init__(self, model: Model) -> None:
        """Begin a reply of ``model``."""
        self._model = model
        self._parts = Parts()
        self._ended = False

    @property
    def ended(self) -> bool:
        """Whether the end marker has come: nothing that counts follows."""
        return self._ended

    def feed(self, event: str | None, data: str) -> Sequence[Delta]:  # noqa: ARG002
        """Take one event; returns the pieces that it brings.

        Raises:
            ModelError: The event is an error of the provider, or no JSON.
        """
        if not data or data.isspace():
            return ()
        if data.strip() == DONE:
            self._ended = True
            return ()
        found = as_object(self._read(data))
        if found is None:
            raise unexpected(self._model, data, "an event of the stream is no JSON object")
        error = error_of_event(self._model, self._error_of(found))
        if error is not None:
            raise error
        return self._take(found)

    def _read(self, data: str) -> object:
        try:
            return json.loads(data, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            raise unexpected(self._model, data, "an event of the stream is no JSON") from error

    def _error_of(self, found: dict[str, Any]) -> dict[str, Any]:
        """The object that holds ``error`` if the event is one."""
        return found

    @abstractmethod
    def _take(self, found: dict[str, Any]) -> Sequence[Delta]: ...


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


class Parts:
    """Numbers the parts of a reply in the order in which they begin.

    A text that begins with white space is held back until more comes: formats leave out texts of
    nothing else. So is half a surrogate pair, which no front end could show.
    """

    def __init__(self) -> None:
        """No part has begun."""
        self._numbers: dict[Hashable, int] = {}
        self._held: dict[Hashable, str] = {}

    def begun(self, key: Hashable) -> bool:
        """Whether anything of this part was told."""
        return key in self._numbers

    def text(self, key: Hashable, piece: str) -> list[Delta]:
        """The next piece of a text."""
        ready = self._ready(key, piece)
        return [TextDelta(self._number(key), ready)] if ready else []

    def reasoning(self, key: Hashable, piece: str) -> list[Delta]:
        """The next piece of a reasoning."""
        ready = self._ready(key, piece)
        return [ReasoningDelta(self._number(key), ready)] if ready else []

    def call(self, key: Hashable, call_id: str, name: str, piece: str) -> list[Delta]:
        """The next piece of a call's arguments; the first may be empty."""
        if not piece and key in self._numbers:
            return []
        return [ToolCallDelta(self._number(key), call_id, name, piece)]

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _ready(self, key: Hashable, piece: str) -> str:
        text = join([self._held.pop(key, ""), piece])
        if key not in self._numbers and not text.strip():
            self._held[key] = text
            return ""
        if text and _HIGH_SURROGATES[0] <= text[-1] <= _HIGH_SURROGATES[1]:
            self._held[key] = text[-1]
            return text[:-1]
        return text


def join(pieces: Iterable[str]) -> str:
    """The pieces as one text, surrogate pairs that were cut in two made whole."""
    text = "".join(pieces)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text


def error_of_event(model: Model, found: dict[str, Any]) -> ModelError | None:
    """The error that an event holds, typed as the same error is without streaming; else None."""
    if not found.get("error"):
        return None
    status = _status_of(as_object(found["error"]) or {})
    if status is None:
        return error_in_body(model, found)
    return error_from_response(model, status, {}, dumps(found))


def _status_of(error: dict[str, Any]) -> int | None:
    for name in ("code", "status", "type"):
        value = error.get(name)
        if isinstance(value, str):
            value = int(value) if value.isascii() and value.isdecimal() else _STATUS.get(value)
        if isinstance(value, int) and value in _ERROR_STATUS:
            return value
    return None


def partial_messages(deltas: Iterable[Delta]) -> tuple[Message, ...]:
    """What was told of a reply that broke off, as messages; cut arguments are malformed."""
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


def content_text(content: object) -> str:
    """The text of a piece that is a text, or a list of parts with texts."""
    if isinstance(content, list):
        parts: list[object] = content  # pyright: ignore[reportUnknownVariableType]
        return "".join(text_or_empty((as_object(part) or {}).get("text")) for part in parts)
    return text_or_empty(content)
