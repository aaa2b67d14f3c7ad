"""Attributes of agents and networks that are nearly an option's name are refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from agentkit_py import Agent, MemoryHistory, Network
from agentkit_py.errors import ConfigurationError
from agentkit_py.routing import once
from agentkit_py.testing import ScriptedModel


def _agent(kind: Any = Agent, **options: Any) -> Any:
    return kind(name="helper", system="s", model=ScriptedModel(*["Hello."] * 3), **options)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("tool", "tools"), ("instruction", "instructions"), ("maxIter", "max_iter")],
)
async def test_an_agents_attribute_that_is_nearly_an_option_is_refused_by_name(
    written: str, meant: str
) -> None:
    """Also after a run, whose settings are kept."""
    agent = _agent()
    await agent.run("Hi")
    setattr(agent, written, [])
    with pytest.raises(
        ConfigurationError, match=f"Agent 'helper' has no option '{written}'.*mean '{meant}'"
    ):
        await agent.run("Hi")
    delattr(agent, written)
    assert (await agent.run("Hi")).output[0].content == "Hello."


async def test_a_networks_attribute_that_is_nearly_an_option_is_refused_by_name() -> None:
    """Its agents are looked at as well."""
    agent = _agent()
    network: Any = Network(name="desk", agents=[agent], router=once(agent))
    await network.run("Hi")
    network.histroy = MemoryHistory()
    with pytest.raises(
        ConfigurationError, match=r"Network 'desk' has no option 'histroy'.*history"
    ):
        await network.run("Hi")
    del network.histroy
    agent.procesors = []
    with pytest.raises(ConfigurationError, match=r"Agent 'helper' has no option 'procesors'"):
        await network.run("Hi")


class Labelled(Agent[Any, Any]):
    """A user's class, which declares an attribute."""

    names: list[str]


@dataclass(eq=False, kw_only=True)
class Counted(Agent[Any, Any]):
    """A user's class with an option of its own."""

    tool: str = ""


async def test_attributes_of_a_users_own_stay_allowed() -> None:
    """Those that are unlike any option, and those that the class declares."""
    plain, labelled, counted = _agent(), _agent(Labelled), _agent(Counted, tool="hammer")
    plain.customer = plain._tool = "Ada"
    labelled.names = ["Ada"]
    for agent in (plain, labelled, counted):
        assert (await agent.run("Hi")).output[0].content == "Hello."
