"""Replies in each provider's JSON; `stream.py` makes streams of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .neutral import CREATED, FINISH, Ids, Neutral, Usage, usage_of
from .render_responses import render_responses
from .types import ProviderName


def render(
    provider: ProviderName, reply: str | Mapping[str, Any], *, model: str, body: Any, ids: Ids
) -> dict[str, Any]:
    """Return the JSON with which this provider would give that reply."""
    neutral = Neutral.of(reply)
    usage = usage_of(neutral, body)
    if provider == "anthropic":
        return _anthropic(neutral, usage, model, ids)
    if provider == "gemini":
        return _gemini(neutral, usage, model, ids)
    if provider == "openai_responses":
        return render_responses(neutral, usage, model, ids)
    return _openai(neutral, usage, model, ids, grok=provider == "grok")


def _openai(reply: Neutral, usage: Usage, model: str, ids: Ids, *, grok: bool) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text, "refusal": None}
    if reply.calls:
        message["tool_calls"] = [
            {
                "id": call.id or ids.next("call_"),
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in reply.calls
        ]
    if grok and reply.reasoning is not None:  # OpenAI's chat completions keep it to themselves
        message["reasoning_content"] = reply.reasoning
    reason = FINISH["openai"][reply.finish]
    return {
        "id": ids.next("chatcmpl-"),
        "object": "chat.completion",
        "created": CREATED,
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}],
        "usage": {
            "prompt_tokens": usage.prompt,
            "completion_tokens": usage.completion,
            "total_tokens": usage.prompt + usage.completion,
            "prompt_tokens_details": {"cached_tokens": usage.cached},
            "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
        },
    }


def _anthropic(reply: Neutral, usage: Usage, model: str, ids: Ids) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if reply.reasoning is not None:
        signature = ids.next("sig")
        content.append({"type": "thinking", "thinking": reply.reasoning, "signature": signature})
    if reply.text:
        content.append({"type": "text", "text": reply.text})
    for call in reply.calls:
        # Anthropic sends objects; text that is no object goes out as it is, as malformed input.
        value: Any = call.arguments if call.parsed is None else call.parsed
        call_id = call.id or ids.next("toolu_")
        content.append({"type": "tool_use", "id": call_id, "name": call.name, "input": value})
    return {
        "id": ids.next("msg_"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": FINISH["anthropic"][reply.finish],
        "stop_sequence": None,
        "usage": {
            "input_tokens": usage.prompt,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": usage.cached,
            "output_tokens": usage.completion,
        },
    }


def _gemini(reply: Neutral, usage: Usage, model: str, ids: Ids) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0}
    if any(call.parsed is None for call in reply.calls):
        candidate["finishReason"] = "MALFORMED_FUNCTION_CALL"  # and no content, as the real one
    else:
        candidate["content"] = {"role": "model", "parts": _gemini_parts(reply, model, ids)}
        candidate["finishReason"] = FINISH["gemini"][reply.finish]
    return {
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": usage.prompt,
            "candidatesTokenCount": usage.completion - min(usage.reasoning, usage.completion),
            "thoughtsTokenCount": usage.reasoning,
            "cachedContentTokenCount": usage.cached,
            "totalTokenCount": usage.prompt + usage.completion,
        },
        "modelVersion": model,
        "responseId": ids.next("resp_"),
    }


def _gemini_parts(reply: Neutral, model: str, ids: Ids) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    if reply.reasoning is not None:
        parts.append({"text": reply.reasoning, "thought": True})
    if reply.text:
        parts.append({"text": reply.text})
    for position, call in enumerate(reply.calls):
        made: dict[str, Any] = {"name": call.name, "args": call.parsed}
        if call.id is not None:
            made["id"] = call.id
        part: dict[str, Any] = {"functionCall": made}
        if position == 0 and model.startswith("gemini-3"):
            # Only the first call of a step is signed
            # (ai.google.dev/gemini-api/docs/thought-signatures).
            part["thoughtSignature"] = f"c2ln{ids.next('').zfill(4)}"
        parts.append(part)
    return parts
