"""Grok: xAI's API in OpenAI's format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentkit_py.models.base import Model, ModelReply, ModelRequest, RetryPolicy
from agentkit_py.models.chat import decode_chat, encode_chat
from agentkit_py.models.factory import build
from agentkit_py.models.media import grok_part
from agentkit_py.models.stream_chat import ChatAssembler, chat_stream_body

BASE_URL = "https://api.x.ai/v1"


@dataclass(frozen=True, slots=True)
class GrokAdapter:
    """Chat completions without strict schemas; messages without text are left out."""

    provider: str = "grok"
    key_variable: str = "XAI_API_KEY"

    def url(self, model: Model) -> str:
        """Where the request is sent."""
        return f"{model.base_url}/chat/completions"

    def headers(self, model: Model, api_key: str | None) -> dict[str, str]:
        """The request's headers, the key among them."""
        key = {"authorization": f"Bearer {api_key}"} if api_key else {}
        return {"content-type": "application/json", **key, **model.extra_headers}

    def encode(self, model: Model, request: ModelRequest) -> dict[str, Any]:
        """The request's body, see `encode_chat`.

        xAI answers 400 to messages without text ("Each message must have at least one content
        element").
        """
        return encode_chat(model, request, strict=False, refuses_empty=True, media=grok_part)

    def decode(self, model: Model, body: object) -> ModelReply:
        """The reply's messages, see `decode_chat`."""
        return decode_chat(model, body)

    def stream_url(self, model: Model) -> str:
        """Where a request for a stream is sent."""
        return self.url(model)

    def stream_body(self, body: dict[str, Any]) -> dict[str, Any]:
        """The body as a request for a stream."""
        return chat_stream_body(body)

    def assembler(self, model: Model) -> ChatAssembler:
        """What puts one reply together."""
        return ChatAssembler(model)


def grok(
    model: str,
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    default_parameters: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = 120.0,
    retry: RetryPolicy = RetryPolicy(),  # noqa: B008 - frozen
    context_window: int | None = None,
) -> Model:
    """A Grok model at xAI.

    Args:
        model: The model's name, e.g. ``"grok-4"``.
        api_key: The key; None: the environment variable ``XAI_API_KEY``.
        base_url: Root of the API.
        default_parameters: Merged into each request, over what the library puts there.
        headers: Sent with each request.
        timeout: Seconds to wait for an answer.
        retry: How failed calls are tried again.
        context_window: Tokens that prompt, history and answer may have together.

    Raises:
        ConfigurationError: A value cannot work.
    """
    return build(
        GrokAdapter(),
        model,
        base_url=BASE_URL if base_url is None else base_url,
        api_key=api_key,
        default_parameters=default_parameters,
        headers=headers,
        timeout=timeout,
        retry=retry,
        context_window=context_window,
        key_required=base_url is None,
    )
