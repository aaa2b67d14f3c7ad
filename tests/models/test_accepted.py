"""The strict provider accepts the request of any history."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit_py.messages import (
    FileContent,
    ImageContent,
    Message,
    ReasoningMessage,
    TextContent,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
)
from agentkit_py.models import (
    Model,
    ModelRequest,
    ToolSpec,
    anthropic,
    azure_openai,
    capabilities_of,
    gemini,
    grok,
    openai,
    openai_responses,
)
from agentkit_py.testing.provider import FakeProvider, Rejection

THINKING = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2048}

MODELS: dict[str, Model] = {
    "openai": openai("gpt-4.1", api_key="sk-test"),
    "openai o-series": openai("o4-mini", api_key="sk-test"),
    "openai responses": openai_responses("gpt-4.1", api_key="sk-test"),
    "openai responses, reasoning": openai_responses("gpt-5", api_key="sk-test"),
    "openai responses, o-series": openai_responses("o4-mini", api_key="sk-test"),
    "azure": azure_openai("gpt-4o", endpoint="https://r.openai.azure.com", api_key="az-test"),
    "grok": grok("grok-4", api_key="xai-test"),
    "anthropic": anthropic("claude-3-5-haiku-latest", api_key="sk-ant-test"),
    "anthropic without prefill": anthropic("claude-opus-4-6", api_key="sk-ant-test"),
    "anthropic thinking": anthropic(
        "claude-sonnet-4-5", api_key="sk-ant-test", default_parameters=THINKING
    ),
    "anthropic cached from the first word on": anthropic(
        "claude-opus-5-5",
        api_key="sk-ant-test",
        prompt_cache="1h",
        capabilities=replace(capabilities_of("claude-opus-5-5"), cache_minimum=1),
    ),
    "gemini": gemini("gemini-2.5-flash", api_key="gem-test"),
    "gemini 3": gemini("gemini-3-pro-preview", api_key="gem-test"),
}

SEARCH = ToolSpec(
    "search",
    "Searches.",
    {
        "type": "object",
        "properties": {"q": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["q"],
    },
)
PING = ToolSpec("ping")

SIGNED = {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"}
OPENAI_REASONING: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "encrypted_content": "gA",
}
REDACTED = {"type": "redacted_thinking", "data": "ZGF0YQ=="}

# What real conversations and other people's stores hold, the odd things more often than they do.
_texts = st.sampled_from(
    ["", " ", "\n\t", "hi", "Wie geht's? ✓", "{json: yes}", "x" * 90]
) | st.text(max_size=12)
_names = st.sampled_from(["search", "ping", "gone", "", "billing.look up", "9lives", "n" * 80])
_ids = st.sampled_from(["", "a", "b", "call_1", "call_1_1", "é!", "functions.f:0", "i" * 60])
_scalars = st.none() | st.booleans() | st.integers(-9, 9) | _texts
_json = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_texts, inner, max_size=2),
    max_leaves=4,
)
_agents = st.sampled_from([None, "me", "billing"])
_metadatas: list[Any] = [
    None,
    {"anthropic": SIGNED},
    {"anthropic": REDACTED},
    {"anthropic": {"type": "thinking", "thinking": "unsigned"}},
    {"gemini": {"thoughtSignature": "c2ln"}},
    {"openai": {"id": "rs_1"}},
    {"openai-responses": OPENAI_REASONING},
    {"openai-responses": {**OPENAI_REASONING, "encrypted_content": None}},
    {"openai-responses": {"id": "item_1", "reasoning": ["rs_1"]}},
    {"openai-responses": {"reasoning": ["rs_1", "rs_2", 3], "phase": "commentary"}},
]
_metadata = st.sampled_from(_metadatas)

tool_calls = st.builds(
    ToolCall,
    _ids,
    _names,
    _json,
    malformed=st.sampled_from([None, None, "{broken"]),
    provider_metadata=_metadata,
)
_sent = [
    ("iVBORw0KGgo=", None, "image/png"),
    ("PHN2Zy8+", None, "image/svg+xml"),
    ("JVBERi0=", None, "application/pdf"),
    ("UEs=", None, "application/zip"),
    (None, "https://example.com/a", None),
]
_images = [ImageContent(*given) for given in _sent]
_files = [FileContent(*given, name) for given in _sent for name in (None, "a.pdf")]
media = st.sampled_from([*_images, *_files])
text_messages = st.builds(
    TextMessage,
    st.sampled_from(["system", "user", "assistant"]),
    _texts | st.lists(st.builds(TextContent, _texts) | media, max_size=3),
    agent=_agents,
    provider_metadata=_metadata,
)
assistant_texts = st.builds(TextMessage, st.just("assistant"), _texts, agent=st.just("me"))
reasoning = st.builds(ReasoningMessage, _texts, agent=_agents, provider_metadata=_metadata)


@st.composite
def groups(draw: st.DrawFn) -> list[Message]:
    """Consecutive calls, then the results of all of them in any order."""
    asked = draw(st.lists(st.lists(tool_calls, min_size=1, max_size=3), min_size=1, max_size=2))
    made = [call for message in asked for call in message]
    shuffled = draw(st.permutations(made))
    answers = [ToolResultMessage(call, draw(_json)) for call in shuffled]
    agent = draw(_agents)
    made_calls: list[Message] = []
    for each in asked:
        # What a model thinks between its calls may stand there.
        made_calls += draw(st.lists(reasoning, max_size=1))
        made_calls.append(ToolCallMessage(each, agent=agent))
    return [*made_calls, *answers]


conversations = st.lists(
    text_messages.map(lambda m: [m]) | reasoning.map(lambda m: [m]) | groups(), max_size=7
).map(lambda parts: tuple(message for part in parts for message in part))


@st.composite
def requests(draw: st.DrawFn) -> ModelRequest:
    """Any request that the engine may make: whole call groups, everything else as it likes."""
    tools = draw(st.sampled_from([(), (SEARCH, PING)]))
    choice = draw(st.sampled_from(["auto", "any", "search"]))
    prefill = draw(st.just([]) | st.lists(assistant_texts, max_size=2))
    return ModelRequest(
        messages=(*draw(conversations), *prefill),
        tools=tools,
        tool_choice=choice,
        agent="me",
        prefill=len(prefill),
        cache_key=draw(st.sampled_from([None, "", "0123456789abcdef"])),
    )


def rejections(model: Model, request: ModelRequest) -> list[Rejection]:
    """Return the strict provider's rejections of the request."""
    provider = FakeProvider(lambda _: "ok", extra_rules=["anthropic.tool_blocks_without_tools"])
    with httpx.Client(transport=provider.transport) as client:
        headers = model.adapter.headers(model, "sk-test")
        client.post(model.adapter.url(model), headers=headers, json=model.encode(request))
    assert len(provider.requests) == 1
    return provider.rejections


@pytest.mark.parametrize("name", MODELS)
@given(request_=requests())
def test_every_whole_history_is_accepted(name: str, request_: ModelRequest) -> None:
    """Roles, order, ids, names, empty texts, foreign reasoning: all of it is the encoder's duty."""
    assert rejections(MODELS[name], request_) == []


@pytest.mark.parametrize("name", MODELS)
def test_a_request_without_any_message_is_accepted(name: str) -> None:
    """An agent without system prompt that is asked nothing still says something."""
    assert rejections(MODELS[name], ModelRequest(messages=())) == []
