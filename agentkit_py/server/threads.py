"""Threads: listing, creating, reading and deleting a user's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from agentkit_py._core.json import as_object
from agentkit_py.errors import ThreadBusyError
from agentkit_py.events.for_users import result_for_user
from agentkit_py.events.replies import ReplyEnd
from agentkit_py.results import USER
from agentkit_py.server.api import Api, ApiRequest, endpoint
from agentkit_py.server.approvals import open_questions, visible
from agentkit_py.server.endings import end_of, record_of, waiting_for
from agentkit_py.server.errors import not_found
from agentkit_py.server.people import staff_on
from agentkit_py.server.responses import (
    Done,
    ForkItem,
    Forks,
    FoundMessage,
    FoundMessages,
    LastReply,
    NewThreadResponse,
    StoredMessage,
    ThreadPage,
    ThreadResponse,
    ThreadSummary,
)
from agentkit_py.server.runs import channel_of
from agentkit_py.server.schemas import (
    ForkRequest,
    ForksQuery,
    NewThread,
    RewindRequest,
    SearchQuery,
    ThreadPath,
    ThreadQuery,
    ThreadsQuery,
)
from agentkit_py.server.turns import ShownTurn, is_note, turns_of
from agentkit_py.stores import HistoryStore
from agentkit_py.stores.rows import StoredResult, ThreadInfo, title_of
from agentkit_py.stores.words import WordSearch

_EXCERPT = 240
_EXCERPT_BEFORE = 60
"""Characters of a found message, and those of them before the words."""

UNTITLED = "New conversation"
"""The title that means an empty title in the hook."""


@endpoint("GET", "/api/threads")
async def list_threads(request: ApiRequest[ThreadsQuery]) -> ThreadPage:
    """List the user's threads, last changed first, page by page."""
    store, query = request.threads, request.params
    before = None
    if query.cursor_timestamp is not None and query.cursor_id:
        before = query.cursor_timestamp, query.cursor_id
    offset = query.offset if before is None else 0
    # One more than is shown: it says whether there are more.
    found, total = await store.thread_page(query.limit + 1, offset=offset, before=before)
    page = found[: query.limit]
    last = page[-1] if len(found) > len(page) and page else None
    return {
        "threads": [await summary_of(store, info) for info in page],
        "hasMore": len(found) > len(page),
        "total": total,
        "nextCursorTimestamp": _iso(last.updated_at) if last is not None else None,
        "nextCursorId": last.id if last is not None else None,
    }


@endpoint("GET", "/api/search")
async def search_threads(request: ApiRequest[SearchQuery]) -> FoundMessages:
    """Find the user's threads by words of a message, last changed first.

    ``text`` is a part of the message, around the first of the words.
    """
    store, query = request.threads, request.params
    found = await store.search(query.words, limit=query.limit + 1)
    sought = WordSearch.parse(query.words)
    matches: list[FoundMessage] = []
    for match in found[: query.limit]:
        info = match.thread or await store.get_thread(match.thread_id)
        text = excerpt_of(match.text, sought)
        summary = await summary_of(store, info)
        matches.append({"thread": summary, "position": match.position, "text": text})
    return {"matches": matches, "hasMore": len(found) > query.limit}


def excerpt_of(text: str, sought: WordSearch) -> str:
    """Return the part of a found text that is around the first of the words."""
    begin = max(0, (sought.find(text) or 0) - _EXCERPT_BEFORE)
    return text[begin : begin + _EXCERPT]


@endpoint("POST", "/api/threads", 404)
async def create_thread(request: ApiRequest[NewThread]) -> NewThreadResponse:
    """Create an empty thread; sending a message creates a thread, too."""
    store, body = request.threads, request.params
    made = await store.add_thread(body.thread_id or str(uuid4()), title=body.title or "")
    return _new_thread(request.user_id, await store.get_thread(made))


def _new_thread(user_id: str, info: ThreadInfo) -> NewThreadResponse:
    return {
        "threadId": info.id,
        "title": info.title or UNTITLED,
        "userId": user_id,
        "createdAt": _iso(info.created_at),
    }


@endpoint("POST", "/api/threads/{threadId}/fork", 404)
async def fork_thread(request: ApiRequest[ForkRequest]) -> NewThreadResponse:
    """Fork a thread before a message of the user, or at its end."""
    store, body = request.threads, request.params
    made = await store.fork(
        body.thread_id, body.before, fork_id=str(uuid4()), title=body.title or None
    )
    return _new_thread(request.user_id, await store.get_thread(made))


@endpoint("GET", "/api/threads/{threadId}/forks", 404)
async def list_forks(request: ApiRequest[ForksQuery]) -> Forks:
    """List the threads that were forked from a thread."""
    store, query = request.threads, request.params
    await store.get_thread(query.thread_id)
    found = await store.forks(query.thread_id, limit=query.limit + 1)
    forks: list[ForkItem] = [
        {
            "threadId": one.id,
            "title": one.title or UNTITLED,
            "position": one.forked_at or 0,
            "createdAt": _iso(one.created_at),
        }
        for one in found[: query.limit]
    ]
    return {"forks": forks, "hasMore": len(found) > query.limit}


@endpoint("POST", "/api/threads/{threadId}/rewind", 404, 409)
async def rewind_thread(request: ApiRequest[RewindRequest]) -> Done:
    """Take a thread back to before a message of the user; not while it is being answered."""
    body = request.params
    await rewind(request.api, request.user_id, body.thread_id, body.before)
    return {"success": True}


async def rewind(api: Api, user_id: str, thread_id: str, before: str) -> None:
    """Rewind a user's thread, or refuse it as a run works on it, here or in another worker."""
    store = api.threads_of(user_id)
    await store.get_thread(thread_id)
    busy: object = api.backend.working(user_id, thread_id)
    runs = store.abilities.runs
    for message_id in api.hub.answered_elsewhere(channel_of(user_id), thread_id):
        known = await runs.load_run(thread_id, message_id) if runs else None
        busy = busy or known is None or known.status != "stopped"
    if busy:
        raise ThreadBusyError(thread_id)
    await store.rewind(thread_id, before)


@endpoint("GET", "/api/threads/{threadId}", 404)
async def get_thread(request: ApiRequest[ThreadQuery]) -> ThreadResponse:
    """Read a thread and its messages, oldest first.

    The last ``limit`` messages (before the position ``before``); where there are more, the first
    message's position is ``before`` of the next request. Results of an open run are left out as
    long as a new reader of the stream gets them from there; ``running`` names the messages that
    are being answered.
    """
    store, query = request.threads, request.params
    info = await store.get_thread(query.thread_id)
    count = info.result_count
    if count is None:
        count = await store.count_results(query.thread_id)
    before = count if query.before is None else min(count, query.before)
    records = await store.page(query.thread_id, before, query.limit)
    asked = await open_questions(store, info.id)
    shown = [one for one in records if not is_note(one.result)]
    running = request.api.backend.replayed(request.user_id, query.thread_id)
    return {
        "thread": await summary_of(store, info),
        "messages": [message_of(record) for record in _without_replayed(shown, running)],
        "hasMore": before > query.limit,
        "running": running,
        "pending": await visible(request.api, request.user_id, asked),
        "reply": await last_reply(request.api, request.user_id, info.id, records),
        "staff": await staff_on(store, info.id),
    }


async def last_reply(
    api: Api, user_id: str, thread_id: str, records: Sequence[StoredResult]
) -> LastReply | None:
    """Return the status of the reply to the last message of the thread's user among records.

    A run without a living owner is ended.
    """
    turns = [one for one in turns_of(records) if one.text is not None]
    return await _reply_to(api, user_id, thread_id, turns[-1]) if turns else None


async def _reply_to(api: Api, user_id: str, thread_id: str, turn: ShownTurn) -> LastReply | None:
    backend, message_id, store = api.backend, turn.message_id, api.threads_of(user_id)
    if not backend.streams:
        return None
    status = await backend.status_of(user_id, thread_id, message_id)
    asked = await open_questions(store, thread_id)
    if mine := [one for one in asked if one.run_id == message_id]:
        status = waiting_for(mine)
    end = ReplyEnd(reason="completed")
    if status is None:
        record = await record_of(store, thread_id, message_id)
        end = end_of(record, turn, runs_here=backend.runs_here)
    told = {"until": None} if status is None else status.to_dict()
    return {
        "messageId": message_id,
        "status": end.reason if status is None else status.status,
        "until": told["until"],
        "error": end.error,
        "recoverable": end.recoverable,
    }


def _without_replayed(
    records: Sequence[StoredResult], running: Sequence[str]
) -> list[StoredResult]:
    """Leave out agents' results for messages that are being answered.

    As in `turns_of`, a result answers the message that it names, or the last message before it.
    """
    shown: list[StoredResult] = []
    message_id: str | None = None
    for record in records:
        result = record.result
        if result.agent_name == USER:
            message_id = result.id
        answers = record.metadata.get("answers", message_id)
        is_reply = result.agent_name != USER and result.staff is None
        if not (is_reply and answers in running):
            shown.append(record)
    return shown


@endpoint("DELETE", "/api/threads/{threadId}", 404, 502)
async def delete_thread(request: ApiRequest[ThreadPath]) -> Done:
    """Delete a thread, and stop its runs."""
    store, thread_id = request.threads, request.params.thread_id
    await store.get_thread(thread_id)
    await request.api.backend.cancel(request.user_id, thread_id)
    if not await store.delete_thread(thread_id):
        raise not_found()
    return {"success": True}


async def summary_of(store: HistoryStore, info: ThreadInfo) -> ThreadSummary:
    """Return a thread without its messages."""
    count = info.result_count
    if count is None:
        count = await store.count_results(info.id)
    # A thread with a user's message has a title since then; others are looked into.
    title = info.title or (await _first_words(store, info.id) if count else "")
    return {
        "id": info.id,
        "title": title or UNTITLED,
        "messageCount": count,
        "lastMessageAt": _iso(info.updated_at),
        "createdAt": _iso(info.created_at),
        "updatedAt": _iso(info.updated_at),
        "forkedFrom": info.forked_from,
    }


async def _first_words(store: HistoryStore, thread_id: str) -> str:
    """Return a title made of the first message, for threads that were created before it."""
    first = await store.page(thread_id, 1, 1)
    messages = first[0].result.output if first and not is_note(first[0].result) else ()
    return title_of(next((m.text for m in messages if m.type == "text"), ""))


def message_of(record: StoredResult, *, for_staff: bool = False) -> StoredMessage:
    """Return a stored result in the hook's form: ``type`` is ``"user"`` or ``"agent"``.

    Args:
        record: The result.
        for_staff: With the words that staff write for agents, which users do not get.
    """
    result = record.result
    found: StoredMessage = {
        "type": "user" if result.agent_name == USER else "agent",
        "message_id": result.id or f"position-{record.position}",
        "position": record.position,
        "createdAt": _iso(result.created_at),
    }
    if result.agent_name != USER:
        data = result.to_dict()
        without_provider_metadata([*data["output"], *data["toolCalls"]])
        if not for_staff:
            data["output"] = [one for one in data["output"] if not one.get("hidden")]
            for one in data["toolCalls"]:
                one["content"] = result_for_user(one["content"])
        if result.staff is not None:
            del data["staff"]  # the staff member's id is private
            found["staff"] = {"name": result.staff.name, "to": result.staff.to}
        return {**found, "agentName": result.agent_name, "data": data}
    state = as_object(record.metadata.get("state"))
    if state is not None:
        found["clientState"] = state
    return {**found, "content": "".join(m.text for m in result.output if m.type == "text")}


def without_provider_metadata(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out data for the provider only, e.g. signatures of reasoning."""
    found = list(messages)
    for message in found:
        for part in [message, *message.get("tools", ()), message.get("tool", {})]:
            part.pop("providerMetadata", None)
    return found


def _iso(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
