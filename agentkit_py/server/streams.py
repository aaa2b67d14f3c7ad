"""Streams of chunks: server-sent events, and the WebSocket of Inngest's realtime client."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import anyio
from sse_starlette import EventSourceResponse
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from agentkit_py._core.json import dumps
from agentkit_py._core.untrusted import get_logger
from agentkit_py.server.api import HEADERS, Api
from agentkit_py.server.auth import StreamTokens, is_same_host
from agentkit_py.server.config import ServerSettings
from agentkit_py.server.errors import ApiError, no_streams, not_found, unauthorized
from agentkit_py.server.hub import Batch, Subscription
from agentkit_py.server.responses import TokenResponse
from agentkit_py.server.runs import TOPIC, channel_of
from agentkit_py.server.schemas import StreamQuery, parse

logger: logging.Logger = get_logger("agentkit_py.server")

_PING_SECONDS = 15
_FAREWELL_SECONDS = 6.0
"""Seconds that a stream may take to say that the server stops, after the runs' own time."""

_LOOK_SECONDS = 0.1
"""Seconds between two looks for the end of a user's runs, while the server stops."""

_EVENTS = "text/event-stream"
_HEADERS = {**HEADERS, "Connection": "keep-alive", "X-Accel-Buffering": "no"}
_END = {"type": "http.response.body", "body": b"", "more_body": False}

_TOO_SLOW = 1013
"""WebSocket close code: try again later."""


async def events(api: Api, request: Request) -> Response:
    """`GET /api/stream`: the user's chunks as server-sent events, or those of a thread."""
    query = parse(StreamQuery, {**request.query_params})
    user_id = await _user_of(api, request, query.token)
    if not api.backend.streams:
        raise no_streams()
    thread_id = query.thread_id
    if thread_id is not None and not await api.threads_of(user_id).thread_exists(thread_id):
        raise not_found()
    api.check_streams(user_id)
    last = request.headers.get("last-event-id") or query.last_event_id
    return _Events(api, user_id, last or None, thread_id)


async def _user_of(api: Api, request: Request, token: str | None) -> str:
    """Find the user by a token in the address, since browsers send no headers, or by `auth`."""
    if token is None:
        # A page of another site could not read it, but would use up the user's streams.
        api.authenticator.check_page(request)
        return await api.authenticator.user_of(request)
    grant = api.tokens.read(token)
    if grant is None:
        raise unauthorized()
    return grant.user_id


class CountedEvents(StreamingResponse):
    """Server-sent events of a reader, who is counted as long as the connection lasts.

    A stream that waits takes two tasks: the request's own, and a task that notices that the client
    is gone and keeps the connection alive.
    """

    def __init__(
        self,
        api: Api,
        user_id: str,
        content: AsyncGenerator[bytes],
        headers: Mapping[str, str] | None = None,
        *,
        takes_leave: bool = False,
    ) -> None:
        """Prepare the response.

        Args:
            api: The parts of the server.
            user_id: The reader.
            content: The events.
            headers: Headers in addition to those of every response.
            takes_leave: Whether the events end by themselves when the server stops.
        """
        super().__init__(content, headers={**_HEADERS, **(headers or {})}, media_type=_EVENTS)
        self._content = content
        self._api = api
        self._user_id = user_id
        self._takes_leave = takes_leave
        self._leaves = False
        self._scope: anyio.CancelScope | None = None
        self._sent = 0.0
        """When the last event was sent; infinite while an event is being sent."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the reader leaves, or has not read for too long."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        if scope["method"] == "HEAD":
            await send(_END)
            return
        with self._api.streams.opened(self._user_id), anyio.CancelScope() as self._scope:
            listening = asyncio.create_task(self._listen(receive, send))
            listening.add_done_callback(self._drop)
            try:
                with _of_loop.setdefault(asyncio.get_running_loop(), _Stops()).tell(self):
                    async for piece in self._content:
                        if not await self._send(send, piece):
                            return  # without an end, which makes the server close the connection
                listening.cancel()
                await send(_END)
            finally:
                listening.cancel()
                await self._content.aclose()
        if self._scope.cancelled_caught and self._leaves:
            await self._send(send, event("shutdown", {"reason": "shutdown"}))
            await send(_END)

    def leave(self) -> None:
        """End soon: the server stops."""
        self._leaves = True
        limits = self._api.settings.limits
        seconds = limits.shutdown_seconds + _FAREWELL_SECONDS if self._takes_leave else 0.0
        if self._scope is not None:
            self._scope.deadline = anyio.current_time() + seconds

    def _drop(self, listening: asyncio.Task[None]) -> None:
        """Stop, if the listening task has ended by itself."""
        if self._scope is not None and not listening.cancelled():
            self._scope.cancel()

    async def _send(self, send: Send, piece: bytes) -> bool:
        """Send an event; return whether the reader took it in time."""
        seconds = self._api.settings.limits.stream_seconds
        self._sent = math.inf
        try:
            async with asyncio.timeout(seconds):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        except TimeoutError:
            logger.info("A reader was dropped: it did not read for %s s", seconds)
            return False
        self._sent = time.monotonic()
        return True

    async def _listen(self, receive: Receive, send: Send) -> None:
        """Wait until the client is gone; meanwhile let proxies see that there is a connection."""
        while True:
            try:
                async with asyncio.timeout(_PING_SECONDS):
                    if (await receive())["type"] == "http.disconnect":
                        return
            except TimeoutError:
                is_idle = time.monotonic() - self._sent >= _PING_SECONDS
                if is_idle and not await self._send(send, b": ping\n\n"):
                    return


class _Stops:
    """Notifies the streams of an event loop that their server stops.

    sse-starlette finds it out, once for all of them: by a response that was not requested.
    """

    def __init__(self) -> None:
        self._streams = set[CountedEvents]()
        self._watching: asyncio.Task[None] | None = None
        self._stopping = False

    @contextlib.contextmanager
    def tell(self, stream: CountedEvents) -> Generator[None]:
        """Let a stream know, as long as it is open."""
        self._streams.add(stream)
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
        elif self._stopping:
            stream.leave()
        try:
            yield
        finally:
            self._streams.discard(stream)
            if not self._streams:
                self._watching.cancel()
                self._watching, self._stopping = None, False

    async def _watch(self) -> None:
        async def nothing() -> AsyncGenerator[bytes]:
            await asyncio.Event().wait()
            yield b""

        async def receive() -> Message:
            await asyncio.Event().wait()
            return {}

        async def send(_message: Message) -> None:
            pass

        response = EventSourceResponse(nothing(), ping=0)
        await response({"type": "http", "method": "GET"}, receive, send)
        self._stopping = True
        for stream in list(self._streams):
            stream.leave()


_of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _Stops] = WeakKeyDictionary()


def event(
    name: str, data: Mapping[str, Any], position: str | None = None, retry: int | None = None
) -> bytes:
    """Return a server-sent event."""
    lines = [f"event: {name}", f"data: {dumps(data)}"]
    if position is not None:
        lines.insert(0, f"id: {position}")
    if retry is not None:
        lines.append(f"retry: {retry}")
    return ("\n".join(lines) + "\n\n").encode()


class _Events(CountedEvents):
    """The chunks of a user's channel, or those of a thread."""

    def __init__(self, api: Api, user_id: str, after: str | None, thread_id: str | None) -> None:
        self._after = after
        self._thread_id = thread_id
        self._timer: asyncio.Timeout | None = None
        self._leaving = False
        super().__init__(api, user_id, self._frames(), takes_leave=True)

    def leave(self) -> None:
        """End soon, and wake where it waits."""
        super().leave()
        self._leaving = True
        with contextlib.suppress(RuntimeError):  # it does not wait
            if self._timer is not None:
                self._timer.reschedule(asyncio.get_running_loop().time())

    async def _frames(self) -> AsyncGenerator[bytes]:
        with self._api.hub.subscribe(channel_of(self._user_id), self._after) as reader:
            # Says that the stream is open, and gives a first position to come back to.
            yield event("ready", {"topic": TOPIC}, reader.position)
            if reader.missed is not None:
                yield _reset(reader.missed, 0)
            async for batch in self._batches(reader):
                if batch.lost:
                    yield _reset("too_old", batch.lost)
                frames = [
                    f"id: {entry.id}\ndata: {entry.text}\n\n".encode()
                    for entry in batch.entries
                    if self._thread_id in (None, entry.thread_id)
                ]
                if frames:
                    yield b"".join(frames)
            yield event("shutdown", {"reason": "shutdown"}, reader.position, retry=1000)

    async def _batches(self, reader: Subscription) -> AsyncGenerator[Batch]:
        """Yield all chunks until the server stops and the user's runs have ended."""
        backend = self._api.backend
        while True:
            try:
                async with asyncio.timeout(_LOOK_SECONDS if self._leaving else None) as self._timer:
                    batch = await reader.next()
            except TimeoutError:
                backend.drain()
                if not backend.works_for(self._user_id):
                    return
            else:
                yield batch


def _reset(reason: str, lost: int) -> bytes:
    """Return the event after which a client has to read its thread again."""
    return event("reset", {"reason": reason, "lost": lost})


async def realtime(api: Api, socket: WebSocket) -> None:
    """`/v1/realtime/connect`: this process as Inngest's realtime server for the hook."""
    grant = api.tokens.read(socket.query_params.get("token", ""))
    try:
        api.authenticator.check_page(socket)
    except ApiError:
        grant = None
    if grant is None or not (api.backend.streams and api.streams.has_room(grant.user_id)):
        await socket.close(1008)
        return
    channel = channel_of(grant.user_id)
    with (
        api.streams.opened(grant.user_id),
        api.hub.subscribe(channel, api.streams.place(grant.session)) as reader,
    ):
        # A client may be back before this process has noticed that it was gone.
        api.streams.remember(grant.session, reader.place)
        try:
            await socket.accept()
            await _serve(socket, channel, reader, api.settings.limits.stream_seconds)
        finally:
            api.streams.remember(grant.session, reader.place)


async def _serve(socket: WebSocket, channel: str, reader: Subscription, seconds: float) -> None:
    """Send until the client leaves, or is too slow."""
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
            return  # the hook cannot continue after a gap; it connects again
        for entry in batch.entries:
            async with asyncio.timeout(seconds):
                await socket.send_text(f'{envelope},"data":{entry.text}}}')


def own_token(
    settings: ServerSettings, tokens: StreamTokens, request: HTTPConnection, user_id: str
) -> TokenResponse:
    """Return a token for ``/v1/realtime/connect`` of this server."""
    key, grant = tokens.make(user_id)
    return {
        "channel": channel_of(user_id),
        "topics": [TOPIC],
        "key": key,
        "token": key,
        "expires": grant.expires * 1000,
        "app": {"apiBaseUrl": settings.realtime_url or _base_url(request)},
    }


def _base_url(request: HTTPConnection) -> str:
    """Return this server's address for the browser: behind a proxy, its page knows it best."""
    origin = request.headers.get("origin")
    if origin is not None and is_same_host(origin, request):
        return origin
    scheme = {"ws": "http", "wss": "https"}.get(request.url.scheme, request.url.scheme)
    return f"{scheme}://{urlsplit(str(request.url)).netloc}"
