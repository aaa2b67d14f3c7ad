"""What a conversation is made of, in each provider's format: texts, calls, results, blocks.

Two bodies of one format are compared by their atoms, whatever order and grouping they are in.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

Atom = tuple[str, str]
"""A kind and a value: a text, a call, a result, an image, a block of the provider's own."""

_MARKS = frozenset({"cache_control", "prompt_cache_breakpoint"})


def atoms(form: str, body: Mapping[str, Any]) -> Counter[Atom]:
    """Return what a request's conversation is made of, in no order."""
    return Counter(atom for atom in _ATOMS[form](body) if atom[1].strip() or atom[0] == "call")


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _json_of(text: Any) -> Any:
    """Return the JSON in a text, else the text: how it is written does not count."""
    try:
        found = json.loads(text)
    except (TypeError, ValueError):
        return text
    return found if isinstance(found, dict | list) else text


def _own_block(block: Mapping[str, Any]) -> Atom:
    kept = {k: v for k, v in block.items() if v is not None and k not in _MARKS}
    if kept.get("type") == "reasoning" and not kept.get("content"):
        kept.pop("content", None)  # an empty list says what its absence says
    if kept.get("detail") == "auto":  # the default
        del kept["detail"]
    return str(block.get("type", "block")), _canonical(kept)


def _listed(content: Any) -> list[Any]:
    if isinstance(content, dict):
        content = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def _chat_atoms(body: Mapping[str, Any]) -> Iterator[Atom]:
    for message in body["messages"]:
        side = "assistant" if message["role"] == "assistant" else "other"
        kind = "result" if message["role"] in ("tool", "function") else f"{side} text"
        for part in _listed(message.get("content")):
            yield _chat_part(part, side, kind)
        if message.get("refusal"):
            yield kind, message["refusal"]
        for call in message.get("tool_calls") or ():
            yield "call", _chat_call(call)
        for name in ("reasoning_content", "reasoning", "reasoning_details"):
            if message.get(name):
                yield name, _canonical(message[name])


def _chat_part(part: Mapping[str, Any], side: str, kind: str) -> Atom:
    if part.get("type") == "text":
        return kind, part["text"]
    if part.get("type") == "thinking":  # Mistral's
        return f"{side} thinking text", _text_of(part["thinking"])
    if isinstance(part.get("input_audio"), str):  # Mistral's, which takes the object as well
        return "input_audio", part["input_audio"]
    if part.get("type") == "input_audio":
        return "input_audio", part["input_audio"]["data"]
    if isinstance(part.get("file"), dict) and "file_data" in part["file"]:
        return "file", part["file"]["file_data"]  # a file without a name gets one
    if "image_url" not in part:
        return _own_block(part)
    image = part["image_url"]
    given = {"url": image} if isinstance(image, str) else image
    return _own_block({"type": "image_url", "url": given["url"], "detail": given.get("detail")})


def _chat_call(call: Mapping[str, Any]) -> str:
    if "custom" in call:
        return _canonical([call["custom"]["name"], call["custom"]["input"]])
    function = call["function"]
    return _canonical([function["name"], _arguments(function.get("arguments"))])


def _arguments(text: Any) -> Any:
    """Return what a call's arguments say.

    `null` says what no arguments say, and JSON in a JSON string what the string holds. Arguments
    that were cut off are no JSON, which most hosts refuse in a request: they go back whole as
    `malformed_arguments`.
    """
    given = _json_of(text)
    if isinstance(given, str) and given.strip() == "null":
        return {}
    if isinstance(given, str) and given.startswith('"'):
        try:
            return _json_of(json.loads(given))
        except ValueError:
            return given
    if isinstance(given, dict) and given.keys() == {"malformed_arguments"}:
        return given["malformed_arguments"]
    return given or {}


def _text_of(chunks: Any) -> str:
    return chunks if isinstance(chunks, str) else "".join(one.get("text", "") for one in chunks)


def _responses_atoms(body: Mapping[str, Any]) -> Iterator[Atom]:
    given = body["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    start = _summary(items)
    said = [
        i for n, i in enumerate(items) if n >= start or i.get("role") in ("system", "developer")
    ]
    for item in said:
        kind = item.get("type", "message")
        if kind == "message":
            side = "assistant" if item.get("role") == "assistant" else "other"
            for part in _listed(item.get("content")):
                text = part.get("text", part.get("refusal"))
                yield (f"{side} text", text) if text is not None else _own_block(part)
        elif kind == "function_call":
            yield "call", _canonical([item["name"], _arguments(item["arguments"])])
        elif kind == "function_call_output":
            for part in _listed(item["output"]):
                yield ("result", part["text"]) if "text" in part else _own_block(part)
        else:
            yield _own_block({k: v for k, v in item.items() if k != "status"})


def _anthropic_atoms(body: Mapping[str, Any]) -> Iterator[Atom]:
    for block in _listed(body.get("system")):
        yield "other text", block["text"]
    blocks = [
        (message["role"], block)
        for message in body["messages"]
        for block in _listed(message["content"])
    ]
    for role, block in blocks[_summary([block for _, block in blocks]) :]:
        yield from _anthropic_block(block, "assistant" if role == "assistant" else "other")


def _anthropic_block(block: Mapping[str, Any], side: str) -> Iterator[Atom]:
    match block["type"]:
        case "text":
            yield f"{side} text", block["text"]
            if block.get("citations"):
                yield "citations", _canonical(block["citations"])
        case "tool_use":
            yield "call", _canonical([block["name"], block["input"]])
        case "tool_result":
            for part in _listed(block.get("content")):
                known = part["type"] == "text"
                yield ("result", part["text"]) if known else _own_block(part)
        case _:
            yield _own_block(block)


def _summary(found: list[Any]) -> int:
    """Return where the newest summary of the provider stands; it replaces all before it.

    platform.claude.com/docs/en/build-with-claude/compaction: "the API automatically drops all
    content blocks prior to the compaction block"; developers.openai.com/api/docs/guides/compaction:
    items before it may be left out.
    """
    places = [n for n, one in enumerate(found) if one.get("type") == "compaction"]
    return places[-1] if places else 0


def _gemini_atoms(body: Mapping[str, Any]) -> Iterator[Atom]:
    system = body.get("systemInstruction") or {}
    parts = system if isinstance(system, str) else system.get("parts")
    for part in [parts] if isinstance(parts, dict) else _listed(parts):
        yield "other text", part["text"]
    for content in _lone(body["contents"]):
        side = "assistant" if content.get("role") == "model" else "other"
        for raw in _lone(content.get("parts") or ()):
            yield from _gemini_part(_camel(raw), side)


def _lone(found: Any) -> Any:
    return [found] if isinstance(found, dict) else found


def _gemini_part(part: dict[str, Any], side: str) -> Iterator[Atom]:
    if part.get("thoughtSignature"):
        yield "signature", part["thoughtSignature"]
    if "functionCall" in part:
        call = part["functionCall"]
        yield "call", _canonical([call["name"], call.get("args") or {}])
    elif "functionResponse" in part:
        found = part["functionResponse"]
        given = found.get("response")
        ours = isinstance(given, dict) and given.keys() == {"name", "content"}
        value = _json_of(given["content"]) if ours else given
        yield "result", value if isinstance(value, str) else _canonical(value)
        for one in found.get("parts") or ():
            yield _gemini_bytes(_camel(one))
    elif part.get("thought"):
        if part.get("thoughtSignature"):  # without one it carries nothing over
            yield "thought", part.get("text") or ""
    elif "text" in part:
        yield f"{side} text", part["text"]
    elif "inlineData" in part or "fileData" in part:
        yield _gemini_bytes(part)
    elif part.keys() - {"videoMetadata", "thoughtSignature"}:
        yield _own_block(part)


def _gemini_bytes(part: dict[str, Any]) -> Atom:
    found = part.get("inlineData") or part.get("fileData") or {}
    data = str(found.get("data") or found.get("fileUri"))
    return "media", data.replace("-", "+").replace("_", "/")


def _camel(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    found: dict[str, Any] = {}
    for name, inner in value.items():
        head, *rest = name.split("_")
        key = head + "".join(word.title() for word in rest)
        found[key] = inner if key in ("args", "response") else _camel(inner)
    return found


_ATOMS = {
    "chat": _chat_atoms,
    "responses": _responses_atoms,
    "anthropic": _anthropic_atoms,
    "gemini": _gemini_atoms,
}


def lost(before: Counter[Atom], after: Counter[Atom]) -> list[Atom]:
    """Return what of a conversation is not in another: texts may have been joined, results too."""
    texts: dict[str, str] = {}
    for kind, value in after:
        texts[kind] = texts.get(kind, "") + "\n" + value
    missing: list[Atom] = []
    for (kind, value), count in (before - after).items():
        joined = kind.endswith("text") or kind == "result"
        if not (joined and value.strip() in texts.get(kind, "")):
            missing += [(kind, value)] * count
    return missing
