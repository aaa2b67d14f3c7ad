"""Names of agents that a network does not have: refused where they are known, else an error."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from agentkit_py import Agent, Network, RouterContext, ToolContext, tool
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
from agentkit_py.testing import ScriptedModel, tool_call


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
