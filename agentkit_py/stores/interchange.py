"""Threads as JSON Lines: this library's archive, OpenAI's chat format, AgentKit TypeScript's rows.

Each export can be imported again without a loss: lines in OpenAI's format carry the archive with
their messages, and rows of TypeScript carry the whole result as its ``data``. Lines that others
wrote are read as well, conversations in Responses', Anthropic's and Gemini's formats among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from typing import Any, NamedTuple

from agentkit_py._core.json import JsonObject, as_list, as_object, dumps, strict_loads, time_of
from agentkit_py.codec import message_to_dict
from agentkit_py.errors import InvalidRecordError
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
)
from agentkit_py.models.chat_records import as_chat
from agentkit_py.models.conversations import format_of, read_turns
from agentkit_py.models.encoding import data_url
from agentkit_py.processors.redaction import Redactor
from agentkit_py.results import USER, AgentResult
from agentkit_py.stores.base import HistoryStore
from agentkit_py.stores.rows import (
    ExportFormat,
    Row,
    StoredResult,
    ThreadInfo,
    encode_row,
    known_tokens,
    remember_tokens,
)
from agentkit_py.stores.thread_data import ThreadData, restore
from agentkit_py.stores.wrappers import for_user

ARCHIVE = "agentkit/1"
_UNKNOWN_AUTHOR = "assistant"
_DIGEST_BYTES = 12


async def export_threads(
    store: HistoryStore, threads: Iterable[ThreadInfo], form: ExportFormat = "archive"
) -> AsyncIterator[str]:
    """Yield the lines for threads, each with its line break."""
    for thread in threads:
        archive = await _archive(store, thread)
        if form == "typescript":
            results = archive.pop("results")
            records = [_thread_row(archive), *(_row(thread.id, record) for record in results)]
        elif form == "openai":
            messages = _openai(archive["results"])
            records = [{"id": thread.id, "messages": messages, "agentkit": archive}]
        else:
            records = [archive]
        for record in records:
            yield dumps(record) + "\n"


async def import_threads(
    store: HistoryStore,
    lines: Iterable[str],
    *,
    user_id: str | None = None,
    on_added: Callable[[int], None] = lambda _results: None,
    on_bad_line: Callable[[InvalidRecordError], None] | None = None,
) -> list[str]:
    """Add threads from lines of any of the formats, without those that are stored already.

    Results without ids are recognised by their thread, their content and its count
    before; threads without an id get an id made of their line and user. So the same lines add
    nothing again.

    Args:
        store: The store to add to.
        lines: The lines.
        user_id: The owner of all threads; None: the users that the lines name.
        on_added: Called after each line with the number of results that it added.
        on_bad_line: Called with the error of a line that cannot be read, which is left out; None:
            the first such line ends the import.

    Returns:
        The ids of the threads.

    Raises:
        InvalidRecordError: A line is of no known format; the error names line and field. The lines
            before it are added.
        ThreadNotFoundError: A thread exists already and belongs to another user.
    """
    run = _Import(store if user_id is None else for_user(store, user_id), user_id)
    found: dict[str, None] = {}
    try:
        for number, line in enumerate(lines, 1):
            if line.strip():
                before = run.added
                try:
                    thread = await run.add(_read(line, f"line {number}"), f"line {number}")
                except InvalidRecordError as error:
                    if on_bad_line is None:
                        raise
                    on_bad_line(error)
                    continue
                found[thread] = None
                on_added(run.added - before)
    finally:
        # Last, since each result that is added is a change.
        for thread_id, (created, updated) in run.times.items():
            await run.store.set_times(thread_id, created, updated)
    return list(found)


def _read(line: str, where: str) -> JsonObject:
    try:
        record = as_object(strict_loads(line))
    except ValueError as error:
        raise InvalidRecordError(f"not JSON: {error}", where=where, field="(whole)") from error
    if record is None:
        raise InvalidRecordError("expected an object", where=where, field="(whole)")
    return record


@dataclass(slots=True)
class _Import:
    """One import: recognises threads and results that have no id and were imported before.

    Threads without an id get an id made of their line. Results stay without ids, and are known by a
    digest of their content. Equal content in a thread is numbered, so that none is lost.
    """

    store: HistoryStore
    user_id: str | None
    """The owner of all threads; None: the users that the lines name."""

    times: dict[str, tuple[datetime, datetime]] = field(
        default_factory=dict[str, "tuple[datetime, datetime]"]
    )
    """The times at which new threads were created and last changed."""

    added: int = 0
    """The number of results that were not there before."""

    _lines: Counter[str] = field(default_factory=Counter[str])
    _seen: dict[str, Counter[str]] = field(default_factory=dict[str, "Counter[str]"])
    _stored: dict[str, frozenset[str]] = field(default_factory=dict[str, "frozenset[str]"])

    async def add(self, record: JsonObject, where: str) -> str:
        """Add the results of a line; return the thread's id."""
        archive = as_object(record.get("agentkit")) or _archive_of(record, where)
        thread = as_object(archive.get("thread")) or {}
        records = [as_object(one) or {} for one in as_list(archive.get("results")) or ()]
        results = [AgentResult.from_dict(one, where=where) for one in records]
        data = ThreadData.from_dict(archive, where)
        about = _About.of(thread, where)
        thread_id = about.id or self._thread_id(record)
        is_new = not await self.store.thread_exists(thread_id)
        # A line holds all of a thread, or a single result of it.
        whole = "thread_id" not in record or format_of(record) is not None
        seen = Counter[str]() if whole else self._seen.setdefault(thread_id, Counter())
        rows: list[Row] = []
        for one, result in zip(records, results, strict=True):
            if result.id is None and await self._is_stored(thread_id, result, seen, is_new=is_new):
                continue
            remember_tokens(result, as_object(one.get("tokens")) or {})
            rows.append(encode_row(result, thread_id, as_object(one.get("metadata"))))
        await self.store.add_thread(
            thread_id,
            user_id=self.user_id or about.user_id,
            title=about.title or "",
            metadata=about.metadata,
        )
        try:
            before = await self.store.count_results(thread_id)
            await self.store.append_rows(thread_id, rows)
            added = await self.store.count_results(thread_id) - before
            await restore(self.store, thread_id, data)
        except Exception:
            if is_new:  # a line is added as a whole
                await self.store.delete_thread(thread_id)
            raise
        self.added += added
        if is_new and about.times is not None:
            self.times[thread_id] = about.times
        return thread_id

    def _thread_id(self, record: JsonObject) -> str:
        """Return an id for the thread of a line: the same for the same lines of a user."""
        known = record if self.user_id is None else [self.user_id, record]
        return f"import-{_numbered(_digest(known), self._lines)}"

    async def _is_stored(
        self, thread_id: str, result: AgentResult, seen: Counter[str], *, is_new: bool
    ) -> bool:
        """Return whether a result without an id was in its thread before the import."""
        if thread_id not in self._stored:
            counted = Counter[str]()
            known = [] if is_new else await self.store.stored_results(thread_id)
            old = [one.result for one in known]
            digests = [_digest_of(one, counted, None) for one in old if one.id is None]
            self._stored[thread_id] = frozenset(digests)
        digest = _digest_of(result, seen, self.store.redactor)
        return digest in self._stored[thread_id]


def _digest_of(result: AgentResult, counted: Counter[str], redactor: Redactor | None) -> str:
    content = [
        [message_to_dict(redactor.message(one) if redactor else one) for one in messages]
        for messages in (result.output, result.tool_calls)
    ]
    return _numbered(_digest([result.agent_name, *content]), counted)


def _numbered(digest: str, counted: Counter[str]) -> str:
    counted[digest] += 1
    number = counted[digest]
    return digest if number == 1 else f"{digest}-{number}"


def _digest(value: object) -> str:
    text = dumps(value).encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=_DIGEST_BYTES).hexdigest()


class _About(NamedTuple):
    """What an archive says of its thread."""

    id: str | None
    user_id: str | None
    title: str | None
    metadata: dict[str, Any] | None
    times: tuple[datetime, datetime] | None
    """When it was created, and last changed."""

    @classmethod
    def of(cls, thread: Mapping[str, Any], where: str) -> _About:
        """Return its thread and messages.

        Raises:
            InvalidRecordError: Something of it is of another kind.
        """
        thread_id, user, title = (_text(thread, name, where) for name in ("id", "userId", "title"))
        metadata: object = thread.get("metadata")
        if metadata is not None and as_object(metadata) is None:
            problem = f"expected an object, got {metadata!r:.80}"
            raise InvalidRecordError(problem, where=where, field="thread.metadata")
        times = None
        if "createdAt" in thread:
            times = _time(thread, "createdAt", where), _time(thread, "updatedAt", where)
        return cls(thread_id, user, title, as_object(metadata), times)


def _text(thread: Mapping[str, Any], name: str, where: str) -> str | None:
    found: object = thread.get(name)
    if found is not None and not isinstance(found, str):
        problem = f"expected a string, got {found!r:.80}"
        raise InvalidRecordError(problem, where=where, field=f"thread.{name}")
    return found


def _time(thread: Mapping[str, Any], name: str, where: str) -> datetime:
    try:
        return time_of(thread[name])
    except (KeyError, ValueError) as error:
        problem = f"expected an ISO 8601 time, got {thread.get(name)!r:.80}"
        raise InvalidRecordError(problem, where=where, field=f"thread.{name}") from error


def _archive_of(record: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the archive in a line of any format."""
    if record.get("format") == ARCHIVE:
        return dict(record)
    record = as_chat(record, where)
    if format_of(record) is not None:
        thread = {"id": record.get("thread_id") or record.get("id")}
        return {"thread": thread, "results": _results_of(record, where)}
    if "thread_id" in record:
        return {"thread": {"id": record["thread_id"]}, "results": [_result_of(record)]}
    raise InvalidRecordError(
        "expected a thread of agentkit's archive, a conversation in a provider's format (messages, "
        "input or contents), or a row with thread_id",
        where=where,
        field="(whole)",
    )


async def _archive(store: HistoryStore, thread: ThreadInfo) -> dict[str, Any]:
    stored = await store.stored_results(thread.id)
    return {
        "format": ARCHIVE,
        "thread": thread.to_dict(),
        "results": [_record(one) for one in stored],
        **(await store.thread_data(thread.id)).to_dict(),
    }


def _record(one: StoredResult) -> dict[str, Any]:
    record = one.result.to_dict()
    if one.metadata:
        record["metadata"] = one.metadata
    tokens = known_tokens(one.result)
    return {**record, "tokens": tokens} if tokens else record


def _thread_row(archive: dict[str, Any]) -> dict[str, Any]:
    """Return a row of that adapter's thread table, with the archive as an extra column."""
    thread = archive["thread"]
    return {
        "thread_id": thread["id"],
        "user_id": thread["userId"],
        "metadata": thread["metadata"],
        "created_at": thread["createdAt"],
        "updated_at": thread["updatedAt"],
        "agentkit": archive,
    }


def _row(thread_id: str, record: dict[str, Any]) -> dict[str, Any]:
    """Return a row of the message table of AgentKit TypeScript's PostgreSQL adapter."""
    result = AgentResult.from_dict(record)
    is_user = result.agent_name == USER
    text = "".join(m.text for m in result.output if m.type == "text")
    return {
        "message_id": result.id,
        "thread_id": thread_id,
        "message_type": "user" if is_user else "agent",
        "agent_name": None if is_user else result.agent_name,
        "content": text,
        "data": record,
        "created_at": record["createdAt"],
    }


def _result_of(row: Mapping[str, Any]) -> dict[str, Any]:
    data = as_object(row.get("data"))
    if data is not None and "output" in data:
        return {"id": row.get("message_id"), "createdAt": row.get("created_at"), **data}
    message = {"type": "text", "role": "user", "content": row.get("content") or ""}
    return {
        "agentName": USER,
        "output": [message],
        "toolCalls": [],
        "createdAt": row.get("created_at"),
        "id": row.get("message_id"),
    }


def _openai(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for record in records:
        for message in AgentResult.from_dict(record).messages:
            found += _openai_message(message, found)
    return found


def _openai_message(message: Message, before: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a message in the format, unless it is part of the assistant's last message.

    There a model's reply is a single message: text, calls, and the text after them.
    """
    last = before[-1] if before else {}
    if last.get("role") != "assistant":
        last = {}
    match message:
        case TextMessage():
            content = _openai_content(message)
            if message.role == "assistant" and "tool_calls" in last:
                last["content"] = _openai_joined(last["content"], content)
                return []
            return [{"role": message.role, "content": content}]
        case ToolCallMessage():
            calls = [_openai_call(call) for call in message.tools]
            if not last:
                return [{"role": "assistant", "content": None, "tool_calls": calls}]
            last["tool_calls"] = [*last.get("tool_calls", ()), *calls]
            return []
        case ToolResultMessage():
            content = message.content
            text = content if isinstance(content, str) else dumps(content)
            return [{"role": "tool", "tool_call_id": message.tool.id, "content": text}]
        case _:
            return []


def _openai_joined(first: str | list[Any] | None, then: str | list[Any]) -> str | list[Any]:
    if not first:
        return then
    if isinstance(first, str) and isinstance(then, str):
        return f"{first}\n\n{then}"
    texts = [
        [{"type": "text", "text": one}] if isinstance(one, str) else one for one in (first, then)
    ]
    return [*texts[0], *texts[1]]


def _openai_content(message: TextMessage) -> str | list[dict[str, Any]]:
    if isinstance(message.content, str):
        return message.content
    return [_openai_part(part) for part in message.content]


def _openai_part(part: ContentPart) -> dict[str, Any]:
    match part:
        case TextContent():
            return {"type": "text", "text": part.text}
        case ImageContent():
            detail = {"detail": part.detail} if part.detail else {}
            return {"type": "image_url", "image_url": {"url": data_url(part), **detail}}
        case FileContent():
            name = {"filename": part.name} if part.name else {}
            return {"type": "file", "file": {**name, "file_data": data_url(part)}}


def _openai_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.written}
    return {"id": call.id, "type": "function", "function": function}


def _results_of(record: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    """Return the results of a conversation in a provider's format.

    A model's reply is a single result, with the results of its calls.
    """
    thread = record.get("thread_id") or record.get("id") or "import"
    made: list[AgentResult] = []
    for turn in read_turns(record, where=where):
        name = f"{thread}-{len(made)}"
        if turn.side == "tool":
            last = made.pop() if made else AgentResult(_UNKNOWN_AUTHOR, (), id=name)
            results = [m for m in turn.messages if isinstance(m, ToolResultMessage)]
            answers = [*last.tool_calls, *results]
            made.append(
                AgentResult(last.agent_name, last.output, answers, last.created_at, id=last.id)
            )
        elif turn.messages:
            author = USER if turn.side == "user" else turn.name or _UNKNOWN_AUTHOR
            made.append(AgentResult(author, turn.messages, (), id=name))
    return [result.to_dict() for result in made]
