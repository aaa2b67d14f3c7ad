"""Claude in clouds: the Messages API as AWS Bedrock and Google Vertex take it.

Both have the model in the URL and the API's version in the body. Vertex streams as Anthropic does,
Bedrock in AWS's binary event stream, which botocore cuts into events.

Source: docs.aws.amazon.com/bedrock, InvokeModelWithResponseStream and ResponseStream;
platform.claude.com/docs/en/build-with-claude, claude-on-amazon-bedrock and claude-on-vertex-ai; the
requests of Anthropic's and Amazon's own SDKs (November 2026). The versions are those that answer as
Anthropic's ``2023-06-01`` does, which still takes ``temperature``.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, ClassVar

from agentkit_py._core.json import as_object, dumps, loads_tamed
from agentkit_py._core.urls import in_path
from agentkit_py.models.anthropic import AnthropicAdapter
from agentkit_py.models.base import Adapter, Model, ModelRequest
from agentkit_py.models.capabilities import ANTHROPIC
from agentkit_py.models.http_errors import unexpected
from agentkit_py.models.replies import text_or_empty

BEDROCK = replace(
    ANTHROPIC,
    provider="bedrock",
    base_url="",
    key_variable="AWS_BEARER_TOKEN_BEDROCK",
    key_header="authorization",
    headers={"accept": "application/json"},
    media_links=False,
)
"""Bedrock's row; its API keys are bearer tokens."""

VERTEX_CLAUDE = replace(
    ANTHROPIC, provider="vertex", base_url="", key_variable="", headers={}, media_links=False
)


@dataclass(frozen=True, slots=True)
class BedrockAdapter(AnthropicAdapter):
    """The Messages API as InvokeModel takes it."""

    stream_type: ClassVar[str] = "application/vnd.amazon.eventstream"

    def url(self, model: Model) -> str:
        """Return the request's URL."""
        return f"{model.base_url}/model/{in_path(model.model)}/invoke"

    def stream_url(self, model: Model) -> str:
        """Return the URL of a request for a stream."""
        return f"{self.url(model)}-with-response-stream"

    def stream_body(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body: the URL asks for the stream."""
        return body

    def headers(self, model: Model, api_key: str | None) -> dict[str, str]:
        """Return the request's headers; betas are in the body."""
        return Adapter.headers(self, model, api_key)

    def encode(self, model: Model, request: ModelRequest) -> dict[str, Any]:
        """Return the body."""
        body = AnthropicAdapter.encode(self, model, request)
        del body["model"]
        betas = {"anthropic_beta": list(self.beta_headers)} if self.beta_headers else {}
        return {"anthropic_version": "bedrock-2023-05-31", **betas, **body}

    def decoder(self, model: Model) -> EventStreamDecoder:
        """Return the decoder of a stream."""
        return EventStreamDecoder(model)


@dataclass(frozen=True, slots=True)
class VertexClaudeAdapter(AnthropicAdapter):
    """The Messages API as Vertex's rawPredict takes it."""

    def url(self, model: Model) -> str:
        """Return the request's URL."""
        return f"{model.base_url}/models/{in_path(model.model, '@')}:rawPredict"

    def stream_url(self, model: Model) -> str:
        """Return the URL of a request for a stream."""
        return f"{model.base_url}/models/{in_path(model.model, '@')}:streamRawPredict"

    def encode(self, model: Model, request: ModelRequest) -> dict[str, Any]:
        """Return the body."""
        body = AnthropicAdapter.encode(self, model, request)
        del body["model"]
        return {"anthropic_version": "vertex-2023-10-16", **body}


class EventStreamDecoder:
    """Cuts AWS's event stream into the JSON events that are inside it."""

    def __init__(self, model: Model) -> None:
        self._model = model
        module = import_module("botocore.eventstream")
        self._buffer: Any = module.EventStreamBuffer()
        self._wrong: Any = (module.ParserError, ValueError, KeyError, IndexError)

    def feed(self, piece: bytes) -> Iterator[str]:
        """Take bytes as they arrive; yields the data of the events that are complete.

        Raises:
            ModelResponseError: The bytes are not an event stream.
        """
        self._buffer.add_data(piece)
        while (message := self._next()) is not None:
            yield self._event(message.headers, message.payload)

    def _next(self) -> Any:
        try:
            return next(self._buffer, None)
        except self._wrong as error:
            raise unexpected(
                self._model, str(error), "the answer is not an event stream"
            ) from error

    def _event(self, headers: dict[str, Any], payload: bytes) -> str:
        """Return the JSON of an event: the model's output, or an error in Anthropic's form."""
        try:
            found = as_object(loads_tamed(payload.decode())) or {}
            if headers.get(":message-type") == "event":
                return b64decode(text_or_empty(found.get("bytes"))).decode()
        except ValueError as error:
            raise unexpected(self._model, repr(payload[:200]), "an event is no JSON") from error
        kind = headers.get(":exception-type") or headers.get(":error-code") or "error"
        said = found.get("message") or headers.get(":error-message") or kind
        return dumps({"error": {"type": str(kind), "message": str(said)}})
