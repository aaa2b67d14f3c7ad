"""Models by name, and each named host against a stand-in with its rules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agentkit_py import Agent, Network, tool
from agentkit_py.errors import ConfigurationError
from agentkit_py.models import RetryPolicy, compatible, model_named
from agentkit_py.models.capabilities import COMPATIBLE
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.testing import FakeProvider, tool_call


@tool
def look_up(order: str) -> str:
    """Look an order up."""
    return f"{order} is under way"


@pytest.mark.parametrize("host", sorted(COMPATIBLE))
async def test_named_host_takes_a_conversation_with_tools(host: str) -> None:
    """A turn with a reasoned tool call is sent back in the form that the host takes."""
    call = {"reasoning": "Look.", **tool_call("look_up", {"order": "7"})}
    provider = FakeProvider([call, "It is under way."])
    row = COMPATIBLE[host]
    runtime = DirectRuntime(transport=provider.transport, environment={row.key_variable: "k-1"})
    name = "deepseek-v4" if row.facts.get("reasoning_required") else "llama-4"
    agent = Agent(name="desk", system="Help.", tools=[look_up], model=f"{host}:{name}")
    result = await agent.run("Where is 7?", runtime=runtime)
    assert result.text == "It is under way."
    assert provider.rejections == []
    seen = provider.requests[0]
    assert seen.headers["authorization"] == "Bearer k-1"
    assert {one.provider for one in provider.requests} == {"compatible"}


def test_each_host_is_named_in_the_guide() -> None:
    """Nobody asks for a host that no page names."""
    guide = Path(__file__).parents[2] / "docs" / "guides" / "operation.md"
    text = guide.read_text(encoding="utf-8")
    assert [host for host in COMPATIBLE if f"`{host}`" not in text] == []


def test_facts_of_a_host_hold_at_an_address_of_ones_own() -> None:
    """A vLLM server takes reasoning back wherever it runs; its key is not required there."""
    model = compatible("vllm", "qwen3", base_url="https://gpu.example.com/v1")
    assert model.takes.reasoning_fields == ("given",)
    assert not model.key_required


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("gpt-4.1", "not PROVIDER:NAME"),
        ("opnai:gpt-4.1", "Did you mean 'openai'"),
        ("azure:gpt-4.1", "azure_openai"),
        ("bedrock:claude", "cloud.bedrock"),
    ],
)
def test_wrong_name_is_refused_where_it_is_given(spec: str, said: str) -> None:
    """The error names the value and what to do."""
    with pytest.raises(ConfigurationError, match=said):
        Agent(name="a", system="", model=spec)
    with pytest.raises(ConfigurationError, match=said):
        Network(name="n", agents=[], default_model=spec)


async def test_run_takes_a_model_by_name_or_function() -> None:
    """Run, network and agent take the same kinds of values."""
    provider = FakeProvider(["one", "two", "three"])
    runtime = DirectRuntime(transport=provider.transport, environment={"GROQ_API_KEY": "k"})
    agent = Agent(name="a", system="")
    await agent.run("x", model="groq:llama-3.3", runtime=runtime)
    await agent.run("x", model=lambda context: f"groq:of-{context.agent.name}", runtime=runtime)
    network = Network(
        name="n",
        agents=[agent],
        router=lambda ctx: None if ctx.call_count else agent,
        default_model=lambda context: "groq:default",
    )
    await network.run("x", runtime=runtime)
    assert [one.body["model"] for one in provider.requests] == ["llama-3.3", "of-a", "default"]


async def test_model_answers_without_an_agent() -> None:
    """`respond` takes a text or messages, and gives the reply with its usage."""
    provider = FakeProvider(["Hello."])
    model = model_named("openai:gpt-4.1", api_key="k", retry=RetryPolicy(attempts=1))
    reply = await replace(model, transport=provider.transport).respond("Hi", system="Be brief.")
    assert reply.text == "Hello."
    assert [m["role"] for m in provider.requests[0].body["messages"]] == ["system", "user"]
