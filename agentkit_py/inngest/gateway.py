"""Model calls through Inngest's AI gateway (``step.ai.infer``), and errors of steps as ours."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import inngest

from agentkit_py.codec import message_from_dict, message_to_dict
from agentkit_py.errors import (
    AuthenticationError,
    BadRequestError,
    ContextOverflowError,
    ModelConnectionError,
    ModelError,
    ModelHTTPError,
    ModelResponseError,
    ModelStreamError,
    ModelTimeoutError,
    ProviderUnavailableError,
    RateLimitError,
)
from agentkit_py.models.base import Model
from agentkit_py.models.http_errors import error_from_response

_FORMATS = {"anthropic": "anthropic", "gemini": "gemini"}
"""The gateway's formats; what it does not know it treats as OpenAI with a Bearer key."""


@dataclass(frozen=True, slots=True)
class GatewayAdapter:
    """One of our models in the shape of `inngest.experimental.ai.BaseAdapter`."""

    model: Model
    key: str

    def auth_key(self) -> str:
        """Return the API key: with ``inference="offload"`` it goes through the Inngest server."""
        return self.key

    def format(self) -> str:
        """Return the format by which the gateway authenticates."""
        return _FORMATS.get(self.model.provider, "openai-chat")

    def headers(self) -> dict[str, str]:
        """Return our headers but those that the gateway adds itself."""
        headers = self.model.adapter.headers(self.model, self.key or None)
        added = {"authorization", "x-api-key", "x-goog-api-key", "content-type"}
        return {name: value for name, value in headers.items() if name.lower() not in added}

    def on_call(self, body: dict[str, object]) -> None:
        """Change nothing: the body is complete."""

    def url_infer(self) -> str:
        """Return the address that the gateway sends the request to."""
        return self.model.adapter.url(self.model)


_STATUS = re.compile(r"(?:status code:?|HTTP)\s*(\d{3})")
_TYPES: dict[str, type[ModelHTTPError]] = {
    cls.__name__: cls
    for cls in (
        AuthenticationError,
        BadRequestError,
        ContextOverflowError,
        RateLimitError,
        ProviderUnavailableError,
    )
}


def to_model_error(model: Model, error: inngest.StepError) -> ModelError:
    """Return the error of ours that a failed inference step stands for.

    The gateway says the status in its message and the provider's body only in the stack's text.
    """
    where: dict[str, Any] = {"provider": model.provider, "model": model.model}
    status = _STATUS.search(error.message or "")
    if error.name == "ModelTimeoutError":
        return ModelTimeoutError(**where, timeout=model.timeout)
    if status is not None and error.name in _TYPES:
        return _TYPES[error.name](_detail(error), **where, status=int(status[1]))
    if status is not None:
        return error_from_response(model, int(status[1]), {}, error.stack or error.message or "")
    if error.name == "ModelResponseError":
        return ModelResponseError(_detail(error), **where)
    return ModelConnectionError(f"the model call failed: {_detail(error)}", **where)


def _detail(error: inngest.StepError) -> str:
    return (error.message or error.name)[:2000]


def model_error_to_json(error: ModelError) -> dict[str, Any]:
    """Return a model error that must not be tried again, as a step's output."""
    return {
        "name": type(error).__name__,
        "message": error.args[0] if error.args else "",
        "status": getattr(error, "status", None),
        "detail": getattr(error, "detail", None),
        "request_id": getattr(error, "request_id", None),
        "excerpt": getattr(error, "excerpt", ""),
        "messages": [message_to_dict(message) for message in getattr(error, "messages", ())],
    }


def model_error_from_json(model: Model, record: dict[str, Any]) -> ModelError:
    """Return the model error that a step recorded."""
    where: dict[str, Any] = {"provider": model.provider, "model": model.model}
    kind = _TYPES.get(record["name"])
    if kind is not None and isinstance(record.get("status"), int):
        where.update(status=record["status"], request_id=record.get("request_id"))
        return kind(record.get("detail") or "", **where)
    message = str(record.get("message", "")).removeprefix(
        f"{model.provider} model {model.model!r}: "
    )
    if record["name"] == "ModelStreamError":
        partial = [message_from_dict(one) for one in record.get("messages", ())]
        return ModelStreamError(message, **where, messages=partial)
    if record["name"] == "ModelResponseError":
        return ModelResponseError(message, **where, excerpt=record.get("excerpt") or "")
    return ModelError(message, **where)
