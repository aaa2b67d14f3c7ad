"""What stores keep: threads and results as rows, and the one way between results and their JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from agentkit_py._core.json import JsonObject, as_object, dumps
from agentkit_py.errors import HistoryError, InvalidRecordError
from agentkit_py.history.codec import escape_surrogates
from agentkit_py.history.result import AgentResult

_TITLE_LENGTH = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadInfo:
    """A thread without its results."""

    id: str
    user_id: str | None = None
    """Whose thread it is, if the application said so."""

    title: str = ""
    """The beginning of the first message, unless the application gave another."""

    metadata: JsonObject = field(default_factory=dict[str, Any])
    """What the application keeps beside the thread."""

    created_at: datetime
    updated_at: datetime
    """When a result was last added."""


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A result and its place in its thread."""

    position: int
    """Counts from 0 in each thread, without gaps."""

    result: AgentResult
    metadata: JsonObject = field(default_factory=dict[str, Any])
    """What was saved beside it; a user's turn has the client's ``state`` here."""


@dataclass(frozen=True, slots=True)
class Row:
    """A result as a database keeps it. Rows are added, and removed with their thread."""

    id: str | None
    """The result's id, unique in its thread; None: the result has none and is always added."""

    agent_name: str
    created_at: str
    json: str
    """`AgentResult.to_dict` as JSON that is valid UTF-8, in the shape TypeScript reads."""

    metadata: str | None = None
    """JSON of what is kept beside the result."""


def encode_row(result: AgentResult, thread_id: str, metadata: JsonObject | None = None) -> Row:
    """The row for a result.

    Raises:
        HistoryError: The result or its metadata holds something that is not JSON.
    """
    record = result.to_dict()
    who = f"Thread {thread_id!r}: a result of {result.agent_name!r} cannot be saved"
    if result.id is not None:
        check_text("result id", result.id)
    return Row(
        result.id,
        escape_surrogates(result.agent_name),
        record["createdAt"],
        _to_json(record, who),
        _to_json(metadata, f"{who} with its metadata") if metadata else None,
    )


def encode_rows(results: Iterable[AgentResult], thread_id: str) -> list[Row]:
    """The rows for several results, in order."""
    return [encode_row(result, thread_id) for result in results]


def encode_metadata(metadata: JsonObject | None, thread_id: str) -> str:
    """A thread's metadata as JSON."""
    return _to_json(dict(metadata or {}), f"Thread {thread_id!r}: its metadata cannot be saved")


def load_metadata(text: str, thread_id: str) -> JsonObject:
    """A thread's metadata from its JSON.

    Raises:
        InvalidRecordError: It is no JSON object.
    """
    where = f"Thread {thread_id!r}"
    found = as_object(_from_json(text, where, "metadata"))
    if found is None:
        raise InvalidRecordError("expected an object", where=where, field="metadata")
    return found


def _to_json(value: object, what: str) -> str:
    try:
        return escape_surrogates(dumps(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise HistoryError(f"{what}, it is not plain JSON: {error}") from error


def decode_row(
    thread_id: str, position: int, text: str | bytes, metadata: str | bytes | None
) -> StoredResult:
    """The result that a row holds.

    Raises:
        InvalidRecordError: It holds none; the error names the thread, the position and the field.
    """
    where = f"Thread {thread_id!r}, position {position}"
    result = AgentResult.from_dict(_from_json(text, where, "(whole)"), where=where)
    beside = {} if metadata is None else as_object(_from_json(metadata, where, "metadata"))
    if beside is None:
        raise InvalidRecordError("expected an object", where=where, field="metadata")
    return StoredResult(position, result, beside)


def _from_json(text: str | bytes, where: str, name: str) -> Any:
    try:
        # Bytes are decoded by hand: json.loads would guess UTF-16 where zero bytes are.
        return json.loads(text.decode() if isinstance(text, bytes) else text)
    except (ValueError, RecursionError) as error:
        raise InvalidRecordError(f"not JSON: {error}", where=where, field=name) from error


def check_same(thread_id: str, row: Row, stored: str) -> None:
    """Make sure that the row stored under this id says the same as the one to be saved.

    The time may differ: a message that is delivered twice is stamped twice.

    Raises:
        HistoryError: It says something else, so that leaving the new one out would lose it.
    """
    where = f"Thread {thread_id!r}, result {row.id!r}"
    if row.json != stored and _said(row.json, where) != _said(stored, where):
        raise HistoryError(
            f"Thread {thread_id!r} already holds another result with the id {row.id!r}; "
            "stored results are never changed. Give each message and result an id of its own."
        )


def _said(text: str, where: str) -> list[object]:
    record = as_object(_from_json(text, where, "(whole)")) or {}
    return [record.get(key) for key in ("agentName", "output", "toolCalls")]


def check_text(what: str, value: str) -> str:
    """Refuse a key that no database can hold.

    Raises:
        HistoryError: It is empty or not valid Unicode (it holds half of a surrogate pair).
    """
    if not value:
        raise HistoryError(f"The {what} is empty.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise HistoryError(f"The {what} {value!r} is not valid Unicode.") from None
    return value


def title_of(text: str) -> str:
    """A title made of the beginning of a message."""
    line = " ".join(text[: 2 * _TITLE_LENGTH].split())
    short = line if len(line) <= _TITLE_LENGTH else line[: _TITLE_LENGTH - 1] + "…"
    return short.encode("utf-8", "replace").decode()


def new_thread_id() -> str:
    """An id for a new thread."""
    return uuid4().hex


def now() -> str:
    """The time as databases keep it: UTC, always with microseconds, so that text sorts by time."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
