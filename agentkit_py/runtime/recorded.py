"""The record of a step's work, and its reading in a replay."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from agentkit_py._core.json import dumps
from agentkit_py.codec import message_from_dict, message_to_dict
from agentkit_py.errors import (
    AuthenticationError,
    BadRequestError,
    ContextOverflowError,
    ModelConnectionError,
    ModelError,
    ModelHTTPError,
    ModelNotAskedError,
    ModelResponseError,
    ModelStreamError,
    ModelTimeoutError,
    ProviderUnavailableError,
    QuotaExceededError,
    RateLimitError,
)
from agentkit_py.messages import Delta, ReasoningDelta, TextDelta, ToolCallDelta
from agentkit_py.models.base import Model
from agentkit_py.runtime.port import Codec, DeltaSink

T = TypeVar("T")

MAX_INLINE = 256 * 1024
"""Bytes of a loaded thread that are kept in a step's output; longer ones are read again."""

MODEL_HTTP_ERRORS: dict[str, type[ModelHTTPError]] = {
    cls.__name__: cls
    for cls in (
        AuthenticationError,
        BadRequestError,
        ContextOverflowError,
        RateLimitError,
        QuotaExceededError,
        ProviderUnavailableError,
    )
}
"""Errors of model calls with a status, by name."""


def to_output(value: T, codec: Codec[T] | None) -> dict[str, Any]:
    """Return the stored form of ``value``: itself, or a reference."""
    if codec is None:
        return {"value": value}
    dumped = codec.dump(value)
    if len(dumps(dumped).encode()) > MAX_INLINE:
        return {"cursor": codec.cursor(value)}
    return {"value": dumped}


def model_error_to_json(error: ModelError) -> dict[str, Any]:
    """Return a model error that must not be tried again, as a step's output."""
    return {
        "name": type(error).__name__,
        "message": error.args[0] if error.args else "",
        "status": getattr(error, "status", None),
        "detail": getattr(error, "detail", None),
        "request_id": getattr(error, "request_id", None),
        "retriable": error.retriable,
        "excerpt": getattr(error, "excerpt", ""),
        "seconds": getattr(error, "timeout", getattr(error, "retry_after", None)),
        "messages": [message_to_dict(message) for message in getattr(error, "messages", ())],
    }


def model_error_from_json(model: Model, record: dict[str, Any]) -> ModelError:
    """Return the model error that a step recorded."""
    where: dict[str, Any] = {"provider": model.provider, "model": model.model}
    kind = MODEL_HTTP_ERRORS.get(record["name"])
    if kind is not None and isinstance(record.get("status"), int):
        where.update(status=record["status"], request_id=record.get("request_id"))
        error = kind(record.get("detail") or "", **where)
        error.retriable = bool(record.get("retriable", error.retriable))
        return error
    message = str(record.get("message", "")).removeprefix(
        f"{model.provider} model {model.model!r}: "
    )
    seconds = record.get("seconds") or 0.0
    if record["name"] == "ModelTimeoutError":
        return ModelTimeoutError(**where, timeout=seconds or model.timeout)
    if record["name"] == "ModelNotAskedError":
        reason = message.removeprefix("not asked: ")
        return ModelNotAskedError(reason, **where, retry_after=seconds)
    if record["name"] == "ModelConnectionError":
        return ModelConnectionError(message, **where)
    if record["name"] == "ModelStreamError":
        partial = [message_from_dict(one) for one in record.get("messages", ())]
        return ModelStreamError(message, **where, messages=partial)
    if record["name"] == "ModelResponseError":
        return ModelResponseError(message, **where, excerpt=record.get("excerpt") or "")
    return ModelError(message, **where)


class DeltaLog:
    """Passes the pieces of a streamed reply on, and counts them for replays.

    A step keeps how many pieces of which kind there were; a replay skips them.
    """

    def __init__(self, sink: DeltaSink) -> None:
        self._sink = sink
        self.rows: list[list[Any]] = []
        """``[kind, index, id, name, whether it had text, count]`` of each row of equal pieces."""

    async def __call__(self, delta: Delta, /) -> None:
        """Pass a piece on."""
        await self._sink(delta)
        identity, name = getattr(delta, "id", ""), getattr(delta, "name", "")
        head = [type(delta).__name__, delta.index, identity, name, bool(delta.delta)]
        if self.rows and self.rows[-1][:-1] == head:
            self.rows[-1][-1] += 1
        else:
            self.rows.append([*head, 1])

    async def skip(self, delta: Delta, count: int, /) -> None:
        """Count pieces that were passed on before."""
        await self._sink.skip(delta, count)

    def noting(self) -> AbstractAsyncContextManager[None]:
        """Note the pieces that are passed on in the block."""
        return self._sink.noting()

    async def replay(self, rows: list[list[Any]]) -> None:
        """Count the values that were forwarded when the step ran."""
        for kind, index, identity, name, had_text, count in rows:
            text = "…" if had_text else ""
            if kind == "ToolCallDelta":
                delta: Delta = ToolCallDelta(index, identity, name, text)
            else:
                delta = (TextDelta if kind == "TextDelta" else ReasoningDelta)(index, text)
            await self._sink.skip(delta, count)
