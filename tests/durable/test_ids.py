"""No two steps of one function have one name."""

from __future__ import annotations

from typing import Any

import inngest
import pytest

from agentkit_py import Agent, Network, ToolContext, tool
from agentkit_py.errors import ConfigurationError
from agentkit_py.inngest.memory import StepMemory
from agentkit_py.testing import ScriptedModel, tool_call, tool_calls

from .world import EVENT, executor_for


def network(name: str, model: Any) -> Network:
    """A network of one agent that answers once."""
    agent = Agent(name="helper", system="S", model=model)
    return Network(name=name, agents=[agent], router=lambda c: agent if c.call_count == 0 else None)


async def test_two_networks_and_one_of_them_twice_in_one_function() -> None:
    """Their steps differ by name and by number."""
    model = ScriptedModel("1", "2", "3")
    one, two = network("one", model), network("two", model)

    async def handler(ctx: inngest.Context) -> list[str]:
        return [(await net.run("hi")).text for net in (one, two, one)]

    run = await executor_for(handler).run(EVENT)
    assert run.output == ["1", "2", "3"]
    assert [name.split(".")[0] for name in run.names] == ["one", "two", "one:2"]
    assert run.differences == []


async def test_an_agent_in_a_tool_with_steps_has_steps_under_the_calls_name() -> None:
    """Called twice, with a step of the user's own in it."""
    inner = Agent(name="inner", system="inner S", model=ScriptedModel("a", "b"))
    happened: list[str] = []

    @tool(steps=True)
    async def ask(question: str, ctx: ToolContext) -> str:
        """Ask the inner agent."""

        async def log() -> None:
            happened.append(question)

        await ctx.step.run("log", log)
        return (await inner.run(question)).text

    model = ScriptedModel(
        tool_calls(("ask", {"question": "x"}), ("ask", {"question": "y"})), "done"
    )
    outer = Agent(name="outer", system="S", tools=[ask], model=model, max_iter=2)

    async def handler(ctx: inngest.Context) -> str:
        return (await outer.run("go")).text

    run = await executor_for(handler).run(EVENT)
    assert (run.status, run.output, happened) == ("completed", "done", ["x", "y"])
    assert len(set(run.names)) == len(run.names) == 6
    assert run.names[1:3] == [
        "outer.0.tool.0.ask.log", "outer.0.tool.0.ask/inner.0.infer",
    ]  # fmt: skip
    assert run.differences == []


async def test_agents_in_tools_at_the_same_time_keep_their_answers_apart() -> None:
    """The order in which parallel tools begin in a request must not matter."""
    inner = Agent(name="inner", system="inner S")
    answers = {"x": "answer to x", "y": "answer to y"}

    @tool(steps=True)
    async def ask(question: str, ctx: ToolContext) -> str:
        """Ask the inner agent; one of the two has a step before."""
        if question == "x":

            async def nothing() -> None:
                return None

            await ctx.step.run("first", nothing)
        return (await inner.run(question, model=ScriptedModel(answers[question]))).text

    calls = tool_calls(("ask", {"question": "x"}), ("ask", {"question": "y"}))
    for seed in range(8):
        for discovery in ("joined", "eager"):
            model = ScriptedModel(calls, "done")
            outer = Agent(
                name="outer", system="S", tools=[ask], model=model, max_iter=2, parallel_tools=True
            )

            async def handler(ctx: inngest.Context, outer: Agent = outer) -> Any:
                result = await outer.run("go", state=None)
                return result.text

            executor = executor_for(handler, seed=seed, discovery=discovery)
            run = await executor.run(EVENT)
            assert run.output == "done"
            model.assert_saw("answer to x", "answer to y")


async def test_a_step_in_a_tool_that_is_a_step_fails_the_run_at_once_and_says_why() -> None:
    """This includes steps through the function's own context."""

    @tool
    async def wrong(ctx: ToolContext) -> str:
        """Use a step in a step."""

        async def inside() -> int:
            return 1

        return str(await ctx.step.run("inside", inside))

    agent = Agent(
        name="a", system="S", tools=[wrong], model=ScriptedModel(tool_call("wrong")), max_iter=1
    )

    async def handler(ctx: inngest.Context) -> str:
        return (await agent.run("go")).text

    run = await executor_for(handler).run(EVENT)
    assert run.status == "failed"
    assert run.error is not None
    assert "@tool(steps=True)" in run.error["message"]
    assert run.steps[-1].attempts == 1


def test_more_steps_than_inngest_allows_are_a_clear_error() -> None:
    """The error comes before the server would end the run."""
    memory = StepMemory(None)
    for number in range(1000):
        memory.enter(f"step-{number}")
    with pytest.raises(ConfigurationError, match="more than 1000 steps"):
        memory.enter("one more")
