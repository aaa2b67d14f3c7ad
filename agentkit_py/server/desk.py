"""The staff's desk: finding conversations, internal notes, and what each model call saw."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from datetime import datetime

from agentkit_py.errors import AgentKitError, ConfigurationError, ThreadNotFoundError
from agentkit_py.history.staff_desk import StaffDesk
from agentkit_py.matrix import ContextMatrix
from agentkit_py.matrix.page import AS_NOW, matrix_json
from agentkit_py.network import Target, explain_thread, on_history
from agentkit_py.results import AgentResult
from agentkit_py.server.api import ApiRequest, endpoint
from agentkit_py.server.config import agents_in
from agentkit_py.server.errors import ApiError, invalid
from agentkit_py.server.responses import Done, MatrixJson, StaffThreads, StaffThreadsItem
from agentkit_py.server.schemas import MatrixQuery, NoteBody, StaffThreadsQuery
from agentkit_py.server.staff import allowed, item_of, store_of, takeover_of
from agentkit_py.server.threads import excerpt_of, summary_of
from agentkit_py.stores import HistoryStore
from agentkit_py.stores.rows import ThreadInfo
from agentkit_py.stores.words import WordSearch
from agentkit_py.stores.wrappers import for_user

_MOST_READ = 1000
"""Threads that a request looks at, at most; the user may be allowed to read none of them."""

_PAGE = 100


@endpoint("GET", "/api/staff/threads", 404)
async def list_staff_threads(request: ApiRequest[StaffThreadsQuery]) -> StaffThreads:
    """Find threads as staff: by words of a message, their id or their user's; else the latest."""
    query, found = request.params, list[StaffThreadsItem]()
    store: HistoryStore = store_of(request.api)
    access = request.api.access_of(request.user_id)
    if not access.may_be_staff:
        return {"threads": [], "hasMore": False}
    read, seen = 0, set[str]()
    async for info, text in _candidates(store, query):
        read += 1
        if read > _MOST_READ:
            return {"threads": found, "hasMore": True}
        if info.id in seen:
            continue
        seen.add(info.id)
        takeover = await takeover_of(store, info)
        if not await access.may_take_over(takeover):
            continue
        if len(found) == query.limit:
            return {"threads": found, "hasMore": True}
        item = item_of(request.user_id, takeover, info.title)
        found.append({"thread": await summary_of(store, info), "takeover": item, "text": text})
    return {"threads": found, "hasMore": False}


async def _candidates(
    store: HistoryStore, query: StaffThreadsQuery
) -> AsyncGenerator[tuple[ThreadInfo, str]]:
    """Yield threads that may be meant, each with the text that was found in it."""
    words = (query.words or "").strip()
    if not words:
        async for info in _latest(store, query.user_id):
            yield info, ""
        return
    named = await _thread(store, words)
    if named is not None and query.user_id in (None, named.user_id):
        yield named, ""
    if query.user_id is None:
        async for info in _latest(store, words):
            yield info, ""
    sought = WordSearch.parse(words)
    for match in await store.search(words, user_id=query.user_id, limit=_MOST_READ + 1):
        info = match.thread or await _thread(store, match.thread_id)
        if info is not None:
            yield info, excerpt_of(match.text, sought)


async def _thread(store: HistoryStore, thread_id: str) -> ThreadInfo | None:
    """Return a thread; None: it does not exist, or is deleted meanwhile."""
    with suppress(ThreadNotFoundError):
        return await store.get_thread(thread_id)
    return None


async def _latest(store: HistoryStore, user_id: str | None) -> AsyncGenerator[ThreadInfo]:
    before: tuple[datetime, str] | None = None
    while True:
        page, _ = await store.thread_page(_PAGE, user_id=user_id, before=before)
        for info in page:
            yield info
        if len(page) < _PAGE:
            return
        before = page[-1].updated_at, page[-1].id


@endpoint("POST", "/api/takeovers/{threadId}/note", 404)
async def note_in_thread(request: ApiRequest[NoteBody]) -> Done:
    """Write an internal note for colleagues, or for agents, too; the user does not get it."""
    body = request.params
    store, _ = await allowed(request, body.thread_id)
    try:
        await StaffDesk(store).note(
            body.thread_id,
            body.text,
            by=request.user_id,
            name=body.name or "",
            message_id=body.message_id,
            to=body.to,
        )
    except ConfigurationError as error:
        raise invalid("text, name: the text is empty, or the name is not that of a person") from (
            error
        )
    return {"success": True}


@endpoint("GET", "/api/takeovers/{threadId}/matrix", 404, 409)
async def matrix_of_thread(request: ApiRequest[MatrixQuery]) -> MatrixJson:
    """Show what the last model calls of a thread saw, with the processors of today."""
    thread_id = request.params.thread_id
    store, takeover = await allowed(request, thread_id)
    owner = takeover.user_id
    reader = store if owner is None else for_user(store, owner)
    targets = list(request.api.settings.targets.values())
    limit = request.params.limit
    count, newest = await reader.newest(thread_id, _PAGE)
    target = on_history(_target_of(targets, [stored.result for stored in newest]), reader)
    try:
        results = await explain_thread(target, thread_id, before=count, limit=limit)
        made = await asyncio.to_thread(ContextMatrix.of, results)  # seconds, for a long thread
    except ThreadNotFoundError:
        raise
    except AgentKitError as error:
        words = "No model call of this conversation can be shown."
        raise ApiError(409, "not_explained", words) from error
    calls = sum(entry.by_agent for entry in results)
    last = f" The last {limit:,} of {calls:,} calls." if calls > limit else ""
    found = matrix_json(made, f"{target.name}: {thread_id}", AS_NOW + last)
    return {"matrix": found}


def _target_of(targets: Sequence[Target], entries: Sequence[AgentResult]) -> Target:
    """Return the network or agent that most of these entries are of; else the first."""

    def count(target: Target) -> int:
        names = {agent.name for agent in agents_in(target)}
        return sum(entry.by_agent and entry.agent_name in names for entry in entries)

    return max(targets, key=count)
