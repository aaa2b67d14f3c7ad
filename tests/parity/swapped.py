"""Scenarios of one provider as scenarios of another: what nobody recorded, judged all the same."""

from __future__ import annotations

import copy
import json

from .vectors import Json

OPTIONS: dict[str, dict[str, Json]] = {
    "openai": {"model": "gpt-4o", "apiKey": "key-0000", "baseUrl": "{{BASE}}/v1"},
    "grok": {"model": "grok-3", "apiKey": "key-0000", "baseUrl": "{{BASE}}/v1"},
    "gemini": {"model": "gemini-2.0-flash", "apiKey": "key-0000", "baseUrl": "{{BASE}}/v1beta"},
    "anthropic": {
        "model": "claude-3-5-haiku-latest",
        "apiKey": "key-0000",
        "baseUrl": "{{BASE}}/v1",
        "defaultParameters": {"max_tokens": 9},
    },
    "deepseek": {"model": "deepseek-chat", "apiKey": "key-0000", "baseUrl": "{{BASE}}/v1"},
    "azure-openai": {
        "model": "gpt-4o",
        "apiKey": "key-0000",
        "endpoint": "{{BASE}}/",
        "deployment": "d",
        "apiVersion": "v",
    },
}
"""One model of each provider."""


def swapped(spec: dict[str, Json], provider: str) -> dict[str, Json] | None:
    """The scenario with all models at ``provider``; None where a reply has no counterpart."""
    made = copy.deepcopy(spec)
    made["models"] = {
        name: {"provider": provider, "options": copy.deepcopy(OPTIONS[provider])}
        for name in spec["models"]
    }
    replies = [_translated(reply, provider) for reply in spec["llm"]]
    if any(reply is None for reply in replies):
        return None
    return {**made, "llm": replies}


def _translated(reply: Json, provider: str) -> Json:
    if set(reply) - {"json"} or not isinstance(reply["json"], dict):
        return reply if "json" not in reply or "error" in reply["json"] else None
    said = _read(reply["json"])
    return None if said is None else {"json": WRITERS[provider](*said)}


def _read(body: dict[str, Json]) -> tuple[str, list[tuple[str, str, Json]]] | None:
    """Text and calls of a plain reply in any format."""
    try:
        if "choices" in body:
            message = body["choices"][0]["message"]
            calls = [
                (c["id"], c["function"]["name"], json.loads(c["function"]["arguments"]))
                for c in message.get("tool_calls") or []
            ]
            return message["content"] or "", calls
        if "candidates" in body:
            parts = body["candidates"][0]["content"]["parts"]
            asked = [part["functionCall"] for part in parts if "functionCall" in part]
            text = "".join(part.get("text", "") for part in parts)
            return text, [(f"c{i}", c["name"], c["args"]) for i, c in enumerate(asked)]
        blocks = body["content"]
        uses = [block for block in blocks if block["type"] == "tool_use"]
        text = "".join(block.get("text", "") for block in blocks)
        return text, [(use["id"], use["name"], use["input"]) for use in uses]
    except (KeyError, IndexError, TypeError, ValueError):
        return None


def _chat(text: str, calls: list[tuple[str, str, Json]]) -> Json:
    asked = [
        {"id": i, "type": "function", "function": {"name": n, "arguments": json.dumps(given)}}
        for i, n, given in calls
    ]
    message = {"role": "assistant", "content": text or None}
    message |= {"tool_calls": asked} if asked else {}
    reason = "tool_calls" if asked else "stop"
    return {"choices": [{"index": 0, "message": message, "finish_reason": reason}]}


def _anthropic(text: str, calls: list[tuple[str, str, Json]]) -> Json:
    blocks: list[Json] = [{"type": "text", "text": text}] if text else []
    blocks += [{"type": "tool_use", "id": i, "name": n, "input": given} for i, n, given in calls]
    reason = "tool_use" if calls else "end_turn"
    return {"type": "message", "role": "assistant", "content": blocks, "stop_reason": reason}


def _gemini(text: str, calls: list[tuple[str, str, Json]]) -> Json:
    parts: list[Json] = [{"text": text}] if text else []
    parts += [{"functionCall": {"name": n, "args": given}} for _, n, given in calls]
    content = {"role": "model", "parts": parts}
    return {"candidates": [{"content": content, "finishReason": "STOP"}]}


WRITERS = {
    "openai": _chat,
    "grok": _chat,
    "azure-openai": _chat,
    "deepseek": _chat,
    "anthropic": _anthropic,
    "gemini": _gemini,
}
