"""Replies that come piece by piece, so that one sees them being written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx


class PacedTransport(httpx.AsyncBaseTransport):
    """Passes streamed replies of another transport on with pauses.

    Args:
        inner: What answers, as `FakeProvider.transport`.
        pause: Seconds before each piece of a reply.
    """

    def __init__(self, inner: httpx.AsyncBaseTransport, pause: float) -> None:
        self._inner = inner
        self._pause = pause

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        response = await self._inner.handle_async_request(request)
        if isinstance(response.stream, httpx.AsyncByteStream):
            response.stream = _Paced(response.stream, self._pause)
        return response


class _Paced(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream, pause: float) -> None:
        self._inner = inner
        self._pause = pause

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._inner:
            await asyncio.sleep(self._pause)
            yield piece
