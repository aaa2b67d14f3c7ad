"""One request to a model over HTTP: retries, streams, and errors of httpx as ours."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, TypeAlias, TypeVar

import anyio
import httpx
import httpx_sse
import tenacity

from agentkit_py._core.json import dumps
from agentkit_py.errors import (
    ConfigurationError,
    ModelConnectionError,
    ModelError,
    ModelHTTPError,
    ModelResponseError,
    ModelStreamError,
    ModelTimeoutError,
)
from agentkit_py.messages import Delta
from agentkit_py.models.base import Assembler, Model, RetryPolicy
from agentkit_py.models.http_errors import error_from_response, error_in_body, hide_keys
from agentkit_py.models.replies import partial_messages
from agentkit_py.runtime.port import DeltaSink

T = TypeVar("T")
Sleep: TypeAlias = Callable[[float], Awaitable[None]]
"""Waits for so many seconds."""

_CLOSING = 0.25
"""Seconds that a server has for closing a stream after its end, so that the connection is kept."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
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
            content = dumps(make_body()).encode()
            return await with_retries(lambda: self._whole(headers, content), model, self.sleep)
        content = dumps(model.adapter.stream_body(make_body())).encode()
        pieces = StreamedPieces(on_delta)
        return await with_retries(
            lambda: self._streamed(headers, content, pieces), model, self.sleep
        )

    async def _whole(self, headers: dict[str, str], content: bytes) -> object:
        model = self.model
        url = model.adapter.url(model)
        try:
            response = await self.client.post(
                url, content=content, headers=headers, timeout=model.timeout
            )
        except (httpx.RequestError, httpx.InvalidURL) as error:
            raise to_model_error(model, error) from error
        return self._answer(response)

    async def _streamed(
        self, headers: dict[str, str], content: bytes, pieces: StreamedPieces
    ) -> object:
        model = self.model
        assembler = model.adapter.assembler(copy_model(model, api_key=self.key))
        assert assembler is not None
        request = self.client.stream(
            "POST",
            model.adapter.stream_url(model),
            content=content,
            headers={**headers, "accept": "text/event-stream"},
            timeout=model.timeout,  # between two pieces, too
        )
        try:
            async with request as response:
                if response.is_success and _is_stream(response):
                    return await read_stream(model, response, assembler, pieces)
                await response.aread()
        except (httpx.RequestError, httpx.InvalidURL) as error:
            raise to_model_error(model, error) from error
        except ModelError as error:
            failure = pieces.failure(model, error)
            if failure is error:
                raise
            raise failure from error
        return self._answer(response)

    def _answer(self, response: httpx.Response) -> object:
        """Return the JSON of an answer that is no stream."""
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
            body: object = response.json()
        except (ValueError, RecursionError) as error:
            kind = response.headers.get("content-type", "no content type")
            raise ModelResponseError(
                hide_keys(f"answered with something that is no JSON ({kind})", model, self.key),
                provider=model.provider,
                model=model.model,
                excerpt=hide_keys(response.text, model, self.key),
            ) from error
        failure = error_in_body(copy_model(model, api_key=self.key), body)
        if failure is not None:
            raise failure
        return body


def copy_model(model: Model, **changes: Any) -> Model:
    """Return the model with other settings, as a plain `Model` whatever its class is."""
    known: dict[str, Any] = {field.name: getattr(model, field.name) for field in fields(Model)}
    return Model(**{**known, **changes})


_HEADER_VALUE = re.compile(r"(?:[\x21-\x7e]+(?:[ \t]+[\x21-\x7e]+)*)?")


def _checked_headers(model: Model, key: str | None) -> dict[str, str]:
    # Checked here, since the HTTP library's own error would show the value.
    headers = {"content-type": "application/json", **model.adapter.headers(model, key)}
    for name, value in headers.items():
        if not _HEADER_VALUE.fullmatch(value):
            raise ConfigurationError(
                f"The header {name!r} of {model.provider} model {model.model!r} holds characters "
                "that HTTP cannot carry (its value is not shown here)."
            )
    return headers


def to_model_error(model: Model, error: Exception) -> ModelError:
    """Return an error of httpx as one of ours."""
    where = {"provider": model.provider, "model": model.model}
    if isinstance(error, httpx.TimeoutException):
        return ModelTimeoutError(**where, timeout=model.timeout)
    if isinstance(error, httpx.DecodingError):
        return ModelResponseError(f"the answer could not be read: {error}", **where)
    return ModelConnectionError(
        f"could not reach {model.base_url}: {error or type(error).__name__}", **where
    )


# --------------------------------------------------------------------------- streams


class StreamedPieces:
    """Passes the pieces of a reply on and keeps them: after the first one nothing is retried."""

    def __init__(self, sink: DeltaSink) -> None:
        self._sink = sink
        self._deltas: list[Delta] = []

    async def add(self, delta: Delta) -> None:
        """Pass one piece on."""
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


def _is_stream(response: httpx.Response) -> bool:
    # Some servers answer with one piece of JSON all the same.
    kind = response.headers.get("content-type", "").partition(";")[0]
    return bool(kind.strip().lower() == "text/event-stream")


async def read_stream(
    model: Model, response: httpx.Response, assembler: Assembler, pieces: StreamedPieces
) -> object:
    """Read a stream of server-sent events to its end, passing the pieces on.

    Raises:
        ModelError: The stream ended too early, or holds an error.
    """
    response.encoding = "utf-8"  # as the standard demands, whatever the header says
    try:
        await _read_events(response, assembler, pieces)
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
    response: httpx.Response, assembler: Assembler, pieces: StreamedPieces
) -> None:
    # A connection that is read to its end can be used again, but nobody waits for that long.
    with anyio.CancelScope() as scope:
        async for event in httpx_sse.EventSource(response).aiter_sse():
            if assembler.ended:
                continue
            for delta in assembler.feed(event.event, event.data):
                await pieces.add(delta)
            if assembler.ended:
                scope.deadline = anyio.current_time() + _CLOSING


# --------------------------------------------------------------------------- retries


async def with_retries(call: Callable[[], Awaitable[T]], model: Model, sleep: Sleep) -> T:
    """Call until it succeeds, fails for good, or the model's attempts are used up.

    Raises:
        ModelError: The last attempt's error, as it came.
    """
    policy = model.retry
    retrying = tenacity.AsyncRetrying(
        sleep=sleep,
        stop=tenacity.stop_after_attempt(policy.attempts),
        wait=_Wait(policy),
        retry=tenacity.retry_if_exception(lambda error: _may_succeed(error, policy)),
        reraise=True,
    )

    async def attempt() -> T:  # tenacity awaits what it can see to be a coroutine function
        return await call()

    return await retrying(attempt)


class _Wait(tenacity.wait.wait_base):
    """The provider's ``Retry-After``, else exponential with jitter."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._backoff = tenacity.wait_random_exponential(
            multiplier=policy.min_wait, max=policy.max_wait
        )

    def __call__(self, retry_state: tenacity.RetryCallState) -> float:
        error = retry_state.outcome.exception() if retry_state.outcome else None
        if isinstance(error, ModelHTTPError) and error.retry_after is not None:
            return error.retry_after
        return self._backoff(retry_state)


def _may_succeed(error: BaseException, policy: RetryPolicy) -> bool:
    if not isinstance(error, ModelError) or not error.retriable:
        return False
    asked = error.retry_after if isinstance(error, ModelHTTPError) else None
    # Waiting longer than the user allows is worse than an error that says how long it would take.
    return asked is None or asked <= policy.max_wait
