"""Staff: the queue of threads that want a person, reading, taking over, handing back."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route

from agentkit_py.codec import message_to_dict
from agentkit_py.errors import (
    AgentKitError,
    ConfigurationError,
    NotOnThreadError,
    ThreadNotFoundError,
)
from agentkit_py.history.staff import Takeover, TakeoverStore
from agentkit_py.history.staff_desk import StaffDesk
from agentkit_py.matrix.page import VIEWER
from agentkit_py.messages import UserMessage
from agentkit_py.network import explain, on_history
from agentkit_py.server.api import HEADERS, Api, ApiRequest, endpoint
from agentkit_py.server.approvals import for_staff, open_questions, visible
from agentkit_py.server.chat import agents_of
from agentkit_py.server.config import ServerSettings
from agentkit_py.server.errors import ApiError, invalid, not_found
from agentkit_py.server.responses import Done, Explained, StaffThread, TakeoverItem, TakeoversPage
from agentkit_py.server.runs import TAKEOVERS, Job, state_of
from agentkit_py.server.schemas import (
    ExplainQuery,
    HandBackBody,
    JoinBody,
    SayBody,
    StaffThreadQuery,
    TakeoversQuery,
)
from agentkit_py.server.streams import CountedEvents, event
from agentkit_py.server.threads import last_reply, message_of, summary_of, without_provider_metadata
from agentkit_py.stores import HistoryStore
from agentkit_py.stores.rows import ThreadInfo
from agentkit_py.stores.wrappers import for_user

Queue: TypeAlias = dict[str, tuple[Takeover, str]]
"""Threads that a person is on or wanted in, with their titles, by id."""


def _takeovers(settings: ServerSettings) -> TakeoverStore | None:
    return settings.store.abilities.takeovers


def store_of(api: Api) -> Any:
    """Return the store of takeovers, or refuse the request."""
    store: Any = _takeovers(api.settings)
    if store is None:
        raise not_found()
    return store


async def takeover_of(store: Any, info: ThreadInfo) -> Takeover:
    """Return the staff on a thread; an empty takeover if there are none."""
    found: Takeover | None = await store.load_takeover(info.id)
    return found or Takeover(thread_id=info.id, user_id=info.user_id)


async def allowed(request: ApiRequest[Any], thread_id: str) -> tuple[HistoryStore, Takeover]:
    """Return the store, and the staff on a thread; for other users the thread does not exist."""
    store: HistoryStore = store_of(request.api)
    takeover = await takeover_of(store, await store.get_thread(thread_id))
    if not await request.api.access_of(request.user_id).may_take_over(takeover):
        raise not_found()
    return store, takeover


async def read_queue(settings: ServerSettings, before: Queue | None) -> Queue:
    """Read the threads that a person is on or wanted in, and titles of those that have changed."""
    found: Queue = {}
    store, takeovers = settings.store, _takeovers(settings)
    if takeovers is None:
        return found
    for one in await takeovers.list_takeovers(limit=settings.most_listed):
        known = (before or {}).get(one.thread_id)
        if known is not None and known[0] == one:
            found[one.thread_id] = known
            continue
        with suppress(ThreadNotFoundError):  # it is deleted meanwhile
            found[one.thread_id] = one, (await store.get_thread(one.thread_id)).title
    return found


def item_of(user_id: str, takeover: Takeover, title: str) -> TakeoverItem:
    """Return who is on a thread, as this member of staff reads it."""
    fields: Any = takeover.to_dict()
    del fields["spokeAt"]
    own = {"title": title, "status": takeover.status}
    item: Any = {**fields, **own, "mine": takeover.member(user_id) is not None}
    return item


@endpoint("GET", "/api/takeovers", 404)
async def list_takeovers(request: ApiRequest[TakeoversQuery]) -> TakeoversPage:
    """List the threads that a person is on or wanted in, as far as the user is staff of them."""
    query = request.params
    status = None if query.status == "all" else query.status
    store, items = store_of(request.api), list[TakeoverItem]()
    access = request.api.access_of(request.user_id)
    most, has_more = request.api.settings.most_listed, False
    for one in await store.list_takeovers(status=status, limit=most):
        if await access.may_take_over(one):
            if has_more := len(items) == query.limit:
                break
            with suppress(ThreadNotFoundError):  # it is deleted meanwhile
                title = (await store.get_thread(one.thread_id)).title
                items.append(item_of(request.user_id, one, title))
    return {
        "takeovers": items,
        "hasMore": has_more,
        "userId": request.user_id,
        "isStaff": access.is_staff,
    }


@endpoint("GET", "/api/takeovers/{threadId}", 404)
async def staff_thread(request: ApiRequest[StaffThreadQuery]) -> StaffThread:
    """Read a thread as staff, notes included: its last messages, oldest first."""
    query = request.params
    store, takeover = await allowed(request, query.thread_id)
    info = await store.get_thread(query.thread_id)
    count = await store.count_results(query.thread_id)
    before = count if query.before is None else min(count, query.before)
    records = await store.page(query.thread_id, before, query.limit)
    asked = await open_questions(store, query.thread_id)
    most, closed = query.limit, query.closed
    owner = takeover.user_id
    return {
        "thread": await summary_of(store, info),
        "takeover": item_of(request.user_id, takeover, info.title),
        "messages": [message_of(record, for_staff=True) for record in records],
        "hasMore": before > query.limit,
        "pending": await visible(request.api, request.user_id, asked),
        "questions": await for_staff(
            request.api, request.user_id, query.thread_id, most, closed=closed
        ),
        "agents": agents_of(request.api.settings),
        "reply": None if owner is None else await last_reply(request.api, owner, info.id, records),
    }


@endpoint("GET", "/api/takeovers/{threadId}/explain", 404, 409)
async def explain_thread(request: ApiRequest[ExplainQuery]) -> Explained:
    """Show an agent's model input as of now, after the processors."""
    api, query = request.api, request.params
    store, takeover = await allowed(request, query.thread_id)
    owner = takeover.user_id
    target = api.settings.target(query.network, None if query.network else query.agent)
    target = on_history(target, store if owner is None else for_user(store, owner))
    job = Job(
        user_id=owner or "", thread_id=query.thread_id, target=target, message=UserMessage("")
    )
    state = await state_of(job, api.settings, store)
    try:
        report = await explain(target, query.agent, thread_id=query.thread_id, state=state)
    except ConfigurationError as error:
        raise invalid("agent: unknown agent") from error
    except AgentKitError as error:
        raise ApiError(409, "not_explained", "This cannot be shown.") from error
    sent = without_provider_metadata(map(message_to_dict, report.sent))
    return {"agent": query.agent, "summary": str(report), "messages": sent}


@endpoint("POST", "/api/takeovers/{threadId}/join", 404, 502)
async def join_thread(request: ApiRequest[JoinBody]) -> Done:
    """Join a thread: agents pause, and the user sees who is there."""
    api, body = request.api, request.params
    store, takeover = await allowed(request, body.thread_id)
    try:
        await StaffDesk(store).join(body.thread_id, by=request.user_id, name=body.name or "")
    except ConfigurationError as error:
        raise invalid("name: is not the name of a person") from error
    if body.stop and takeover.user_id is not None:
        await api.backend.cancel(takeover.user_id, body.thread_id)
    _changed(api)
    return {"success": True}


@endpoint("POST", "/api/takeovers/{threadId}/say", 404, 409)
async def say_in_thread(request: ApiRequest[SayBody]) -> Done:
    """Write to the user, as a person who has joined the thread."""
    api, body = request.api, request.params
    store, takeover = await allowed(request, body.thread_id)
    begun = datetime.now(UTC)
    try:
        said = await StaffDesk(store).say(
            body.thread_id, body.text, by=request.user_id, message_id=body.message_id
        )
    except NotOnThreadError:
        raise _not_joined() from None
    except ConfigurationError as error:
        raise invalid("text: is empty") from error
    _changed(api)
    if said.created_at >= begun:  # otherwise it is a repetition
        about = (takeover.user_id, "staff_wrote", body.thread_id)
        api.notifier.tell(*about, text=body.text, name=said.agent_name)
    return {"success": True}


@endpoint("POST", "/api/takeovers/{threadId}/hand-back", 404, 409)
async def hand_back_thread(request: ApiRequest[HandBackBody]) -> Done:
    """Hand a thread back to agents, with a note for them; or decline to take it over."""
    body = request.params
    store, _ = await allowed(request, body.thread_id)
    try:
        await StaffDesk(store).hand_back(body.thread_id, by=request.user_id, note=body.note)
    except NotOnThreadError:
        raise _not_joined() from None
    _changed(request.api)
    return {"success": True}


def _not_joined() -> ApiError:
    return ApiError(409, "not_joined", "Join the conversation first.")


def _changed(api: Api) -> None:
    """Let readers of the queue, and of threads, look at once."""
    api.news.look()
    api.hub.publish(TAKEOVERS, {"event": "takeover.changed", "data": {}})


async def takeovers_stream(api: Api, request: Request) -> Response:
    """`GET /api/takeovers/stream`: the queue, each thread when it changes."""
    user_id = await api.reader_of(request)
    store_of(api)
    return CountedEvents(api, user_id, _changes(api, user_id))


async def _changes(api: Api, user_id: str) -> AsyncGenerator[bytes]:
    """Yield each thread of the queue, again when it changes, and when it leaves the queue."""
    known: dict[str, bytes] = {}
    seen: Queue | None = None
    with api.queue.followed():
        yield event("ready", {})
        while True:
            queue: Queue = await api.queue.after(seen)
            seen, access = queue, api.access_of(user_id)
            items = {
                key: event("takeover", item_of(user_id, one, title))
                for key, (one, title) in queue.items()
                if await access.may_take_over(one)
            }
            for gone in known.keys() - items.keys():
                yield event("left", {"threadId": gone})
            for key, one in items.items():
                if known.get(key) != one:
                    yield one
            known = items


_STATIC = Path(__file__).parent / "static"
_PAGE_HEADERS: Mapping[str, str] = {
    **HEADERS,
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "object-src 'none'"
    ),
    "Referrer-Policy": "no-referrer",
}


_FILES = ("staff.js", "staff.css", "desk-question.js", "desk-words.js")


def page() -> Mount:
    """Return the page of staff; it holds no data; the API checks all rights."""

    def file(path: Path) -> Any:
        async def serve(_request: Request) -> Response:
            return FileResponse(path, headers=_PAGE_HEADERS)

        return serve

    own = [Route(f"/{name}", file(_STATIC / name)) for name in _FILES]
    viewer = [Route(f"/matrix/{one.name}", file(one)) for one in sorted(VIEWER.iterdir())]
    pages = [
        Route("/", file(_STATIC / "staff.html")),
        Route("/matrix/", file(VIEWER / "index.html")),
    ]
    return Mount("/staff", routes=[*pages, *own, *viewer])
