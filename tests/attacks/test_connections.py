"""Raw connections to the HTTP API: smuggled requests, floods of open streams, slow readers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from agentkit_py.server.hub import Hub, HubLimits
from tests.server.world import app_of, message, served, support

INNER = b"GET /api/threads HTTP/1.1\r\nHost: localhost\r\nx-user: bob\r\n\r\n"
"""A request that an attacker hides in the body of another."""

LENGTH = str(len(INNER)).encode()
HEAD = (
    b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nx-user: ada\r\n"
    b"Content-Type: application/json\r\n"
)

SMUGGLED = {
    "length and chunks": b"Content-Length: "
    + LENGTH
    + b"\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": b"Transfer-Encoding: chunked\r\nContent-Length: "
    + LENGTH
    + b"\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 0\r\nContent-Length: " + LENGTH + b"\r\n\r\n",
    "lengths in one": b"Content-Length: 0, " + LENGTH + b"\r\n\r\n",
    "a signed length": b"Content-Length: +0\r\n\r\n",
    "a space before the colon": b"Content-Length : " + LENGTH + b"\r\n\r\n",
    "an unknown encoding": b"Transfer-Encoding: xchunked\r\nContent-Length: "
    + LENGTH
    + b"\r\n\r\n",
    "an encoding twice": (
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n"
    ),
    "a folded line": b"Transfer-Encoding:\r\n chunked\r\nContent-Length: " + LENGTH + b"\r\n\r\n",
    "a bare carriage return": b"X: y\rTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n",
    "a negative chunk": b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
    "a huge chunk size": b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 40 + b"\r\n",
}


async def talk(url: str, sent: bytes, silence: float | None = 1) -> bytes:
    """Send bytes and return what comes until the server closes or is silent for so many seconds."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    found = b""
    try:
        writer.write(sent)
        await writer.drain()
        while piece := await asyncio.wait_for(reader.read(65536), silence):
            found += piece
    except (TimeoutError, ConnectionError):
        pass
    finally:
        writer.close()
    return found


@pytest.mark.parametrize("kind", SMUGGLED)
async def test_a_request_of_two_lengths_carries_no_second_one(kind: str) -> None:
    """Bytes after it are refused with it, or were its body; nobody answers them as another user."""
    async with served(app_of(support("Hm."))) as url:
        answer = await talk(url, HEAD + SMUGGLED[kind] + INNER)
    first = answer.split(b"\r\n", 1)[0]
    assert b" 400 " in first or not answer, answer
    assert b'"threads"' not in answer


async def test_an_endless_head_is_refused() -> None:
    """It is not kept."""
    async with served(app_of(support("Hm."))) as url:
        answer = await talk(url, HEAD + b"X: " + b"y" * 2**20)
    assert b" 400 " in answer.split(b"\r\n", 1)[0] or not answer


@asynccontextmanager
async def streams(url: str, count: int) -> AsyncGenerator[list[bytes]]:
    """Open streams that nobody reads; give the first line of each answer."""
    parts = urlsplit(url)
    opened = [await asyncio.open_connection(parts.hostname, parts.port) for _ in range(count)]
    try:
        for _, writer in opened:
            writer.write(b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\nx-user: ada\r\n\r\n")
        yield [await reader.readline() for reader, _ in opened]
    finally:
        for _, writer in opened:
            writer.close()


async def test_streams_of_one_user_are_limited_and_others_are_served() -> None:
    """A flood is answered with 429, and does not keep anybody else out."""
    async with served(app_of(support("Hello."))) as url, streams(url, 100) as lines:
        statuses = {line.split()[1] for line in lines}
        assert statuses == {b"200", b"429"}
        body = json.dumps(message("Hi", "t")).encode()
        head = HEAD.replace(b"ada", b"bob") + b"Connection: close\r\n"
        length = f"Content-Length: {len(body)}\r\n\r\n".encode()
        answer = await talk(url, head + length + body, silence=None)  # the server closes
        assert b" 200 " in answer.split(b"\r\n", 1)[0]


async def test_a_flood_of_events_is_kept_up_to_the_limits() -> None:
    """A reader that never reads costs nothing more, and learns what it lost."""
    hub = Hub(HubLimits(channel_chunks=100, channel_bytes=50_000))
    chunk: dict[str, Any] = {"event": "text.delta", "data": {"threadId": "t", "delta": "x" * 100}}
    with hub.subscribe("user:ada", None) as reader:
        for _ in range(50_000):
            hub.publish("user:ada", chunk)
        batch = await reader.next()
    assert batch.lost >= 49_900
    assert len(batch.entries) <= 100
