"""Reasoning of earlier replies in runs: what is kept of it, sent back, and healed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agentkit_py import Agent, AgentResult, Network, State, tool
from agentkit_py._core.json import as_object
from agentkit_py.events import ContextBuilt
from agentkit_py.messages import Message
from agentkit_py.models import Model, anthropic, openai
from agentkit_py.routing import RouterContext
from agentkit_py.testing import EventLog, FakeProvider, ReceivedRequest, Signing

from .runner import Runner


def at(model: Model, fake: FakeProvider) -> Model:
    """Return the model at a fake provider."""
    return replace(model, transport=fake.transport)


def claude(fake: FakeProvider) -> Model:
    """Return a model that signs."""
    return at(anthropic("claude-opus-5-5", api_key="sk-a"), fake)


@tool
def look() -> str:
    """Look it up."""
    return "found"


def thinks(received: ReceivedRequest) -> dict[str, Any]:
    """Think, look something up first, then answer."""
    said = str(received.body["messages"])
    begun = "tool_result" in said.rpartition("?")[2]
    more: dict[str, Any] = (
        {"text": "Done."} if begun else {"tool_calls": [{"name": "look", "arguments": {}}]}
    )
    return {"reasoning": f"Thought {len(received.body['messages'])}.", **more}


def bindings(results: list[AgentResult]) -> list[dict[str, Any]]:
    """Return what the reasoning of the results is bound to."""
    messages = [m for r in results for m in r.output if m.type == "reasoning"]
    return [dict(as_object((m.provider_metadata or {})["origin"]) or {}) for m in messages]


async def test_reasoning_is_stored_with_its_binding(runner: Runner) -> None:
    """The key is not among it; a chain says what came before."""
    fake = FakeProvider(thinks, signing=Signing(fail_on_loss=True))
    agents = [
        Agent(name=name, system="You help.", model=claude(fake), tools=[look])
        for name in ("one", "two")
    ]

    def route(context: RouterContext) -> Agent | None:
        return agents[context.call_count] if context.call_count < 2 else None

    run = await runner.run(Network(name="n", agents=agents, router=route), "Well?")
    assert fake.rejections == []
    kept = bindings(run.results)
    assert [one.get("count", 0) for one in kept] == [0, 1, 2]
    assert {one["host"] for one in kept} == {"api.anthropic.com"}
    assert {one["model"] for one in kept} == {"claude-opus-5-5"}
    assert len({one["prefix"] for one in kept}) == 3
    assert len({one["head"] for one in kept}) == 1
    assert all(one["account"] and "sk-a" not in str(one) for one in kept)


async def test_a_run_and_its_replay_bind_the_same(runner: Runner) -> None:
    """A durable run computes the digest again in each execution.

    Other digests than these would cost all stored threads their reasoning.
    """
    fake = FakeProvider(thinks)
    agent = Agent(name="one", system="You help.", model=claude(fake), tools=[look])
    result = await runner.run(agent, "Well?")
    assert bindings([result]) == [
        {
            "host": "api.anthropic.com",
            "v": 1,
            "account": "c710bba41ab3d04a",
            "model": "claude-opus-5-5",
            "head": "ddd655fc0d81dc93",
            "prefix": "47081b04018be65f",
            "before": "74fa2b4dd507b5c3",  # of the stand-in's signature
            "count": 1,
            "thoughts": 1,
        }
    ]


async def test_a_refusal_of_reasoning_is_healed_once(runner: Runner) -> None:
    """It is a step of its own, is announced, and later calls leave the refused reasoning out."""
    first = FakeProvider([{"reasoning": "Hm.", "text": "One."}])
    moved = FakeProvider(
        lambda _: {"reasoning": "Hm.", "text": "Yes."}, signing=Signing(accounts={"sk-o": "moved"})
    )
    model = openai("gpt-6.2-sol", api_key="sk-o")
    past: State[Any] = State()
    await runner.run(Agent(name="a", system="S", model=at(model, first)), "One?", state=past)
    begun = list(past.transcript)
    log = EventLog()
    agent = Agent(name="a", system="S", model=at(model, moved))
    state: State[Any] = State(results=begun)
    healed = await runner.run(agent, "Two?", state=state, observer=log)
    assert healed.text == "Yes."
    assert [one.code for one in moved.rejections] == ["invalid_encrypted_content"]
    assert healed.context is not None
    assert "refused" in healed.context.entries[-1].reason
    assert [event.report for event in log.of(ContextBuilt)][-1] is healed.context
    asked = [turn for turn in state.transcript[len(begun) :] if turn.agent_name == "user"]
    again = State[Any](
        results=[AgentResult.from_dict(r.to_dict()) for r in (*begun, *asked, healed)]
    )
    await runner.run(agent, "Three?", state=again)
    assert len(moved.rejections) == 1
    items = moved.requests[-1].body["input"]
    assert [item["type"] for item in items].count("reasoning") == 1
    if runner.mode == "inngest":
        assert [s for s in runner.runs[1].steps if s.name.endswith(".infer.unsigned")]


async def test_omitted_thinking_stays_out_of_later_turns_made_without_it(
    runner: Runner,
) -> None:
    """The second signature does not cover the first thought, so only the second goes back."""
    fake = FakeProvider(
        lambda received: {"reasoning": f"Thought {len(received.body['messages'])}.", "text": "So."},
        signing=Signing(),
    )

    def without(messages: Sequence[Message]) -> list[Message]:
        return [message for message in messages if message.type != "reasoning"]

    state: State[Any] = State()
    for question, processors in (("One?", []), ("Two?", [without]), ("Three?", [])):
        agent = Agent(name="a", system="S", model=claude(fake), processors=processors)
        await runner.run(agent, question, state=state)
    assert fake.rejections == []
    sent = str(fake.requests[-1].body["messages"])
    assert "Thought 1." not in sent
    assert "Thought 3." in sent
