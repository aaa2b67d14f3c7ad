"""Processors that a run chooses, and what an agent sees of others' tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from agentkit_py import (
    Agent,
    HistoryConfig,
    Message,
    Network,
    State,
    TextMessage,
    TokenLimiter,
    Tool,
    ToolCallFilter,
    ToolContext,
    tool,
)
from agentkit_py.lifecycle import AgentContext
from agentkit_py.messages import ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.processors import MessageWindow, ProcessorContext, apply_processors
from agentkit_py.routing import sequence
from agentkit_py.testing import ScriptedModel, tool_call

from .runner import Runner


def look(what: str = "") -> str:
    """Look something up."""
    return f"found {what}"


def fly(what: str = "") -> str:
    """Fly."""
    return f"flown {what}"


def exchange(name: str, agent: str) -> list[Message]:
    """Return a call of an earlier run, with its result."""
    call = ToolCall(f"c-{name}", name, {})
    return [
        ToolCallMessage([call], agent=agent),
        ToolResultMessage(call, {"data": f"{name} was called"}, agent=agent),
    ]


LINES: list[Message] = [TextMessage("user", f"line {number}") for number in range(6)]


def sent(model: ScriptedModel, call: int = 0) -> list[str]:
    """Return the texts that a model call was sent, without the system prompt."""
    return [m["content"] for m in model.bodies[call]["messages"] if m["content"]][1:]


async def test_a_tenant_has_a_policy_of_its_own(runner: Runner) -> None:
    """One network serves them all; each level may choose."""

    def policy(context: AgentContext) -> list[Any]:
        return [MessageWindow(2)] if context.tenant == "small" else []

    async def slow_policy(context: AgentContext) -> list[Any]:
        return [MessageWindow(1)] if context.user_id == "ann" else []

    for tenant, user, left in (("small", "bob", 2), ("large", "bob", 6), ("large", "ann", 1)):
        model = ScriptedModel("ok")
        agent = Agent(name="a", system="S", model=model, processors=slow_policy)
        network = Network(
            name="n",
            agents=[agent],
            router=lambda ctx: None if ctx.call_count else "a",
            processors=policy,
            history=HistoryConfig(processors=lambda context: [TokenLimiter(1000)]),
        )
        data = {"tenant": tenant, "user_id": user}
        run = await runner.run(network, "q?", state=State(data, messages=LINES))
        assert sent(model) == [*[f"line {n}" for n in range(6 - left, 6)], "q?"]
        levels = [entry.level for entry in run.context[0].entries]
        assert levels[0] == "history"


async def test_a_policy_is_chosen_once_in_a_run(runner: Runner) -> None:
    """Changes that the run makes to the state do not change its policy, in a replay either."""
    model = ScriptedModel(tool_call("switch"), "ok")

    def switch(ctx: ToolContext) -> str:
        """Switch the window."""
        ctx.state.data["window"] = 1
        return "switched"

    agent = Agent(
        name="a",
        system="S",
        model=model,
        tools=[switch],
        processors=lambda context: [MessageWindow(context.state.data["window"])],
    )
    await runner.run(agent, "q?", state=State({"window": 4}, messages=LINES))
    # Four messages: the call and its result of this run are two of them.
    assert [m["content"] for m in model.bodies[0]["messages"]][1:5] == [
        f"line {n}" for n in (2, 3, 4, 5)
    ]
    assert "line 4" in str(model.bodies[1]["messages"])


async def test_processors_given_to_a_run_come_last_and_count_for_each_agent(runner: Runner) -> None:
    """A caller narrows what is configured; the next run has none of it."""
    model = ScriptedModel("one", "two", "three")
    agents = [Agent(name=name, system="S", model=model) for name in "ab"]
    network = Network(
        name="n",
        agents=agents,
        processors=[MessageWindow(5)],
        router=lambda ctx: ["a", "b"][ctx.call_count] if ctx.call_count < 2 else None,
    )
    state = State[Any](messages=LINES)
    run = await runner.run(network, "q?", state=state, processors=[MessageWindow(1)])
    assert [[e.level for e in report.entries] for report in run.context] == [["network", "run"]] * 2
    assert sent(model) == ["line 5", "q?"]


async def test_each_agent_of_an_isolated_network_sees_its_own_calls_only(runner: Runner) -> None:
    """One line makes the network clean; the words of all stay."""
    model = ScriptedModel("I looked.", "I flew.")
    network = Network(
        name="n",
        agents=[
            Agent(name="looker", system="S", tools=[look]),
            Agent(name="flyer", system="S", tools=[fly]),
        ],
        router=lambda ctx: [["looker"], ["flyer"], None][ctx.call_count],
        default_model=model,
        isolation="own_tools",
    )
    past = [*exchange("look", "looker"), *exchange("fly", "flyer"), *LINES[:1]]
    run = await runner.run(network, "q?", state=State(messages=past))
    seen = [str(body["messages"]) for body in model.bodies]
    assert ["look was called" in seen[0], "fly was called" in seen[0]] == [True, False]
    assert ["look was called" in seen[1], "fly was called" in seen[1]] == [False, True]
    assert all("line 0" in one for one in seen)
    assert [report.foreign_tokens for report in run.context] == [0, 0]


def finder(owner: str) -> Tool:
    """A tool named like that of other agents."""

    @tool
    def find(query: str) -> str:
        """Find."""
        return f"found by {owner}: {query}"

    return find


SHARED = finder("both")


@pytest.mark.parametrize("where", ["network", "agents"])
@pytest.mark.parametrize("tools", [[finder("a"), finder("b")], [SHARED, SHARED]])
async def test_own_calls_are_those_that_the_agent_made_whatever_its_tools_are_called(
    runner: Runner, where: str, tools: list[Tool]
) -> None:
    """Two agents have a tool of one name, or the same tool; the author decides."""
    own = [ToolCallFilter(include="own")] if where == "agents" else []
    calls = [tool_call("find", {"query": "x"}), "Found.", tool_call("find", {"query": "y"}), "Ok."]
    model = ScriptedModel(*calls)
    agents = [
        Agent(name=name, system="S", tools=[given], processors=own)
        for name, given in zip("ab", tools, strict=True)
    ]
    network = Network(
        name="n",
        agents=agents,
        router=sequence(*agents),
        default_model=model,
        isolation="own_tools" if where == "network" else None,
    )
    run = await runner.run(network, "q?")
    seen = [str(body["messages"]) for body in model.bodies]
    assert [": x" in one for one in seen] == [False, True, False, False]
    assert [": y" in one for one in seen] == [False, False, False, True]
    assert "Found." in seen[2]
    assert [len(report.foreign) for report in run.context] == [0] * 4


async def test_calls_of_another_agents_tool_of_the_same_name_are_foreign(runner: Runner) -> None:
    """Without isolation they are sent, and counted."""
    model = ScriptedModel(tool_call("find", {"query": "x"}), "Found.", "Ok.")
    agents = [Agent(name=name, system="S", tools=[finder(name)]) for name in "ab"]
    network = Network(name="n", agents=agents, router=sequence(*agents), default_model=model)
    run = await runner.run(network, "q?")
    assert [[m.type for m in report.foreign] for report in run.context] == [
        [],
        [],
        ["tool_call", "tool_result"],
    ]


async def test_a_call_without_a_known_author_counts_by_the_tools_name(runner: Runner) -> None:
    """A thread of another program says what was called, not by whom."""
    call = ToolCall("c1", "find", {"query": "x"})
    past = [ToolCallMessage([call]), ToolResultMessage(call, "found long ago")]
    model = ScriptedModel("Ok.", "Ok.")
    agents = [
        Agent(name="a", system="S", tools=[finder("a")]),
        Agent(name="b", system="S", tools=[fly]),
    ]
    network = Network(
        name="n",
        agents=agents,
        router=sequence(*agents),
        default_model=model,
        isolation="own_tools",
    )
    await runner.run(network, "q?", state=State(messages=past))
    assert ["found long ago" in str(body["messages"]) for body in model.bodies] == [True, False]


async def test_a_report_says_how_much_an_agent_was_sent_of_tools_it_does_not_have(
    runner: Runner,
) -> None:
    """The figure for "per-agent tool contamination"."""
    model = ScriptedModel("ok")
    agent = Agent(name="a", system="S", tools=[look], model=model)
    past = [*exchange("look", "a"), *exchange("fly", "b")]
    result = await runner.run(agent, "q?", state=State(messages=past))
    report = result.context
    assert report is not None
    assert [message.type for message in report.foreign] == ["tool_call", "tool_result"]
    figures = report.to_dict()
    assert (figures["foreignMessages"], figures["foreignTokens"]) == (2, report.foreign_tokens)
    assert 0 < report.foreign_tokens < report.tokens_after


async def test_processors_know_the_user_of_the_run(runner: Runner) -> None:
    """User, tenant and state are facts of the context; own tools are all that the agent has."""
    seen: list[Any] = runner.again([])

    def note(messages: Sequence[Message], context: ProcessorContext) -> Sequence[Message]:
        seen.append((context.user_id, context.tenant, context.state.data["k"], context.own_tools))
        return messages

    agent = Agent(
        name="a",
        system="S",
        tools=[look, fly],
        allowed_tools=["look"],
        model=ScriptedModel("ok"),
        processors=[note],
    )
    data = {"userId": "u1", "tenant_id": "t1", "k": 1}
    await runner.run(agent, "q?", state=State(data, messages=LINES))
    assert seen == [("u1", "t1", 1, frozenset({"look", "fly"}))]


@pytest.mark.parametrize("inherit", [False, True])
async def test_outer_processors_reach_a_nested_run_if_asked(runner: Runner, inherit: bool) -> None:
    """Those of the network and of the run do; those of the calling agent do not."""

    def mark(text: str) -> Any:
        def process(messages: Sequence[Message]) -> Sequence[Message]:
            return [*messages, TextMessage("user", text)]

        return process

    inner_model = ScriptedModel("done")
    inner = Agent(name="inner", system="I", model=inner_model)
    model = ScriptedModel(tool_call("inner", {"task": "t"}), "ok")
    outer = Agent(
        name="outer",
        system="S",
        model=model,
        tools=[inner.as_tool(inherit=inherit)],
        processors=[mark("of agent")],
    )
    network = Network(
        name="n",
        agents=[outer],
        router=lambda ctx: None if ctx.call_count else "outer",
        processors=[mark("of network")],
    )
    await runner.run(network, "q?", processors=[mark("of run")])
    body = str(inner_model.bodies[0]["messages"])
    assert ["of network" in body, "of run" in body] == [inherit, inherit]
    assert "of agent" not in body


async def test_a_subclass_of_a_stock_processor_may_drop_protected_calls() -> None:
    """The class's word counts inside the stock `process` too."""

    class Everything(ToolCallFilter):
        may_drop_protected = True

    past = exchange("look", "a")
    context = ProcessorContext(agent="a", protected=frozenset(map(id, past)))
    assert len(await apply_processors(past, [ToolCallFilter()], context)) == 2
    assert not await apply_processors(past, [Everything()], context)
