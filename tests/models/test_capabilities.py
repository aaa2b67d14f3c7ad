"""Capabilities of models by their names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import TextMessage
from agentkit_py.models import (
    Capabilities,
    ModelRequest,
    ToolSpec,
    anthropic,
    azure_openai,
    capabilities_of,
    grok,
    openai,
)
from agentkit_py.models.capabilities import CONTEXT_WINDOWS, window_of
from agentkit_py.models.encoding import CALL_A_TOOL


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("gpt-4", 8_192),
        ("gpt-4-0613", 8_192),
        ("gpt-4-32k-0613", 32_768),
        ("gpt-4-turbo-2024-04-09", 128_000),
        ("gpt-4o-mini", 128_000),
        ("gpt-4.1-nano", 1_047_576),
        ("gpt-5-mini", 400_000),
        ("claude-sonnet-4-5", 200_000),
        ("claude-opus-5-5", 1_000_000),
        ("gpt-5.6-sol", 1_050_000),
        ("gpt-5.4", 400_000),
        ("grok-4.3", 1_000_000),
        ("gemini-2.5-flash", 1_048_576),
        ("GROK-4-fast-reasoning", 2_000_000),
        ("openrouter/openai/gpt-4o", 128_000),
        ("my-own-model", None),
        ("", None),
    ],
)
def test_the_longest_name_that_fits_is_the_one(model: str, tokens: int | None) -> None:
    """The name "gpt-4" must not win over the longer "gpt-4-turbo"."""
    assert window_of(model) == tokens


def test_the_window_of_an_unknown_newer_model_is_the_newest_ones(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is logged once for each model."""
    for _ in range(2):
        assert window_of("claude-saga-9") == window_of("claude-fable-5-2")
        assert window_of("gpt-17") == window_of("gpt-6.2-sol")
    assert len([r for r in caplog.records if "claude-saga-9" in r.message]) == 1


def test_a_window_of_ones_own_comes_before_the_table() -> None:
    """An own entry wins even with a shorter name."""
    assert window_of("gpt-4o-mini", {"gpt": 5}) == 5
    assert window_of("gpt-4o-mini", {"claude": 5}) == CONTEXT_WINDOWS["gpt-4o"]


@pytest.mark.parametrize(
    ("model", "facts"),
    [
        ("claude-3-5-haiku-latest", {"prefill": True, "sampling": True}),
        ("claude-sonnet-4-20250514", {"prefill": True, "checks_prefix": False}),
        ("us.anthropic.claude-opus-4-6-v1", {"prefill": False, "sampling": True}),
        ("claude-opus-4-8", {"system_inside": True, "sampling": False, "forced_choice": True}),
        ("claude-sonnet-5", {"system_inside": False, "checks_prefix": False}),
        ("claude-haiku-5-5", {"checks_prefix": True, "forced_choice": True}),
        ("claude-opus-5-5", {"checks_prefix": True, "forced_choice": False}),
        ("claude-fable-5-1", {"thinking_types": frozenset({"adaptive"}), "forced_choice": False}),
        ("gpt-4.1", {"reasoning_items": False, "chat_tools": "taken"}),
        ("gpt-4o", {"reasoning_items": False}),
        ("gpt-5-mini", {"reasoning_items": True, "chat_tools": "taken"}),
        ("gpt-5-chat-latest", {"reasoning_items": False, "sampling": True}),
        ("gpt-5.4", {"chat_tools": "without_effort", "default_effort": "none"}),
        ("gpt-5.4-pro", {"chat_tools": "without_effort", "default_effort": None}),
        ("gpt-5.1", {"default_effort": "none"}),
        ("gpt-5.1-codex-max", {"default_effort": None}),
        ("gpt-5.6-sol", {"default_effort": None}),
        ("gpt-6-sol", {"chat_tools": "not_reasoning", "checks_prefix": False}),
        ("gpt-6-astra", {"chat_tools": "refused", "checks_prefix": False}),
        ("gpt-6.2-astra", {"chat_tools": "refused", "checks_prefix": True}),
        ("openai/O3", {"parallel_tool_calls": False, "reasoning_items": True}),
        ("my-o4-finetune", {"parallel_tool_calls": False}),
        ("gemini-2.5-flash", {"signed_calls": False}),
        ("gemini-3-pro-preview", {"signed_calls": True}),
        ("kimi-k2.6", {"reasoning_required": True}),
    ],
)
def test_a_models_capabilities_are_those_of_its_family_since_its_version(
    model: str, facts: dict[str, Any]
) -> None:
    """The family's name is alone in the model's, wherever it stands."""
    found = capabilities_of(model)
    assert {name: getattr(found, name) for name in facts} == facts


@pytest.mark.parametrize("model", ["my-own-model", ""])
def test_an_unknown_family_has_the_default_capabilities(model: str) -> None:
    """A server of one's own is asked as the format's first models were."""
    assert capabilities_of(model) == Capabilities()


@pytest.mark.parametrize(
    ("model", "newest"),
    [
        ("claude-opus-7", "claude-opus-5-5"),
        ("claude-latest", "claude-fable-5-2"),
        ("claude-saga-6-1", "claude-fable-5-2"),
        ("o9", "o3"),
        ("gpt-12.5", "gpt-6.2-sol"),
        ("gemini-9-ultra", "gemini-3-pro"),
        ("gemini-flash-latest", "gemini-3-pro"),
    ],
)
def test_an_unknown_newer_model_counts_as_the_newest_known(model: str, newest: str) -> None:
    """A name without a version counts as the newest, too."""
    assert capabilities_of(model) == capabilities_of(newest)


def test_a_hosts_rules_come_before_the_models() -> None:
    """Groq refuses the field that Kimi's own host wants."""
    own = capabilities_of("kimi-k2.6", "https://api.moonshot.ai/v1")
    assert own.reasoning_fields == ("reasoning_content",)
    assert own.reasoning_required
    groq = capabilities_of("moonshotai/kimi-k2.6", "https://api.groq.com/openai/v1")
    assert groq.reasoning_fields == ()
    assert not groq.reasoning_required
    assert capabilities_of("mistral-large", "https://api.mistral.ai/v1").call_id_length == 9


def test_a_users_facts_come_before_the_tables() -> None:
    """A table can be older than a model."""
    facts = replace(capabilities_of("claude-opus-5-5"), forced_choice=True)
    model = anthropic("claude-opus-5-5", capabilities=facts)
    assert model.encode(FORCED)["tool_choice"] == {"type": "any"}
    with pytest.raises(ConfigurationError, match="pass a Capabilities"):
        anthropic("claude-opus-5-5", capabilities="all")  # type: ignore[arg-type] - it is refused


FORCED = ModelRequest(
    messages=(TextMessage("system", "Route."), TextMessage("user", "Hi")),
    tools=(ToolSpec("select", "Choose"), ToolSpec("done")),
    tool_choice="any",
)


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-fable-5-2", "claude-sonnet-5-5"])
def test_a_call_is_asked_for_in_words_where_it_cannot_be_forced(model: str) -> None:
    """The default router would else be refused in its first request."""
    body = anthropic(model).encode(FORCED)
    assert body["tool_choice"] == {"type": "auto"}
    [system] = body["system"]
    assert system == {"type": "text", "text": f"Route.\n\n{CALL_A_TOOL}"}
    named = anthropic(model).encode(replace(FORCED, tool_choice="done"))
    assert named["tool_choice"] == {"type": "auto"}
    assert "the tool done" in named["system"][0]["text"]


@pytest.mark.parametrize(
    ("model", "given", "sent"),
    [
        ("claude-opus-5-5", {"thinking": {"type": "disabled"}}, {}),
        (
            "claude-opus-5-5",
            {"thinking": {"type": "enabled", "budget_tokens": 2000}},
            {"thinking": {"type": "adaptive"}},
        ),
        ("claude-opus-4-5", {"thinking": {"type": "adaptive"}}, {}),
        ("claude-opus-5", {"temperature": 0.2, "top_p": 0.1, "top_k": 3}, {}),
        ("claude-opus-5", {"metadata": {"user_id": "u"}}, {"metadata": {"user_id": "u"}}),
        ("claude-opus-4-6", {"temperature": 0.2}, {"temperature": 0.2}),
    ],
)
def test_claude_gets_no_parameter_that_it_refuses(
    model: str, given: dict[str, Any], sent: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """An application that changes the model's name keeps working, and is told what went."""
    made = anthropic(model, default_parameters=given)
    request = ModelRequest(messages=(TextMessage("user", "Hi"),))
    body = made.encode(request)
    assert {name: body[name] for name in body.keys() - {"model", "messages", "max_tokens"}} == sent
    assert bool(caplog.messages) == (given != sent)


@pytest.mark.parametrize("model", ["gpt-5.6", "gpt-6-sol", "gpt-6.1-sol", "gpt-6.2-astra"])
def test_openai_goes_to_responses_where_chat_refuses_tools(model: str) -> None:
    """Function tools are not supported for these models in chat completions."""
    parameters = {"max_tokens": 500, "reasoning_effort": "low", "stop": ["x"]}
    made = openai(model, default_parameters=parameters)
    assert made.provider == "openai-responses"
    body = made.encode(replace(FORCED, tool_choice="auto"))
    assert body["max_output_tokens"] == 500
    assert body["reasoning"] == {"effort": "low"}
    assert not body.keys() & {"max_tokens", "reasoning_effort", "stop", "messages"}


@pytest.mark.parametrize("model", ["gpt-4.1", "gpt-5", "gpt-5.4", "my-model"])
def test_openai_stays_with_chat_where_that_takes_tools(model: str) -> None:
    """Servers of one's own mostly know nothing else."""
    assert openai(model).provider == "openai"


def test_a_model_without_effort_takes_tools_in_chat() -> None:
    """GPT-6-sol takes tools in chat completions if it is told not to reason."""
    told = {"reasoning_effort": "none"}
    assert openai("gpt-6-sol", default_parameters=told).provider == "openai"
    assert openai("gpt-6.2-sol", default_parameters=told).provider == "openai-responses"


def test_azure_and_grok_speak_responses() -> None:
    """Azure names the deployment in the body then."""
    endpoint = "https://acme.openai.azure.com"
    azure = azure_openai("gpt-6.2-sol", endpoint=endpoint, deployment="mine")
    assert azure.adapter.url(azure) == f"{endpoint}/openai/v1/responses"
    assert azure.encode(FORCED)["model"] == "mine"
    spoken = grok("grok-4.5", api="responses")
    assert spoken.adapter.url(spoken) == "https://api.x.ai/v1/responses"
    assert spoken.encode(FORCED)["include"] == ["reasoning.encrypted_content"]
    assert spoken.provider == grok("grok-4.5").provider == "grok"
    with pytest.raises(ConfigurationError, match="api='soap'"):
        grok("grok-4.5", api="soap")  # type: ignore[arg-type] - it is refused


@pytest.mark.parametrize(
    ("model", "structured", "least"),
    [
        ("us.anthropic.claude-haiku-5-5-v1:0", False, 512),
        ("us.anthropic.claude-opus-4-6-v1", True, 4096),
        ("anthropic.claude-haiku-4-5-20251001-v1:0", True, 4096),
        ("us.anthropic.claude-opus-4-8-v1:0", False, 1024),
        ("anthropic.claude-3-7-sonnet-20250219-v1:0", False, 2048),
        ("anthropic.claude-3-5-sonnet-20240620-v1:0", False, 0),
    ],
)
def test_bedrock_has_fewer_structured_outputs_and_caches(
    model: str, structured: bool, least: int
) -> None:
    """Claude's own API has both for its newest, and a cache for all since Claude 3."""
    there = capabilities_of(model, "https://bedrock-runtime.us-east-1.amazonaws.com")
    assert (there.structured_output, there.cache_minimum) == (structured, least)
    assert capabilities_of(model).cache_minimum >= 512


@pytest.mark.parametrize("host", ["aiplatform", "us-east5-aiplatform", "aiplatform.eu.rep"])
def test_vertex_has_structured_outputs_of_gemini_only(host: str) -> None:
    """Those of Claude have to be allowed by an organization first."""
    base_url = f"https://{host}.googleapis.com/v1/projects/p"
    assert not capabilities_of("claude-opus-4-6", base_url).structured_output
    assert capabilities_of("gemini-3-pro", base_url).structured_output
