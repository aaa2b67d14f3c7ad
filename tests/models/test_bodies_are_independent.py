"""Bodies share nothing with messages or other bodies: whoever changes one changes no other."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any, cast

import pytest

from agentkit_py import Message, TextMessage, anthropic, gemini, openai
from agentkit_py.messages import ReasoningMessage, ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.models import openai_responses
from agentkit_py.models.base import ModelRequest, ToolSpec

MODELS = {
    "openai": openai("gpt-4o", api_key="x"),
    "openai_responses": openai_responses("gpt-5", api_key="x"),
    "anthropic": anthropic("claude-sonnet-4-5", api_key="x"),
    "gemini": gemini("gemini-2.5-flash", api_key="x"),
}
CONVERSATION = {"messages", "input", "contents"}
THOUGHT: dict[str, Any] = {
    "anthropic": {"type": "thinking", "thinking": "Look it up.", "signature": "s"},
    "gemini": {"thoughtSignature": "s"},
    "openai-responses": {
        "type": "reasoning",
        "id": "r",
        "summary": [{"type": "summary_text", "text": "Look it up."}],
        "encrypted_content": "e",
    },
}
THOUGHT_OF: dict[str, Any] = {"openai-responses": {"id": "f", "reasoning": ["r"]}}


def conversation() -> list[Message]:
    """Texts, a thought, and calls with flat, nested and several arguments."""
    first = {"parcel": 1, "detailed": True}
    calls = [
        ToolCall("a", "track", first, provider_metadata=copy.deepcopy(THOUGHT_OF)),
        ToolCall("b", "track", {"parcels": [{"number": 2}], "by": {"name": "Ada"}}),
        ToolCall("c", "track", {}),
    ]
    return [
        TextMessage("system", "Be brief."),
        TextMessage("user", "Where are my parcels?"),
        ReasoningMessage("Look it up.", provider_metadata=copy.deepcopy(THOUGHT)),
        ToolCallMessage((calls[0],)),
        ToolResultMessage(calls[0], {"data": {"stops": ["Graz"]}}),
        ToolCallMessage(tuple(calls[1:])),
        ToolResultMessage(calls[1], "Linz"),
        ToolResultMessage(calls[2], {"data": None}),
        TextMessage("assistant", "In Linz."),
        TextMessage("user", "Thanks!"),
    ]


def request(messages: Sequence[Message], *, tools: bool) -> ModelRequest:
    """A request, with or without tools."""
    specs = (ToolSpec("track"),) if tools else ()
    return ModelRequest(messages=tuple(messages), tools=specs)


def emptied(value: Any) -> None:
    """Empty every object and array in ``value``."""
    if isinstance(value, dict | list):
        held = cast("Any", value)
        for item in [*(held.values() if isinstance(value, dict) else held)]:
            emptied(item)
        held.clear()


@pytest.mark.parametrize("tools", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_a_body_that_is_changed_changes_neither_later_ones_nor_the_messages(
    name: str, tools: bool
) -> None:
    """Callers mark cache points in bodies, observers see them, fakes keep them."""
    model, messages = MODELS[name], conversation()
    asked = request(messages, tools=tools)
    first = model.encode(asked)
    expected = json.dumps(first)
    for part in CONVERSATION & first.keys():
        emptied(first[part])
    assert json.dumps(model.encode(asked)) == expected
    assert json.dumps(model.encode(request(messages, tools=tools))) == expected
    assert messages == conversation()
