"""Google's Gemini API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agentkit_py._core.json import as_list, as_object
from agentkit_py.errors import ConfigurationError, ModelResponseError
from agentkit_py.messages import Message, ReasoningMessage, TextMessage, ToolCallMessage
from agentkit_py.models.arguments import parse_call
from agentkit_py.models.base import Model, ModelReply, ModelRequest, RetryPolicy, Usage
from agentkit_py.models.factory import build
from agentkit_py.models.gemini_body import encode_contents
from agentkit_py.models.gemini_ids import CallIds
from agentkit_py.models.reply import calls_last, checked_body, count, text_or_empty, unexpected
from agentkit_py.models.stream_gemini import GeminiAssembler

BASE_URL = "https://generativelanguage.googleapis.com/v1beta"

_IN_URL = re.compile(r"[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*")
_MALFORMED = "MALFORMED_FUNCTION_CALL"
_NO_FAULT = frozenset({"", "STOP", "MAX_TOKENS", "FINISH_REASON_UNSPECIFIED"})


@dataclass(frozen=True, slots=True)
class GeminiAdapter:
    """generateContent, with the key in ``x-goog-api-key``: URLs end up in logs."""

    provider: str = "gemini"
    key_variable: str = "GEMINI_API_KEY"

    def url(self, model: Model) -> str:
        """Where the request is sent."""
        return f"{_root(model)}:generateContent"

    def headers(self, model: Model, api_key: str | None) -> dict[str, str]:
        """The request's headers, the key among them."""
        key = {"x-goog-api-key": api_key} if api_key else {}
        return {"content-type": "application/json", **key, **model.extra_headers}

    def encode(self, model: Model, request: ModelRequest) -> dict[str, Any]:
        """The request's body, see `encode_contents`."""
        return encode_contents(model, request)

    def decode(self, model: Model, body: object) -> ModelReply:
        """The reply's messages: one per part, tool calls last, unknown parts left out.

        Raises:
            ModelResponseError: The request was blocked, the answer was stopped before it said
                anything, or the model wrote a call that is none.
        """
        found = checked_body(model, body)
        candidates = [as_object(item) or {} for item in as_list(found.get("candidates")) or []]
        if not candidates:
            raise _no_candidates(model, found)
        messages = calls_last(_messages(found, candidates))
        reason = text_or_empty(candidates[0].get("finishReason"))
        if reason == _MALFORMED or (not messages and reason not in _NO_FAULT):
            said = text_or_empty(candidates[0].get("finishMessage"))
            raise unexpected(model, body, f"the model stopped with {reason}. {said}".strip())
        return ModelReply(
            messages=_stopped(messages),
            usage=_usage(found.get("usageMetadata")),
            finish_reason=reason or None,
        )

    def stream_url(self, model: Model) -> str:
        """Where a request for a stream is sent; without ``alt=sse`` the answer is a JSON list."""
        return f"{_root(model)}:streamGenerateContent?alt=sse"

    def stream_body(self, body: dict[str, Any]) -> dict[str, Any]:
        """The body itself: Gemini asks for a stream by URL."""
        return body

    def assembler(self, model: Model) -> GeminiAssembler:
        """What puts one reply together."""
        return GeminiAssembler(model)


def _root(model: Model) -> str:
    path = model.model if "/" in model.model else f"models/{model.model}"
    return f"{model.base_url}/{path}"


def _no_candidates(model: Model, body: dict[str, Any]) -> ModelResponseError:
    feedback = as_object(body.get("promptFeedback")) or {}
    blocked = text_or_empty(feedback.get("blockReason"))
    if blocked:
        return unexpected(model, body, f"the prompt was blocked: {blocked}")
    return unexpected(model, body, "the answer has no candidates")


def _messages(body: dict[str, Any], candidates: list[dict[str, Any]]) -> list[Message]:
    ids = CallIds(text_or_empty(body.get("responseId")))
    result: list[Message] = []
    for candidate in candidates:
        content = as_object(candidate.get("content")) or {}
        for part in map(as_object, as_list(content.get("parts")) or []):
            message = None if part is None else _message(part, ids)
            if message is not None:
                result.append(message)
    return result


def _message(part: dict[str, Any], ids: CallIds) -> Message | None:
    signature = text_or_empty(part.get("thoughtSignature"))
    metadata = {"gemini": {"thoughtSignature": signature}} if signature else None
    call = as_object(part.get("functionCall"))
    if call is not None:
        name = text_or_empty(call.get("name"))
        if not name:
            return None
        call_id = text_or_empty(call.get("id")) or ids.take(name)
        return ToolCallMessage([parse_call(call_id, name, call.get("args"), metadata)])
    text = part.get("text")
    if not isinstance(text, str):
        return None
    if part.get("thought") is True:
        return ReasoningMessage(text, provider_metadata=metadata)
    return TextMessage("assistant", text, provider_metadata=metadata)


def _stopped(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Texts with a stop reason, which TypeScript leaves out: agents would never stop."""
    calls = any(isinstance(message, ToolCallMessage) for message in messages)
    return tuple(
        replace(message, stop_reason="tool" if calls else "stop")
        if isinstance(message, TextMessage)
        else message
        for message in messages
    )


def _usage(usage: object) -> Usage | None:
    if as_object(usage) is None:
        return None
    reasoning = count(usage, "thoughtsTokenCount")
    asked = count(usage, "promptTokenCount") + count(usage, "toolUsePromptTokenCount")
    answered = count(usage, "candidatesTokenCount") + reasoning
    return Usage(asked, answered, count(usage, "cachedContentTokenCount"), reasoning)


def gemini(
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
    """A Gemini model at Google.

    Args:
        model: The model's name, e.g. ``"gemini-2.5-flash"``.
        api_key: The key; None: the environment variable ``GEMINI_API_KEY``.
        base_url: Root of the API.
        default_parameters: Further members of the request's body, e.g. ``generationConfig``.
        headers: Sent with each request.
        timeout: Seconds to wait for an answer.
        retry: How failed calls are tried again.
        context_window: Tokens that prompt, history and answer may have together.

    Raises:
        ConfigurationError: A value cannot work.
    """
    if not isinstance(model, str) or _IN_URL.fullmatch(model) is None:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"model={model!r}: pass a name that can stand in a URL.")
    return build(
        GeminiAdapter(),
        model,
        base_url=BASE_URL if base_url is None else base_url,
        api_key=api_key,
        default_parameters=default_parameters,
        headers=headers,
        timeout=timeout,
        retry=retry,
        context_window=context_window,
    )
