"""Request bodies of Gemini's generateContent.

Source: https://ai.google.dev/api/generate-content and
https://ai.google.dev/gemini-api/docs/thought-signatures
"""

from __future__ import annotations

import re
from typing import Any

from agentkit_py._core.json import JsonObject, as_object
from agentkit_py.messages import ReasoningMessage, TextMessage
from agentkit_py.models.base import Model, ModelRequest, ToolSpec
from agentkit_py.models.media import encoded_parts, gemini_part, has_media
from agentkit_py.models.schema import gemini_form
from agentkit_py.models.units import Exchange, Unit, closing_text, units
from agentkit_py.models.wire import (
    EMPTY_TURN,
    OPENING_TURN,
    PREFILL_TURN,
    clean,
    closing_turn,
    named_choice,
    split_prefill,
    texts,
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
    turns = _Turns(request.agent, signed=_wants_signatures(model.model))
    turns.read(units(conversation))
    if prefill:
        # Gemini takes a closing model turn for the end of the conversation, not for a beginning.
        turns.add("user", [{"text": PREFILL_TURN.format(text=prefill)}])
    if not turns.contents:
        turns.add("user", [{"text": EMPTY_TURN}])
    body: dict[str, Any] = {}
    if turns.system:
        body["systemInstruction"] = {"parts": [{"text": "\n\n".join(turns.system)}]}
    body["contents"] = turns.contents
    if request.tools:
        body["tools"] = [{"functionDeclarations": [_tool(spec) for spec in request.tools]}]
        body["toolConfig"] = {"functionCallingConfig": _choice(request)}
    for name, value in model.default_parameters.items():
        body.setdefault(name, value)
    return body


class _Turns:
    """Turns that alternate: what comes from one side in a row is one turn."""

    def __init__(self, reader: str, *, signed: bool) -> None:
        self.contents: list[dict[str, Any]] = []
        self.system: list[str] = []
        """All system messages, wherever they stand: Gemini has one place for them."""

        self._reader = reader
        self._signed = signed
        self._role = ""

    def read(self, items: list[Unit]) -> None:
        """Add the whole conversation."""
        contents, closing = self.contents, closing_text(items)
        for unit in items:
            if isinstance(unit, TextMessage):
                role, content = ("user" if unit.role == "user" else "model"), unit.content
                if (
                    unit is closing
                    or unit.provider_metadata
                    or role == self._role
                    or not isinstance(content, str)
                    or not contents
                    or unit.role == "system"
                ):
                    self._add_text(unit, role, closing)
                elif content.strip():  # most of them
                    self._role = role
                    text = content if content.isascii() else clean(content)
                    contents.append({"role": role, "parts": [{"text": text}]})
            elif isinstance(unit, Exchange):
                self._add_exchange(unit)
            else:
                self.add("model", _thought(unit))
        if self._role == "model":  # nothing but thoughts: the last word is the user's
            contents.pop()
            self._role = contents[-1]["role"] if contents else ""

    def add(self, role: str, parts: list[Part]) -> None:
        """Add parts to the last turn if it is of the same side: turns have to alternate."""
        if not parts:
            return
        if not self.contents and role == "model":
            self.contents.append({"role": "user", "parts": [{"text": OPENING_TURN}]})
        if role == self._role:
            self.contents[-1]["parts"] += parts
        else:
            self._role = role
            self.contents.append({"role": role, "parts": parts})

    def _add_text(self, message: TextMessage, role: str, closing: TextMessage | None) -> None:
        if message is closing:
            text = closing_turn(message, "".join(texts(message)).strip(), self._reader)
            self.add("user", [{"text": text}])
        elif message.role == "system":
            self.system += texts(message)
        else:
            self.add(role, _text_parts(message))

    def _add_exchange(self, exchange: Exchange) -> None:
        """Add the calls, and one response for each in their order, in TypeScript's envelope."""
        called: list[Part] = []
        answered: list[Part] = []
        for _, name, given, content in exchange.inputs:
            called.append({"functionCall": {"name": name, "args": given()}})
            response = {"name": name, "content": content}
            answered.append({"functionResponse": {"name": name, "response": response}})
        if exchange.has_metadata:
            for part, call in zip(called, exchange.calls, strict=True):
                part.update(_signature(call.provider_metadata))
        if self._signed and "thoughtSignature" not in called[0]:
            # Of parallel calls only the first is signed.
            called[0]["thoughtSignature"] = PLACEHOLDER_SIGNATURE
        self.add("model", called)
        self._role = "user"
        self.contents.append({"role": "user", "parts": answered})


def _text_parts(message: TextMessage) -> list[Part]:
    if message.role == "user" and has_media(message):
        return encoded_parts(message, lambda text: {"text": clean(text)}, gemini_part)
    pieces = texts(message)
    if not pieces:
        return []
    return [{"text": "".join(pieces), **_signature(message.provider_metadata)}]


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
