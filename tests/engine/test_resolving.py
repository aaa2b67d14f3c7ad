"""Changes to attributes of agents and networks take effect in the next run."""

from __future__ import annotations

import logging
from collections import UserList
from collections.abc import Sequence
from copy import copy
from typing import Any

import pytest

from agentkit_py import (
    Agent,
    Lifecycle,
    Message,
    Network,
    NetworkRun,
    RouterContext,
    RoutingAgent,
    State,
    TextMessage,
    create_agent,
    create_routing_agent,
    explain,
    tool,
)
from agentkit_py.errors import ConfigurationError, GuardrailTripped
from agentkit_py.lifecycle import ResultContext, Start, StartContext
from agentkit_py.testing import ScriptedModel, tool_call

from .runner import Runner


@tool
def look(what: str = "it") -> str:
    """Look at something."""
    return f"seen {what}"


@tool
def fly() -> str:
    """Fly."""
    return "flown"


def offered(body: dict[str, Any]) -> list[str]:
    """Names of the tools in a request."""
    return [one["function"]["name"] for one in body.get("tools", ())]


def newest(messages: Sequence[Message]) -> Sequence[Message]:
    """The newest message."""
    return messages[-1:]


async def test_assignments_to_an_agent_count_from_the_next_run_on(runner: Runner) -> None:
    """Tools, processors, system prompt and limits alike."""
    model = ScriptedModel("one", "two")
    agent = Agent(name="a", system="Before.", model=model)
    seed: list[Message] = [TextMessage("user", "old?"), TextMessage("assistant", "old")]
    await runner.run(agent, "q?", state=State[Any](messages=seed))
    agent.tools, agent.processors, agent.system = [look], [newest], "After."
    await runner.run(agent, "q?", state=State[Any](messages=seed))
    first, second = model.bodies
    assert (offered(first), offered(second)) == ([], ["look"])
    assert (len(first["messages"]), len(second["messages"])) == (4, 3)
    assert second["messages"][0]["content"] == "After."


@pytest.mark.parametrize("in_network", [False, True])
async def test_assignments_to_an_agent_count_where_it_is_a_tool_too(
    runner: Runner, *, in_network: bool
) -> None:
    """From the next call of the tool on."""
    model = ScriptedModel("one")
    agent = Agent(name="inner", system="Before.", model=model)
    network = Network(
        name="inner", agents=[agent], router=lambda c: None if c.call_count else "inner"
    )
    made = (network if in_network else agent).as_tool(allowed_tools="own")
    agent.tools, agent.system = [look], "After."
    outer = ScriptedModel(tool_call("inner", {"task": "t"}), "done")
    await runner.run(Agent(name="a", system="S", model=outer, tools=[made]), "q?")
    assert offered(model.bodies[0]) == ["look"]
    assert model.bodies[0]["messages"][0]["content"] == "After."


def refuse(text: str) -> str:
    """Refuse every message."""
    return f"no {text}"


@pytest.mark.parametrize("kind", [list, UserList])
@pytest.mark.parametrize("setting", ["tools", "instructions", "processors", "input_guardrails"])
async def test_items_appended_to_a_list_of_an_agent_count_from_the_next_run_on(
    runner: Runner, kind: type[Any], setting: str
) -> None:
    """Though an agent that has not changed is resolved once, for all its runs."""
    given: Any = ["Be kind."] if setting == "instructions" else kind()
    added: Any = {"tools": look, "instructions": "Be quick.", "processors": newest}.get(
        setting, refuse
    )
    model = ScriptedModel("one", "two", "three")
    agent = Agent(name="a", system="S", model=model, **{setting: given})
    seed: list[Message] = [TextMessage("user", "old?"), TextMessage("assistant", "old")]
    for _ in range(2):
        await runner.run(agent, "q?", state=State[Any](messages=seed))
    given.append(added)
    if setting == "input_guardrails":
        with pytest.raises(GuardrailTripped, match="no q"):
            await runner.run(agent, "q?")
        return
    await runner.run(agent, "q?", state=State[Any](messages=seed))
    first, second, third = model.bodies
    assert first == second != third


@pytest.mark.direct_only("a run that is refused begins nothing that could be replayed")
async def test_wrong_appended_items_are_refused_in_the_next_run(runner: Runner) -> None:
    """As when the agent is made."""
    tools: list[Any] = [look]
    agent = Agent(name="a", system="S", model=ScriptedModel("one"), tools=tools)
    await runner.run(agent, "q?")
    tools.append(look)
    with pytest.raises(ConfigurationError, match="two tools called 'look'"):
        await runner.run(agent, "q?")


async def test_a_copy_of_an_agent_that_has_run_is_an_agent_of_its_own(runner: Runner) -> None:
    """Hooks get the one that runs."""
    seen: list[Any] = []
    agent = Agent(
        name="a",
        system="S",
        model=ScriptedModel("one", "two"),
        lifecycle=Lifecycle(on_response=lambda context: seen.append(context.agent)),
    )
    await runner.run(agent, "q?")
    again = copy(agent)
    await runner.run(again, "q?")
    assert {*map(id, seen)} == {id(agent), id(again)}


async def test_items_that_a_hook_appends_do_not_change_the_current_run(runner: Runner) -> None:
    """A list is read when a run begins."""
    model = ScriptedModel(tool_call("look"), "done", "again")
    tools: list[Any] = [look]

    def append(context: ResultContext) -> None:
        if fly not in tools:
            tools.append(fly)

    agent = Agent(
        name="a", system="S", tools=tools, model=model, lifecycle=Lifecycle(on_response=append)
    )
    await runner.run(agent, "q?")
    if runner.mode == "direct":
        assert [offered(body) for body in model.bodies] == [["look"], ["look"]]
    await runner.run(agent, "q?")
    assert offered(model.bodies[-1]) == ["look", "fly"]


async def test_a_network_reads_its_agents_and_processors_when_a_run_begins(runner: Runner) -> None:
    """Agents that are appended belong to the next run."""
    model = ScriptedModel("one", "two", "three")

    def route(context: RouterContext) -> str | None:
        names = list(context.network.agents)
        return names[context.call_count] if context.call_count < len(names) else None

    agents = [Agent(name="a", system="S")]
    network = Network(name="n", agents=agents, router=route, default_model=model)
    assert [r.agent_name for r in (await runner.run(network, "q?")).results] == ["a"]
    agents.append(Agent(name="b", system="S"))
    assert [r.agent_name for r in (await runner.run(network, "q?")).results] == ["a", "b"]


@pytest.mark.direct_only("a run that is refused begins nothing that could be replayed")
async def test_an_agent_that_cannot_run_is_refused_when_the_run_begins() -> None:
    """Also when it was assigned later."""
    agent = Agent(name="a", system="S", model=ScriptedModel())
    agent.tools = [look, look]
    with pytest.raises(ConfigurationError, match="two tools called 'look'"):
        await agent.run("q?")


def test_an_agent_makes_ten_inferences_and_typescripts_one() -> None:
    """Routing agents answer with one."""
    hooks = Lifecycle(on_route=lambda context: None)
    assert Agent(name="a", system="S").max_iter == 10
    assert create_agent(name="a", system="S").max_iter == 1
    assert create_agent(name="a", system="S", max_iter=3).max_iter == 3
    assert RoutingAgent(name="r", system="S", lifecycle=hooks).max_iter == 1
    assert create_routing_agent(name="r", system="S", lifecycle=hooks).max_iter == 1


async def test_results_that_no_model_has_read_are_warned_of(
    runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    """With the name of the agent and of the option."""
    agent = Agent(name="clerk", system="S", tools=[look], model=ScriptedModel(tool_call("look")))
    agent.max_iter = 1
    with caplog.at_level(logging.WARNING, logger="agentkit_py"):
        await runner.run(agent, "q?")
    assert "no model has read: agent 'clerk'" in caplog.text
    assert "Agent(max_iter=…)" in caplog.text


async def test_results_that_another_agent_reads_are_not_warned_of(
    runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    """A run warns at its end."""
    model = ScriptedModel(tool_call("look"), "read")
    agents = [
        Agent(name="a", system="S", tools=[look], max_iter=1),
        Agent(name="b", system="S"),
    ]
    order = ["a", "b"]
    network = Network(
        name="n",
        agents=agents,
        default_model=model,
        router=lambda c: order[c.call_count] if c.call_count < 2 else None,
    )
    with caplog.at_level(logging.WARNING, logger="agentkit_py"):
        await runner.run(network, "q?")
    assert "no model has read" not in caplog.text


async def test_results_at_which_a_router_ends_the_run_are_not_warned_of(
    runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    """TypeScript's usual pattern: a tool says in the state that all is done."""
    agent = create_agent(name="a", system="S", tools=[look], model=ScriptedModel(tool_call("look")))
    network = Network(name="n", agents=[agent], router=lambda c: None if c.call_count else agent)
    with caplog.at_level(logging.WARNING, logger="agentkit_py"):
        await runner.run(network, "q?")
    assert "no model has read" not in caplog.text


async def test_a_network_that_its_limit_ends_says_that_the_router_was_not_asked(
    runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    """In TypeScript it is asked once more, and some programs reply to the user there."""
    agent = create_agent(name="a", system="S", model=ScriptedModel("Hi."))
    network = Network(name="n", agents=[agent], router=lambda _: agent, max_iter=1)
    with caplog.at_level(logging.WARNING, logger="agentkit_py"):
        run = await runner.run(network, "q?")
    assert run.stop_reason == "max_iter"
    assert "router was not asked again" in caplog.text
    assert "max_iter=2" in caplog.text


async def test_a_router_is_given_the_state(runner: Runner) -> None:
    """The one of the run."""
    states: list[State[Any]] = runner.again([])

    def route(context: RouterContext) -> None:
        states.append(context.state)

    agents = [Agent(name="a", system="S")]
    run = await runner.run(Network(name="n", agents=agents, router=route), "q?")
    assert states[-1] is run.state


async def test_messages_that_a_hook_takes_out_of_a_result_keep_their_side(runner: Runner) -> None:
    """Those of an earlier run are before the question, those of this run after it."""
    model = ScriptedModel("one", tool_call("look"), "done")

    def rebuild(context: StartContext) -> Start:
        # The newest first, so that the order does not say on which side they are.
        results = reversed(context.state.results)
        return Start(context.prompt, [m for result in results for m in result.messages])

    agent = Agent(
        name="a", system="S", tools=[look], model=model, lifecycle=Lifecycle(on_start=rebuild)
    )
    state = State[Any]()
    await runner.run(agent, "first?", state=state)
    await runner.run(agent, "second?", state=state)
    roles = [m["role"] for m in model.bodies[-1]["messages"]]
    assert roles == ["system", "assistant", "user", "assistant", "tool"]
    assert [m["content"] for m in model.bodies[-1]["messages"]][1:3] == ["one", "second?"]


async def test_a_transcript_says_which_entries_are_of_this_run(runner: Runner) -> None:
    """By the side of their messages."""
    agent, state = Agent(name="a", system="S", model=ScriptedModel("one", "two")), State[Any]()
    await runner.run(agent, "first?", state=state)
    await runner.run(agent, "second?", state=state)
    sides = [entry.output[0].from_history for entry in state.transcript]
    assert sides == [True, True, False, False]
    assert [entry.agent_name for entry in state.transcript] == ["user", "a", "user", "a"]
    assert [result.text for result in state.results] == ["one", "two"]


async def test_a_run_and_a_result_can_be_printed(runner: Runner) -> None:
    """The text names the authors and the stop reason."""
    model = ScriptedModel(tool_call("look", {"what": "x"}), "done")
    agents = [Agent(name="a", system="S", tools=[look])]
    network = Network(
        name="n",
        agents=agents,
        default_model=model,
        router=lambda c: None if c.call_count else "a",
    )
    run = await runner.run(network, "q?")
    assert isinstance(run, NetworkRun)
    assert str(run).splitlines() == [
        "user: q?",
        'a: look({"what":"x"})',
        '  look → {"data":"seen x"}',
        "a: done",
        "(n: done)",
    ]
    assert str(run.results[-1]) == "a: done"


def test_a_tool_can_be_called_like_the_function_it_was() -> None:
    """With defaults and by name."""
    assert look() == "seen it"
    assert look(what="that") == look("that") == "seen that"


async def test_explaining_leaves_the_state_as_it_is() -> None:
    """Neither the question nor what a hook changes gets into it."""

    def count(context: StartContext) -> None:
        context.state.data["asked"] = True

    agent = Agent(name="a", system="S", model=ScriptedModel(), lifecycle=Lifecycle(on_start=count))
    state = State[Any]({}, messages=[TextMessage("user", "Hello")])
    await explain(agent, input="And now?", state=state)
    assert (state.data, state.transcript) == ({}, [])
