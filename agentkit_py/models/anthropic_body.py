"""Request bodies of Anthropic's Messages API.

Source: https://docs.claude.com/en/api/messages, and the messages with which the API refuses.
"""

from __future__ import annotations

import re
from typing import Any, assert_never

from agentkit_py._core.json import as_object
from agentkit_py.messages import ReasoningMessage, TextMessage
from agentkit_py.models.base import Model, ModelRequest, ToolSpec
from agentkit_py.models.media import anthropic_block, encoded_parts, has_media
from agentkit_py.models.schema import anthropic_form
from agentkit_py.models.wire import (
    EMPTY_TURN,
    OPENING_TURN,
    PREFILL_TURN,
    Exchange,
    Unit,
    WireIds,
    call_result_text,
    call_text,
    clean,
    closing_text,
    closing_turn,
    named_choice,
    split_prefill,
    system_text,
    texts,
    units,
)

DEFAULT_MAX_TOKENS = 4096
"""``max_tokens`` where nobody said otherwise: Anthropic requires one."""

# claude-3-5-haiku-latest, claude-sonnet-4-20250514, us.anthropic.claude-opus-4-6-v1
_VERSION = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?")
_NO_PREFILL_SINCE = (4, 6)
_THINKING = frozenset({"thinking", "redacted_thinking"})

Block = dict[str, Any]


def encode_messages(model: Model, request: ModelRequest) -> dict[str, Any]:
    """The body of one request; the model's default parameters overwrite what is put here."""
    parameters = model.default_parameters
    conversation, prefill = split_prefill(request)
    items = units(conversation)
    turns = _Turns()
    _add_units(turns, items, request, keeps_thinking=_thinking(parameters) != "disabled")
    _finish(turns, model, request, prefill)
    body: dict[str, Any] = {}
    system = system_text(items)
    if system:
        body["system"] = system
    body["model"] = model.model
    body["max_tokens"] = DEFAULT_MAX_TOKENS
    body["messages"] = turns.messages()
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
        body["tool_choice"] = _choice(request)
    body.update(parameters)
    if not body.get("tools"):
        body.pop("tool_choice", None)
    if "thinking" in body and _cannot_think(body, turns):
        del body["thinking"]
    return body


class _Turns:
    """Turns that alternate: what comes from one side in a row is one turn."""

    def __init__(self) -> None:
        self.turns: list[tuple[str, list[Block]]] = []
        self._thinking: list[Block] = []

    def think(self, block: Block) -> None:
        """A thinking block; it is sent with what the assistant says next, else not at all.

        "The final block in an assistant message cannot be `thinking`."
        """
        self._thinking.append(block)

    def add(self, role: str, blocks: list[Block]) -> None:
        if not blocks:
            return
        if self._thinking:
            if role == "assistant":
                blocks = [*self._thinking, *blocks]
            self._thinking = []
        if self.turns and self.turns[-1][0] == role:
            self.turns[-1][1].extend(blocks)
        else:
            self.turns.append((role, blocks))

    def messages(self) -> list[dict[str, Any]]:
        return [{"role": role, "content": _content(blocks)} for role, blocks in self.turns]


def _content(blocks: list[Block]) -> str | list[Block]:
    if len(blocks) == 1 and blocks[0]["type"] == "text":
        return blocks[0]["text"]
    return blocks


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _said(message: TextMessage) -> list[Block]:
    if message.role == "user" and has_media(message):
        return encoded_parts(message, lambda text: _text(clean(text)), anthropic_block)
    return [_text(piece) for piece in texts(message)]


def _add_units(
    turns: _Turns, items: list[Unit], request: ModelRequest, *, keeps_thinking: bool
) -> None:
    ids = WireIds()
    closing = closing_text(items)
    for unit in items:
        match unit:
            case ReasoningMessage():
                block = _own_thinking(unit)
                if block is not None and keeps_thinking:
                    turns.think(block)
            case TextMessage() if unit is closing:
                text = closing_turn(unit, "".join(texts(unit)).strip(), request.agent)
                turns.add("user", [_text(text)])
            case TextMessage(role="system"):
                pass  # see system_text
            case TextMessage():
                turns.add(unit.role, _said(unit))
            case Exchange():
                _add_exchange(turns, unit, ids, as_text=not request.tools)
            case _:
                assert_never(unit)


def _own_thinking(message: ReasoningMessage) -> Block | None:
    block = as_object((message.provider_metadata or {}).get("anthropic"))
    if block is None:
        return None
    match block:
        case {"type": "thinking", "thinking": str(), "signature": str()}:
            return block
        case {"type": "redacted_thinking", "data": str()}:
            return block
        case _:
            return None  # unsigned thinking is refused


def _add_exchange(turns: _Turns, exchange: Exchange, ids: WireIds, *, as_text: bool) -> None:
    if as_text:
        # "Requests which include `tool_use` or `tool_result` blocks must define tools."
        turns.add("assistant", [_text(call_text(call)) for call in exchange.calls])
        answered = zip(exchange.calls, exchange.outputs, strict=True)
        turns.add("user", [_text(call_result_text(call, output)) for call, output in answered])
        return
    wire_ids = [ids.take(call.id) for call in exchange.calls]
    asked = [
        {
            "type": "tool_use",
            "id": wire_id,
            "input": given,
            "name": name,
        }
        for wire_id, given, name in zip(wire_ids, exchange.inputs, exchange.names, strict=True)
    ]
    turns.add("assistant", asked)
    results = [
        {"type": "tool_result", "tool_use_id": wire_id, "content": output}
        for wire_id, output in zip(wire_ids, exchange.outputs, strict=True)
    ]
    turns.add("user", results)


def _finish(turns: _Turns, model: Model, request: ModelRequest, prefill: str) -> None:
    if turns.turns and turns.turns[0][0] == "assistant":
        turns.turns.insert(0, ("user", [_text(OPENING_TURN)]))
    if prefill and _takes_prefill(model, request):
        if not turns.turns:
            turns.add("user", [_text(EMPTY_TURN)])
        turns.add("assistant", [_text(prefill)])
    elif prefill:
        turns.add("user", [_text(PREFILL_TURN.format(text=prefill))])
    if not turns.turns:
        turns.add("user", [_text(EMPTY_TURN)])


def _takes_prefill(model: Model, request: ModelRequest) -> bool:
    """Whether the model may be given the beginning of its answer.

    Claude 4.6 and later refuse it, as do models that think or must call a tool. Of models whose
    version the name does not tell nothing is known, so they get a user's turn, which all take.
    """
    match = _VERSION.search(model.model)
    if match is None or (int(match[1]), int(match[2] or 0)) >= _NO_PREFILL_SINCE:
        return False
    if request.tools and request.tool_choice != "auto":
        return False
    return _thinking(model.default_parameters) in ("", "disabled")


def _thinking(parameters: Any) -> str:
    """The mode of extended thinking that the parameters ask for; empty: none."""
    thinking = as_object(parameters.get("thinking"))
    return "" if thinking is None else str(thinking.get("type", ""))


def _cannot_think(body: dict[str, Any], turns: _Turns) -> bool:
    """Whether this request is refused if it asks for thinking.

    "Thinking may not be enabled when tool_choice forces tool use", and "a final assistant message
    must start with a thinking block" if it calls tools: not so if another model called them.
    """
    choice = as_object(body.get("tool_choice"))
    if choice is not None and choice.get("type") in ("any", "tool"):
        return _thinking(body) != "disabled"
    if _thinking(body) != "enabled":
        return False
    for role, blocks in reversed(turns.turns):
        if role == "assistant":
            calls = any(block["type"] == "tool_use" for block in blocks)
            return calls and blocks[0]["type"] not in _THINKING
    return False


def _choice(request: ModelRequest) -> dict[str, str]:
    match request.tool_choice:
        case "auto" | "any":
            return {"type": request.tool_choice}
        case _:
            return {"type": "tool", "name": named_choice(request)}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    described = {"description": spec.description} if spec.description else {}
    return {"name": spec.name, **described, "input_schema": anthropic_form(spec)}
