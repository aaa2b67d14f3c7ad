"""Streams of chunks: server-sent events, and the WebSocket of Inngest's realtime client."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from agentkit_py._core.json import dumps
from agentkit_py.server.api import HEADERS, Api
from agentkit_py.server.hub import Batch, Entry, Subscription
from agentkit_py.server.jobs import TOPIC, channel_of
from agentkit_py.server.refusals import Refusal, not_found, too_many, unauthorized

logger: logging.Logger = logging.getLogger("agentkit_py.server")

_PING_SECONDS = 15
_REMEMBERED = 4096
_TOO_SLOW = 1013
"""WebSocket close code: try again later."""


@dataclass(slots=True)
class Readers:
    """How many readers each user has, and where those stopped that may come back."""

    most: int
    """Readers of one user at the same time."""

    _counts: Counter[str] = field(default_factory=Counter[str])
    _places: OrderedDict[str, str] = field(default_factory=OrderedDict[str, str])

    @contextmanager
    def one(self, user_id: str) -> Generator[None]:
        """Count a reader while it reads."""
        self._counts[user_id] += 1
        try:
            yield
        finally:
            self._counts[user_id] -= 1
            if not self._counts[user_id]:
                del self._counts[user_id]

    def count(self, user_id: str) -> int:
        """How many readers the user has."""
        return self._counts[user_id]

    def check(self, user_id: str) -> None:
        """Whether there may be one more.

        Raises:
            Refusal: There may not.
        """
        if self._counts[user_id] >= self.most:
            raise too_many(f"At most {self.most} streams can be open at once.", "too_many_streams")

    def place(self, session: str) -> str | None:
        """Where a reader with this token goes on."""
        return self._places.get(session)

    def remember(self, session: str, place: str) -> None:
        """Keep where a reader stopped."""
        self._places[session] = place
        self._places.move_to_end(session)
        if len(self._places) > _REMEMBERED:
            self._places.popitem(last=False)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a reader listens to."""

    user_id: str
    after: str | None
    thread_id: str | None


class _Events(EventSourceResponse):
    """Server-sent events of one reader, who is counted as long as there is a connection."""

    def __init__(self, api: Api, readers: Readers, wanted: _Wanted) -> None:
        self._subscribe = partial(api.hub.subscribe, channel_of(wanted.user_id), wanted.after)
        self._readers = readers
        self._wanted = wanted
        super().__init__(  # pyright: ignore[reportUnknownMemberType] - its content may be any dict
            self._frames(),
            headers=HEADERS,
            ping=_PING_SECONDS,
            sep="\n",
            send_timeout=api.settings.limits.stream_seconds,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the reader goes, or has not read for too long."""
        with self._readers.one(self._wanted.user_id):
            try:
                await super().__call__(scope, receive, send)
            except SendTimeoutError:
                # To return without an end makes the server close the connection.
                logger.info("A reader was dropped: it did not read for %s s", self.send_timeout)

    async def _frames(self) -> AsyncGenerator[ServerSentEvent | bytes]:
        with self._subscribe() as reader:
            # Says that the stream is open, and gives a first place to come back to.
            yield ServerSentEvent(event="ready", data=dumps({"topic": TOPIC}), id=reader.place)
            if reader.missed is not None:
                yield _reset(reader.missed, 0)
            while True:
                batch = await reader.next()
                if batch.lost:
                    yield _reset("too_old", batch.lost)
                frames = [_frame(entry) for entry in batch.entries if self._has(entry)]
                if frames:
                    yield b"".join(frames)

    def _has(self, entry: Entry) -> bool:
        return self._wanted.thread_id in (None, entry.thread_id)


async def user_of_stream(api: Api, request: Request) -> str:
    """The user: by a realtime token in the address, since browsers send no headers, or by `auth`.

    Raises:
        Refusal: It is nobody.
    """
    token = request.query_params.get("token")
    if token is None:
        # A page of somebody else could not read it, but would take what streams the user may have.
        api.door.check_page(request)
        return await api.door.user_of(request)
    grant = api.tokens.read(token)
    if grant is None:
        raise unauthorized()
    return grant.user_id


async def events(api: Api, readers: Readers, request: Request) -> Response:
    """`GET /api/stream`: the user's chunks as server-sent events, those of one thread if wanted.

    Raises:
        Refusal: There is nothing to listen to, or there are too many readers.
    """
    user_id = await user_of_stream(api, request)
    if not api.backend.streams:
        raise not_found("stream")
    thread_id = request.query_params.get("threadId")
    if thread_id is not None and not await api.threads_of(user_id).thread_exists(thread_id):
        raise not_found()
    readers.check(user_id)
    last = request.headers.get("last-event-id") or request.query_params.get("lastEventId")
    return _Events(api, readers, _Wanted(user_id, last or None, thread_id))


def _frame(entry: Entry) -> bytes:
    return f"id: {entry.id}\ndata: {entry.text}\n\n".encode()


def _reset(reason: str, lost: int) -> ServerSentEvent:
    """Not all can be repeated: the client has to read its thread again."""
    return ServerSentEvent(event="reset", data=dumps({"reason": reason, "lost": lost}))


async def realtime(api: Api, readers: Readers, socket: WebSocket) -> None:
    """`/v1/realtime/connect`: what Inngest's realtime server is to the hook, from this process."""
    grant = api.tokens.read(socket.query_params.get("token", ""))
    if grant is None or not api.backend.streams:
        await socket.close(1008)
        return
    try:
        readers.check(grant.user_id)
    except Refusal:
        await socket.close(1008)
        return
    channel = channel_of(grant.user_id)
    with (
        readers.one(grant.user_id),
        api.hub.subscribe(channel, readers.place(grant.session)) as reader,
    ):
        try:
            await socket.accept()
            await _serve(socket, channel, reader, api.settings.limits.stream_seconds)
        finally:
            readers.remember(grant.session, reader.resume_from)


async def _serve(socket: WebSocket, channel: str, reader: Subscription, seconds: float) -> None:
    """Send until the client goes, or is too slow."""
    sending = asyncio.create_task(_send_all(socket, channel, reader, seconds))
    leaving = asyncio.create_task(_until_gone(socket))
    try:
        await asyncio.wait([sending, leaving], return_when=asyncio.FIRST_COMPLETED)
        slow = sending.done() and not leaving.done()
    finally:
        sending.cancel()
        leaving.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)
    if slow:
        with contextlib.suppress(Exception):
            async with asyncio.timeout(seconds):
                await socket.close(_TOO_SLOW)


async def _until_gone(socket: WebSocket) -> None:
    with contextlib.suppress(RuntimeError):
        while (await socket.receive())["type"] != "websocket.disconnect":
            pass  # it can only listen


async def _send_all(socket: WebSocket, channel: str, reader: Subscription, seconds: float) -> None:
    envelope = dumps({"channel": channel, "topic": TOPIC, "kind": "data"})[:-1]
    while True:
        batch: Batch = await reader.next()
        if batch.lost:
            return  # the hook cannot go on over a gap; it connects again
        for entry in batch.entries:
            async with asyncio.timeout(seconds):
                await socket.send_text(f'{envelope},"data":{entry.text}}}')
