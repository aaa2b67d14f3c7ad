"""Runs ask providers to cache what their next requests begin with."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from agentkit_py import Agent, AgentResult, MemoryHistory, Network, State, tool
from agentkit_py.models import Model, anthropic, openai
from agentkit_py.models.binding import unmarked
from agentkit_py.routing import sequence
from agentkit_py.testing import FakeProvider, ReceivedRequest

from .runner import Runner

RULES = "Mind the rules of the desk. " * 200
THREAD = "customer-4711"


@tool
def track(parcel: int = 0) -> str:
    """Say where a parcel is."""
    return f"Parcel {parcel} is in Linz. " * 20


def answers(received: ReceivedRequest) -> dict[str, Any]:
    """Look something up, then answer; keep count of no tokens, so that the stand-in does."""
    messages = received.body.get("input") or received.body["messages"]
    if "In which depot" in json.dumps(messages[-1]):
        return {"tool_calls": [{"name": "track", "arguments": {"parcel": len(messages)}}]}
    return {"text": f"Answer {len(messages)}. " * 10}


def support(model: Model, **options: Any) -> Network:
    """Return a network of two agents, each with a prompt of its own."""
    agents = [
        Agent(name="desk", system=f"You are the desk. {RULES}", tools=[track]),
        Agent(name="billing", system=f"You are billing. {RULES}"),
    ]
    router = sequence("desk", "billing")
    return Network(name="support", agents=agents, router=router, default_model=model, **options)


async def asked(runner: Runner, model: Model, questions: int, **options: Any) -> list[Any]:
    """Ask a network on one thread; returns the results."""
    history = MemoryHistory()
    found: list[AgentResult] = []
    for number in range(questions):
        item = support(model, history=history, **options)
        run = await runner.run(item, f"In which depot is it ({number})?", thread_id=THREAD)
        found += run.results
    return found


async def test_each_request_finds_what_the_agents_last_one_has_kept(runner: Runner) -> None:
    """The other agent's words in between change nothing; the results say what was read."""
    fake = FakeProvider(answers)
    model = replace(anthropic("claude-opus-4-8", api_key="k"), transport=fake.transport)
    results = await asked(runner, model, 4)
    assert fake.rejections == []
    last: dict[str, int] = {}
    for result in results:
        usage = result.usage
        assert usage is not None
        assert usage.cached_tokens >= 0.95 * last.get(result.agent_name, 0)
        assert usage.cached_tokens + usage.cache_write_tokens >= 0.95 * usage.input_tokens
        last[result.agent_name] = usage.input_tokens
    assert all(
        received.body["system"][0]["cache_control"] == {"type": "ephemeral"}
        for received in fake.requests
    )


async def test_the_key_tells_threads_apart_and_not_their_names(runner: Runner) -> None:
    """It is the same in each request of a thread, whoever asks."""
    fake = FakeProvider(answers)
    model = replace(openai("gpt-5", api_key="k"), transport=fake.transport)
    await asked(runner, model, 2)
    keys = {received.body["prompt_cache_key"] for received in fake.requests}
    assert len(keys) == 1
    assert len(next(iter(keys))) == 16
    assert THREAD not in json.dumps([received.body for received in fake.requests])
    await runner.run(support(model), "In which depot is it?", state=State[Any](thread_id="other"))
    assert fake.requests[-1].body["prompt_cache_key"] not in keys
    await runner.run(support(model), "In which depot is it?")
    assert "prompt_cache_key" not in fake.requests[-1].body


async def test_typescript_mode_sends_what_typescript_sends(runner: Runner) -> None:
    """It knows neither marks nor keys."""
    fake = FakeProvider(answers)
    for model in (anthropic("claude-opus-4-8", api_key="k"), openai("gpt-4.1", api_key="k")):
        connected = replace(model, transport=fake.transport)
        await asked(runner, connected, 1, history_mode="typescript")
    bodies = [received.body for received in fake.requests]
    assert bodies == [unmarked(body) for body in bodies]
    assert not any("prompt_cache_key" in body for body in bodies)
