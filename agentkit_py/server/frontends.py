"""Front ends with a protocol of their own: a request whose answer streams the reply.

The reply is read from the user's channel, and compared with the thread where it ends, so that a
client finally shows the same as the thread. A client that disconnects stops nothing; it gets the
reply from its beginning when it comes back.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agentkit_py._core.json import dumps
from agentkit_py._core.untrusted import get_logger
from agentkit_py.errors import ThreadNotFoundError
from agentkit_py.events.ag_ui import interrupts_of
from agentkit_py.events.approvals import Decision
from agentkit_py.events.chunks import FAILED
from agentkit_py.events.consume import StreamedPart
from agentkit_py.events.replies import (
    WORKING,
    ReplyEnd,
    ReplyReader,
    ReplyStatus,
    ReplyWriter,
    Rewritten,
    approval_id,
    is_same_reply,
    reply_id,
)
from agentkit_py.history.questions import Question
from agentkit_py.server.access import Access
from agentkit_py.server.api import HEADERS, Api, ApiRequest, endpoint, read_json
from agentkit_py.server.approvals import CLOSED, answer_question, decided
from agentkit_py.server.chat import job_of, make_thread
from agentkit_py.server.endings import end_of, record_of, waiting_for
from agentkit_py.server.errors import ApiError, no_streams, not_found
from agentkit_py.server.formats import AG_UI, VERCEL, FrontEnd, FrontEndRequest
from agentkit_py.server.hub import Entry, Subscription
from agentkit_py.server.people import staff_on
from agentkit_py.server.responses import AgUiThread, StaffOnThread, VercelThread
from agentkit_py.server.runs import channel_of, previous_data
from agentkit_py.server.schemas import ChatMessage, ChatRequest, FrontEndQuery, parse
from agentkit_py.server.streams import CountedEvents
from agentkit_py.server.turns import (
    ShownTurn,
    ThreadView,
    open_ids,
    show_questions,
    turn_of,
    view_of,
)

logger: logging.Logger = get_logger("agentkit_py.server")

_POLL_SECONDS = 2.0
"""Seconds between two checks of a waiting run that other processes may change."""

_RECENT_SECONDS = 60.0
"""Seconds for which a reply that has ended is streamed to a client that was cut off from it."""


@endpoint("GET", "/api/vercel/{threadId}", 404)
async def vercel_thread(request: ApiRequest[FrontEndQuery]) -> VercelThread:
    """Read a thread as messages of ``useChat``, oldest first."""
    view = await _view(request.api, request.user_id, request.params)
    return {
        "id": request.params.thread_id,
        "messages": VERCEL.messages(view.turns),
        "staff": await _staff(request),
        "hasMore": view.has_more,
        "position": _first(view),
    }


@endpoint("GET", "/api/ag-ui/{threadId}", 404)
async def ag_ui_thread(request: ApiRequest[FrontEndQuery]) -> AgUiThread:
    """Read a thread as messages of ``@ag-ui/client``, oldest first."""
    view = await _view(request.api, request.user_id, request.params)
    last = view.turns[-1:]
    return {
        "threadId": request.params.thread_id,
        "messages": AG_UI.messages(view.turns),
        "staff": await _staff(request),
        "interrupts": [
            i for one in last for i in interrupts_of(reply_id(one.message_id), one.parts)
        ],
        "state": await _client_state(request.api, request.user_id, request.params.thread_id),
        "hasMore": view.has_more,
        "position": _first(view),
    }


async def _staff(request: ApiRequest[FrontEndQuery]) -> StaffOnThread:
    return await staff_on(request.threads, request.params.thread_id)


def _first(view: ThreadView) -> int:
    return view.turns[0].position if view.turns else 0


async def _view(api: Api, user_id: str, query: FrontEndQuery) -> ThreadView:
    thread_id = query.thread_id
    store = api.threads_of(user_id)
    view = await view_of(store, thread_id, limit=query.limit, before=query.before)
    await _add_questions(api, user_id, thread_id, view.turns)
    return view


async def _add_questions(
    api: Api, user_id: str, thread_id: str, turns: Sequence[ShownTurn]
) -> Sequence[Question]:
    """Add the questions that the reader may answer, or might have; return all of the thread."""
    asked = await _questions(api, thread_id, status=None)
    access = api.access_of(user_id)
    mine = [one for one in asked if await access.may_answer(one)]
    for turn in turns:
        show_questions(turn, mine)
    return asked


async def _questions(api: Api, thread_id: str, **which: Any) -> list[Question]:
    store = api.settings.store.abilities.questions
    if store is None:
        return []
    return await store.list_questions(thread_id=thread_id, limit=None, **which)


async def _client_state(api: Api, user_id: str, thread_id: str) -> dict[str, Any]:
    """Return the fields that clients may set, from the state of the thread's last run."""
    found = await previous_data(api.threads_of(user_id), thread_id) or {}
    return {key: found[key] for key in api.settings.client_state if key in found}


async def post_reply(front_end: FrontEnd, api: Api, request: Request) -> Response:
    """`POST /api/vercel`, `POST /api/ag-ui`: say something or answer; the reply is the answer."""
    return await respond_to(front_end, api, request, await api.authenticator.user_of(request))


async def respond_to(front_end: FrontEnd, api: Api, request: Request, user_id: str) -> Response:
    """Answer a request of a user."""
    asked = front_end.read(await read_json(request, api.settings.limits.body_bytes))
    return await _respond(_Exchange(front_end, api, user_id, asked))


async def resume_reply(front_end: FrontEnd, api: Api, request: Request) -> Response:
    """`GET /api/vercel/{threadId}/stream`: the reply that is under way, from its beginning."""
    api.authenticator.check_page(request)
    user_id = await api.authenticator.user_of(request)
    thread_id = request.path_params["threadId"]
    exchange = _Exchange(front_end, api, user_id, FrontEndRequest(thread_id=thread_id))
    _check_streams(exchange)
    message_id = await exchange.under_way() or await exchange.just_answered()
    if message_id is None:
        return Response(status_code=204, headers=HEADERS)
    return _StreamedAnswer(exchange, message_id, begin=None, continues=True)


async def _respond(exchange: _Exchange) -> Response:
    _check_streams(exchange)
    asked = exchange.asked
    if asked.decisions:
        message_id = await exchange.find_asked()
        return _StreamedAnswer(exchange, message_id, begin=exchange.decide, continues=True)
    if asked.message is not None:
        return await _said(exchange, asked.message)
    message_id = await exchange.under_way()
    if message_id is None:
        turns = (await exchange.view()).turns
        message_id = turns[-1].message_id if turns else ""
    return _StreamedAnswer(exchange, message_id, begin=None, continues=True)


async def _said(exchange: _Exchange, message: tuple[str | None, str]) -> Response:
    asked, api, user_id = exchange.asked, exchange.api, exchange.user_id
    fields = {"id": message[0], "content": message[1], "state": asked.state}
    given = parse(ChatMessage, fields)
    body = ChatRequest(
        user_message=given,
        thread_id=asked.thread_id,
        on_busy="wait",  # its stream has a single answer
        network=asked.network,
        agent=asked.agent,
    )
    job = job_of(api.settings, body, user_id)
    message_id = job.message.id or ""
    exchange.asked = replace(asked, thread_id=job.thread_id)
    view = await exchange.view()
    known = view.of(message_id)
    has_reply = known is not None and bool(known.parts)
    if has_reply:  # else it has not been answered, or is sent again after a failure or a stop
        has_reply = (await exchange.end_of(message_id)).reason == "completed"
    if known is not None and (known.text != message[1] or (has_reply and asked.again)):
        raise ApiError(
            409, "already_answered", "A message that was answered cannot be sent again or changed."
        )
    if has_reply or exchange.is_under_way(message_id, view):
        return _StreamedAnswer(
            exchange, message_id, begin=None, continues=True, said=message[1], view=view
        )
    await make_thread(api, job)  # while the client can still get an error
    start = partial(api.backend.start, job)
    return _StreamedAnswer(exchange, message_id, begin=start, said=message[1], view=view)


def _check_streams(exchange: _Exchange) -> None:
    api = exchange.api
    if not api.backend.streams:
        raise no_streams()
    api.check_streams(exchange.user_id)


@dataclass(slots=True)
class _Exchange:
    """A request of a user's front end, and the thread's data on it."""

    front_end: FrontEnd
    api: Api
    user_id: str
    asked: FrontEndRequest

    @property
    def thread_id(self) -> str:
        """The thread; empty for a new thread."""
        return self.asked.thread_id or ""

    @property
    def access(self) -> Access:
        """What the user may do."""
        return self.api.access_of(self.user_id)

    async def view(self) -> ThreadView:
        """Return the thread as the user may see it; nothing where there is none."""
        if not self.thread_id:
            return ThreadView([])
        try:
            store = self.api.threads_of(self.user_id)
            view = await view_of(store, self.thread_id, limit=self.front_end.rows)
            if view.has_more and view.turns[0].text is None:  # a very long turn
                view = await view_of(store, self.thread_id)
        except ThreadNotFoundError:
            return ThreadView([])
        asked = await _add_questions(self.api, self.user_id, self.thread_id, view.turns)
        return replace(view, questions=asked)

    async def turn(self, message_id: str) -> ShownTurn | None:
        """Return the turn of a message as the user may see it."""
        if not self.thread_id:
            return None
        with suppress(ThreadNotFoundError):
            found = await turn_of(self.api.threads_of(self.user_id), self.thread_id, message_id)
            if found is not None:
                await _add_questions(self.api, self.user_id, self.thread_id, [found])
            return found
        return None

    async def open_questions(self, message_id: str | None = None) -> list[Question]:
        """Return the open questions of the thread, or of a single run."""
        store = self.api.threads_of(self.user_id)
        if not self.thread_id or not await store.thread_exists(self.thread_id):
            return []
        asked = await _questions(self.api, self.thread_id)
        return [one for one in asked if message_id in (None, one.run_id)]

    async def under_way(self) -> str | None:
        """Return the message that is being answered, or whose run waits for a person."""
        working = [*self.api.backend.working(self.user_id, self.thread_id)]
        asked = [one.run_id for one in await self.open_questions() if one.run_id is not None]
        elsewhere = self.api.backend.awaited(self.user_id, self.thread_id)
        found = [*reversed(working), *reversed(asked), *reversed(elsewhere)]
        if not found or not self.front_end.shows_last:
            return found[0] if found else None
        view = await self.view()
        known = [turn.message_id for turn in view.turns]
        return next((one for one in found if one not in known[:-1]), None)

    async def just_answered(self) -> str | None:
        """Return the last message if its run has ended since a client may have been cut off."""
        last = (await self.view()).turns[-1:]
        recent = datetime.now(UTC) - timedelta(seconds=_RECENT_SECONDS)
        return last[0].message_id if last and last[0].changed_at > recent else None

    def is_under_way(self, message_id: str, view: ThreadView) -> bool:
        """Return whether a message is being answered, or its run waits for a person."""
        backend, where = self.api.backend, (self.user_id, self.thread_id)
        if message_id in backend.working(*where):
            return True
        if not backend.runs_here and message_id in backend.awaited(*where):
            return True
        return any(one.status == "open" and one.run_id == message_id for one in view.questions)

    async def status_of(self, message_id: str) -> ReplyStatus | None:
        """Return why a reply's stream may stay open; None: it has to end."""
        with suppress(ThreadNotFoundError):
            return await self.api.backend.status_of(self.user_id, self.thread_id, message_id)
        return None

    async def end_of(self, message_id: str) -> ReplyEnd:
        """Return how the run of a message has ended."""
        run = await record_of(self.api.settings.store, self.thread_id, message_id)
        turn = await self.turn(message_id) if run is None else None
        return end_of(run, turn, runs_here=self.api.backend.runs_here)

    async def find_asked(self) -> str:
        """Return the message of the run with the answered questions, or refuse the answers."""
        await self.api.threads_of(self.user_id).get_thread(self.thread_id)
        for question, calls in await self._decided():
            if not await self.access.may_answer(question) and calls:
                raise ApiError(403, "not_allowed", "Somebody else has to decide this.")
            if question.run_id is not None:
                return question.run_id
        raise not_found("question")

    async def _decided(self) -> list[tuple[Question, dict[int, Decision]]]:
        found: list[tuple[Question, dict[int, Decision]]] = []
        for question in reversed(await _questions(self.api, self.thread_id, status=None)):
            count = len(question.calls)
            ids = [approval_id(question.id, index, count) for index in range(max(1, count))]
            given = self.asked.decisions
            calls = {index: given[name] for index, name in enumerate(ids) if name in given}
            if question.id in given:  # a single answer for all
                calls = dict.fromkeys(range(len(ids)), given[question.id])
            if calls:
                found.append((question, calls))
        return found

    async def decide(self) -> None:
        """Answer the questions; answered questions are unchanged."""
        for question, calls in await self._decided():
            if question.status != "open":
                continue
            whole = None if question.calls else calls[0]
            change = partial(decided, {} if whole else calls, whole, self.user_id)
            try:
                await answer_question(self.api, self.user_id, question, change, calls)
            except ApiError as error:
                if (
                    error.code not in CLOSED
                ):  # otherwise another user was quicker, or it is too late
                    raise


class _StreamedAnswer(CountedEvents):
    """The answer to a request: a reply, as it is made."""

    def __init__(
        self,
        exchange: _Exchange,
        message_id: str,
        *,
        begin: Callable[[], Coroutine[Any, Any, None]] | None,
        continues: bool = False,
        said: str | None = None,
        view: ThreadView | None = None,
    ) -> None:
        self._exchange = exchange
        self._message_id = message_id
        self._begin = begin
        self._continues = continues
        self._said = said
        self._view = view
        self._leaving = anyio.Event()
        headers = exchange.front_end.headers
        super().__init__(exchange.api, exchange.user_id, self._frames(), headers, takes_leave=True)
        self._begun: asyncio.Task[None] | None = None
        self._reader: Subscription | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Begin the requested run, independent of the connection, and send the reply."""
        with self._started():
            await super().__call__(scope, receive, send)

    def _started(self) -> Subscription:
        """Begin the run and return the subscription, which was opened before it."""
        if self._reader is None:
            api = self._exchange.api
            self._reader = api.hub.subscribe(channel_of(self._exchange.user_id))
            if self._begin is not None:
                self._begun = api.decisions.begin(self._begin())
        return self._reader

    def leave(self) -> None:
        """End soon: the server stops."""
        super().leave()
        self._leaving.set()

    async def _frames(self) -> AsyncGenerator[bytes]:
        """Yield the reply in the client's format."""
        one, reader = self._exchange, self._started()
        turns = (self._view or await one.view()).turns
        known = next((n for n, t in enumerate(turns) if t.message_id == self._message_id), None)
        before = turns if known is None else turns[:known]
        if known is not None:
            turn = turns[known]
            before = [*before, replace(turn, parts=[])]
        elif self._said is not None:
            now = datetime.now(UTC)
            before = [*before, ShownTurn(self._message_id, 0, now, self._said)]
        writer = one.front_end.writer(
            one.asked, self._message_id, before, continues=self._continues
        )
        yield _frames(writer.begin())
        story = _Story(one, self._message_id, reader, writer)
        if self._begun is not None:
            try:
                await asyncio.shield(self._begun)
            except ApiError as error:
                story.end = ReplyEnd(reason="failed", error=error.message)
            except Exception:
                logger.exception("A reply could not be begun")
                story.end = ReplyEnd(reason="failed", error=FAILED)
            if story.end is not None:
                yield _frames(writer.end(story.end))
        while story.end is None:
            found = await story.next(self._leaving)
            if found:
                yield _frames(found)
        if one.front_end.last:
            yield one.front_end.last.encode()


def _frames(events: Sequence[Mapping[str, Any]]) -> bytes:
    return b"".join(f"data: {dumps(one)}\n\n".encode() for one in events)


@dataclass(slots=True)
class _Story:
    """Follows a reply to its end, or until its reader has to answer."""

    exchange: _Exchange
    message_id: str
    reader: Subscription
    writer: ReplyWriter
    end: ReplyEnd | None = None
    _reply: ReplyReader | None = None
    """None: its beginning was not seen."""

    _last: ReplyEnd | None = None

    _looked: bool = False

    _told: ReplyStatus = WORKING
    """The status that the client knows."""

    async def next(self, leaving: anyio.Event) -> list[dict[str, Any]]:
        """Return the next events, maybe none yet."""
        exchange = self.exchange
        working = exchange.api.backend.working(exchange.user_id, exchange.thread_id)
        task = working.get(self.message_id)
        reading = asyncio.ensure_future(self.reader.next())
        waited: set[asyncio.Future[Any]] = {reading}
        stopping = None if leaving.is_set() else asyncio.ensure_future(leaving.wait())
        waited.update(one for one in (stopping, task) if one is not None)
        # What is there already is read first; then a run is looked at of which nothing comes.
        is_heard = task is not None and self._reply is not None
        seconds = None if is_heard else (_POLL_SECONDS if self._looked else 0.0)
        try:
            await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if stopping is not None:
                stopping.cancel()
            if not reading.done():
                reading.cancel()
        if reading.done():
            self._looked = False
            batch = reading.result()
            if batch.lost:
                self._reply = None
            return await self._read(batch.entries)
        if leaving.is_set():
            exchange.api.backend.drain()
            if task is None:
                self.end = ReplyEnd(reason="stopped")
            return []
        if task is not None and task.done():
            return []
        self._looked = True
        return await self._look()

    async def _read(self, entries: Sequence[Entry]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for entry in entries:
            if entry.answers == self.message_id and self.end is None:
                found += await self._chunk(json.loads(entry.text))
        return found

    async def _chunk(self, chunk: dict[str, Any]) -> list[dict[str, Any]]:
        event, data = chunk["event"], chunk["data"]
        if event == "run.started" and "parentRunId" not in data and self._reply is None:
            self._reply = ReplyReader()
        if event == "hitl.requested":
            chunk = {**chunk, "data": {**data, "mine": await self._is_mine(data)}}
        reply = self._reply
        reader = reply or ReplyReader()  # how it ends is read also by who has missed the beginning
        changes = reader.feed(chunk)
        self._last = reader.end or self._last
        found = [] if event in _AT_REST else self._tell(WORKING)
        if self.exchange.front_end.has_chunks:
            found.append(chunk)
        elif reply is not None:
            found += [one for change in changes for one in self.writer.write(change)]
        if event != "stream.ended":
            return found
        return [*found, *await self._finish(self._last or ReplyEnd(reason="completed"))]

    async def _is_mine(self, data: Mapping[str, Any]) -> bool:
        exchange = self.exchange
        for question in await exchange.open_questions():
            if question.id == data.get("requestId"):
                return await exchange.access.may_answer(question)
        known = await _questions(exchange.api, exchange.thread_id, status=None)
        found = next((one for one in known if one.id == data.get("requestId")), None)
        return found is None or await exchange.access.may_answer(found)

    async def _finish(self, end: ReplyEnd) -> list[dict[str, Any]]:
        """Return the last events, after which the client is in sync with the thread."""
        exchange, found = self.exchange, list[dict[str, Any]]()
        turn = await exchange.turn(self.message_id)
        stored = [] if turn is None else turn.parts
        has_less = end.reason == "failed" and not stored  # the shown parts stay
        if not has_less and (self._reply is None or not is_same_reply(self._reply.parts, stored)):
            found += self.writer.write(Rewritten(stored))
        if end.reason == "completed" and exchange.api.settings.client_state and exchange.thread_id:
            state = await _client_state(exchange.api, exchange.user_id, exchange.thread_id)
            found += exchange.front_end.state(state) if state else []
        self.end = end
        return [*found, *self.writer.end(end)]

    async def _look(self) -> list[dict[str, Any]]:
        """Look at a run of which nothing comes: it waits, has ended, or works elsewhere."""
        exchange = self.exchange
        status = await exchange.status_of(self.message_id)
        if self.message_id in exchange.api.backend.working(exchange.user_id, exchange.thread_id):
            return self._tell(status)
        asked = await exchange.open_questions(self.message_id)
        access = exchange.access
        mine = [one for one in asked if await access.may_answer(one)]
        if mine:
            return await self._ask(mine)
        if asked:
            status = waiting_for(asked)
        if status is None and not self.reader.is_behind:  # else its end may have come meanwhile
            return await self._finish(await exchange.end_of(self.message_id))
        return self._tell(status)

    def _tell(self, status: ReplyStatus | None) -> list[dict[str, Any]]:
        """Return the events of a status, where the client knows another."""
        if status is None or status == self._told:
            return []
        self._told = status
        return self.writer.write(status)

    async def _ask(self, asked: Sequence[Question]) -> list[dict[str, Any]]:
        """End here, since the reader has to answer.

        A client that has not seen the questions gets them from the thread. So does a client whose
        stream shows others, because agents that work at the same time may repeat questions in
        another order.
        """
        reply, found = self._reply, list[dict[str, Any]]()
        if reply is not None:
            found += [e for change in reply.flush() for e in self.writer.write(change)]
        if reply is None or sorted(_open_in(reply.parts)) != sorted(open_ids(asked)):
            turn = await self.exchange.turn(self.message_id)
            parts = [] if turn is None else turn.parts
            reply = None
        else:
            parts = [part for part in reply.parts if not _waits_for_others(part)]
        if reply is None or len(parts) != len(reply.parts):
            found += self.writer.write(Rewritten(parts))
        self.end = ReplyEnd(reason="asked")
        return [*found, *self.writer.end(self.end)]


_AT_REST = frozenset({"hitl.requested", "run.interrupted", "error", "stream.ended"})
"""Chunks that do not show an active process on the reply."""


def _waits_for_others(part: StreamedPart) -> bool:
    """Return whether a call is made once the questions about others are answered.

    Clients continue by themselves once all remaining calls wait for answers.
    """
    return part.type == "tool-call" and part.output is None and part.approval is None


def _open_in(parts: Sequence[StreamedPart]) -> list[str]:
    asked = [part.approval for part in parts if part.approval is not None]
    return [one.id for one in asked if one.approved is None]
