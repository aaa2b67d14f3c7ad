"""Names of agents that a network does not have: refused where they are known, else an error."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from agentkit_py import (
    Agent,
    MemoryHistory,
    Network,
    RouterContext,
    RunLimits,
    ToolContext,
    tool,
)
from agentkit_py.errors import ConfigurationError, RoutingError
from agentkit_py.routing import (
    Handoff,
    RouterFunction,
    handoffs,
    mention_router,
    once,
    sequence,
    together,
)
from agentkit_py.server import create_app
from agentkit_py.testing import ScriptedModel, tool_call
from tests.server.world import client_of


def agent(name: str, *replies: Any, **options: Any) -> Agent[Any, Any]:
    """An agent with a script."""
    return Agent(name=name, system="S", model=ScriptedModel(*(replies or ("x",))), **options)


def network(router: Any, *agents: Agent[Any, Any], **options: Any) -> Network[Any]:
    """A network with an agent called billing."""
    return Network(name="desk", agents=[agent("billing"), *agents], router=router, **options)


READY_MADE: dict[str, Callable[[], RouterFunction[Any]]] = {
    "once": lambda: once("biling"),
    "sequence": lambda: sequence("billing", "biling"),
    "together": lambda: sequence(together("billing", "biling")),
    "handoffs": lambda: handoffs("biling"),
    "handoffs that stay": lambda: handoffs("biling", stay=True),
    "mention_router": lambda: mention_router("biling"),
    "a router in mention_router": lambda: mention_router(once("biling")),
}


@pytest.mark.parametrize("router", READY_MADE)
def test_a_misspelt_name_in_a_ready_made_router_is_refused(router: str) -> None:
    """When the network is made, with the name that is meant."""
    with pytest.raises(ConfigurationError, match=r"no agent 'biling'.*did you mean 'billing'"):
        network(READY_MADE[router]())


def test_a_misspelt_name_in_a_handoff_is_refused() -> None:
    """When the network is made."""
    triage = agent("triage", handoffs=[Handoff("biling")])
    with pytest.raises(ConfigurationError, match="a handoff of 'triage' names: did you mean"):
        network(handoffs(triage), triage)


async def test_an_agent_among_its_own_handoffs_is_refused() -> None:
    """Where it is defined, if it is there by name; else when a run begins."""
    with pytest.raises(ConfigurationError, match="Agent 'desk' cannot hand over to itself"):
        agent("desk", handoffs=[Handoff("desk")])
    desk = agent("desk", "Hello.")
    desk.handoffs = [desk]
    with pytest.raises(
        ConfigurationError, match=r"handoffs=\[…\] names other agents. Leave it out"
    ):
        await network(handoffs(desk), desk).run("Hi")


async def test_a_misspelt_name_in_the_router_of_a_run_is_refused() -> None:
    """Before anything is done."""
    with pytest.raises(ConfigurationError, match="did you mean 'billing'"):
        await network(None).run("Hi", router=once("biling"))


def test_agents_that_handoffs_and_routers_bring_along_are_known() -> None:
    """They join the network when a run begins."""
    clerk = agent("clerk")
    triage = agent("triage", handoffs=[clerk])
    assert network(sequence(triage, "clerk")).router is not None


async def test_a_misspelt_answer_of_a_router_is_an_error_of_the_run() -> None:
    """Before the agents that come before it have a turn."""
    asked = agent("desk", "never said")

    def route(context: RouterContext) -> list[str]:
        return ["desk", "biling"]

    with pytest.raises(RoutingError, match=r"its router returned 'biling'.*did you mean 'billing'"):
        await network(route, asked).run("Hi")
    assert isinstance(asked.model, ScriptedModel)
    assert asked.model.bodies == []


async def test_a_misspelt_name_that_a_tool_schedules_is_an_error_of_the_run() -> None:
    """When its turn comes: the agent may join before."""

    @tool
    def hand_over(ctx: ToolContext) -> str:
        """Hand over."""
        assert ctx.network is not None
        ctx.network.schedule("biling")
        return "done"

    desk = agent("desk", tool_call("hand_over", {}), "bye", tools=[hand_over])
    with pytest.raises(RoutingError, match="a tool or hook scheduled 'biling'"):
        await network(once(desk)).run("Hi")


async def test_typescripts_mode_ends_the_run_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As TypeScript's network does, which says nothing."""
    ported = network(once("biling"), history_mode="typescript")
    run = await ported.run("Hi")
    assert (run.stop_reason, run.stopped_at) == ("unknown_agent", "biling")
    (record,) = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert "did you mean 'billing'" in record.getMessage()


async def test_a_limit_of_a_tool_that_no_agent_has_is_refused() -> None:
    """Before the run begins, where all tools are known; the error names the tool that is meant."""

    @tool
    def search() -> str:
        """Search."""
        return "nothing"

    desk, other = agent("desk", "Hi.", tools=[search]), agent("other", "Hello.")
    misspelt = RunLimits(max_tool_calls={"serch": 1})
    refused = r"no tool 'serch', which RunLimits.*did you mean 'search'\?"
    with pytest.raises(ConfigurationError, match=f"Agent 'desk' has {refused}"):
        await desk.run("Hi", limits=misspelt)
    with pytest.raises(ConfigurationError, match=f"Network 'desk' has {refused}"):
        await network(sequence(other, desk)).run("Hi", limits=misspelt)
    with pytest.raises(ConfigurationError, match=f"create_app has {refused}"):
        create_app(agents=[other, desk], auth="local", run_limits=misspelt, history=MemoryHistory())
    limits = RunLimits(max_tool_calls={"search": 1})
    assert (await network(sequence(other, desk)).run("Hi", limits=limits)).stop_reason == "done"


async def test_a_limit_of_a_tool_that_may_come_later_is_taken(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An agent as a tool has tools of its own; a router may bring agents along: then a warning."""
    limits = RunLimits(max_tool_calls={"serch": 1})
    helper = agent("helper")
    assert (await agent("desk", "Hi.", tools=[helper.as_tool()]).run("Hi", limits=limits)).text
    assert caplog.records == []

    def route(context: RouterContext) -> str | None:
        return None if context.call_count else "desk"

    open_ended = network(route, agent("desk"))
    await open_ended.run("Hi", limits=limits)
    assert "no tool 'serch'" in caplog.records[-1].getMessage()


async def test_limits_of_a_servers_runs_hold_for_the_tools_of_each_target() -> None:
    """A tool that only the other target has is no misspelt name."""

    @tool
    def search() -> str:
        """Search."""
        return "nothing"

    desk, other = agent("desk", "Hi.", tools=[search]), agent("other", "Hello.")
    limits = RunLimits(max_tool_calls={"search": 1})
    app = create_app(agents=[desk, other], auth="local", run_limits=limits, history=MemoryHistory())
    async with client_of(app, user=None) as client:
        message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}
        body: dict[str, Any] = {"id": "t1", "agent": "other", "message": message}
        answer = await client.post("/api/vercel", json=body)
    assert '"finishReason":"stop"' in answer.text
    assert '"agent":"other"' in answer.text
