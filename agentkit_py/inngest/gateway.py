"""Model calls through Inngest's AI gateway (``step.ai.infer``), and errors of steps as ours."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import inngest

from agentkit_py.errors import (
    ModelConnectionError,
    ModelError,
    ModelResponseError,
    ModelTimeoutError,
)
from agentkit_py.models.base import Model
from agentkit_py.models.http_errors import error_from_response
from agentkit_py.runtime.recorded import MODEL_HTTP_ERRORS

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


def error_of_step(model: Model, error: inngest.StepError) -> ModelError:
    """Return the error of ours that a failed inference step stands for.

    The gateway says the status in its message and the provider's body only in the stack's text.
    """
    where: dict[str, Any] = {"provider": model.provider, "model": model.model}
    status = _STATUS.search(error.message or "")
    if error.name == "ModelTimeoutError":
        return ModelTimeoutError(**where, timeout=model.timeout)
    if status is not None and error.name in MODEL_HTTP_ERRORS:
        return MODEL_HTTP_ERRORS[error.name](_detail(error), **where, status=int(status[1]))
    if status is not None:
        return error_from_response(model, int(status[1]), {}, error.stack or error.message or "")
    if error.name == "ModelResponseError":
        return ModelResponseError(_detail(error), **where)
    return ModelConnectionError(f"the model call failed: {_detail(error)}", **where)


def _detail(error: inngest.StepError) -> str:
    return (error.message or error.name)[:2000]


def usage_to_show(model: Model, body: object) -> dict[str, Any]:
    """Return the tokens of a reply as the Inngest server shows them with a step, and their cost.

    It knows no others than those of a reply as the Vercel AI SDK writes it
    (inngest/pkg/tracing/metadata/extractors/ai.go).
    """
    try:
        usage = model.decode(body).usage
    except ModelError:
        usage = None
    if usage is None:
        return {}
    tokens = {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.input_tokens + usage.output_tokens,
    }
    return {"totalUsage": tokens, "steps": [{"request": {"body": {"model": model.model}}}]}
