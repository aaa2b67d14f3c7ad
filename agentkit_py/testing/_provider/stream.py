"""Replies as the providers stream them: the plain answer's JSON, cut into events.

Pieces are small and always the same, so that a test can count on them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from .stream_responses import responses_events
from .types import ProviderName, SseEvent

_PIECE = 5

_AZURE_FIRST = {
    "choices": [],
    "created": 0,
    "id": "",
    "model": "",
    "object": "",
    "prompt_filter_results": [
        {
            "prompt_index": 0,
            "content_filter_results": {"hate": {"filtered": False, "severity": "safe"}},
        }
    ],
}


def pieces(text: str) -> list[str]:
    """Return the text in small pieces."""
    return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]


def encoded(event: SseEvent) -> bytes:
    """Return one event as it goes over the network."""
    if isinstance(event, bytes):
        return event
    name, data = event if isinstance(event, tuple) else (None, event)
    # As the providers do: no ASCII escapes, so that characters can be cut in two.
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    lines = [f"event: {name}"] if name else []
    lines += [f"data: {line}" for line in text.split("\n")]
    return ("\n".join(lines) + "\n\n").encode()


def streamed(
    provider: ProviderName, plain: Mapping[str, Any], request: Mapping[str, Any]
) -> Iterator[SseEvent]:
    """Yield the events in which this provider streams the answer that `plain` is."""
    if provider == "anthropic":
        return _anthropic(plain)
    if provider == "gemini":
        return _gemini(plain)
    if provider == "openai_responses":
        return responses_events(plain, pieces)
    # xAI sends the usage in any case.
    usage = provider == "grok" or request.get("stream_options") == {"include_usage": True}
    return _chat(provider, plain, usage=usage)


def _chat(provider: ProviderName, plain: Mapping[str, Any], *, usage: bool) -> Iterator[SseEvent]:
    head = {name: plain[name] for name in ("id", "created", "model")}
    head |= {"object": "chat.completion.chunk"} | ({"usage": None} if usage else {})
    if provider == "azure_openai":
        yield _AZURE_FIRST
    choice = plain["choices"][0]
    for delta in _chat_deltas(choice["message"], whole_calls=provider == "grok"):
        made = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
        yield {**head, "choices": [made]}
    end: dict[str, Any] = {"index": 0, "delta": {}, "logprobs": None}
    end["finish_reason"] = choice["finish_reason"]
    yield {**head, "choices": [end]}
    if usage:
        yield {**head, "choices": [], "usage": plain["usage"]}
    yield "[DONE]"


def _chat_deltas(message: dict[str, Any], *, whole_calls: bool) -> Iterator[dict[str, Any]]:
    content = message["content"]
    start = None if content is None else ""
    yield {"role": "assistant", "content": start, "refusal": None}
    for piece in pieces(message.get("reasoning_content") or ""):
        yield {"reasoning_content": piece}
    for piece in pieces(content or ""):
        yield {"content": piece}
    for index, call in enumerate(message.get("tool_calls") or []):
        if whole_calls:
            yield {"tool_calls": [{"index": index, **call}]}
            continue
        function = call["function"]
        begun = {**call, "function": {"name": function["name"], "arguments": ""}}
        yield {"tool_calls": [{"index": index, **begun}]}
        for piece in pieces(function["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _anthropic(plain: Mapping[str, Any]) -> Iterator[SseEvent]:
    usage = plain["usage"]
    ending = ("stop_reason", "stop_sequence")
    begun: dict[str, Any] = {**plain, "content": [], **dict.fromkeys(ending)}
    begun["usage"] = {**usage, "output_tokens": min(1, usage["output_tokens"])}
    yield _named({"type": "message_start", "message": begun})
    yield _named({"type": "ping"})
    for index, block in enumerate(plain["content"]):
        start, deltas = _anthropic_block(block)
        yield _named({"type": "content_block_start", "index": index, "content_block": start})
        for delta in deltas:
            yield _named({"type": "content_block_delta", "index": index, "delta": delta})
        yield _named({"type": "content_block_stop", "index": index})
    end = {name: plain[name] for name in ending}
    tokens = {"output_tokens": usage["output_tokens"]}
    yield _named({"type": "message_delta", "delta": end, "usage": tokens})
    yield _named({"type": "message_stop"})


def _named(data: dict[str, Any]) -> SseEvent:
    return data["type"], data


def _anthropic_block(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match block["type"]:
        case "text":
            found = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
            return {**block, "text": ""}, found
        case "thinking":
            said = pieces(block["thinking"])
            found = [{"type": "thinking_delta", "thinking": piece} for piece in said]
            found.append({"type": "signature_delta", "signature": block["signature"]})
            return {**block, "thinking": "", "signature": ""}, found
        case _:
            given = block["input"]
            written = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
            cut = ["", *pieces(written)]
            found = [{"type": "input_json_delta", "partial_json": piece} for piece in cut]
            return {**block, "input": {}}, found


def _gemini(plain: Mapping[str, Any]) -> Iterator[SseEvent]:
    candidate = plain["candidates"][0]
    rest = {name: value for name, value in candidate.items() if name != "content"}
    head = {name: value for name, value in plain.items() if name != "candidates"}
    content = candidate.get("content")
    cut = [] if content is None else _gemini_parts(content["parts"])
    for part in cut[:-1]:
        said = {"content": {"role": "model", "parts": [part]}, "index": rest["index"]}
        yield {"candidates": [said], **head}
    last = {} if content is None else {"content": {**content, "parts": cut[-1:]}}
    yield {"candidates": [{**last, **rest}], **head}


def _gemini_parts(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for part in parts:
        if "text" not in part:
            found.append(part)
            continue
        unsigned = {name: value for name, value in part.items() if name != "thoughtSignature"}
        cut = [{**unsigned, "text": piece} for piece in pieces(part["text"]) or [""]]
        if "thoughtSignature" in part:  # may come with a text that is empty
            cut.append({**part, "text": ""})
        found += cut
    return found
