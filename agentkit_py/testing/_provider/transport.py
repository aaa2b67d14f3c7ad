"""The fake provider as an httpx transport (no socket, any host), and one that adds pauses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any, cast

import httpx

from .handler import Answer, Handler


class FakeTransport(httpx.AsyncBaseTransport, httpx.BaseTransport):
    """Answers `httpx.AsyncClient` and `httpx.Client` alike.

    httpx leaves time-outs to the transport, so a reply that is slower than the request's read
    time-out raises `httpx.ReadTimeout` here, after that time, as a network transport would.
    """

    def __init__(self, handler: Handler) -> None:
        """Answer with this handler."""
        self._handler = handler

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer one request of an async client."""
        answer = await self._answer(request, await request.aread())
        wait, timed_out = _limited(request, answer.delay)
        if wait:
            await asyncio.sleep(wait)
        return _response(request, answer, timed_out=timed_out)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer one request of a sync client."""
        answer = _run(self._answer(request, request.read()))
        wait, timed_out = _limited(request, answer.delay)
        if wait:
            time.sleep(wait)
        return _response(request, answer, timed_out=timed_out)

    async def _answer(self, request: httpx.Request, content: bytes) -> Answer:
        target = request.url.raw_path.decode("ascii")
        headers = [(name, value) for name, value in request.headers.items()]
        return await self._handler.answer(
            request.method, request.url.netloc.decode(), target, headers, content
        )

    def close(self) -> None:
        """Do nothing: there is no connection, and clients share the transport."""

    async def aclose(self) -> None:
        """Do nothing: there is no connection, and clients share the transport."""


def _limited(request: httpx.Request, seconds: float) -> tuple[float, bool]:
    """Return how long to wait, and whether that is too long for the request's time-out."""
    timeouts = cast("dict[str, float | None]", request.extensions.get("timeout") or {})
    limit = timeouts.get("read")
    if limit is not None and seconds > limit:
        return limit, True
    return seconds, False


class _Pieces(httpx.AsyncByteStream, httpx.SyncByteStream):
    """A body that comes piece by piece, and may break off."""

    def __init__(self, request: httpx.Request, answer: Answer) -> None:
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


def _response(request: httpx.Request, answer: Answer, *, timed_out: bool) -> httpx.Response:
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


def _run(coroutine: Any) -> Answer:
    """Run the handler to its end from sync code, also inside a running event loop.

    Nearly always it does not wait for anything; only a replies-callable can.
    """
    try:
        coroutine.send(None)
    except StopIteration as done:
        return cast("Answer", done.value)
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
        """Answer one request."""
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
