"""Request bodies of OpenAI's Responses API.

Source: https://platform.openai.com/docs/api-reference/responses/create,
https://platform.openai.com/docs/guides/reasoning#keeping-reasoning-items-in-context, and the
messages with which the API refuses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from agentkit_py._core.json import JsonObject, as_list, as_object, copied
from agentkit_py.messages import ReasoningMessage, TextMessage
from agentkit_py.models.base import Model, ModelRequest, ToolSpec
from agentkit_py.models.media import encoded_parts, has_media, responses_part
from agentkit_py.models.schema import openai_form
from agentkit_py.models.units import Exchange, Unit, WireIds, units
from agentkit_py.models.wire import EMPTY_TURN, clean, named_choice, texts

PROVIDER = "openai-responses"
ENCRYPTED = "reasoning.encrypted_content"

# o1, o3-mini, gpt-5, gpt-5.1-codex; gpt-5-chat does not reason, gpt-4o neither.
_REASONS = re.compile(r"(?<![a-z0-9])(?:o[1-9](?![a-z0-9])|gpt-(?:[5-9]|\d\d)(?!.*-chat))")
# The o-series answers "Unsupported parameter: 'parallel_tool_calls'".
_O_SERIES = re.compile(r"(?<![a-z0-9])o[134](?![a-z0-9])")
_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}

Item = dict[str, Any]


def reasons(model: str) -> bool:
    """Whether a model of this name reasons, as far as the name tells."""
    return _REASONS.search(model.lower()) is not None


def encode_responses(
    model: Model, request: ModelRequest, *, keep_reasoning: bool
) -> dict[str, Any]:
    """The body of one request; the model's default parameters overwrite what is put here.

    Nothing is stored at OpenAI: the reasoning comes encrypted and goes back with the history.
    """
    items = _Items(keep_reasoning=keep_reasoning)
    items.add(units(request.messages))
    body: dict[str, Any] = {
        "model": model.model,
        "input": items.found or [_said("user", [_text("user", EMPTY_TURN)])],
    }
    body["store"] = False
    if keep_reasoning:
        body["include"] = [ENCRYPTED]
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
        body["tool_choice"] = _choice(request)
        if _O_SERIES.search(model.model.lower()) is None:
            body["parallel_tool_calls"] = False
    body.update(model.default_parameters)
    if not body.get("tools"):
        body.pop("tool_choice", None)
        body.pop("parallel_tool_calls", None)
    return body


class _Items:
    """The input as it grows.

    A reasoning item is refused "without its required following item", so it waits until the item
    comes that names it, and goes nowhere if that was filtered out.
    """

    def __init__(self, *, keep_reasoning: bool) -> None:
        self.found: list[Item] = []
        self._ids = WireIds()
        self._keep_reasoning = keep_reasoning
        self._waiting: dict[str, Item] = {}

    def add(self, items: Sequence[Unit]) -> None:
        found, waiting = self.found, self._waiting
        for unit in items:
            if isinstance(unit, TextMessage):
                role, content = unit.role, unit.content
                if unit.provider_metadata or not isinstance(content, str) or waiting:
                    self._add_text(unit)
                elif content.strip():  # most of them
                    text = content if content.isascii() else clean(content)
                    part: Item = {"type": "input_text", "text": text}
                    if role == "assistant":
                        part = {"type": "output_text", "text": text, "annotations": []}
                    found.append({"type": "message", "role": role, "content": [part]})
            elif isinstance(unit, Exchange):
                self._add_exchange(unit)
            elif self._keep_reasoning:
                self._keep(unit)

    def _keep(self, message: ReasoningMessage) -> None:
        item = own_reasoning(message)
        if item is not None:
            self._waiting[item["id"]] = item

    def _add_text(self, message: TextMessage) -> None:
        parts = _parts(message)
        if not parts:
            return
        if message.role != "assistant":
            self._waiting.clear()
        item: Item = {"type": "message", "role": message.role, "content": parts}
        named = self._add_reasoning(message.provider_metadata)
        if named:
            item |= {**named, "status": "completed"}
        phase = _own(message.provider_metadata).get("phase")
        self.found.append({**item, "phase": phase} if isinstance(phase, str) else item)

    def _add_exchange(self, exchange: Exchange) -> None:
        found, rows = self.found, self._ids.rows(exchange)
        for wire_id, name, arguments, _ in rows:
            found.append(
                {"type": "function_call", "call_id": wire_id, "name": name, "arguments": arguments}
            )
        if exchange.has_metadata:
            self._add_reasoning_of(exchange)
        for wire_id, _, _, output in rows:
            found.append({"type": "function_call_output", "call_id": wire_id, "output": output})
        if self._waiting:
            self._waiting.clear()

    def _add_reasoning_of(self, exchange: Exchange) -> None:
        """Add to the calls that were just added what led to them, each in its place."""
        first = len(self.found) - len(exchange.calls)
        items, self.found[first:] = self.found[first:], []
        for item, call in zip(items, exchange.calls, strict=True):
            named = self._add_reasoning(call.provider_metadata)
            self.found.append(item | named)

    def _add_reasoning(self, metadata: JsonObject | None) -> dict[str, str]:
        """Add the reasoning that led to the next item, all of it or none.

        Returns the id that the item then has to have: with it, the one is refused without the
        other, either way round.
        """
        own = _own(metadata)
        names = [name for name in as_list(own.get("reasoning")) or [] if isinstance(name, str)]
        if not names or not all(name in self._waiting for name in names):
            return {}
        self.found += [self._waiting.pop(name) for name in dict.fromkeys(names)]
        return {"id": own["id"]} if isinstance(own.get("id"), str) else {}


def _own(metadata: JsonObject | None) -> dict[str, Any]:
    return as_object((metadata or {}).get(PROVIDER)) or {}


def own_reasoning(message: ReasoningMessage) -> Item | None:
    """The reasoning item of OpenAI's that the message came from, if it can go back.

    Without its encrypted content it is only a name for something that OpenAI has not stored.
    """
    item = _own(message.provider_metadata)
    match item:
        case {"type": "reasoning", "id": str(), "summary": list(), "encrypted_content": str(text)}:
            kept = ("type", "id", "summary", "encrypted_content")
            return {name: copied(item[name]) for name in kept} if text else None
        case _:
            return None


def _said(role: str, parts: list[Item]) -> Item:
    return {"type": "message", "role": role, "content": parts}


def _text(role: str, text: str) -> Item:
    text = text if text.isascii() else clean(text)
    if role == "assistant":
        return {"type": "output_text", "text": text, "annotations": []}
    return {"type": "input_text", "text": text}


def _parts(message: TextMessage) -> list[Item]:
    """What a message says: texts that hold more than white space, and what a user shows."""
    if message.role == "user" and has_media(message):
        return encoded_parts(message, lambda text: _text("user", text), responses_part)
    return [_text(message.role, piece) for piece in texts(message)]


def _choice(request: ModelRequest) -> object:
    match request.tool_choice:
        case "auto":
            return "auto"
        case "any":
            return "required"
        case _:
            return {"type": "function", "name": named_choice(request)}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    parameters, strict = openai_form(spec)
    tool: dict[str, Any] = {"type": "function", "name": spec.name}
    if spec.description:
        tool["description"] = spec.description
    tool["parameters"] = _NO_PARAMETERS if parameters is None else parameters
    # Said in any case: this API takes a tool for strict that does not say.
    tool["strict"] = strict
    return tool
