"""Put streamed replies together, by the providers' documents alone.

A second opinion on the library's assemblers: nothing is imported from it. Each function takes the
events of one stream as JSON and returns the reply as the provider gives it without `stream`, or
`None` where the events are no reply. Sources (read in November 2026):

- developers.openai.com/api/reference, chat completion chunks, and streaming events of Responses;
- platform.claude.com/docs/en/build-with-claude/streaming;
- ai.google.dev/api/generate-content, streamGenerateContent;
- docs.aws.amazon.com, event stream encoding, and InvokeModelWithResponseStream.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterable, Iterator
from typing import Any

Json = dict[str, Any]

_JOINED = ("text", "thinking", "reasoning.text", "reasoning.summary", "reasoning.encrypted")
_PRELUDE = 12
_CHECKSUM = 4


# ------------------------------------------------------------------------------------- transport


def events(answer: str | bytes | list[Any]) -> list[tuple[str | None, Json]]:
    """Return the events of a recorded stream as (name, JSON), in order.

    Server-sent events by the WHATWG's rules, the messages of AWS's event stream, or Gemini's list.
    """
    if isinstance(answer, list):
        return [(None, one) for one in answer if isinstance(one, dict)]
    found = _aws(answer) if isinstance(answer, bytes) else _server_sent(answer)
    return [(name, one) for name, text in found if isinstance(one := _json(text), dict)]


def _server_sent(text: str) -> Iterator[tuple[str | None, str]]:
    name: str | None = None
    data: list[str] = []
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for line in [*lines, ""]:
        if not line:
            if data:
                yield name, "\n".join(data)
            name, data = None, []
            continue
        label, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if label == "event":
            name = value
        elif label == "data":
            data.append(value)


def _aws(content: bytes) -> Iterator[tuple[str | None, str]]:
    """Read frames: total length, length of the headers, checksum; headers; payload; checksum."""
    while len(content) >= _PRELUDE:
        total, headers, _ = struct.unpack(">III", content[:_PRELUDE])
        payload = content[_PRELUDE + headers : total - _CHECKSUM]
        content = content[total:]
        found = _json(payload.decode("utf-8", "replace"))
        if isinstance(found, dict) and isinstance(found.get("bytes"), str):
            yield None, base64.b64decode(found["bytes"]).decode()


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


# ---------------------------------------------------------------------------------------- replies


def reply_of(form: str, answer: str | bytes | list[Any]) -> Json | None:
    """Return the reply of a recorded stream; `None` if it is none or did not come to its end."""
    return _FORMS[form](events(answer))


def _chat(found: Iterable[tuple[str | None, Json]]) -> Json | None:
    """Join deltas: strings are appended, tool calls by their index, other values replaced."""
    message: Json = {"role": "assistant", "content": None}
    calls: dict[int, Json] = {}
    reason = usage = None
    for _, chunk in found:
        usage = chunk.get("usage") or usage
        for choice in chunk.get("choices") or ():
            if choice.get("index", 0) != 0:
                continue
            reason = choice.get("finish_reason") or reason
            for name, value in (choice.get("delta") or {}).items():
                if name == "tool_calls":
                    _add_calls(calls, value or ())
                else:
                    _add(message, name, value)
    if reason is None:
        return None
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    return {"choices": [{"index": 0, "message": message, "finish_reason": reason}], "usage": usage}


def _add(message: Json, name: str, value: Any) -> None:
    if name == "role" or value is None:
        return
    old = message.get(name)
    if isinstance(value, str) and isinstance(old, str):
        message[name] = old + value
    elif isinstance(value, list):
        before = [{"type": "text", "text": old}] if isinstance(old, str) and old else old or []
        message[name] = _chunks([*before, *value])
    elif isinstance(value, str) and isinstance(old, list):
        message[name] = _chunks([*old, {"type": "text", "text": value}])
    elif isinstance(value, dict) and isinstance(old, dict):
        for key, inner in value.items():
            _add(old, key, inner)
    else:
        message[name] = value


def _chunks(found: list[Any]) -> list[Any]:
    """Join chunks in a row of one kind: Mistral's content, OpenRouter's details of reasoning."""
    joined: list[Any] = []
    for chunk in found:
        last = joined[-1] if joined else None
        same = isinstance(last, dict) and all(
            last.get(name) == chunk.get(name) for name in ("type", "index")
        )
        if not same or chunk.get("type") not in _JOINED:
            joined.append(dict(chunk))
            continue
        for name, value in chunk.items():
            if name in ("text", "summary", "thinking", "data"):
                last[name] = (last.get(name) or type(value)()) + value
            elif value is not None:
                last[name] = value
    return joined


def _add_calls(calls: dict[int, Json], deltas: Iterable[Json]) -> None:
    for position, delta in enumerate(deltas):
        call = calls.setdefault(delta.get("index", position), {"function": {}})
        function, own = delta.get("function") or {}, call["function"]
        call["id"] = call.get("id") or delta.get("id")
        call["type"] = "function"
        own["name"] = own.get("name", "") + (function.get("name") or "")
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            own["arguments"] = arguments
        else:
            own["arguments"] = own.get("arguments", "") + (arguments or "")


def _responses(found: Iterable[tuple[str | None, Json]]) -> Json | None:
    """Take the response of the last event; items that it leaves out come from their own events."""
    final: Json | None = None
    items: dict[int, Json] = {}
    for _, event in found:
        match event.get("type"):
            case "response.output_item.done":
                items[event["output_index"]] = event["item"]
            case "response.completed" | "response.incomplete" | "response.failed":
                final = event["response"]
    if final is None:
        return None
    if not final.get("output"):
        final = {**final, "output": [items[index] for index in sorted(items)]}
    return final


def _anthropic(found: Iterable[tuple[str | None, Json]]) -> Json | None:
    message: Json = {}
    blocks: dict[int, Json] = {}
    pieces: dict[int, str] = {}
    ended = False
    for _, event in found:
        match event.get("type"):
            case "message_start":
                message = dict(event["message"])
            case "content_block_start":
                blocks[event["index"]] = dict(event["content_block"])
            case "content_block_delta":
                _add_delta(blocks[event["index"]], event["delta"], pieces, event["index"])
            case "message_delta":
                message |= {k: v for k, v in event["delta"].items() if v is not None}
                message["usage"] = {**(message.get("usage") or {}), **(event.get("usage") or {})}
            case "message_stop":
                ended = True
    for index, text in pieces.items():
        blocks[index]["input"] = json.loads(text) if text else {}
    if not ended:
        return None
    return {**message, "content": [blocks[index] for index in sorted(blocks)]}


_TEXT_DELTAS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "compaction_delta": "content",
}


def _add_delta(block: Json, delta: Json, pieces: dict[int, str], index: int) -> None:
    kind = delta.get("type")
    if kind in _TEXT_DELTAS:
        name = _TEXT_DELTAS[kind]
        block[name] = (block.get(name) or "") + (delta.get(name) or "")
    elif kind == "input_json_delta":
        pieces[index] = pieces.get(index, "") + (delta.get("partial_json") or "")
    elif kind == "citations_delta":
        block["citations"] = [*(block.get("citations") or ()), delta["citation"]]


def _gemini(found: Iterable[tuple[str | None, Json]]) -> Json | None:
    """Join the parts of all chunks: texts of one kind in a row are one part."""
    parts: list[Json] = []
    candidate: Json = {}
    last: Json = {}
    for _, chunk in found:
        last |= chunk
        for one in (chunk.get("candidates") or ())[:1]:
            candidate |= {k: v for k, v in one.items() if k != "content"}
            for part in (one.get("content") or {}).get("parts") or ():
                _add_part(parts, part)
    if not candidate.get("finishReason"):
        return None
    return {**last, "candidates": [{**candidate, "content": {"role": "model", "parts": parts}}]}


def _add_part(parts: list[Json], part: Json) -> None:
    texts = {"text", "thought"}
    if parts and part.keys() <= texts and parts[-1].keys() <= texts:
        before = parts[-1]
        if bool(before.get("thought")) == bool(part.get("thought")) and "text" in part:
            before["text"] = before.get("text", "") + part["text"]
            return
    parts.append(dict(part))


_FORMS = {
    "chat": _chat,
    "responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
}
