"""Request bodies of Gemini's generateContent.

Source: https://ai.google.dev/api/generate-content and
https://ai.google.dev/gemini-api/docs/thought-signatures
"""

from __future__ import annotations

import re
from typing import Any, assert_never

from agentkit_py._core.json import JsonObject, as_object
from agentkit_py.messages import ReasoningMessage, TextMessage
from agentkit_py.models.base import Model, ModelRequest, ToolSpec
from agentkit_py.models.media import encoded_parts, gemini_part, has_media
from agentkit_py.models.schema import gemini_form
from agentkit_py.models.wire import (
    EMPTY_TURN,
    OPENING_TURN,
    PREFILL_TURN,
    Exchange,
    Unit,
    clean,
    closing_text,
    closing_turn,
    named_choice,
    split_prefill,
    system_text,
    texts,
    units,
)

PLACEHOLDER_SIGNATURE = "skip_thought_signature_validator"
"""Google's word for "this call was made by another model": Gemini 3 refuses calls without one."""

_VERSION = re.compile(r"gemini-(\d+)")
_SIGNED_SINCE = 3

Part = dict[str, Any]


def encode_contents(model: Model, request: ModelRequest) -> dict[str, Any]:
    """The body of one request.

    The model's default parameters fill in what is not put here, as in TypeScript: they cannot
    replace the conversation or the tools.
    """
    conversation, prefill = split_prefill(request)
    items = units(conversation)
    contents = _contents(model, request, items)
    if prefill:
        # Gemini takes a closing model turn for the end of the conversation, not for a beginning.
        _add(contents, "user", [{"text": PREFILL_TURN.format(text=prefill)}])
    if not contents:
        _add(contents, "user", [{"text": EMPTY_TURN}])
    body: dict[str, Any] = {}
    system = system_text(items)
    if system:
        body["systemInstruction"] = {"parts": [{"text": system}]}
    body["contents"] = contents
    if request.tools:
        body["tools"] = [{"functionDeclarations": [_tool(spec) for spec in request.tools]}]
        body["toolConfig"] = {"functionCallingConfig": _choice(request)}
    for name, value in model.default_parameters.items():
        body.setdefault(name, value)
    return body


def _contents(model: Model, request: ModelRequest, items: list[Unit]) -> list[dict[str, Any]]:
    contents: list[dict[str, Any]] = []
    closing = closing_text(items)
    signed = _wants_signatures(model.model)
    for unit in items:
        match unit:
            case ReasoningMessage():
                _add(contents, "model", _thought(unit))
            case TextMessage() if unit is closing:
                text = closing_turn(unit, "".join(texts(unit)).strip(), request.agent)
                _add(contents, "user", [{"text": text}])
            case TextMessage(role="system"):
                pass  # see system_text
            case TextMessage():
                _add(contents, "user" if unit.role == "user" else "model", _text_parts(unit))
            case Exchange():
                _add(contents, "model", _calls(unit, signed=signed))
                _add(contents, "user", _responses(unit))
            case _:
                assert_never(unit)
    return _without_closing_thoughts(contents)


def _add(contents: list[dict[str, Any]], role: str, parts: list[Part]) -> None:
    """Add parts to the last turn if it is of the same side: turns have to alternate."""
    if not parts:
        return
    if not contents and role == "model":
        contents.append({"role": "user", "parts": [{"text": OPENING_TURN}]})
    if contents and contents[-1]["role"] == role:
        contents[-1]["parts"].extend(parts)
    else:
        contents.append({"role": role, "parts": parts})


def _without_closing_thoughts(contents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Drop a closing turn of nothing but thoughts: the last word is the user's."""
    return contents[:-1] if contents and contents[-1]["role"] == "model" else contents


def _text_parts(message: TextMessage) -> list[Part]:
    if message.role == "user" and has_media(message):
        return encoded_parts(message, lambda text: {"text": clean(text)}, gemini_part)
    pieces = texts(message)
    if not pieces:
        return []
    part: Part = {"text": "".join(pieces)}
    return [{**part, **_signature(message.provider_metadata)}]


def _thought(message: ReasoningMessage) -> list[Part]:
    """A thought of Gemini's own that is signed; unsigned ones carry nothing over."""
    signature = _signature(message.provider_metadata)
    if not signature or not message.content.strip():
        return []
    return [{"text": clean(message.content), "thought": True, **signature}]


def _signature(metadata: JsonObject | None) -> Part:
    own = as_object((metadata or {}).get("gemini")) or {}
    signature = own.get("thoughtSignature")
    return {"thoughtSignature": signature} if isinstance(signature, str) and signature else {}


def _calls(exchange: Exchange, *, signed: bool) -> list[Part]:
    called = zip(exchange.names, exchange.inputs, exchange.calls, strict=True)
    parts: list[Part] = [
        {"functionCall": {"name": name, "args": given}, **_signature(call.provider_metadata)}
        for name, given, call in called
    ]
    if signed and "thoughtSignature" not in parts[0]:
        # Of parallel calls only the first is signed.
        parts[0]["thoughtSignature"] = PLACEHOLDER_SIGNATURE
    return parts


def _responses(exchange: Exchange) -> list[Part]:
    """One response for each call, in the order of the calls, in TypeScript's envelope."""
    return [
        {"functionResponse": {"name": name, "response": {"name": name, "content": content}}}
        for name, content in zip(exchange.names, exchange.outputs, strict=True)
    ]


def _wants_signatures(name: str) -> bool:
    """Whether the model refuses function calls without a thought signature.

    Gemini 3 and later do. Names without version are aliases of the newest model.
    """
    match = _VERSION.search(name)
    if match is None:
        return name.endswith("-latest")
    return int(match[1]) >= _SIGNED_SINCE


def _choice(request: ModelRequest) -> dict[str, Any]:
    match request.tool_choice:
        case "auto" | "any":
            return {"mode": request.tool_choice.upper()}
        case _:
            return {"mode": "ANY", "allowedFunctionNames": [named_choice(request)]}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    declaration: dict[str, Any] = {"name": spec.name}
    if spec.description:
        declaration["description"] = spec.description
    parameters = gemini_form(spec)
    if parameters is not None:
        declaration["parameters"] = parameters
    return declaration
