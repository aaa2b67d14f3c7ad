"""Blocks without a type of ours go back to the host that made them, as the format has them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit_py.messages import Message, OpaqueMessage, TextMessage, ToolCall, ToolCallMessage
from agentkit_py.messages import ToolResultMessage as Result
from agentkit_py.models import (
    Model,
    ModelRequest,
    ToolSpec,
    anthropic,
    gemini,
    grok,
    openai,
    openai_responses,
)

CHAT = openai("gpt-4.1", api_key="sk-test")
MISTRAL = openai("magistral-small", api_key="sk-test", base_url="https://api.mistral.ai/v1")
CLAUDE = anthropic("claude-sonnet-4-5", api_key="sk-test")
GEMINI = gemini("gemini-2.5-flash", api_key="sk-test")
RESPONSES = openai_responses("gpt-5", api_key="sk-test")
MODELS = (CHAT, MISTRAL, CLAUDE, GEMINI, RESPONSES)
OFFERED: dict[str, tuple[Any, ...]] = {"anthropic": ("web_search",)}

SEARCH = {"type": "server_tool_use", "id": "mark", "name": "web_search", "input": {"query": "x"}}
FOUND: dict[str, Any] = {"type": "web_search_tool_result", "tool_use_id": "mark", "content": []}


def chat(*chunks: Any) -> dict[str, Any]:
    """A chat completion with a content list."""
    return {"choices": [{"message": {"role": "assistant", "content": list(chunks)}}]}


def claude(*blocks: Any) -> dict[str, Any]:
    """An answer of Anthropic's."""
    return {"type": "message", "content": list(blocks), "stop_reason": "end_turn"}


def google(*parts: Any) -> dict[str, Any]:
    """An answer of Gemini's."""
    return {"candidates": [{"content": {"parts": list(parts)}, "finishReason": "STOP"}]}


def response(*items: Any) -> dict[str, Any]:
    """A response of OpenAI's."""
    return {"object": "response", "status": "completed", "output": list(items)}


CODE = {"executableCode": {"language": "PYTHON", "code": "print(1)"}}
RAN = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}
Form = Callable[..., dict[str, Any]]
REPLIES: list[tuple[Model, Form, list[dict[str, Any]]]] = [
    (MISTRAL, chat, [{"type": "reference", "reference_ids": [7]}]),
    (CHAT, chat, [{"type": "hologram", "hologram": {"data": "x"}}]),
    (CLAUDE, claude, [SEARCH, FOUND]),
    (CLAUDE, claude, [{"type": "container_upload", "file_id": "f"}]),
    (GEMINI, google, [CODE, RAN]),
    (GEMINI, google, [CODE]),  # of a file search, which writes no result
    (GEMINI, google, [{"inlineData": {"mimeType": "image/png", "data": "aGk="}}]),
    (GEMINI, google, [{"hologram": {"x": 1}, "thoughtSignature": "c2k="}]),
    (RESPONSES, response, [{"type": "web_search_call", "id": "ws", "status": "completed"}]),
    (RESPONSES, response, [{"type": "hologram", "id": "h_1", "data": "x"}]),
]
MADE = [(model, form(*blocks), blocks) for model, form, blocks in REPLIES]


def sent(model: Model, *messages: Message) -> str:
    """The conversation as JSON: all that the host gets."""
    conversation = (TextMessage("user", "Hi"), *messages, TextMessage("user", "And?"))
    hosted = OFFERED.get(model.provider, ())
    return json.dumps(model.encode(ModelRequest(messages=conversation, hosted=hosted)))


@pytest.mark.parametrize(("model", "body", "blocks"), MADE)
def test_a_block_goes_back_to_its_maker_as_it_came(
    model: Model, body: dict[str, Any], blocks: list[dict[str, Any]]
) -> None:
    """Also one of a kind that is newer than this library."""
    read = model.decode(body).messages
    assert [message.type for message in read] == ["opaque"] * len(blocks)
    for block in blocks:
        assert json.dumps(block) in sent(model, *read)


@pytest.mark.parametrize(("model", "body", "blocks"), MADE)
def test_a_block_whose_maker_is_another_or_not_known_stays_here(
    model: Model, body: dict[str, Any], blocks: list[dict[str, Any]]
) -> None:
    """Nobody else can say what it means; the format alone does not tell."""
    read = [m for m in model.decode(body).messages if isinstance(m, OpaqueMessage)]
    for host in ("", "elsewhere.example"):
        others = sent(model, *(replace(message, host=host) for message in read))
        assert not any(json.dumps(block) in others for block in blocks)
    for other in MODELS:
        if other is not model:
            assert not any(json.dumps(block) in sent(other, *read) for block in blocks)


STRANGE: list[dict[str, Any]] = [
    {},
    {"mark": "x"},
    {"type": "", "mark": "x"},
    {"type": 5, "mark": "x"},
    {"type": None, "mark": {}},
    {"type": "text", "text": "mark"},
    {"type": "tool_use", "id": "mark", "name": "look", "input": {}},
    {"type": "tool_result", "tool_use_id": "mark", "content": "x"},
    {"type": "server_tool_use", "name": "web_search", "input": {"mark": 1}},
    {"type": "server_tool_use", "id": "mark", "name": "web_search", "input": "x"},
    {"type": "thinking", "thinking": "mark", "signature": "c2k="},
    {"type": "function_call", "name": "look", "call_id": "mark", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "mark", "output": "x"},
    {"type": "message", "role": "assistant", "content": "mark"},
    {"type": "item_reference", "id": "mark"},
    {"type": "mcp_approval_response", "approval_request_id": "mark", "approve": True},
    {"type": "additional_tools", "id": "mark", "tools": []},
    {"type": "computer_call_output", "call_id": "mark", "output": {}},
    {"type": "hologram", "id": "mark", "role": "developer"},
    {"type": "hologram", "data": "mark"},
    {"functionCall": {"name": "mark", "args": {}}},
    {"functionResponse": {"name": "mark", "response": {}}},
    {"executableCode": {"mark": 1}, "codeExecutionResult": {}},
    {"inlineData": "mark"},
    {"thoughtSignature": "mark"},
]
GIVEN = ("item_reference", "mcp_approval_response", "additional_tools", "computer_call_output")
OWN = ("text", "tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document")
FORMATS: list[tuple[Model, str, Form]] = [
    (MISTRAL, "chat", chat),
    (CLAUDE, "anthropic", claude),
    (GEMINI, "gemini", google),
    (RESPONSES, "openai-responses", response),
]


@given(
    st.sampled_from(FORMATS),
    st.sampled_from([SEARCH, FOUND, CODE, RAN, *STRANGE]),
    st.sampled_from(["call", "result", "whole", ""]),
    st.sampled_from(["", "mark", "a"]),
)
def test_a_stored_block_that_its_format_would_not_read_like_that_is_left_out(
    one: tuple[Model, str, Form], block: dict[str, Any], part: Any, call_id: str
) -> None:
    """Rows come from anywhere; what is sent is what the host's own reply would have given."""
    model, key, form = one
    host = model.base_url.partition("://")[2].partition("/")[0]
    told = OpaqueMessage(block, key, host, "web_search", call_id, part)
    if sent(model, told) == sent(model):
        return
    read = model.decode(form(block)).messages[0]
    assert isinstance(read, OpaqueMessage)
    assert (read.part, read.call_id) == (part, call_id)
    if key == "openai-responses":
        assert block["type"] not in ("hologram", *GIVEN)
    else:
        # A type that this format does not know says nothing in it; its own calls and texts would.
        kind = block.get("type")
        foreign = isinstance(kind, str) and kind not in ("", "server_tool_use", *OWN)
        assert block in (SEARCH, FOUND, CODE, RAN) or foreign


@pytest.mark.parametrize("model", [CHAT, grok("grok-4", api_key="k"), CLAUDE, GEMINI, RESPONSES])
@pytest.mark.parametrize("name", ["refund\x1b[2K", "a b", "x" * 90, "größe"])
def test_a_call_of_a_name_that_no_host_takes_is_sent_by_one_that_they_take(
    model: Model, name: str
) -> None:
    """The block that the host wrote does not bring the name back."""
    kept: dict[str, Any] = {
        "chat": {"id": "c", "type": "function", "function": {"name": name, "arguments": "{ }"}},
        "anthropic": {"type": "tool_use", "id": "c", "name": name, "input": {}, "caller": {}},
        "gemini": {"functionCall": {"name": name, "args": {}, "id": "c"}},
        "openai-responses": {
            "item": {"type": "function_call", "name": name, "arguments": "{ }", "caller": {}}
        },
    }
    call = ToolCall("c", name, {}, provider_metadata=kept)
    tools = (ToolSpec("look", "Looks.", {"type": "object", "properties": {}}),)
    said = (TextMessage("user", "Hi"), ToolCallMessage([call]), Result(call, {"data": 1}))
    body = json.dumps(model.encode(ModelRequest(messages=said, tools=tools)), ensure_ascii=False)
    assert json.dumps(name, ensure_ascii=False) not in body


OPEN: dict[str, Any] = {
    "type": "reasoning",
    "id": "r_1",
    "summary": [],
    "content": [{"type": "reasoning_text", "text": "Well."}],
}


@pytest.mark.parametrize(
    ("base_url", "goes"), [("https://api.deepseek.com", True), ("https://api.openai.com/v1", False)]
)
def test_open_reasoning_goes_back_to_hosts_that_do_not_encrypt_it(
    base_url: str, goes: bool
) -> None:
    """At OpenAI an item without its encrypted content names something that is not stored."""
    model = openai_responses("deepseek-v4-flash", api_key="k", base_url=base_url)
    said: dict[str, Any] = {"type": "output_text", "text": "Hello.", "annotations": []}
    answer: dict[str, Any] = {"type": "message", "role": "assistant", "content": [said]}
    read = model.decode(response(OPEN, answer)).messages
    assert (json.dumps(OPEN) in sent(model, *read)) is goes


def test_a_claude_block_without_a_type_is_passed_over() -> None:
    """No Claude takes it back, and TypeScript passes over it, too."""
    body = claude({}, {"type": "text", "text": "Hello."}, {"text": "unknown"})
    reply = CLAUDE.adapter.decode(CLAUDE, body)
    assert [type(message) for message in reply.messages] == [TextMessage]
