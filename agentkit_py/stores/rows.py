"""Values that stores exchange, and the conversion between results and database rows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias
from uuid import uuid4

from agentkit_py._core.json import JsonObject, as_list, as_object, dumps, escape_surrogates
from agentkit_py._core.untrusted import clean
from agentkit_py.errors import (
    ConfigurationError,
    HistoryError,
    InvalidRecordError,
    MessageConflictError,
)
from agentkit_py.history.runs import RunRecord
from agentkit_py.history.staff import Takeover
from agentkit_py.messages import text_of, token_memo
from agentkit_py.processors.base import Extent, extent_of
from agentkit_py.results import USER, AgentResult
from agentkit_py.stores.words import WordSearch

_TITLE_LENGTH = 80
_MOST_LOOKED_AT = 1000
"""Characters of a message of which its title is made."""

_LINK = re.compile(r"!?\[([^\[\]\n]*)\]\([^()\s]*\)")
"""A link or picture of Markdown."""

ALL = 2**63 - 1
"""The limit of a query that returns all rows."""

ExportFormat: TypeAlias = Literal["archive", "openai", "typescript"]
"""A form of exported threads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadInfo:
    """A thread without its results."""

    id: str
    user_id: str | None = None
    """The user who owns the thread, if the application named a user."""

    title: str = ""
    """The beginning of the first message, unless the application gave another."""

    metadata: JsonObject = field(default_factory=dict[str, Any])
    """JSON that the application keeps with the thread."""

    created_at: datetime
    updated_at: datetime
    """The time at which a result was last added."""

    result_count: int | None = None
    """Number of results; None: the store does not count them."""

    message_count: int | None = None
    """Number of messages; None: the store does not count them."""

    forked_from: str | None = None
    """The thread that it was forked from, as long as that exists."""

    forked_at: int | None = None
    """Position in that thread before which its results belong to this thread, too."""

    def to_dict(self) -> dict[str, Any]:
        """Return the thread as JSON, without the counts."""
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
        """Return the thread that `to_dict` encoded."""
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
    """Counts of a store's contents."""

    threads: int
    users: int
    results: int
    messages: int


@dataclass(frozen=True, slots=True)
class Match:
    """A place in a thread that a search found."""

    thread_id: str
    position: int
    """Position of the result."""

    text: str
    """Text of the message."""

    thread: ThreadInfo | None = None
    """The thread; None: the store did not read it."""


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A result and its place in its thread."""

    position: int
    """Counts from 0 in each thread, without gaps."""

    result: AgentResult
    metadata: JsonObject = field(default_factory=dict[str, Any])
    """JSON saved with the result; a user's turn has the client's ``state`` here."""

    before: Extent | None = None
    """Size of the thread before this result; None: the store does not count it."""


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
    """JSON object saved with the result."""

    tokens: str | None = None
    """JSON of known token counts: by tokenizer key, a list with a count for each message."""

    extent: Extent = field(default_factory=Extent)
    """Size of its messages; the size before a row is the sum over all older rows."""


def encode_row(result: AgentResult, thread_id: str, metadata: JsonObject | None = None) -> Row:
    """Return the row for a result.

    Raises:
        HistoryError: The result or its metadata holds something that is not JSON.
    """
    record = result.to_dict()
    what = f"Thread {thread_id!r}: a result of {result.agent_name!r} cannot be saved"
    if result.id is not None:
        check_text("result id", result.id)
    return Row(
        result.id,
        escape_surrogates(result.agent_name),
        record["createdAt"],
        encode_json(record, what),
        encode_json(metadata, f"{what} with its metadata") if metadata else None,
        dumps(tokens) if (tokens := known_tokens(result)) else None,
        extent_of(result.messages),
    )


def decode_row(
    thread_id: str,
    position: int,
    text: str | bytes,
    metadata: str | bytes | None,
    tokens: str | bytes | None = None,
    before: Extent | None = None,
) -> StoredResult:
    """Return the result that a row holds, with its place and metadata; see `decode_result`.

    Raises:
        InvalidRecordError: The row is damaged; the error names thread, position and field.
    """
    result = decode_result(thread_id, position, text, tokens)
    where = f"Thread {thread_id!r}, position {position}"
    kept: JsonObject = {} if metadata is None else _as_object(metadata, where)
    return StoredResult(position, result, kept, before)


def decode_result(
    thread_id: str, position: int, text: str | bytes, tokens: str | bytes | None
) -> AgentResult:
    """Return the result that a row holds; its messages are from before any run that reads them.

    Raises:
        InvalidRecordError: The row is damaged; the error names thread, position and field.
    """
    where = f"Thread {thread_id!r}, position {position}"
    result = AgentResult.from_dict(from_json(text, where, "(whole)"), where=where, past=True)
    if tokens is not None:
        remember_tokens(result, as_object(from_json(tokens, where, "tokens")) or {})
    return result


def known_tokens(result: AgentResult) -> dict[str, list[float]]:
    """Return the counts of tokenizers that have counted each message of the result, by key."""
    messages = result.messages
    if not messages:
        return {}
    memos = [token_memo(message) for message in messages]
    shared = sorted(key for key in memos[0] if all(key in memo for memo in memos[1:]))
    # A custom tokenizer's key means a different tokenizer in the next process.
    return {key: [m[key] for m in memos] for key in shared if not key.startswith("custom:")}


def remember_tokens(result: AgentResult, tokens: JsonObject) -> None:
    """Attach the counts that `known_tokens` returned to the result's messages."""
    messages = result.messages
    for key, counts in tokens.items():
        known = as_list(counts)
        if known is not None and len(known) == len(messages):
            for message, count in zip(messages, known, strict=True):
                token_memo(message)[key] = count


def new_rows(thread_id: str, stored: Mapping[str, str], rows: Sequence[Row]) -> list[Row]:
    """Return those of ``rows`` that have to be added to a thread, in order.

    Args:
        thread_id: The thread.
        stored: JSON of stored rows by id; at least of those whose id is among ``rows``.
        rows: The rows to save.

    Raises:
        MessageConflictError: A row differs from the row stored under its id.
    """
    known = dict[str, str]()
    new: list[Row] = []
    for row in rows:
        existing = None if row.id is None else known.get(row.id) or stored.get(row.id)
        if existing is not None:
            check_same(thread_id, row, existing)
            continue
        new.append(row)
        if row.id is not None:
            known[row.id] = row.json
    return new


def check_same(thread_id: str, row: Row, stored: str) -> None:
    """Compare a row with the row that is stored under its id.

    The time may differ: a message that is delivered twice is stamped twice.

    Raises:
        MessageConflictError: They differ, so leaving the new row out would lose it.
    """
    where = f"Thread {thread_id!r}, result {row.id!r}"
    if row.json != stored and _content(row.json, where) != _content(stored, where):
        raise MessageConflictError(thread_id, row.id or "")


def _content(text: str, where: str) -> list[object]:
    record = as_object(from_json(text, where, "(whole)")) or {}
    return [record.get(key) for key in ("agentName", "output", "toolCalls")]


def encode_run(run: RunRecord, thread_id: str) -> str:
    """Return a run as JSON.

    Raises:
        HistoryError: Its state is not JSON, or its id is not valid Unicode.
    """
    check_text("run id", run.id)
    return encode_json(run.to_dict(), f"Thread {thread_id!r}: run {run.id!r} cannot be saved")


def decode_run(thread_id: str, run_id: str, text: str) -> RunRecord:
    """Return the run that a row holds.

    Raises:
        InvalidRecordError: The row is damaged.
    """
    where = f"Thread {thread_id!r}, run {run_id!r}"
    return RunRecord.from_dict(run_id, from_json(text, where, "(whole)"), where=where)


def encode_metadata(metadata: JsonObject | None, thread_id: str) -> str:
    """Return a thread's metadata as JSON.

    Raises:
        HistoryError: The metadata is not JSON.
    """
    return encode_json(dict(metadata or {}), f"Thread {thread_id!r}: its metadata cannot be saved")


def decode_metadata(text: str, thread_id: str) -> JsonObject:
    """Return a thread's metadata from its JSON.

    Raises:
        InvalidRecordError: The text is no JSON object.
    """
    return _as_object(text, f"Thread {thread_id!r}")


def _as_object(text: str | bytes, where: str) -> JsonObject:
    found = as_object(from_json(text, where, "metadata"))
    if found is None:
        raise InvalidRecordError("expected an object", where=where, field="metadata")
    return found


def encode_json(value: object, what: str) -> str:
    """Return a value as JSON that is valid UTF-8.

    Raises:
        HistoryError: The value is not JSON; the error begins with ``what``.
    """
    try:
        return dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise HistoryError(f"{what}, it is not plain JSON: {error}") from error


def encode_takeover(takeover: Takeover) -> str:
    """Return who is on a thread as stored JSON; the owner is kept with the thread.

    Raises:
        HistoryError: It is not JSON.
    """
    what = f"Thread {takeover.thread_id!r}: who is on it cannot be saved"
    return encode_json({**takeover.to_dict(), "userId": None}, what)


_decoder = json.JSONDecoder()


def from_json(text: str | bytes, where: str, name: str) -> Any:
    """Return the value of a stored JSON text.

    Raises:
        InvalidRecordError: It is not JSON; the error names the place and the field.
    """
    try:
        # Bytes are decoded first: json.loads would guess UTF-16 where zero bytes are.
        return _decoder.decode(text.decode() if isinstance(text, bytes) else text)
    except (ValueError, RecursionError) as error:
        raise InvalidRecordError(f"not JSON: {error}", where=where, field=name) from error


def find_words(stored: StoredResult, thread_id: str, search: WordSearch) -> Match | None:
    """Return the first message of a result that a search finds; notes of staff are none."""
    staff = stored.result.staff
    if staff is not None and staff.to != "user":
        return None
    texts = (text_of(message) for message in stored.result.messages)
    text = next((text for text in texts if search.find(text) is not None), None)
    return None if text is None else Match(thread_id, stored.position, text)


def title_of(text: str) -> str:
    """Return a title made of the beginning of a message; links and pictures are their texts."""
    words = _LINK.sub(r"\1", text[:_MOST_LOOKED_AT])
    line = " ".join(clean(words[: 2 * _TITLE_LENGTH]).split())
    short = line if len(line) <= _TITLE_LENGTH else line[: _TITLE_LENGTH - 1] + "…"
    return short.encode("utf-8", "replace").decode()


def first_title(rows: Iterable[Row]) -> str:
    """Return a title made of the first user message in ``rows``; empty if there is none."""
    for row in rows:
        if row.agent_name == USER:
            return first_title_of(AgentResult.from_dict(json.loads(row.json)))
    return ""


def first_title_of(result: AgentResult) -> str:
    """Return the title that a thread gets of a user's message."""
    return title_of("".join(m.text for m in result.output if m.type == "text"))


def at_most(limit: int | None) -> int:
    """Return the most rows to read, as a number that every database takes; None: all.

    Raises:
        ConfigurationError: It is negative.
    """
    if limit is not None and limit < 0:
        raise ConfigurationError(f"limit must be 0 or more, or None for all, got {limit}")
    return ALL if limit is None else min(limit, ALL)


def check_text(what: str, value: str) -> str:
    """Return ``value``, a key that every database can hold.

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


def new_thread(
    thread_id: str | None, user_id: str | None, title: str, metadata: JsonObject | None
) -> ThreadInfo:
    """Return a thread that can be stored.

    Raises:
        HistoryError: An id is empty or no valid Unicode, or the metadata is not JSON.
    """
    key = new_thread_id() if thread_id is None else check_text("thread id", thread_id)
    time = datetime.fromisoformat(now())
    return ThreadInfo(
        id=key,
        user_id=None if user_id is None else check_text("user id", user_id),
        title=title,
        metadata=decode_metadata(encode_metadata(metadata, key), key) if metadata else {},
        created_at=time,
        updated_at=time,
    )


def new_thread_id() -> str:
    """Return an id for a new thread."""
    return uuid4().hex


def now() -> str:
    """Return the current time as databases keep it.

    UTC, always with microseconds, so that texts sort by time.
    """
    return as_text(datetime.now(UTC))


def as_text(time: datetime) -> str:
    """Return a time as databases keep it."""
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
