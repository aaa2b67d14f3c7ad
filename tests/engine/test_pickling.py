"""Agents and results travel to other processes by pickle, or the error says why they cannot."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from agentkit_py import Agent, Network, State, tool
from agentkit_py.routing import sequence
from agentkit_py.testing import ScriptedModel, tool_call

from .runner import Runner


@tool
def find(number: int) -> str:
    """Find an order."""
    return f"order {number}"


def count(words: str) -> int:
    """Count words."""
    return len(words.split())


def again(value: Any) -> Any:
    """A value after its journey."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - our own


async def test_an_agent_runs_as_before_after_its_journey(runner: Runner) -> None:
    """Tools are found again by the names of their functions."""
    model = "openai:gpt-4.1"
    agent = again(Agent(name="a", system="S", tools=[find, count], model=model))
    script = ScriptedModel(
        tool_call("find", {"number": 7}), tool_call("count", {"words": "a b"}), "done"
    )
    state = State[Any]()

    await runner.run(agent, "q?", model=script, state=state)

    contents = [one.tool_calls[0].content for one in state.results[:2]]
    assert contents == [{"data": "order 7"}, {"data": 2}]
    assert agent.tool_map["find"] is find


async def test_results_are_equal_after_their_journey(runner: Runner) -> None:
    """Those of agents, and a state with all of them."""
    script = ScriptedModel(tool_call("find", {"number": 7}), "done")
    state = State({"a": 1})
    result = await runner.run(
        Agent(name="a", system="S", tools=[find], model=script), "q?", state=state
    )

    assert again(result) == result
    assert again(state).results == state.results
    assert again(state).data == {"a": 1}


async def test_a_networks_run_has_its_results_after_its_journey(runner: Runner) -> None:
    """Where its router is a function that a module has."""
    agent = Agent(name="a", system="S", model=ScriptedModel("done"))
    run = await runner.run(Network(name="n", agents=[agent], router=sequence(agent)), "q?")

    assert again(run.results) == run.results


def test_a_tool_that_is_not_found_by_its_name_says_so() -> None:
    """Python's own error speaks of a class that nobody has written."""

    @tool
    def local() -> None:
        """Do nothing."""

    other = tool(name="other")(count)
    for made in (local, other):
        with pytest.raises(pickle.PicklingError, match=f"Tool '{made.name}' cannot be pickled"):
            pickle.dumps(Agent(name="a", system="S", tools=[made]))
        assert copy.deepcopy(made) is copy.copy(made) is made
