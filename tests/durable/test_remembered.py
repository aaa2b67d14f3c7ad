"""Results of remembered calls hold what a direct run's hold."""

from __future__ import annotations

from typing import Any

import inngest
import pytest

from agentkit_py import Agent, AgentResult, State, ToolContext, tool
from agentkit_py.guardrails import Guardrail
from agentkit_py.processors import ApproximateTokenizer
from agentkit_py.testing import ScriptedModel, tool_call

from .world import EVENT, executor_for

SCRIPT = (tool_call("count", {"by": 2}), tool_call("count", {"by": 3}), "Five.")


def counter(*script: Any, **options: Any) -> tuple[Agent, ScriptedModel]:
    """An agent that counts, and its model."""

    @tool
    async def count(by: int, ctx: ToolContext) -> int:
        """Count on."""
        ctx.state.data["count"] = ctx.state.data.get("count", 0) + by
        return ctx.state.data["count"]

    model = ScriptedModel(*script or SCRIPT)
    how: dict[str, Any] = {"model": model, "tools": [count], "max_iter": 3, **options}
    return Agent(name="counter", system="S", **how), model


def figures(result: AgentResult) -> dict[str, Any]:
    """Return the input, the output and the report of a model call."""
    report = result.context
    assert report is not None
    return {
        "prompt": result.prompt,
        "history": result.history,
        "all": report.history,
        "sent": report.sent,
        "figures": report.to_dict(),
        "output": result.output,
        "tools": result.tool_calls,
    }


async def durably(agent: Agent) -> list[AgentResult]:
    """The results that the last replay of a run has."""
    found: list[AgentResult] = []

    async def function(ctx: inngest.Context) -> str:
        state = State[dict[str, Any]]()
        text = (await agent.run("Count.", state=state)).text
        found[:] = state.results
        return text

    run = await executor_for(function).run(EVENT)
    assert run.output == "Five.", run.error
    return found


@pytest.mark.parametrize("token_counter", [None, ApproximateTokenizer()])
async def test_results_of_remembered_calls_hold_the_reports_of_those_calls(
    token_counter: Any,
) -> None:
    """Prompt, history and report are those of a direct run, for each call of the turn."""
    agent, _ = counter(token_counter=token_counter)
    state = State[dict[str, Any]]()
    await agent.run("Count.", state=state)
    agent, model = counter(token_counter=token_counter)
    durable = await durably(agent)
    model.assert_finished()
    reported = [figures(result) for result in durable]
    assert reported == [figures(result) for result in state.results]
    assert [len(one["history"]) for one in reported] == [0, 2, 4]
    assert [len(one["sent"]) for one in reported] == [2, 4, 6]


@pytest.mark.parametrize("stage", ["input", "beside", "output", "tool_input", "tool_output"])
async def test_what_trips_said_counts_once_a_step_was_done_under_it(stage: str) -> None:
    """A function that would say otherwise later, after a deploy, is not asked."""
    agent, model = counter({"text": "Wait.", **tool_call("count", {"by": 5})}, "Five.")
    judge = Agent(name="judge", system="J", model=ScriptedModel("fine", "the end"))
    guardrail = Guardrail(
        judge,
        trips=lambda text: text == "fine" and len(model.requests) > 1,
        run_in_parallel=stage == "beside",
    )
    setattr(agent, f"{'input' if stage == 'beside' else stage}_guardrails", [guardrail])
    assert [result.text for result in await durably(agent)] == ["Wait.", "Five."]
