"""OpenAI's Responses API: tools together with reasoning, which chat completions refuse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentkit_py._core.json import as_list, as_object
from agentkit_py.messages import (
    Message,
    ReasoningMessage,
    StopReason,
    TextMessage,
    ToolCallMessage,
)
from agentkit_py.models.arguments import parse_call
from agentkit_py.models.base import Model, ModelReply, ModelRequest, RetryPolicy, Usage
from agentkit_py.models.factory import build
from agentkit_py.models.openai_responses_body import PROVIDER, encode_responses, reasons
from agentkit_py.models.reply import calls_last, checked_body, count, text_or_empty, unexpected
from agentkit_py.models.stream_responses import SUMMARY_GAP, ResponsesAssembler

BASE_URL = "https://api.openai.com/v1"

_ANSWERS = frozenset({"completed", "incomplete", ""})


@dataclass(frozen=True, slots=True)
class OpenAIResponsesAdapter:
    """The Responses API with strict schemas and a bearer token."""

    keep_reasoning: bool | None = None
    """Whether reasoning is kept and sent back; None: if the model's name says that it reasons."""

    provider: str = PROVIDER
    key_variable: str = "OPENAI_API_KEY"

    def url(self, model: Model) -> str:
        """Where the request is sent."""
        return f"{model.base_url}/responses"

    def headers(self, model: Model, api_key: str | None) -> dict[str, str]:
        """The request's headers, the key among them."""
        key = {"authorization": f"Bearer {api_key}"} if api_key else {}
        return {"content-type": "application/json", **key, **model.extra_headers}

    def encode(self, model: Model, request: ModelRequest) -> dict[str, Any]:
        """The request's body, see `encode_responses`."""
        keep = reasons(model.model) if self.keep_reasoning is None else self.keep_reasoning
        return encode_responses(model, request, keep_reasoning=keep)

    def decode(self, model: Model, body: object) -> ModelReply:
        """The reply's messages: one per item, tool calls last, unknown items left out.

        Reasoning items are kept whole in `ReasoningMessage.provider_metadata`, and what they led
        to names them, since the one is refused without the other.

        Raises:
            ModelResponseError: The response failed, or was stopped before it said anything.
        """
        found = checked_body(model, body)
        items = as_list(found.get("output"))
        status = text_or_empty(found.get("status"))
        if items is None or status not in _ANSWERS:
            raise unexpected(model, body, f"the answer is no finished response: {status or '-'}")
        details = as_object(found.get("incomplete_details")) or {}
        reason = text_or_empty(details.get("reason"))
        messages = calls_last(_messages(model, body, items))
        if status == "incomplete" and all(message.type == "reasoning" for message in messages):
            raise unexpected(model, body, f"the model was stopped before it answered: {reason}")
        return ModelReply(
            messages=messages,
            usage=_usage(found.get("usage")),
            finish_reason=reason or status or None,
        )

    def stream_url(self, model: Model) -> str:
        """Where a request for a stream is sent."""
        return self.url(model)

    def stream_body(self, body: dict[str, Any]) -> dict[str, Any]:
        """The body as a request for a stream; its last event brings the usage."""
        return {**body, "stream": True}

    def assembler(self, model: Model) -> ResponsesAssembler:
        """What puts one reply together."""
        return ResponsesAssembler(model)


def _messages(model: Model, body: object, items: list[Any]) -> list[Message]:
    found = [item for item in map(as_object, items) if item is not None]
    calls = any(item.get("type") == "function_call" for item in found)
    result: list[Message] = []
    before: list[str] = []
    for item in found:
        match item.get("type"):
            case "reasoning":
                result.append(_reasoning(item))
                before.append(text_or_empty(item.get("id")))
                continue
            case "message":
                result += _text(item, before, "tool" if calls else "stop")
            case "function_call":
                result.append(_call(model, body, item, before))
            case _:
                pass  # what the server's own tools did; reasoning that led to it cannot go back
        before = []
    return result


def _reasoning(item: dict[str, Any]) -> ReasoningMessage:
    # Models whose reasoning is open say it in `content`, the others sum it up.
    parts = as_list(item.get("summary")) or as_list(item.get("content")) or []
    said = [text_or_empty((as_object(part) or {}).get("text")) for part in parts]
    return ReasoningMessage(SUMMARY_GAP.join(said), provider_metadata={PROVIDER: item})


def _text(item: dict[str, Any], before: list[str], stop: StopReason) -> list[Message]:
    parts = [as_object(part) or {} for part in as_list(item.get("content")) or []]
    said = [text_or_empty(p.get("text")) or text_or_empty(p.get("refusal")) for p in parts]
    text = "".join(said)
    if not text.strip():
        return []
    phase = {"phase": item["phase"]} if isinstance(item.get("phase"), str) else {}
    metadata = _metadata(item, before, phase)
    return [TextMessage("assistant", text, stop_reason=stop, provider_metadata=metadata)]


def _call(model: Model, body: object, item: dict[str, Any], before: list[str]) -> ToolCallMessage:
    name = text_or_empty(item.get("name"))
    if not name:
        raise unexpected(model, body, "a function call names no function")
    call_id = text_or_empty(item.get("call_id"))
    metadata = _metadata(item, before, {})
    return ToolCallMessage([parse_call(call_id, name, item.get("arguments"), metadata)])


def _metadata(
    item: dict[str, Any], before: list[str], more: dict[str, Any]
) -> dict[str, Any] | None:
    own = {**more, "id": item.get("id"), "reasoning": before} if before else more
    return {PROVIDER: own} if own else None


def _usage(usage: object) -> Usage | None:
    if as_object(usage) is None:
        return None
    return Usage(
        count(usage, "input_tokens"),
        count(usage, "output_tokens"),
        count(usage, "input_tokens_details", "cached_tokens"),
        count(usage, "output_tokens_details", "reasoning_tokens"),
    )


def openai_responses(  # noqa: PLR0913 - options, all but one by name
    model: str,
    *,
    keep_reasoning: bool | None = None,
    api_key: str | None = None,
    base_url: str | None = None,
    default_parameters: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = 120.0,
    retry: RetryPolicy = RetryPolicy(),  # noqa: B008 - frozen
    context_window: int | None = None,
) -> Model:
    """A model at OpenAI through its Responses API, which newer models need for tools.

    Nothing is stored at OpenAI (``store: false``); reasoning comes encrypted and is sent back.

    Args:
        model: The model's name, e.g. ``"gpt-5"``.
        keep_reasoning: Whether reasoning is kept and sent back; None: if the model's name says
            that it reasons. Models that do not reason refuse it.
        api_key: The key; None: the environment variable ``OPENAI_API_KEY``. A server of one's
            own (``base_url``) may go without.
        base_url: Root of the API.
        default_parameters: Merged into each request, over what the library puts there, e.g.
            ``{"reasoning": {"effort": "low", "summary": "auto"}}``.
        headers: Sent with each request.
        timeout: Seconds to wait for an answer.
        retry: How failed calls are tried again.
        context_window: Tokens that prompt, history and answer may have together.

    Raises:
        ConfigurationError: A value cannot work.
    """
    return build(
        OpenAIResponsesAdapter(keep_reasoning=keep_reasoning),
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
