"""Threads: listing, creating, reading and deleting one's own."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import Response

from agentkit_py._core.json import as_object
from agentkit_py.results import USER
from agentkit_py.server.answers import (
    Done,
    NewThreadAnswer,
    StoredMessage,
    ThreadAnswer,
    ThreadPage,
    ThreadSummary,
)
from agentkit_py.server.api import Api, answer
from agentkit_py.server.bodies import NewThread, parse
from agentkit_py.server.refusals import invalid, not_found
from agentkit_py.stores import HistoryStore
from agentkit_py.stores.records import StoredResult, ThreadInfo, title_of

UNTITLED = "New conversation"
"""The title that the hook knows as none."""

_MOST = 100
_MESSAGES = 200
_MOST_MESSAGES = 1000
_FARTHEST = 10_000
_DIGITS = 9


async def list_threads(api: Api, request: Request, user_id: str) -> Response:
    """`GET /api/threads`: the user's threads, those changed last first, page by page."""
    limit = _number(request, "limit", 20, 1, _MOST)
    store = api.threads_of(user_id)
    found = sorted(await store.list_threads(None), key=_place, reverse=True)
    before = _cursor(request)
    start = _number(request, "offset", 0, 0, _FARTHEST) if before is None else 0
    rest = found if before is None else [one for one in found if _place(one) < before]
    page = rest[start : start + limit]
    more = len(rest) > start + limit
    last = page[-1] if more and page else None
    return answer(
        ThreadPage(
            threads=[await _summary(store, one) for one in page],
            hasMore=more,
            total=len(found),
            nextCursorTimestamp=_iso(last.updated_at) if last is not None else None,
            nextCursorId=last.id if last is not None else None,
        )
    )


def _place(thread: ThreadInfo) -> tuple[datetime, str]:
    return thread.updated_at, thread.id


def _cursor(request: Request) -> tuple[datetime, str] | None:
    time, thread_id = (request.query_params.get(f"cursor{name}") for name in ("Timestamp", "Id"))
    if not time or not thread_id:
        return None
    try:
        found = datetime.fromisoformat(time)
    except ValueError:
        raise invalid("cursorTimestamp: expected an ISO 8601 time") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC), thread_id


def _number(request: Request, name: str, default: int, least: int, most: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    number = int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else -1
    if not least <= number <= most:
        raise invalid(f"{name}: expected a whole number from {least} to {most}")
    return number


async def create_thread(api: Api, request: Request, user_id: str) -> Response:
    """`POST /api/threads`: an empty thread; sending a message creates one, too."""
    body = parse(NewThread, await api.body(request))
    store = api.threads_of(user_id)
    thread_id = await store.add_thread(body.thread_id or str(uuid4()), title=body.title or "")
    info = await store.get_thread(thread_id)
    return answer(
        NewThreadAnswer(
            threadId=thread_id,
            title=info.title or UNTITLED,
            userId=user_id,
            createdAt=_iso(info.created_at),
        )
    )


async def get_thread(api: Api, request: Request, user_id: str) -> Response:
    """`GET /api/threads/{threadId}`: the thread and its messages, oldest first.

    The last 200 messages, or ``limit`` (before the position ``before``), and whether there are more
    before them: the first one's position is ``before`` of the next request. What a run has made
    that goes on is left out as long as a new reader of the stream gets it from there; ``running``
    names the messages that are being answered.
    """
    store = api.threads_of(user_id)
    thread_id = request.path_params["thread_id"]
    info = await store.get_thread(thread_id)
    count = await store.count_results(thread_id)
    before = min(count, _number(request, "before", count, 0, 10**8))
    limit = _number(request, "limit", _MESSAGES, 1, _MOST_MESSAGES)
    records = await store.page(thread_id, before, limit)
    running = api.backend.replayed(user_id, thread_id)
    return answer(
        ThreadAnswer(
            thread=await _summary(store, info),
            messages=[message_of(record) for record in _without_replayed(records, running)],
            hasMore=before > limit,
            running=running,
        )
    )


def _without_replayed(
    records: Sequence[StoredResult], running: Sequence[str]
) -> list[StoredResult]:
    """Without what agents said since the first message that is being answered."""
    begun = [n for n, record in enumerate(records) if record.result.id in running]
    first = min(begun, default=len(records))
    return [
        record
        for number, record in enumerate(records)
        if number < first or record.result.agent_name == USER
    ]


async def delete_thread(api: Api, request: Request, user_id: str) -> Response:
    """`DELETE /api/threads/{threadId}`: what answers in it is stopped, and it is gone."""
    store = api.threads_of(user_id)
    thread_id = request.path_params["thread_id"]
    await store.get_thread(thread_id)
    await api.backend.cancel(user_id, thread_id)
    if not await store.delete_thread(thread_id):
        raise not_found()
    return answer(Done(success=True))


async def _summary(store: HistoryStore, info: ThreadInfo) -> ThreadSummary:
    return {
        "id": info.id,
        "title": info.title or await _first_words(store, info.id) or UNTITLED,
        "messageCount": await store.count_results(info.id),
        "lastMessageAt": _iso(info.updated_at),
        "createdAt": _iso(info.created_at),
        "updatedAt": _iso(info.updated_at),
    }


async def _first_words(store: HistoryStore, thread_id: str) -> str:
    """A title of the first message, for threads that were created before it."""
    first: Sequence[StoredResult] = await store.page(thread_id, 1, 1)
    messages = first[0].result.output if first else ()
    return title_of(next((m.text for m in messages if m.type == "text"), ""))


def message_of(record: StoredResult) -> StoredMessage:
    """A stored result as the hook reads it: ``type`` ``"user"`` or ``"agent"``."""
    result = record.result
    found: StoredMessage = {
        "type": "user" if result.agent_name == USER else "agent",
        "message_id": result.id or f"position-{record.position}",
        "position": record.position,
        "createdAt": _iso(result.created_at),
    }
    if result.agent_name != USER:
        data = _public(result.to_dict())
        return {**found, "agentName": result.agent_name, "data": data}
    text = "".join(message.text for message in result.output if message.type == "text")
    state = as_object(record.metadata.get("state"))
    if state is not None:
        found["clientState"] = state
    return {**found, "content": text}


def _public(record: dict[str, Any]) -> dict[str, Any]:
    """A result without what only its provider reads, e.g. signatures of thoughts."""
    for messages in (record["output"], record["toolCalls"]):
        for message in messages:
            message.pop("providerMetadata", None)
            for call in [*message.get("tools", ()), message.get("tool", {})]:
                call.pop("providerMetadata", None)
    return record


def _iso(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
