"""Streams of chunks: server-sent events, and the WebSocket of Inngest's realtime client."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import abstractmethod
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import anyio
from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from agentkit_py._core.json import dumps
from agentkit_py._core.untrusted import get_logger
from agentkit_py.server.api import HEADERS, Api
from agentkit_py.server.hub import Batch, Subscription
from agentkit_py.server.runs import TOPIC, channel_of
from agentkit_py.server.schemas import StreamQuery, no_streams, not_found, parse, unauthorized

logger: logging.Logger = get_logger("agentkit_py.server")

_PING_SECONDS = 15
_FAREWELL_SECONDS = 6.0
"""Seconds that a stream may take to say that the server stops, after the runs' own time."""

_LOOK_SECONDS = 0.1
"""Seconds between two looks for the end of a user's runs, while the server stops."""

_TOO_SLOW = 1013
"""WebSocket close code: try again later."""


async def events(api: Api, request: Request) -> Response:
    """`GET /api/stream`: the user's chunks as server-sent events, or those of one thread."""
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


class CountedEvents(EventSourceResponse):
    """Server-sent events of one reader, who is counted as long as there is a connection."""

    def __init__(
        self,
        api: Api,
        user_id: str,
        content: AsyncGenerator[ServerSentEvent | bytes],
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        """Prepare the response.

        Args:
            api: The parts of the server.
            user_id: The reader.
            content: The events.
            headers: Headers in addition to those of every response.
            options: As for `EventSourceResponse`.
        """
        self._api = api
        self._user_id = user_id
        super().__init__(  # pyright: ignore[reportUnknownMemberType] - its content may be any dict
            content,
            headers={**HEADERS, **(headers or {})},
            ping=_PING_SECONDS,
            sep="\n",
            send_timeout=api.settings.limits.stream_seconds,
            **options,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the reader leaves, or has not read for too long."""
        with self._api.streams.opened(self._user_id):
            try:
                await super().__call__(scope, receive, send)
            except SendTimeoutError:
                # To return without an end makes the server close the connection.
                logger.info("A reader was dropped: it did not read for %s s", self.send_timeout)


class UserEvents(CountedEvents):
    """Events of one reader that end by themselves when the server stops."""

    def __init__(self, api: Api, user_id: str, headers: Mapping[str, str] | None = None) -> None:
        """Prepare the response."""
        self.leaving: anyio.Event = anyio.Event()
        """Set when the server stops."""

        super().__init__(
            api,
            user_id,
            self.frames(),
            headers,
            shutdown_event=self.leaving,
            shutdown_grace_period=api.settings.limits.shutdown_seconds + _FAREWELL_SECONDS,
        )

    @abstractmethod
    def frames(self) -> AsyncGenerator[ServerSentEvent | bytes]:
        """Yield the events."""


class _Events(UserEvents):
    """The chunks of a user's channel, or those of one thread."""

    def __init__(self, api: Api, user_id: str, after: str | None, thread_id: str | None) -> None:
        self._after = after
        self._thread_id = thread_id
        self._timer: asyncio.Timeout | None = None
        super().__init__(api, user_id)

    async def frames(self) -> AsyncGenerator[ServerSentEvent | bytes]:
        with self._api.hub.subscribe(channel_of(self._user_id), self._after) as reader:
            # Says that the stream is open, and gives a first position to come back to.
            yield ServerSentEvent(event="ready", data=dumps({"topic": TOPIC}), id=reader.position)
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
            data = dumps({"reason": "shutdown"})
            yield ServerSentEvent(event="shutdown", data=data, id=reader.position, retry=1000)

    async def _batches(self, reader: Subscription) -> AsyncGenerator[Batch]:
        """Yield what is published until the server stops and the user's runs have ended."""
        backend, watching = self._api.backend, asyncio.create_task(self._watch())
        try:
            while True:
                seconds = _LOOK_SECONDS if self.leaving.is_set() else None
                try:
                    async with asyncio.timeout(seconds) as self._timer:
                        batch = await reader.next()
                except TimeoutError:
                    backend.drain()
                    if not backend.works_for(self._user_id):
                        return
                else:
                    yield batch
        finally:
            watching.cancel()

    async def _watch(self) -> None:
        """Wake a reader that waits when the server stops."""
        await self.leaving.wait()
        with contextlib.suppress(RuntimeError):  # it does not wait
            if self._timer is not None:
                self._timer.reschedule(asyncio.get_running_loop().time())


def _reset(reason: str, lost: int) -> ServerSentEvent:
    """Return the event after which a client has to read its thread again."""
    return ServerSentEvent(event="reset", data=dumps({"reason": reason, "lost": lost}))


async def realtime(api: Api, socket: WebSocket) -> None:
    """`/v1/realtime/connect`: from this process, what Inngest's realtime server is to the hook."""
    grant = api.tokens.read(socket.query_params.get("token", ""))
    if grant is None or not (api.backend.streams and api.streams.has_room(grant.user_id)):
        await socket.close(1008)
        return
    channel = channel_of(grant.user_id)
    with (
        api.streams.opened(grant.user_id),
        api.hub.subscribe(channel, api.streams.position(grant.session)) as reader,
    ):
        try:
            await socket.accept()
            await _serve(socket, channel, reader, api.settings.limits.stream_seconds)
        finally:
            api.streams.remember(grant.session, reader.resume_from)


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
            return  # the hook cannot go on over a gap; it connects again
        for entry in batch.entries:
            async with asyncio.timeout(seconds):
                await socket.send_text(f'{envelope},"data":{entry.text}}}')
