"""Request bodies of Anthropic's Messages API.

Source: https://docs.claude.com/en/api/messages, and the messages with which the API refuses.
"""

from __future__ import annotations

import re
from typing import Any

from agentkit_py._core.json import as_object, copied
from agentkit_py.messages import ReasoningMessage, TextMessage
from agentkit_py.models.base import Model, ModelRequest, ToolSpec
from agentkit_py.models.media import anthropic_block, encoded_parts, has_media
from agentkit_py.models.schema import anthropic_form
from agentkit_py.models.units import Exchange, Unit, WireIds, closing_text, units
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

DEFAULT_MAX_TOKENS = 4096
"""``max_tokens`` where nobody said otherwise: Anthropic requires one."""

# claude-3-5-haiku-latest, claude-sonnet-4-20250514, us.anthropic.claude-opus-4-6-v1
_VERSION = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?")
_NO_PREFILL_SINCE = (4, 6)
_THINKING = frozenset({"thinking", "redacted_thinking"})

Block = dict[str, Any]
Content = str | list[Block]


def encode_messages(model: Model, request: ModelRequest) -> dict[str, Any]:
    """The body of one request; the model's default parameters overwrite what is put here."""
    parameters = model.default_parameters
    conversation, prefill = split_prefill(request)
    items = units(conversation)
    turns = _Turns(request, keeps_thinking=_thinking(parameters) != "disabled")
    turns.read(items)
    _finish(turns, model, request, prefill)
    body: dict[str, Any] = {}
    if turns.system:
        body["system"] = "\n\n".join(turns.system)
    body["model"] = model.model
    body["max_tokens"] = DEFAULT_MAX_TOKENS
    body["messages"] = turns.turns
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
        body["tool_choice"] = _choice(request)
    body.update(parameters)
    if not body.get("tools"):
        body.pop("tool_choice", None)
    if "thinking" in body and _cannot_think(body, turns.turns):
        del body["thinking"]
    return body


class _Turns:
    """Turns that alternate: what comes from one side in a row is one turn."""

    def __init__(self, request: ModelRequest, *, keeps_thinking: bool) -> None:
        self.turns: list[dict[str, Any]] = []
        self.system: list[str] = []
        """All system messages, wherever they stand: Anthropic has one place for them."""

        self._reader = request.agent
        self._as_text = not request.tools
        self._keeps_thinking = keeps_thinking
        self._ids = WireIds()
        self._role = ""
        self._thinking: list[Block] = []

    def read(self, items: list[Unit]) -> None:
        """Add the whole conversation."""
        turns, closing = self.turns, closing_text(items)
        for unit in items:
            if isinstance(unit, TextMessage):
                role, content = unit.role, unit.content
                if (
                    unit is closing  # noqa: PLR1714 - a tuple for each message costs more
                    or self._thinking
                    or role == self._role
                    or role == "system"
                    or not isinstance(content, str)
                ):
                    self._add_text(unit, closing)
                elif content.strip():  # most of them
                    self._role = role
                    text = content if content.isascii() else clean(content)
                    turns.append({"role": role, "content": text})
            elif isinstance(unit, Exchange):
                self._add_exchange(unit)
            elif self._keeps_thinking:
                self._add_thinking(unit)

    def add(self, role: str, content: Content) -> None:
        """What one side says."""
        if self._thinking:
            if role == "assistant":
                content = [*self._thinking, *_blocks(content)]
            self._thinking = []
        if role == self._role:
            turn = self.turns[-1]
            turn["content"] = said = _blocks(turn["content"])
            said += _blocks(content)
        else:
            self._role = role
            self.turns.append({"role": role, "content": content})

    def _add_text(self, message: TextMessage, closing: TextMessage | None) -> None:
        if message is closing:
            text = closing_turn(message, "".join(texts(message)).strip(), self._reader)
            self.add("user", text)
        elif message.role == "system":
            self.system += texts(message)
        else:
            blocks = _said(message)
            if blocks:
                self.add(message.role, _content(blocks))

    def _add_thinking(self, message: ReasoningMessage) -> None:
        """Keep a thinking block; it is sent with what the assistant says next, else not at all.

        "The final block in an assistant message cannot be `thinking`."
        """
        block = _own_thinking(message)
        if block is not None:
            self._thinking.append(block)

    def _add_exchange(self, exchange: Exchange) -> None:
        asked, answered = self._told(exchange) if self._as_text else self._called(exchange)
        if self._role == "assistant" or self._thinking:
            self.add("assistant", asked)
            self.add("user", answered)
        else:
            self._role = "user"
            self.turns += (
                {"role": "assistant", "content": asked},
                {"role": "user", "content": answered},
            )

    def _called(self, exchange: Exchange) -> tuple[Content, Content]:
        rows = self._ids.inputs(exchange)
        if len(rows) == 1:  # mostly, and without loops
            wire_id, name, given, output = rows[0]
            return (
                [{"type": "tool_use", "id": wire_id, "input": given(), "name": name}],
                [{"type": "tool_result", "tool_use_id": wire_id, "content": output}],
            )
        asked: list[Block] = []
        results: list[Block] = []
        for wire_id, name, given, output in rows:
            asked.append({"type": "tool_use", "id": wire_id, "input": given(), "name": name})
            results.append({"type": "tool_result", "tool_use_id": wire_id, "content": output})
        return asked, results

    def _told(self, exchange: Exchange) -> tuple[Content, Content]:
        # "Requests which include `tool_use` or `tool_result` blocks must define tools."
        called, answered = exchange.told
        if len(called) == 1:
            return called[0], answered[0]
        return [_text(text) for text in called], [_text(text) for text in answered]


def _content(blocks: list[Block]) -> Content:
    """Blocks as a turn's content: one text is sent as it is."""
    return blocks[0]["text"] if len(blocks) == 1 and blocks[0]["type"] == "text" else blocks


def _blocks(content: Content) -> list[Block]:
    return [_text(content)] if isinstance(content, str) else content


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _said(message: TextMessage) -> list[Block]:
    if message.role == "user" and has_media(message):
        return encoded_parts(message, lambda text: _text(clean(text)), anthropic_block)
    return [_text(piece) for piece in texts(message)]


def _own_thinking(message: ReasoningMessage) -> Block | None:
    block = as_object((message.provider_metadata or {}).get("anthropic"))
    if block is None:
        return None
    match block:
        case {"type": "thinking", "thinking": str(), "signature": str()}:
            return copied(block)
        case {"type": "redacted_thinking", "data": str()}:
            return copied(block)
        case _:
            return None  # unsigned thinking is refused


def _finish(turns: _Turns, model: Model, request: ModelRequest, prefill: str) -> None:
    if turns.turns and turns.turns[0]["role"] == "assistant":
        turns.turns.insert(0, {"role": "user", "content": OPENING_TURN})
    if prefill and _takes_prefill(model, request):
        if not turns.turns:
            turns.add("user", EMPTY_TURN)
        turns.add("assistant", prefill)
    elif prefill:
        turns.add("user", PREFILL_TURN.format(text=prefill))
    if not turns.turns:
        turns.add("user", EMPTY_TURN)


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


def _cannot_think(body: dict[str, Any], turns: list[dict[str, Any]]) -> bool:
    """Whether this request is refused if it asks for thinking.

    "Thinking may not be enabled when tool_choice forces tool use", and "a final assistant message
    must start with a thinking block" if it calls tools: not so if another model called them.
    """
    choice = as_object(body.get("tool_choice"))
    if choice is not None and choice.get("type") in ("any", "tool"):
        return _thinking(body) != "disabled"
    if _thinking(body) != "enabled":
        return False
    last = next((turn for turn in reversed(turns) if turn["role"] == "assistant"), None)
    if last is None or isinstance(last["content"], str):
        return False
    kinds = [block["type"] for block in last["content"]]
    return "tool_use" in kinds and kinds[0] not in _THINKING


def _choice(request: ModelRequest) -> dict[str, str]:
    match request.tool_choice:
        case "auto" | "any":
            return {"type": request.tool_choice}
        case _:
            return {"type": "tool", "name": named_choice(request)}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    described = {"description": spec.description} if spec.description else {}
    return {"name": spec.name, **described, "input_schema": anthropic_form(spec)}
