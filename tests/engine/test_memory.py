"""Memory in runs: what one thread tells, the next one's agents see, directly and replayed."""

from __future__ import annotations

from typing import Any

import pytest

from agentkit_py import Agent, MemoryHistory, Network
from agentkit_py.memory import Memory
from agentkit_py.routing import sequence
from agentkit_py.testing import ScriptedModel, tool_call

from .runner import Runner

ADA = {"user_id": "ada", "tenant": "acme"}


def network_of(memory: Memory, store: Any, *models: ScriptedModel) -> Network:
    """A network of two agents with memory."""
    agents = [
        Agent(
            name=name, system="S", model=model, tools=memory.tools(), processors=[memory.recall()]
        )
        for name, model in zip(("desk", "clerk"), models, strict=True)
    ]
    return Network(name="n", agents=agents, router=sequence(*agents), history=store)


async def test_facts_of_one_thread_are_seen_in_the_next(runner: Runner) -> None:
    """By all agents of the network, once written however often the function is replayed."""
    store = MemoryHistory()
    memory = Memory(store)
    one = ScriptedModel(tool_call("remember", {"fact": "Likes tea."}), "Noted.", "Tea?")
    two = ScriptedModel("Fine.", "Fine.")
    network = network_of(memory, store, one, two)
    await store.add_thread("t", user_id="ada")
    await store.add_thread("u", user_id="ada")
    await runner.run(network, "I like tea.", state={"data": ADA, "threadId": "t"})
    (fact,) = await memory.of(user="ada", tenant="acme").facts(replaced=True)
    first = (await store.load("t"))[0]
    assert (fact.thread_id, fact.message_id, fact.agent) == ("t", first.id, None)
    await runner.run(network, "What do I like?", state={"data": ADA, "threadId": "u"})
    line = f"- [{fact.id}] Likes tea."
    for model in (one, two):
        assert line in str(model.requests[-1].body)
    assert line not in str(one.requests[0].body)
    assert line not in str(await store.messages("u"))


async def test_model_corrects_and_forgets(runner: Runner) -> None:
    """By the id that it reads; an id that is not there is said to be none."""
    store = MemoryHistory()
    memory = Memory(store)
    mine = memory.of(user="ada", tenant="acme")
    tea = await mine.remember("Likes tea.")
    other = await memory.of(user="bob", tenant="acme").remember("Likes wine.")
    model = ScriptedModel(
        tool_call("remember", {"fact": "Likes coffee.", "replaces": tea.id}),
        tool_call("forget", {"id": other.id}),
        tool_call("remember", {"fact": "Likes beer.", "replaces": other.id}),
        "Done.",
    )
    agent = Agent(name="a", system="S", model=model, tools=memory.tools(), max_iter=4)
    await runner.run(agent, "Coffee now.", state={"data": ADA})
    assert [one.text for one in await mine.facts()] == ["Likes coffee."]
    assert len(await memory.of(user="bob", tenant="acme").facts()) == 1
    seen = str(model.requests[-1].body)
    assert "No such fact." in seen
    assert f"Unknown fact '{other.id}' to replace." in seen or other.id in seen
    (coffee,) = await mine.facts()
    model.reply(tool_call("forget", {"id": coffee.id}), "Forgotten.")
    await runner.run(agent, "Forget that.", state={"data": ADA})
    assert await mine.facts(replaced=True) == []


@pytest.mark.parametrize("data", [{"user_id": "ada"}, {"tenant": "acme"}, {}])
async def test_a_run_without_a_user_remembers_nothing_and_says_so(
    runner: Runner, data: dict[str, str]
) -> None:
    """The model reads why."""
    store = MemoryHistory()
    memory = Memory(store)
    await memory.of(user="ada", tenant="acme").remember("Likes tea.")
    model = ScriptedModel(
        tool_call("remember", {"fact": "Likes wine."}), tool_call("forget", {"id": "x"}), "Done."
    )
    agent = Agent(
        name="a",
        system="S",
        model=model,
        tools=memory.tools(),
        processors=[memory.recall()],
        max_iter=3,
    )
    await runner.run(agent, "Hi.", state={"data": data})
    seen = str(model.requests[-1].body)
    assert seen.count("Nothing is remembered: there is no ") == 2
    assert "tea" not in seen
    assert len(await memory.of(user="ada", tenant="acme").facts(replaced=True)) == 1


async def test_agents_that_share_nothing_see_their_own_facts(runner: Runner) -> None:
    """And those that all know; they cannot forget each other's."""
    store = MemoryHistory()
    memory = Memory(store, shared=False)
    mine = memory.of(user="ada", tenant="acme")
    secret = await mine.remember("Likes wine.", agent="clerk")
    await mine.remember("Likes tea.")
    one = ScriptedModel(
        tool_call("remember", {"fact": "Likes cake."}), tool_call("forget", {"id": secret.id}), "."
    )
    two = ScriptedModel(".")
    await runner.run(network_of(memory, store, one, two), "Hi.", state={"data": ADA})
    assert "tea" in str(one.requests[0].body)
    assert "wine" not in str(one.requests[0].body)
    assert "wine" in str(two.requests[0].body)
    facts = {(fact.text, fact.agent) for fact in await mine.facts()}
    assert facts == {("Likes wine.", "clerk"), ("Likes tea.", None), ("Likes cake.", "desk")}
