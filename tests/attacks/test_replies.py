"""Replies of a provider that wants to fill the memory, or to keep a run waiting for ever."""

from __future__ import annotations

import gzip
import json
import time
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import anyio
import httpx
import pytest

from agentkit_py import anthropic, gemini, openai
from agentkit_py.errors import ModelError, ModelResponseError, ModelStreamError, ModelTimeoutError
from agentkit_py.messages import Delta, TextMessage
from agentkit_py.models import Model, ModelRequest, RetryPolicy
from agentkit_py.models.base import Model as BaseModel
from agentkit_py.runtime import model_requests
from agentkit_py.runtime.direct import DirectRuntime
from tests.attacks.growth import REFERENCE_SECONDS, reference, untraced

GOOD = {"choices": [{"message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}]}


class Endless(httpx.AsyncByteStream):
    """Sends the same piece for ever, or so often."""

    def __init__(self, piece: bytes, times: int | None = None, *, wait: float = 0) -> None:
        self.piece, self.times, self.wait = piece, times, wait
        self.sent = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self.times is None or self.sent < self.times:
            self.sent += 1
            await anyio.sleep(self.wait)
            yield self.piece


class Answers(httpx.AsyncBaseTransport):
    """Answers all requests alike."""

    def __init__(self, stream: httpx.AsyncByteStream, kind: str, encoding: str = "") -> None:
        self.stream = stream
        self.headers = {
            "content-type": kind,
            **({"content-encoding": encoding} if encoding else {}),
        }
        self.asked: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        return httpx.Response(200, headers=self.headers, stream=self.stream)


async def ask(transport: httpx.AsyncBaseTransport, *, stream: bool, timeout: float = 30) -> Any:
    """Send one request through the runtime."""
    runtime = DirectRuntime(transport=transport)
    model = openai("gpt-4o", api_key="k", timeout=timeout, retry=RetryPolicy(attempts=1))
    deltas: list[Delta] = []

    async def add(delta: Delta) -> None:
        deltas.append(delta)

    request = ModelRequest(messages=(TextMessage("user", "Hi"),))
    try:
        return await runtime.infer(
            "s",
            model,
            lambda: model.adapter.encode(model, request),
            cast("Any", add) if stream else None,
        )
    finally:
        await runtime.aclose()


SSE, JSON = "text/event-stream", "application/json"


@pytest.mark.parametrize("stream", [False, True])
async def test_an_endless_body_ends_at_the_limit(stream: bool) -> None:
    """It is neither kept nor read on."""
    body = Endless(b" " * 2**20)
    with pytest.raises(ModelResponseError, match="more than 67,108,864 bytes"):
        await ask(Answers(body, JSON), stream=stream)
    assert body.sent <= 65


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress(bytes(2**28))),
        ("deflate", zlib.compress(bytes(2**28))),
        ("deflate", zlib.compressobj(wbits=-15)),
    ],
)
async def test_a_small_body_that_unpacks_to_a_huge_one_ends_at_the_limit(
    encoding: str, packed: Any
) -> None:
    """256 MB of zeros are 260 kB; they are unpacked a mebibyte at a time."""
    if not isinstance(packed, bytes):
        packed = packed.compress(bytes(2**28)) + packed.flush()
    with pytest.raises(ModelResponseError, match="more than"):
        await ask(Answers(Endless(packed, 1), JSON, encoding), stream=False)


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "nonsense"])
async def test_other_compressions_are_refused(encoding: str) -> None:
    """They were not asked for, and libraries unpack a piece of them whole."""
    transport = Answers(Endless(b"x", 1), JSON, encoding)
    with pytest.raises(ModelResponseError, match="compressed with"):
        await ask(transport, stream=False)
    assert transport.asked[0].headers["accept-encoding"] == "gzip, deflate"


@pytest.mark.parametrize("encoding", ["", "gzip", "deflate"])
async def test_a_compressed_answer_is_read(encoding: str) -> None:
    """Piece by piece."""
    whole = json.dumps(GOOD).encode()
    pack: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress}
    body = pack.get(encoding, bytes)(whole)

    class Pieces(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for i in range(len(body)):
                yield body[i : i + 1]

    assert await ask(Answers(Pieces(), JSON, encoding), stream=False) == GOOD


@pytest.mark.parametrize("end", [b"", b"\r\n"])
async def test_an_endless_line_of_a_stream_ends_at_the_limit(
    end: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many lines of the same length together are an answer."""
    monkeypatch.setattr(model_requests, "LONGEST_LINE", 2**20)
    body = Endless(b": " + b"x" * (2**18 - 3) + end, 64)
    reason = "before the reply did" if end else "a line has more than 1,048,576 bytes"
    with pytest.raises(ModelStreamError, match=reason):
        await ask(Answers(body, SSE), stream=True)
    assert body.sent == (64 if end else 5)


@pytest.mark.parametrize("piece", [b": ping\n\n", b"event: ping\ndata: {}\n\n", b"data: {}\n\n"])
async def test_a_stream_that_only_says_that_it_goes_on_ends(piece: bytes) -> None:
    """Comments and pings are no progress."""
    body = Endless(piece, wait=0.002)
    with pytest.raises(ModelTimeoutError) as caught:
        await ask(Answers(body, SSE), stream=True, timeout=0.05)
    assert caught.value.timeout == 0.25


@pytest.mark.parametrize("stream", [False, True])
async def test_a_body_that_comes_byte_by_byte_ends(stream: bool) -> None:
    """Each byte would begin a time-out between two of them again."""
    with pytest.raises(ModelTimeoutError):
        await ask(Answers(Endless(b" ", wait=0.002), JSON), stream=stream, timeout=0.05)


@pytest.mark.parametrize("pieces", [1, 2**16])
async def test_a_long_streamed_reply_takes_linear_time(pieces: int) -> None:
    """A megabyte, in one event or in very many."""
    words = "x" * (2**20 // pieces)
    chunk = json.dumps({"choices": [{"delta": {"content": words}}]})
    body = b"".join([f"data: {chunk}\n\n".encode()] * pieces)
    end = json.dumps({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    whole = body + f"data: {end}\n\ndata: [DONE]\n\n".encode()
    with untraced():
        start = time.thread_time()
        answer = await ask(Answers(Endless(whole, 1), SSE), stream=True)
        used = time.thread_time() - start
        pace = max(1, reference() / REFERENCE_SECONDS)
    assert answer["choices"][0]["message"]["content"] == "x" * 2**20
    assert used < 10 * pace


@pytest.mark.parametrize("make", [openai, anthropic, gemini])
@pytest.mark.parametrize(
    "body",
    [b"[" * 100_000, b'{"a":' * 100_000, b"9" * 100_000, b'{"error": ' * 50_000, b"\xff" * 100_000],
)
@pytest.mark.parametrize("status", [200, 500])
async def test_a_hostile_answer_is_an_error_of_the_model(
    make: Callable[..., Model], body: bytes, status: int
) -> None:
    """Deep nesting, numbers that are none, bytes that are no text."""
    model: BaseModel = make("m", api_key="k", retry=RetryPolicy(attempts=1))
    transport = httpx.MockTransport(lambda _: httpx.Response(status, content=body))
    runtime = DirectRuntime(transport=transport)
    with pytest.raises(ModelError) as caught:
        await runtime.infer("s", model, dict)
    await runtime.aclose()
    assert len(str(caught.value)) < 3_000
