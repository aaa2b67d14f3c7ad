"""Replies in each provider's JSON.

A streaming renderer can stand beside this module: it needs the same `Neutral` reply and `Ids`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, cast

from .types import ProviderName

# Answers bear one fixed time, so that a test can compare whole bodies.
_CREATED = 1_750_000_000

_FINISH: dict[str, dict[str, str]] = {
    "openai": {
        "stop": "stop",
        "tool": "tool_calls",
        "length": "length",
        "filter": "content_filter",
    },
    "anthropic": {
        "stop": "end_turn",
        "tool": "tool_use",
        "length": "max_tokens",
        "filter": "refusal",
    },
    "gemini": {"stop": "STOP", "tool": "STOP", "length": "MAX_TOKENS", "filter": "SAFETY"},
}


class Ids:
    """Ids that are the same in every run: one counter per kind."""

    def __init__(self) -> None:
        """Start all counters at one."""
        self._counters: dict[str, count[int]] = {}

    def next(self, prefix: str) -> str:
        """Return the next id with this prefix, such as `call_1`."""
        return f"{prefix}{next(self._counters.setdefault(prefix, count(1)))}"


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call of a reply; `arguments` is text exactly as the model wrote it."""

    name: str
    arguments: str
    id: str | None

    @property
    def parsed(self) -> dict[str, Any] | None:
        """The arguments as an object, or `None` if the text is not one."""
        try:
            value = json.loads(self.arguments)
        except ValueError:
            return None
        return cast("dict[str, Any]", value) if isinstance(value, dict) else None


@dataclass(frozen=True, slots=True)
class Neutral:
    """A reply before any provider's format: text, reasoning, calls, usage."""

    text: str | None
    reasoning: str | None
    calls: tuple[Call, ...]
    finish: str
    usage: Mapping[str, int] = field(default_factory=dict[str, int])

    @classmethod
    def of(cls, reply: str | Mapping[str, Any]) -> Neutral:
        """Read a scripted reply, which is a text or a dict of the neutral form."""
        if isinstance(reply, str):
            return cls(reply, None, (), "stop")
        unknown = set(reply) - {"text", "reasoning", "tool_calls", "usage", "finish"}
        if unknown:
            raise ValueError(
                f"A scripted reply has unknown keys {sorted(unknown)}; known are text, reasoning, "
                "tool_calls, usage, finish. Use Raw(json=…) for a provider's own JSON."
            )
        calls = tuple(_call(item) for item in reply.get("tool_calls") or ())
        finish = reply.get("finish") or ("tool" if calls else "stop")
        if finish not in _FINISH["openai"]:
            raise ValueError(f"finish={finish!r} is none of {sorted(_FINISH['openai'])}.")
        usage = cast("Mapping[str, int]", reply.get("usage") or {})
        return cls(reply.get("text"), reply.get("reasoning"), calls, finish, usage)


def _call(item: Mapping[str, Any]) -> Call:
    arguments = item.get("arguments", {})
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return Call(str(item["name"]), written, item.get("id"))


@dataclass(frozen=True, slots=True)
class Usage:
    """Token numbers of one exchange."""

    prompt: int
    completion: int
    cached: int
    reasoning: int


def usage_of(reply: Neutral, body: Any) -> Usage:
    """Return the reply's usage as given, else plausible numbers (a word is a token)."""
    given = reply.usage
    prompt = _first(given, ("input_tokens", "prompt_tokens", "input"))
    completion = _first(given, ("output_tokens", "completion_tokens", "output"))
    if prompt is None:
        prompt = sum(_words(value) for value in _strings(body))
    if completion is None:
        written = [
            reply.text or "",
            reply.reasoning or "",
            *(call.arguments for call in reply.calls),
        ]
        completion = sum(_words(value) for value in written) + len(reply.calls)
    reasoning = _first(given, ("reasoning_tokens",))
    if reasoning is None:
        reasoning = _words(reply.reasoning or "")
    return Usage(prompt, completion, _first(given, ("cached_tokens",)) or 0, reasoning)


def _first(given: Mapping[str, int], names: Sequence[str]) -> int | None:
    return next((given[name] for name in names if name in given), None)


def _words(value: str) -> int:
    return len(value.split())


def _strings(value: Any) -> list[str]:
    """Return every string inside a JSON value, without recursion (bodies can be deep)."""
    found: list[str] = []
    todo: list[Any] = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, dict):
            todo.extend(cast("dict[str, Any]", item).values())
        elif isinstance(item, list):
            todo.extend(cast("list[Any]", item))
    return found


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
    reason = _FINISH["openai"][reply.finish]
    return {
        "id": ids.next("chatcmpl-"),
        "object": "chat.completion",
        "created": _CREATED,
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
        "stop_reason": _FINISH["anthropic"][reply.finish],
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
        candidate["finishReason"] = _FINISH["gemini"][reply.finish]
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
