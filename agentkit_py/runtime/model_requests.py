"""One request to a model over HTTP: retries, streams, and errors of httpx as ours."""

from __future__ import annotations

import re
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeAlias, TypeVar

import anyio
import httpx
import httpx_sse
import tenacity

from agentkit_py._core.json import tamed, to_bytes
from agentkit_py.errors import (
    AbruptExitError,
    ConfigurationError,
    ModelConnectionError,
    ModelError,
    ModelNotAskedError,
    ModelResponseError,
    ModelStreamError,
    ModelTimeoutError,
)
from agentkit_py.messages import Delta
from agentkit_py.models.base import Assembler, Model, RetryPolicy, copy_model
from agentkit_py.models.binding import account_tag
from agentkit_py.models.http_errors import error_from_response, error_in_body, hide_keys
from agentkit_py.models.replies import partial_messages
from agentkit_py.runtime.containing import contained
from agentkit_py.runtime.guards import guarded
from agentkit_py.runtime.port import DeltaSink

T = TypeVar("T")
Sleep: TypeAlias = Callable[[float], Awaitable[None]]
"""Waits for so many seconds."""

_BROKEN = (httpx.RequestError, httpx.InvalidURL, AbruptExitError)
"""Errors of an exchange; the last: something inside of the HTTP library was cancelled."""

_CLOSING = 0.25
"""Seconds that a server has for closing a stream after its end, so that the connection is kept."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request, tried as often as the model's policy says."""

    client: httpx.AsyncClient
    model: Model
    key: str | None
    sleep: Sleep

    async def send(
        self, make_body: Callable[[], dict[str, Any]], on_delta: DeltaSink | None
    ) -> object:
        """Send it and return the answer's JSON; streamed where ``on_delta`` and the adapter can.

        Raises:
            ModelError: The last attempt failed.
            ConfigurationError: A header cannot be sent.
        """
        model = self.model
        headers = _checked_headers(model, self.key)
        if on_delta is None or model.adapter.assembler(model) is None:
            content = to_bytes(make_body())
            send = partial(self._whole, headers, content)
        else:
            content = to_bytes(model.adapter.stream_body(make_body()))
            send = partial(self._streamed, headers, content, StreamedPieces(on_delta))
        if model.guards:
            account = account_tag(model, self.key)
            send = partial(guarded, model, account, len(content), send)
        return await with_retries(send, model, self.sleep)

    async def _whole(self, headers: dict[str, str], content: bytes) -> object:
        model = self.model
        url = model.adapter.url(model)
        if model.signer is not None:
            headers = dict(await model.signer.headers("POST", url, headers, content))
        request = self.client.stream(
            "POST", url, content=content, headers=headers, timeout=model.timeout
        )

        async def exchange() -> httpx.Response:
            async with request as response:
                bound(response)
                await self._read(response)
                return response

        try:
            response = await contained(exchange)
        except _BROKEN as error:
            raise to_model_error(model, error) from error
        return self._answer(response)

    async def _read(self, response: httpx.Response) -> None:
        """Read a body that is not a stream.

        Raises:
            ModelTimeoutError: It comes too slowly.
        """
        model = self.model
        with suppress(ValueError):  # a transport may give an answer again whose text was read
            response.encoding = "utf-8"  # as JSON is; some encodings are not for text (`hex`)
        with anyio.move_on_after(PATIENCE * model.timeout) as timer:
            await response.aread()
        if timer.cancelled_caught:
            raise ModelTimeoutError(
                provider=model.provider, model=model.model, timeout=PATIENCE * model.timeout
            )

    async def _streamed(
        self, headers: dict[str, str], content: bytes, pieces: StreamedPieces
    ) -> object:
        model = self.model
        assembler = model.adapter.assembler(copy_model(model, api_key=self.key))
        assert assembler is not None
        url = model.adapter.stream_url(model)
        accept = {"accept": model.adapter.stream_type}
        headers = {**accept, **headers}
        if model.signer is not None:
            headers = dict(await model.signer.headers("POST", url, headers, content))
        request = self.client.stream(
            "POST",
            url,
            content=content,
            headers=headers,
            timeout=model.timeout,  # between two pieces, too
        )

        async def exchange() -> object:
            async with request as response:
                is_stream = response.is_success and _is_stream(model, response)
                bound(response, lines=is_stream and model.adapter.decoder(model) is None)
                if is_stream:
                    return await read_stream(model, response, assembler, pieces)
                await self._read(response)
            return self._answer(response)

        try:
            return await contained(exchange)
        except _BROKEN as error:
            raise pieces.failure(model, to_model_error(model, error)) from error
        except ModelError as error:
            failure = pieces.failure(model, error)
            if failure is error:
                raise
            raise failure from error

    def _answer(self, response: httpx.Response) -> object:
        """Return the JSON of an answer that is not a stream."""
        model = self.model
        if not response.is_success:
            raise error_from_response(
                model,
                response.status_code,
                response.headers,
                response.text,
                now=datetime.now(UTC),
                api_key=self.key,
            )
        try:
            body: object = tamed(response.json())
        except (ValueError, RecursionError) as error:
            kind = response.headers.get("content-type", "no content type")
            raise ModelResponseError(
                hide_keys(f"answered with something that is no JSON ({kind})", model, self.key),
                provider=model.provider,
                model=model.model,
                excerpt=hide_keys(response.text, model, self.key),
            ) from error
        failure = error_in_body(model, body, self.key)
        if failure is not None:
            raise failure
        return body


_HEADER_VALUE = re.compile(r"(?:[\x21-\x7e]+(?:[ \t]+[\x21-\x7e]+)*)?")


def _checked_headers(model: Model, key: str | None) -> dict[str, str]:
    # Checked here, since the HTTP library's own error would show the value.
    ours = {"content-type": "application/json", "accept-encoding": ACCEPTED}
    headers = {**ours, **model.adapter.headers(model, key)}
    for name, value in headers.items():
        if not _HEADER_VALUE.fullmatch(value):
            raise ConfigurationError(
                f"The header {name!r} of {model.provider} model {model.model!r} holds characters "
                "that HTTP cannot carry (its value is not shown here)."
            )
    return headers


def to_model_error(model: Model, error: Exception) -> ModelError:
    """Return an error of httpx as an error of ours."""
    where = {"provider": model.provider, "model": model.model}
    if isinstance(error, httpx.TimeoutException):
        return ModelTimeoutError(**where, timeout=model.timeout)
    if isinstance(error, httpx.DecodingError):
        return ModelResponseError(f"the answer could not be read: {error}", **where)
    return ModelConnectionError(
        f"could not reach {model.base_url}: "
        f"{hide_keys(str(error), model, None) or type(error).__name__}",
        **where,
    )


# --------------------------------------------------------------------------- streams


class StreamedPieces:
    """Forwards and stores the pieces of a reply: after the first, nothing is retried."""

    def __init__(self, sink: DeltaSink) -> None:
        self._sink = sink
        self._deltas: list[Delta] = []

    async def add(self, delta: Delta) -> None:
        """Forward a piece."""
        self._deltas.append(delta)
        await self._sink(delta)

    def failure(self, model: Model, error: ModelError) -> ModelError:
        """Return ``error`` for a caller who may have got the beginning of the reply."""
        if not self._deltas or isinstance(error, ModelStreamError):
            return error
        return self.broken(model, str(error))

    def broken(self, model: Model, reason: str) -> ModelStreamError:
        """Return the error of a stream that broke off, with the messages that had arrived."""
        return ModelStreamError(
            f"the stream broke off: {reason}",
            provider=model.provider,
            model=model.model,
            messages=partial_messages(self._deltas),
        )


def _is_stream(model: Model, response: httpx.Response) -> bool:
    # Some servers answer with a single JSON body all the same.
    kind = response.headers.get("content-type", "").partition(";")[0]
    return bool(kind.strip().lower() == model.adapter.stream_type)


async def _events(model: Model, response: httpx.Response) -> AsyncGenerator[tuple[str, str]]:
    """Yield the events of a stream: their kinds, where the format names them, and their data."""
    decoder = model.adapter.decoder(model)
    if decoder is None:
        async for event in httpx_sse.EventSource(response).aiter_sse():
            yield event.event, event.data
        return
    async for piece in response.aiter_bytes():
        for data in decoder.feed(piece):
            yield "", data


async def read_stream(
    model: Model, response: httpx.Response, assembler: Assembler, pieces: StreamedPieces
) -> object:
    """Read a stream of events to its end, passing the pieces on.

    Raises:
        ModelError: The stream ended too early, or holds an error.
    """
    # UTF-8 as the standard demands, whatever the header says; a byte order mark is skipped.
    response.encoding = "utf-8-sig"
    try:
        await _read_events(model, response, assembler, pieces)
    except httpx.RequestError as error:
        if assembler.whole:
            return assembler.finish()
        if isinstance(error, httpx.TimeoutException):
            raise to_model_error(model, error) from error
        raise pieces.broken(model, str(error) or type(error).__name__) from error
    if not assembler.whole:
        raise pieces.broken(model, "it ended before the reply did")
    return assembler.finish()


async def _read_events(
    model: Model, response: httpx.Response, assembler: Assembler, pieces: StreamedPieces
) -> None:
    # A connection that is read to its end can be used again, but the wait for it is bounded.
    patience = PATIENCE * model.timeout
    with anyio.CancelScope(deadline=anyio.current_time() + patience) as scope:
        async for kind, data in _events(model, response):
            if assembler.ended:
                continue
            deltas = assembler.feed(kind, data)
            if deltas:  # pings and the like do not count as progress
                scope.deadline = anyio.current_time() + patience
            for delta in deltas:
                await pieces.add(delta)
            if assembler.ended:
                scope.deadline = anyio.current_time() + _CLOSING
    if scope.cancelled_caught and not assembler.ended:
        raise ModelTimeoutError(provider=model.provider, model=model.model, timeout=patience)


# --------------------------------------------------------------------------- retries


async def with_retries(call: Callable[[], Awaitable[T]], model: Model, sleep: Sleep) -> T:
    """Call until it succeeds, fails for good, or the model's attempts are used up.

    Args:
        call: A coroutine function, or a `partial` of it: tenacity has to see that it is async.
        model: Its retry policy says how often and when.
        sleep: Waits between two attempts.

    Raises:
        ModelError: The last attempt's error, as it came.
    """
    policy = model.retry
    retrying = tenacity.AsyncRetrying(
        sleep=sleep,
        stop=tenacity.stop_after_attempt(policy.attempts),
        wait=_RetryWait(policy),
        retry=tenacity.retry_if_exception(lambda error: _may_succeed(error, policy)),
        reraise=True,
    )
    return await retrying(call)


class _RetryWait(tenacity.wait.wait_base):
    """The provider's ``Retry-After``, else exponential with jitter."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._backoff = tenacity.wait_random_exponential(
            multiplier=policy.min_wait, max=policy.max_wait
        )

    def __call__(self, retry_state: tenacity.RetryCallState) -> float:
        error = retry_state.outcome.exception() if retry_state.outcome else None
        asked = getattr(error, "retry_after", None)
        if asked is not None:
            return float(asked)
        return self._backoff(retry_state)


def _may_succeed(error: BaseException, policy: RetryPolicy) -> bool:
    if not isinstance(error, ModelError) or not error.retriable:
        return False
    if isinstance(error, ModelNotAskedError):
        return False  # a guard has waited as long as it may, or leaves the model alone
    asked = getattr(error, "retry_after", None)
    # Waiting longer than the user allows is worse than an error that says how long it would take.
    return asked is None or asked <= policy.max_wait


MOST_BYTES = 64 * 2**20
"""Bytes of an answer after decompression: long replies with several images have fewer."""

LONGEST_LINE = 32 * 2**20
"""Bytes of a line of a stream: an event with an image has fewer."""

PATIENCE = 5
"""Times the model's time-out that an answer may take which only shows life: comments and
pings of a stream, or a body that comes byte by byte."""

_AT_ONCE = 2**20
_ZLIB_OR_GZIP = 47
"""The window bits with which zlib detects a gzip or zlib header."""

ACCEPTED = "gzip, deflate"
"""The value of ``accept-encoding``: the encodings that can be decompressed piece by piece."""


class ReplyTooLargeError(httpx.DecodingError):
    """An answer exceeds a limit, or is compressed in a way that was not asked for."""


def bound(response: httpx.Response, *, lines: bool = False) -> None:
    """Limit the body of a response that is not yet read; it is decompressed here.

    Args:
        response: The response; reading it raises `ReplyTooLargeError` beyond a limit.
        lines: Limit each line, too.
    """
    encoding = response.headers.get("content-encoding", "").strip().lower()
    response.headers.pop("content-encoding", None)
    assert isinstance(response.stream, httpx.AsyncByteStream)
    response.stream = _Bounded(response.stream, encoding, lines=lines)


class _Bounded(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream, encoding: str, *, lines: bool) -> None:
        self._stream = stream
        self._encoding = encoding
        self._lines = lines
        self._size = 0
        self._line = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise ReplyTooLargeError(f"it is compressed with {self._encoding!r:.40}")
        unpack = None if self._encoding in ("", "identity") else _Unpacker(self._encoding)
        async for piece in self._stream:
            if unpack is None:
                self._count(piece)
                yield piece
                continue
            while piece:
                made, piece = unpack(piece)  # noqa: PLW2901 - the rest of it
                self._count(made)
                yield made

    def _count(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > MOST_BYTES:
            raise ReplyTooLargeError(f"it has more than {MOST_BYTES:,} bytes")
        if self._lines:
            first, *others = piece.replace(b"\r", b"\n").split(b"\n")
            longest = max(self._line + len(first), *map(len, others), 0)
            if longest > LONGEST_LINE:
                raise ReplyTooLargeError(f"a line has more than {LONGEST_LINE:,} bytes")
            self._line = len(others[-1]) if others else self._line + len(first)

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Unpacker:
    """Decompresses piece by piece, at most a mebibyte at once."""

    def __init__(self, encoding: str) -> None:
        self._inner = zlib.decompressobj(_ZLIB_OR_GZIP)
        self._may_be_raw = encoding == "deflate"

    def __call__(self, piece: bytes) -> tuple[bytes, bytes]:
        """Return the output, and the unread rest of the piece."""
        try:
            made = self._inner.decompress(piece, _AT_ONCE)
        except zlib.error as error:
            if not self._may_be_raw:
                raise httpx.DecodingError(str(error)) from error
            self._inner = zlib.decompressobj(-zlib.MAX_WBITS)  # some servers leave the header out
            self._may_be_raw = False
            return self(piece)
        self._may_be_raw = False
        return made, b"" if self._inner.eof else self._inner.unconsumed_tail
