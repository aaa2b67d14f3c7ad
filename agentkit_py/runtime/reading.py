"""Reading a streamed reply: from bytes to server-sent events, pieces, and the whole answer."""

from __future__ import annotations

import anyio
import httpx
import httpx_sse

from agentkit_py.errors import (
    ModelConnectionError,
    ModelError,
    ModelResponseError,
    ModelStreamError,
    ModelTimeoutError,
)
from agentkit_py.messages import Delta
from agentkit_py.models.base import Assembler, Model
from agentkit_py.models.replies import partial_messages
from agentkit_py.runtime.port import DeltaSink

_CLOSING = 0.25
"""Seconds that a server has for closing a stream after its end, so that the connection is kept."""


class Told:
    """Tells pieces on, and remembers them: once there are any, nothing may be tried again."""

    def __init__(self, sink: DeltaSink) -> None:
        """Nothing was told yet."""
        self._sink = sink
        self._deltas: list[Delta] = []

    async def tell(self, delta: Delta) -> None:
        """Tell one piece."""
        self._deltas.append(delta)
        await self._sink(delta)

    def failure(self, model: Model, error: ModelError) -> ModelError:
        """What ``error`` is for the caller, who may have been told the beginning of the reply."""
        if not self._deltas or isinstance(error, ModelStreamError):
            return error
        return self.broken(model, str(error))

    def broken(self, model: Model, why: str) -> ModelStreamError:
        """The error for a stream that broke off, with what had arrived."""
        return ModelStreamError(
            f"the stream broke off: {why}",
            provider=model.provider,
            model=model.model,
            messages=partial_messages(self._deltas),
        )


def is_stream(response: httpx.Response) -> bool:
    """Whether the answer is a stream; some servers answer with one piece of JSON all the same."""
    kind = response.headers.get("content-type", "").partition(";")[0]
    return bool(kind.strip().lower() == "text/event-stream")


async def read_reply(
    model: Model, response: httpx.Response, assembler: Assembler, told: Told
) -> object:
    """Read one stream to its end, telling the pieces on the way.

    Raises:
        ModelError: The stream ended too early, or holds an error.
    """
    response.encoding = "utf-8"  # what the standard says, whatever the header says
    try:
        await _read(response, assembler, told)
    except httpx.RequestError as error:
        if assembler.whole:
            return assembler.finish()
        if isinstance(error, httpx.TimeoutException):
            raise error_of_transport(model, error) from error
        raise told.broken(model, str(error) or type(error).__name__) from error
    if not assembler.whole:
        raise told.broken(model, "it ended before the reply did")
    return assembler.finish()


async def _read(response: httpx.Response, assembler: Assembler, told: Told) -> None:
    # A connection that is read to its end can be used again, but nobody waits for that long.
    with anyio.CancelScope() as scope:
        async for event in httpx_sse.EventSource(response).aiter_sse():
            if assembler.ended:
                continue
            for delta in assembler.feed(event.event, event.data):
                await told.tell(delta)
            if assembler.ended:
                scope.deadline = anyio.current_time() + _CLOSING


def error_of_transport(model: Model, error: Exception) -> ModelError:
    """An error of httpx as one of ours."""
    where = {"provider": model.provider, "model": model.model}
    if isinstance(error, httpx.TimeoutException):
        return ModelTimeoutError(**where, timeout=model.timeout)
    if isinstance(error, httpx.DecodingError):
        return ModelResponseError(f"the answer could not be read: {error}", **where)
    return ModelConnectionError(
        f"could not reach {model.base_url}: {error or type(error).__name__}", **where
    )
