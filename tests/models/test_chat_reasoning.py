"""Reasoning in chat completions of compatible hosts: read, streamed, kept and sent back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from agentkit_py.messages import (
    Message,
    ReasoningDelta,
    ReasoningMessage,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
)
from agentkit_py.models import Model, ModelRequest, ToolSpec, capabilities_of, compatible, openai

DEEPSEEK = openai("deepseek-v4", base_url="https://api.deepseek.com", api_key="d")
KIMI = openai("kimi-k2.6", base_url="https://api.moonshot.ai/v1", api_key="k")
MINIMAX = openai("MiniMax-M2", base_url="https://api.minimax.io/v1", api_key="m")
GROQ = openai("moonshotai/kimi-k2.6", base_url="https://api.groq.com/openai/v1", api_key="g")
ROUTER = openai("anthropic/claude-opus-5-5", base_url="https://openrouter.ai/api/v1", api_key="r")
MISTRAL = openai("magistral", base_url="https://api.mistral.ai/v1", api_key="m")
OPENAI = openai("gpt-4.1", api_key="o")
VLLM = openai(
    "qwen3",
    base_url="http://localhost:8000/v1",
    capabilities=replace(
        capabilities_of("qwen3"), reasoning_fields=("reasoning", "reasoning_content")
    ),
)
OWN = [
    *("http://localhost:8000/v1", "http://127.0.0.1:30000/v1", "http://[::1]:8080/v1"),
    *("http://vllm:8000/v1", "http://10.1.2.3/v1", "http://gpu.default.svc.cluster.local/v1"),
]
OTHERS = ["https://api.example.com/v1", "http://8.8.8.8/v1", "http://localhost:4000/v1"]
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
DETAILS = [{"type": "reasoning.text", "text": "Hm.", "signature": "s", "index": 0}]


def reply(model: Model, **message: Any) -> tuple[Message, ...]:
    """Return a reply as a run keeps it."""
    body = {"choices": [{"message": {"role": "assistant", **message}}]}
    asked = ModelRequest(messages=(TextMessage("user", "?"),))
    return model.bind(asked, model.decode(body).messages)


def sent(model: Model, said: tuple[Message, ...], **more: Any) -> dict[str, Any]:
    """Return the assistant's message as it goes back."""
    results = [
        ToolResultMessage(call, "1")
        for message in said
        if isinstance(message, ToolCallMessage)
        for call in message.tools
    ]
    messages = (TextMessage("user", "?"), *said, *results, TextMessage("user", "And?"))
    request = ModelRequest(messages=messages, tools=(ToolSpec("look"),), **more)
    return model.encode(request)["messages"][1]


@pytest.mark.parametrize(
    ("model", "given", "back"),
    [
        (DEEPSEEK, {"reasoning_content": "Hm."}, {"reasoning_content": "Hm."}),
        (KIMI, {"reasoning_content": "Hm."}, {"reasoning_content": "Hm."}),
        (MINIMAX, {"reasoning_details": DETAILS}, {"reasoning_details": DETAILS}),
        (
            ROUTER,
            {"reasoning": "Hm.", "reasoning_details": DETAILS},
            {"reasoning_details": DETAILS},
        ),
        (VLLM, {"reasoning": "Hm."}, {"reasoning": "Hm.", "reasoning_content": "Hm."}),
        (GROQ, {"reasoning": "Hm."}, {}),
        (OPENAI, {"reasoning_content": "Hm."}, {}),
    ],
    ids=lambda value: value.model if isinstance(value, Model) else None,
)
def test_a_host_gets_its_reasoning_back_in_the_member_that_it_takes(
    model: Model, given: dict[str, Any], back: dict[str, Any]
) -> None:
    """Some refuse tool calls without it, others refuse the member."""
    said = reply(model, **given, tool_calls=[CALL])
    assert isinstance(said[0], ReasoningMessage)
    assert said[0].content == "Hm."
    turn = sent(model, said)
    assert {k: v for k, v in turn.items() if k.startswith("reasoning")} == back
    assert turn["tool_calls"][0]["function"]["name"] == "look"


@pytest.mark.parametrize(
    ("given", "back"),
    [
        ({"reasoning": "Hm."}, {"reasoning": "Hm."}),
        ({"reasoning_content": "Hm."}, {"reasoning_content": "Hm."}),
        ({"reasoning_content": "Hm.", "reasoning": "Hm."}, {"reasoning": "Hm."}),
    ],
)
def test_a_server_of_ones_own_gets_the_member_that_it_gave(
    given: dict[str, Any], back: dict[str, Any]
) -> None:
    """Elsewhere a host may refuse what it gives, and a proxy hands on what the next one refuses."""
    models = [openai("qwen3", base_url=url, api_key="k") for url in OWN]
    for model in [*models, compatible("vllm", "qwen3", base_url="https://gpu.example.com/v1")]:
        turn = sent(model, reply(model, **given, tool_calls=[CALL]))
        assert {k: v for k, v in turn.items() if k.startswith("reasoning")} == back
    for url in OTHERS:
        model = openai("qwen3", base_url=url, api_key="k")
        turn = sent(model, reply(model, **given, tool_calls=[CALL]))
        assert not [name for name in turn if name.startswith("reasoning")]


def test_a_stored_row_cannot_name_a_member_of_another_kind() -> None:
    """Rows may come from anywhere."""
    model = openai("qwen3", base_url=OWN[0], api_key="k")
    thought, call = reply(model, reasoning="Hm.", tool_calls=[CALL])
    metadata = {**(thought.provider_metadata or {}), "chat_reasoning": {"fields": ["role", 1]}}
    turn = sent(model, (replace(thought, provider_metadata=metadata), call))
    assert turn["role"] == "assistant"
    assert "Hm." not in json.dumps(turn)


@pytest.mark.parametrize("model", [KIMI, OPENAI, GROQ, VLLM], ids=lambda model: model.model)
def test_no_other_host_gets_it(model: Model) -> None:
    """A signature, and what a model thinks, are nobody else's."""
    turn = sent(model, reply(DEEPSEEK, reasoning_content="Hm.", tool_calls=[CALL]))
    assert "Hm." not in json.dumps(turn)
    # Where tool calls need the member, an empty one does.
    assert ("reasoning_content" in turn) == (model is KIMI)


def test_tool_calls_without_reasoning_have_an_empty_one_where_it_is_required() -> None:
    """DeepSeek: it must be passed back; calls that another model made have none."""
    said = (ToolCallMessage([ToolCall("c1", "look")]),)
    assert sent(DEEPSEEK, said)["reasoning_content"] == ""
    assert "reasoning_content" not in sent(DEEPSEEK, (TextMessage("assistant", "Hi"),))


def test_another_account_does_not_get_it() -> None:
    """A router passes signatures of its vendors through."""
    said = reply(ROUTER, content="Hi", reasoning_details=DETAILS)
    other = openai("anthropic/claude-opus-5-5", base_url=ROUTER.base_url, api_key="other")
    assert "reasoning_details" in sent(ROUTER, said)
    assert "reasoning_details" not in sent(other, said)


def test_mistral_gets_its_chunks_and_ids_of_nine() -> None:
    """422 extra_forbidden, and: must be a-z, A-Z, 0-9, with a length of 9."""
    chunk = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}], "closed": True}
    said = reply(MISTRAL, content=[chunk, {"type": "text", "text": "Hi"}])
    turn = sent(MISTRAL, said)
    assert turn["content"][0] == chunk
    assert not [name for name in turn if name.startswith("reasoning")]
    calls = [ToolCall("toolu_01A!", "look"), ToolCall("abcDEF123", "look"), ToolCall("", "look")]
    ids = [call["id"] for call in sent(MISTRAL, (ToolCallMessage(calls),))["tool_calls"]]
    assert ids[1] == "abcDEF123"
    assert len(set(ids)) == 3
    assert all(len(one) == 9 and one.isalnum() and one.isascii() for one in ids)


def test_streamed_reasoning_equals_that_of_a_whole_reply() -> None:
    """Under any name, shown once where a host sends it under two."""
    assembler = ROUTER.adapter.assembler(ROUTER)
    assert assembler is not None
    pieces = [
        {"reasoning": "H", "reasoning_details": [{**DETAILS[0], "text": "H", "signature": None}]},
        {"reasoning": "m.", "reasoning_details": [{**DETAILS[0], "text": "m."}]},
        {"content": "Hi"},
    ]
    shown = [
        delta.delta
        for piece in pieces
        for delta in assembler.feed(None, json.dumps({"choices": [{"index": 0, "delta": piece}]}))
        if isinstance(delta, ReasoningDelta)
    ]
    assert "".join(shown) == "Hm."
    streamed = ROUTER.decode(assembler.finish()).messages
    plain = {"reasoning": "Hm.", "reasoning_details": DETAILS, "content": "Hi"}
    assert streamed == ROUTER.decode({"choices": [{"message": plain}]}).messages


def test_mistral_gets_a_user_at_the_end_and_an_assistant_after_results() -> None:
    """It refuses other orders; what is put between stays there as the conversation grows."""
    call = ToolCall("c", "look", {})
    said: list[Message] = [
        TextMessage("user", "?"),
        ToolCallMessage([call], agent="one"),
        ToolResultMessage(call, "1", agent="one"),
        TextMessage("user", "And?"),
        TextMessage("assistant", "Yes.", agent="one"),
        TextMessage("assistant", "No.", agent="two"),
    ]
    bodies = [
        MISTRAL.encode(ModelRequest(messages=tuple(said[:count]), tools=(ToolSpec("look"),)))
        for count in (5, 6)
    ]
    roles = [[message["role"] for message in body["messages"]] for body in bodies]
    begun = ["user", "assistant", "tool", "assistant", "user", "assistant", "user"]
    assert roles == [begun, [*begun, "assistant", "user"]]
    assert bodies[1]["messages"][: len(begun)] == bodies[0]["messages"]


def test_mistral_gets_a_prefill_in_words() -> None:
    """An assistant at the end is refused."""
    messages = (TextMessage("user", "?"), TextMessage("assistant", "It is"))
    body = MISTRAL.encode(ModelRequest(messages=messages, prefill=1))
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert body["messages"][0]["content"].endswith("It is")
