"""Reasoning in chat completions: compatible hosts give it in members of their own.

OpenAI has no member for it. Others give ``reasoning_content`` (DeepSeek, Kimi, vLLM), ``reasoning``
(vLLM, Groq, OpenRouter) or a list ``reasoning_details`` (OpenRouter, MiniMax); some of them refuse
tool calls that come back without it, others refuse the member. `Capabilities.reasoning_fields`
lists the members that a host takes back; it gets its own reasoning only.

Source: api-docs.deepseek.com, platform.moonshot.ai, platform.minimax.io, openrouter.ai/docs and
docs.vllm.ai on reasoning (read October and November 2026).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentkit_py._core.json import JsonObject, as_list, as_object
from agentkit_py.messages import Message, ReasoningMessage
from agentkit_py.models.base import Model, ModelRequest
from agentkit_py.models.binding import (
    Binding,
    Reason,
    Standing,
    account_of,
    with_bindings,
)
from agentkit_py.models.blocks import ORIGIN, host_of, origin_of_block
from agentkit_py.models.capabilities import GIVEN, Capabilities
from agentkit_py.models.encoding import encodable, wired
from agentkit_py.models.replies import objects, text_or_empty

KEY = "chat_reasoning"
"""The key of this data in `provider_metadata`."""

TEXT_FIELDS = ("reasoning_content", "reasoning")
"""Members that hold reasoning as text."""

DETAILS = "reasoning_details"
CHUNKS = "content"
"""Mistral's reasoning is a chunk of the content, which goes back in its place by itself."""


def read_reasoning(model: Model, message: dict[str, Any]) -> ReasoningMessage | None:
    """Return the reasoning in an assistant's message, if there is any."""
    texts = {name: text for name in TEXT_FIELDS if (text := text_or_empty(message.get(name)))}
    details = objects(message.get(DETAILS))
    if not details and not any(map(str.strip, texts.values())):
        return None
    text = next(iter(texts.values()), "") or "".join(map(_text_of, details))
    kept: dict[str, Any] = {"fields": list(texts)}
    if details:
        kept[DETAILS] = details
    metadata = {KEY: kept, ORIGIN: {"host": host_of(model)}}
    return ReasoningMessage(text, provider_metadata=metadata)


def reasoning_in_text(model: Model, thought: str) -> ReasoningMessage:
    """Return reasoning that stood in the text, between tags: no member of the host's held it."""
    metadata: JsonObject = {KEY: {"fields": []}, ORIGIN: {"host": host_of(model)}}
    return ReasoningMessage(thought, provider_metadata=metadata)


def _text_of(detail: dict[str, Any]) -> str:
    return text_or_empty(detail.get("text")) or text_or_empty(detail.get("summary"))


def join_details(whole: list[dict[str, Any]], pieces: object) -> None:
    """Add the pieces of a streamed chunk to the list, as it is without streaming."""
    for piece in objects(pieces):
        last = whole[-1] if whole else None
        same = last is not None and all(
            last.get(name) == piece.get(name) for name in ("type", "index") if name in piece
        )
        if last is None or not same:
            whole.append(dict(piece))
            continue
        for name, value in piece.items():
            continues = name in ("text", "summary", "data") and isinstance(value, str)
            if continues:
                last[name] = text_or_empty(last.get(name)) + value
            elif value is not None:
                last[name] = value


class ReasoningFields:
    """The reasoning of its own host that a request sends back."""

    def __init__(self, takes: Capabilities, standing: Standing) -> None:
        self.reasons: dict[int, Reason] = {}
        """Why reasoning is not sent, by the `id()` of its message."""

        self._host = standing.host
        self._fields = tuple([name for name in takes.reasoning_fields if name != CHUNKS])
        self._chunks = CHUNKS in takes.reasoning_fields
        self._required = takes.reasoning_required
        self._standing = standing

    def __copy__(self) -> ReasoningFields:
        made = ReasoningFields.__new__(ReasoningFields)
        vars(made).update(vars(self), reasons=self.reasons.copy())
        return made

    def add(self, turn: dict[str, Any], said: Sequence[Message]) -> None:
        """Add the reasoning of a reply to its message."""
        if not self._fields:
            return
        own = [m for m in said if isinstance(m, ReasoningMessage) and self._is_own(m)]
        text = encodable("".join(message.content for message in own))
        details = [
            wired(one) for m in own for one in objects(_kept(m.provider_metadata).get(DETAILS))
        ]
        for name in self._names(own):
            if name == DETAILS and details:
                turn[name] = details
            elif name != DETAILS and text:
                turn[name] = text
            elif name != DETAILS and self._required and "tool_calls" in turn:
                turn[name] = ""

    def _names(self, own: Sequence[ReasoningMessage]) -> tuple[str, ...]:
        if GIVEN not in self._fields:
            return self._fields
        given = [
            name for m in own for name in as_list(_kept(m.provider_metadata).get("fields")) or []
        ]
        # Of two names the newer: servers for which both mean the same refuse both together.
        return (*[name for name in reversed(TEXT_FIELDS) if name in given][:1], DETAILS)

    def _is_own(self, message: ReasoningMessage) -> bool:
        metadata = message.provider_metadata or {}
        if self._chunks and KEY not in metadata:
            return False  # it is a chunk
        why: Reason | None = "host"
        if origin_of_block(metadata).get("host") == self._host:
            why = self._standing.reason(message, message.provider_metadata)
        if why is not None:
            self.reasons[id(message)] = why
        return why is None


def _kept(metadata: JsonObject | None) -> JsonObject:
    return as_object((metadata or {}).get(KEY)) or {}


def bind_reasoning(
    model: Model, request: ModelRequest, messages: Sequence[Message]
) -> tuple[Message, ...]:
    """Return a reply's messages, its reasoning bound to host, account and model."""
    made = [m for m in messages if isinstance(m, ReasoningMessage) and m.provider_metadata]
    if not made:
        return tuple(messages)
    binding = Binding(account=account_of(model, request), model=model.model)
    return with_bindings(messages, {id(message): binding for message in made}, host_of(model))
