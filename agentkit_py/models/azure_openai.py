"""Azure OpenAI: OpenAI's format at a deployment of one's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentkit_py.errors import ConfigurationError
from agentkit_py.models.base import Model, ModelReply, ModelRequest, RetryPolicy
from agentkit_py.models.chat import decode_chat, encode_chat
from agentkit_py.models.factory import build, checked_url
from agentkit_py.models.stream_chat import ChatAssembler, chat_stream_body

API_VERSION = "2024-10-21"
"""The newest version of the data plane API that is generally available and dated."""

_MAX_DESCRIPTION = 1024
_IN_URL = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class AzureOpenAIAdapter:
    """Chat completions of one deployment, with the key in ``api-key``."""

    deployment: str
    api_version: str
    stream_usage: bool = True
    provider: str = "azure-openai"
    key_variable: str = "AZURE_OPENAI_API_KEY"

    def url(self, model: Model) -> str:
        """Where the request is sent."""
        path = f"openai/deployments/{self.deployment}/chat/completions"
        return f"{model.base_url}/{path}?api-version={self.api_version}"

    def headers(self, model: Model, api_key: str | None) -> dict[str, str]:
        """The request's headers, the key among them."""
        key = {"api-key": api_key} if api_key else {}
        return {"content-type": "application/json", **key, **model.extra_headers}

    def encode(self, model: Model, request: ModelRequest) -> dict[str, Any]:
        """The request's body, see `encode_chat`."""
        return encode_chat(model, request, max_description=_MAX_DESCRIPTION)

    def decode(self, model: Model, body: object) -> ModelReply:
        """The reply's messages, see `decode_chat`."""
        return decode_chat(model, body)

    def stream_url(self, model: Model) -> str:
        """Where a request for a stream is sent."""
        return self.url(model)

    def stream_body(self, body: dict[str, Any]) -> dict[str, Any]:
        """The body as a request for a stream."""
        return chat_stream_body(body, usage=self.stream_usage)

    def assembler(self, model: Model) -> ChatAssembler:
        """What puts one reply together."""
        return ChatAssembler(model)


def azure_openai(  # noqa: PLR0913 - options, all but one by name
    model: str,
    *,
    endpoint: str,
    deployment: str | None = None,
    api_version: str = API_VERSION,
    api_key: str | None = None,
    default_parameters: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = 120.0,
    retry: RetryPolicy = RetryPolicy(),  # noqa: B008 - frozen
    context_window: int | None = None,
    stream_usage: bool = True,
) -> Model:
    """A model at Azure OpenAI.

    Args:
        model: The model's name, e.g. ``"gpt-4o"``; it tells what the deployment can do.
        endpoint: The resource's root, e.g. ``"https://my-resource.openai.azure.com"``.
        deployment: The deployment's name; None: the same as the model's.
        api_version: Version of the API.
        api_key: The key; None: the environment variable ``AZURE_OPENAI_API_KEY``.
        default_parameters: Merged into each request, over what the library puts there.
        headers: Sent with each request.
        timeout: Seconds to wait for an answer.
        retry: How failed calls are tried again.
        context_window: Tokens that prompt, history and answer may have together.
        stream_usage: Whether streams are asked for their usage (``stream_options``), which
            versions of the API before 2024-09-01-preview refuse.

    Raises:
        ConfigurationError: A value cannot work.
    """
    adapter = AzureOpenAIAdapter(
        deployment=_in_url("deployment", model if deployment is None else deployment),
        api_version=_in_url("api_version", api_version),
        stream_usage=stream_usage,
    )
    return build(
        adapter,
        model,
        base_url=checked_url("endpoint", endpoint),
        api_key=api_key,
        default_parameters=default_parameters,
        headers=headers,
        timeout=timeout,
        retry=retry,
        context_window=context_window,
    )


def _in_url(argument: str, value: object) -> str:
    if not isinstance(value, str) or _IN_URL.fullmatch(value) is None:
        raise ConfigurationError(
            f"{argument}={value!r}: pass letters, digits, dots, dashes and underscores only."
        )
    return value
