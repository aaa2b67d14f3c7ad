"""Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentkit_py._core.json import as_list, as_object
from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Message, ReasoningMessage, TextMessage, ToolCallMessage
from agentkit_py.models.anthropic_body import DEFAULT_MAX_TOKENS, encode_messages
from agentkit_py.models.arguments import parse_call
from agentkit_py.models.base import Model, ModelReply, ModelRequest, RetryPolicy, Usage
from agentkit_py.models.factory import build
from agentkit_py.models.reply import calls_last, checked_body, count, text_or_empty, unexpected
from agentkit_py.models.stream_anthropic import AnthropicAssembler

BASE_URL = "https://api.anthropic.com/v1"
API_VERSION = "2023-06-01"


@dataclass(frozen=True, slots=True)
class AnthropicAdapter:
    """The Messages API, with the key in ``x-api-key``."""

    beta_headers: tuple[str, ...] = ()
    provider: str = "anthropic"
    key_variable: str = "ANTHROPIC_API_KEY"

    def url(self, model: Model) -> str:
        """Where the request is sent."""
        return f"{model.base_url}/messages"

    def headers(self, model: Model, api_key: str | None) -> dict[str, str]:
        """The request's headers, the key among them."""
        result = {"content-type": "application/json", "anthropic-version": API_VERSION}
        if api_key:
            result["x-api-key"] = api_key
        if self.beta_headers:
            result["anthropic-beta"] = ",".join(self.beta_headers)
        return {**result, **model.extra_headers}

    def encode(self, model: Model, request: ModelRequest) -> dict[str, Any]:
        """The request's body, see `encode_messages`."""
        return encode_messages(model, request)

    def decode(self, model: Model, body: object) -> ModelReply:
        """The reply's messages: one per block, tool calls last, unknown blocks left out.

        Thinking blocks are kept whole in `ReasoningMessage.provider_metadata`, since they are
        signed and must go back as they came.

        Raises:
            ModelResponseError: The answer is no message.
        """
        found = checked_body(model, body)
        if found.get("type", "message") != "message" or not {"type", "content"} & found.keys():
            raise unexpected(model, body, "the answer is no message")
        messages: list[Message] = []
        for block in map(as_object, as_list(found.get("content")) or []):
            message = None if block is None else _message(model, body, block)
            if message is not None:
                messages.append(message)
        return ModelReply(
            messages=calls_last(messages),
            usage=_usage(found.get("usage")),
            finish_reason=text_or_empty(found.get("stop_reason")) or None,
        )

    def stream_url(self, model: Model) -> str:
        """Where a request for a stream is sent."""
        return self.url(model)

    def stream_body(self, body: dict[str, Any]) -> dict[str, Any]:
        """The body as a request for a stream."""
        return {**body, "stream": True}

    def assembler(self, model: Model) -> AnthropicAssembler:
        """What puts one reply together."""
        return AnthropicAssembler(model)


def _message(model: Model, body: object, block: dict[str, Any]) -> Message | None:
    match block.get("type"):
        case "text":
            text = text_or_empty(block.get("text"))
            return TextMessage("assistant", text, stop_reason="stop")
        case "tool_use":
            name = text_or_empty(block.get("name"))
            if not name:
                raise unexpected(model, body, "a tool_use block names no tool")
            call_id = text_or_empty(block.get("id"))
            return ToolCallMessage([parse_call(call_id, name, block.get("input"))])
        case "thinking" | "redacted_thinking":
            text = text_or_empty(block.get("thinking"))
            return ReasoningMessage(text, provider_metadata={"anthropic": block})
        case _:
            return None


def _usage(usage: object) -> Usage | None:
    if as_object(usage) is None:
        return None
    # Anthropic counts what went through the cache beside the other input, we within it.
    cached = count(usage, "cache_read_input_tokens")
    written = count(usage, "cache_creation_input_tokens")
    asked = count(usage, "input_tokens") + cached + written
    return Usage(asked, count(usage, "output_tokens"), cached)


def anthropic(  # noqa: PLR0913 - options, all but one by name
    model: str,
    *,
    max_tokens: int = DEFAULT_MAX_TOKENS,
    beta_headers: Sequence[str] | None = None,
    api_key: str | None = None,
    base_url: str | None = None,
    default_parameters: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = 120.0,
    retry: RetryPolicy = RetryPolicy(),  # noqa: B008 - frozen
    context_window: int | None = None,
) -> Model:
    """A Claude model at Anthropic.

    Args:
        model: The model's name, e.g. ``"claude-sonnet-4-5"``.
        max_tokens: Length of an answer at the most; ``default_parameters`` may say otherwise.
        beta_headers: Betas to take part in, sent as ``anthropic-beta``.
        api_key: The key; None: the environment variable ``ANTHROPIC_API_KEY``.
        base_url: Root of the API.
        default_parameters: Merged into each request, over what the library puts there.
        headers: Sent with each request.
        timeout: Seconds to wait for an answer.
        retry: How failed calls are tried again.
        context_window: Tokens that prompt, history and answer may have together.

    Raises:
        ConfigurationError: A value cannot work.
    """
    if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"max_tokens={max_tokens!r}: pass tokens, 1 or more.")
    built = build(
        AnthropicAdapter(beta_headers=_checked_betas(beta_headers)),
        model,
        base_url=BASE_URL if base_url is None else base_url,
        api_key=api_key,
        default_parameters=default_parameters,
        headers=headers,
        timeout=timeout,
        retry=retry,
        context_window=context_window,
    )
    return built.with_parameters(**{"max_tokens": max_tokens, **built.default_parameters})


def _checked_betas(beta_headers: Sequence[str] | None) -> tuple[str, ...]:
    if beta_headers is None:
        return ()
    if isinstance(beta_headers, str) or not all(
        isinstance(name, str) and name and "," not in name and name.isascii() and name.isprintable()  # pyright: ignore[reportUnnecessaryIsInstance]
        for name in beta_headers
    ):
        raise ConfigurationError(f"beta_headers={beta_headers!r}: pass a list of names.")
    return tuple(beta_headers)
