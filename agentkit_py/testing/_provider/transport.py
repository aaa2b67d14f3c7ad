"""The fake provider as an httpx transport (no socket, any host), with pauses, or over HTTP/1.1."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from http import HTTPStatus
from typing import Any, cast

import h11
import httpx

from .handler import HttpAnswer, RequestHandler


class FakeTransport(httpx.AsyncBaseTransport, httpx.BaseTransport):
    """Answers `httpx.AsyncClient` and `httpx.Client` alike.

    httpx leaves time-outs to the transport, so a reply that is slower than the request's read
    time-out raises `httpx.ReadTimeout` here, after that time, as a network transport would.
    """

    def __init__(self, handler: RequestHandler) -> None:
        """Answer with this handler."""
        self._handler = handler

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request of an async client."""
        answer = await self._answer(request, await request.aread())
        wait, timed_out = _limited(request, answer.delay)
        if wait:
            await asyncio.sleep(wait)
        return _response(request, answer, timed_out=timed_out)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request of a sync client."""
        answer = _run(self._answer(request, request.read()))
        wait, timed_out = _limited(request, answer.delay)
        if wait:
            time.sleep(wait)
        return _response(request, answer, timed_out=timed_out)

    async def _answer(self, request: httpx.Request, content: bytes) -> HttpAnswer:
        target = request.url.raw_path.decode("ascii")
        headers = [(name, value) for name, value in request.headers.items()]
        return await self._handler.answer(
            request.method, request.url.netloc.decode(), target, headers, content
        )

    def close(self) -> None:
        """Do nothing: no connection exists, and clients share the transport."""

    async def aclose(self) -> None:
        """Do nothing: no connection exists, and clients share the transport."""


def _limited(request: httpx.Request, seconds: float) -> tuple[float, bool]:
    """Return how long to wait, and whether that is too long for the request's time-out."""
    timeouts = cast("dict[str, float | None]", request.extensions.get("timeout") or {})
    limit = timeouts.get("read")
    if limit is not None and seconds > limit:
        return limit, True
    return seconds, False


class _Pieces(httpx.AsyncByteStream, httpx.SyncByteStream):
    """A body that comes piece by piece, and may break off."""

    def __init__(self, request: httpx.Request, answer: HttpAnswer) -> None:
        self._request = request
        self._pieces = answer.pieces or ()
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for number, piece in enumerate(self._pieces):
            wait, timed_out = self._wait(number)
            if wait:
                await asyncio.sleep(wait)
            self._check(timed_out=timed_out)
            yield piece
        self._end()

    def __iter__(self) -> Iterator[bytes]:
        for number, piece in enumerate(self._pieces):
            wait, timed_out = self._wait(number)
            if wait:
                time.sleep(wait)
            self._check(timed_out=timed_out)
            yield piece
        self._end()

    def _wait(self, number: int) -> tuple[float, bool]:
        return _limited(self._request, self._answer.pause if number else 0.0)

    def _check(self, *, timed_out: bool) -> None:
        if timed_out:
            raise httpx.ReadTimeout("The read operation timed out", request=self._request)

    def _end(self) -> None:
        if self._answer.cut:
            message = "peer closed connection without sending complete message body"
            raise httpx.RemoteProtocolError(message, request=self._request)


def _response(request: httpx.Request, answer: HttpAnswer, *, timed_out: bool) -> httpx.Response:
    if timed_out:
        raise httpx.ReadTimeout("The read operation timed out", request=request)
    if answer.disconnect:
        message = "Server disconnected without sending a response."
        raise httpx.RemoteProtocolError(message, request=request)
    headers = dict(answer.headers)
    if answer.pieces is not None:
        stream = _Pieces(request, answer)
        return httpx.Response(answer.status, headers=headers, stream=stream, request=request)
    return httpx.Response(answer.status, headers=headers, content=answer.body, request=request)


def _run(coroutine: Any) -> HttpAnswer:
    """Run the handler to its end from sync code, also inside a running event loop.

    Nearly always it does not wait for anything; only a replies-callable can.
    """
    try:
        coroutine.send(None)
    except StopIteration as done:
        return cast("HttpAnswer", done.value)
    coroutine.close()
    raise RuntimeError(
        "A FakeProvider whose replies are made by a coroutine that waits needs httpx.AsyncClient, "
        "or real HTTP (`with provider:`)."
    )


class PacedTransport(httpx.AsyncBaseTransport):
    """Passes streamed replies of another transport on with pauses.

    Args:
        inner: What answers, as `FakeProvider.transport`.
        pause: Seconds before each piece of a reply, or a function that gives them for a request and
            the number of the piece (0-based).
    """

    def __init__(
        self,
        inner: httpx.AsyncBaseTransport,
        pause: float | Callable[[httpx.Request, int], float],
    ) -> None:
        self._inner = inner
        self._pause = pause

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request."""
        response = await self._inner.handle_async_request(request)
        if isinstance(response.stream, httpx.AsyncByteStream):
            response.stream = _Paced(response.stream, partial(self._seconds, request))
        return response

    def _seconds(self, request: httpx.Request, number: int) -> float:
        return self._pause(request, number) if callable(self._pause) else self._pause


class _Paced(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream, pause: Callable[[int], float]) -> None:
        self._inner = inner
        self._pause = pause

    async def __aiter__(self) -> AsyncIterator[bytes]:
        number = 0
        async for piece in self._inner:
            await asyncio.sleep(self._pause(number))
            yield piece
            number += 1


_MAX_HEAD = 1 << 20
_UNLISTED = {529: "Overloaded"}  # Anthropic's own


class LoopbackServer:
    """Serves a handler at an ephemeral port of 127.0.0.1."""

    def __init__(self, handler: RequestHandler) -> None:
        """Bind the socket at once, so that the port is known and connections queue up."""
        self._handler = handler
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._socket.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._main, name="fake-provider", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Close every connection, waiting replies included, and end the thread."""
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def _main(self) -> None:
        # A client that goes away mid-answer is everyday life here, not news for stderr.
        self._loop.set_exception_handler(lambda _loop, _context: None)
        self._loop.run_until_complete(self._run())
        self._loop.close()

    async def _run(self) -> None:
        server = await asyncio.start_server(self._accept, sock=self._socket)
        await self._stopping.wait()
        server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # start_server runs every connection in a task
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client hung up, or the server is being stopped
        finally:
            self._connections.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD)
        while True:
            try:
                received = await _receive(connection, reader, writer)
            except h11.RemoteProtocolError:
                if connection.their_state is h11.ERROR and connection.our_state is h11.IDLE:
                    await _send(connection, writer, HttpAnswer(400, {}, b"Bad Request"))
                return
            if received is None:
                return
            await _send(connection, writer, await self._answer(*received))
            if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return
            connection.start_next_cycle()

    async def _answer(self, request: h11.Request, content: bytes) -> HttpAnswer:
        headers = [(name.decode(), value.decode("latin-1")) for name, value in request.headers]
        host = dict(headers).get("host", "")
        method, target = request.method.decode(), request.target.decode("latin-1")
        try:
            return await self._handler.answer(method, host, target, headers, content)
        except Exception as error:  # noqa: BLE001 - a script's mistake; this thread is not awaited
            words = f"FakeProvider's script failed: {type(error).__name__}: {error}"
            return HttpAnswer(500, {"content-type": "text/plain"}, words.encode())


async def _receive(
    connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> tuple[h11.Request, bytes] | None:
    """Return the next request with its body; `None` if the client has closed the connection."""
    request: h11.Request | None = None
    content = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(1 << 16))
        elif isinstance(event, h11.Request):
            request = event
            if connection.they_are_waiting_for_100_continue:
                go_on = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
                writer.write(connection.send(go_on))
        elif isinstance(event, h11.Data):
            content += event.data
        elif isinstance(event, h11.EndOfMessage) and request is not None:
            return request, bytes(content)
        else:
            return None


async def _send(
    connection: h11.Connection, writer: asyncio.StreamWriter, answer: HttpAnswer
) -> None:
    """Send an answer; without its end the client knows that the body was cut."""
    if answer.delay:
        await asyncio.sleep(answer.delay)
    if answer.disconnect:
        return
    try:
        phrase = HTTPStatus(answer.status).phrase
    except ValueError:
        phrase = _UNLISTED.get(answer.status, "Unknown")
    headers = dict(answer.headers)
    if answer.pieces is None:
        headers["content-length"] = str(len(answer.body))
    else:
        headers["transfer-encoding"] = "chunked"
    if answer.cut:
        headers["connection"] = "close"
    head = h11.Response(
        status_code=answer.status, headers=list(headers.items()), reason=phrase.encode()
    )
    writer.write(connection.send(head))
    for number, piece in enumerate([answer.body] if answer.pieces is None else answer.pieces):
        if number and answer.pause:
            await asyncio.sleep(answer.pause)
        writer.write(connection.send(h11.Data(data=piece)))
        await writer.drain()
    if not answer.cut:
        writer.write(connection.send(h11.EndOfMessage()))
        await writer.drain()
