"""What stores keep: threads and results as rows, and the one way between results and their JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from agentkit_py._core.json import JsonObject, as_list, as_object, dumps
from agentkit_py.codec import escape_surrogates
from agentkit_py.errors import HistoryError, InvalidRecordError
from agentkit_py.history.runs import RunRecord
from agentkit_py.messages import text_of, token_memo
from agentkit_py.processors.base import Extent, extent_of
from agentkit_py.results import AgentResult

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

    results: int | None = None
    """How many results it has; None: the store does not say."""

    messages: int | None = None
    """How many messages these have; None: the store does not say."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON, without what is counted."""
        return {
            "id": self.id,
            "userId": self.user_id,
            "title": self.title,
            "metadata": self.metadata,
            "createdAt": as_text(self.created_at),
            "updatedAt": as_text(self.updated_at),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> ThreadInfo:
        """The thread that `to_dict` gave."""
        return cls(
            id=record["id"],
            user_id=record["userId"],
            title=record["title"],
            metadata=record["metadata"],
            created_at=datetime.fromisoformat(record["createdAt"]),
            updated_at=datetime.fromisoformat(record["updatedAt"]),
        )


@dataclass(frozen=True, slots=True)
class StoreStats:
    """How much a store holds."""

    threads: int
    users: int
    results: int
    messages: int


@dataclass(frozen=True, slots=True)
class Match:
    """Where in a thread something was said."""

    thread_id: str
    position: int
    """Of the result."""

    text: str
    """Of the message."""


def prefilter(words: str) -> str:
    """A part of ``words`` that JSON text with them surely has in it, when both are in lower case.

    A database looks for that; what it finds is looked at again by `find_words`.
    """
    return max(re.findall("[a-z0-9 ]+", words.lower()), key=len, default="")


def find_words(record: StoredResult, thread_id: str, words: str) -> Match | None:
    """The first message of a result that has ``words`` in it, upper and lower case the same."""
    sought = words.lower()
    texts = (text_of(message) for message in record.result.messages)
    text = next((text for text in texts if sought in text.lower()), None)
    return None if text is None else Match(thread_id, record.position, text)


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A result and its place in its thread."""

    position: int
    """Counts from 0 in each thread, without gaps."""

    result: AgentResult
    metadata: JsonObject = field(default_factory=dict[str, Any])
    """What was saved beside it; a user's turn has the client's ``state`` here."""

    before: Extent | None = None
    """How much of the thread stands before it; None: the store does not count."""


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

    tokens: str | None = None
    """JSON of token counts known by now: by tokenizer key, a list with one for each message."""

    extent: Extent = field(default_factory=Extent)
    """How much its messages are; what stands before a row is the sum of those of older ones."""


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
        encode_json(record, who),
        encode_json(metadata, f"{who} with its metadata") if metadata else None,
        dumps(tokens) if (tokens := known_tokens(result)) else None,
        extent_of(result.messages),
    )


def known_tokens(result: AgentResult) -> dict[str, list[float]]:
    """The counts of tokenizers that have counted each message of the result, by their keys."""
    messages = result.messages
    if not messages:
        return {}
    memos = [token_memo(message) for message in messages]
    shared = sorted(key for key in memos[0] if all(key in memo for memo in memos[1:]))
    # A custom tokenizer's key means another one in the next process.
    return {key: [m[key] for m in memos] for key in shared if not key.startswith("custom:")}


def remember_tokens(result: AgentResult, tokens: JsonObject) -> None:
    """Keep counts that `known_tokens` gave with the result's messages."""
    messages = result.messages
    for key, counts in tokens.items():
        known = as_list(counts)
        if known is not None and len(known) == len(messages):
            for message, count in zip(messages, known, strict=True):
                token_memo(message)[key] = count


def encode_rows(results: Iterable[AgentResult], thread_id: str) -> list[Row]:
    """The rows for several results, in order."""
    return [encode_row(result, thread_id) for result in results]


def encode_metadata(metadata: JsonObject | None, thread_id: str) -> str:
    """A thread's metadata as JSON."""
    return encode_json(dict(metadata or {}), f"Thread {thread_id!r}: its metadata cannot be saved")


def load_metadata(text: str, thread_id: str) -> JsonObject:
    """A thread's metadata from its JSON.

    Raises:
        InvalidRecordError: It is no JSON object.
    """
    where = f"Thread {thread_id!r}"
    found = as_object(from_json(text, where, "metadata"))
    if found is None:
        raise InvalidRecordError("expected an object", where=where, field="metadata")
    return found


def encode_json(value: object, what: str) -> str:
    """A value as JSON that is valid UTF-8.

    Raises:
        HistoryError: It is no JSON; the error says ``what`` it is.
    """
    try:
        return escape_surrogates(dumps(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise HistoryError(f"{what}, it is not plain JSON: {error}") from error


def decode_row(
    thread_id: str,
    position: int,
    text: str | bytes,
    metadata: str | bytes | None,
    tokens: str | bytes | None = None,
    before: Extent | None = None,
) -> StoredResult:
    """The result that a row holds.

    Raises:
        InvalidRecordError: It holds none; the error names the thread, the position and the field.
    """
    where = f"Thread {thread_id!r}, position {position}"
    result = AgentResult.from_dict(from_json(text, where, "(whole)"), where=where)
    beside = {} if metadata is None else as_object(from_json(metadata, where, "metadata"))
    if beside is None:
        raise InvalidRecordError("expected an object", where=where, field="metadata")
    if tokens is not None:
        remember_tokens(result, as_object(from_json(tokens, where, "tokens")) or {})
    return StoredResult(position, result, beside, before)


def with_extents(records: Iterable[StoredResult]) -> list[StoredResult]:
    """All results of a thread, each with how much stands before it."""
    found: list[StoredResult] = []
    total = Extent()
    for record in records:
        found.append(replace(record, before=total))
        total += extent_of(record.result.messages)
    return found


def encode_run(run: RunRecord, thread_id: str) -> str:
    """A run as JSON.

    Raises:
        HistoryError: Its state is not JSON, or its id is no text that can be found again.
    """
    check_text("run id", run.id)
    return encode_json(run.to_dict(), f"Thread {thread_id!r}: run {run.id!r} cannot be saved")


def decode_run(thread_id: str, run_id: str, text: str) -> RunRecord:
    """The run that a row holds.

    Raises:
        InvalidRecordError: It holds none.
    """
    where = f"Thread {thread_id!r}, run {run_id!r}"
    return RunRecord.from_dict(run_id, from_json(text, where, "(whole)"), where=where)


read_json: Callable[[str], Any] = json.JSONDecoder().decode
"""What `json.loads` comes to, without looking at its options for each of a thread's rows."""


def from_json(text: str | bytes, where: str, name: str) -> Any:
    """The value that a text in a database stands for.

    Raises:
        InvalidRecordError: It is no JSON; the error says ``where`` it is and the ``name`` it has.
    """
    try:
        # Bytes are decoded by hand: json.loads would guess UTF-16 where zero bytes are.
        return read_json(text.decode() if isinstance(text, bytes) else text)
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


def new_rows(thread_id: str, stored: Mapping[str, str], rows: Sequence[Row]) -> list[Row]:
    """Those of ``rows`` that are to be added to a thread, in order.

    Args:
        thread_id: The thread.
        stored: The JSON of rows it holds, by id; at least of those whose id is among ``rows``.
        rows: What was given.

    Raises:
        HistoryError: A row says something else than the one stored under its id.
    """
    known = dict[str, str]()
    new: list[Row] = []
    for row in rows:
        there = None if row.id is None else known.get(row.id) or stored.get(row.id)
        if there is not None:
            check_same(thread_id, row, there)
            continue
        new.append(row)
        if row.id is not None:
            known[row.id] = row.json
    return new


def _said(text: str, where: str) -> list[object]:
    record = as_object(from_json(text, where, "(whole)")) or {}
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


def new_thread(
    thread_id: str | None, user_id: str | None, title: str, metadata: JsonObject | None
) -> ThreadInfo:
    """A thread that can be stored.

    Raises:
        HistoryError: An id is empty or no valid Unicode, or the metadata is not JSON.
    """
    key = new_thread_id() if thread_id is None else check_text("thread id", thread_id)
    time = datetime.fromisoformat(now())
    return ThreadInfo(
        id=key,
        user_id=None if user_id is None else check_text("user id", user_id),
        title=title,
        metadata=load_metadata(encode_metadata(metadata, key), key) if metadata else {},
        created_at=time,
        updated_at=time,
    )


def new_thread_id() -> str:
    """An id for a new thread."""
    return uuid4().hex


def now() -> str:
    """The time as databases keep it: UTC, always with microseconds, so that text sorts by time."""
    return as_text(datetime.now(UTC))


def as_text(time: datetime) -> str:
    """A time as databases keep it."""
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
