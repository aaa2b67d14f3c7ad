"""The test runner's second mode really replays a run."""

from __future__ import annotations

from typing import Any

import inngest
import pytest

from agentkit_py import Agent, Lifecycle, Network, RouterContext, State
from agentkit_py.errors import MissingModelError
from agentkit_py.testing import EventLog, ScriptedModel, tool_call

from .runner import Runner


def twice(context: RouterContext) -> str | None:
    """The agent, two times."""
    return "a" if context.call_count < 2 else None


async def test_a_function_runs_again_for_each_step_and_does_each_once(runner: Runner) -> None:
    """Models and tools are asked as often as directly, routers again and again."""
    acted: list[str] = []
    all_turns: list[int] = []
    last_turns: list[int] = runner.again([])

    def act() -> None:
        """Act."""
        acted.append("act")

    def router(context: RouterContext) -> str | None:
        all_turns.append(context.call_count)
        last_turns.append(context.call_count)
        return twice(context)

    model = ScriptedModel(tool_call("act"), "done")
    agent = Agent(name="a", system="S", tools=[act], model=model, max_iter=1)
    run = await runner.run(Network(name="n", agents=[agent], router=router), "q?")
    assert (run.text, acted, last_turns) == ("done", ["act"], [0, 1, 2])
    model.assert_finished()
    if runner.mode == "direct":
        assert (runner.runs, all_turns) == ([], last_turns)
        return
    (function,) = runner.runs
    assert function.names == ["n.a.0.0.infer", "n.a.0.0.tool.0.act", "n.a.1.0.infer"]
    assert function.requests == 4
    # Each request is sent without running a step first, two times: see `check` of the executor.
    assert len(all_turns) == 3 * (1 + 1 + 2 + 3)


async def test_states_and_logs_are_those_of_the_last_execution(runner: Runner) -> None:
    """Each begins with the state that was given, in the run before too."""
    log, state = EventLog(), State[Any]({"n": 1})

    def count(context: Any) -> None:
        context.state.data["n"] += 1

    agent = Agent(
        name="a", system="S", model=ScriptedModel("one", "two"), lifecycle=Lifecycle(on_start=count)
    )
    for n in (2, 3):
        result = await runner.run(agent, "q?", state=state, observer=log)
        assert state.data == {"n": n}
        assert state.results[-1] is result
    assert len(state.transcript) == 4
    assert log.story.count("RunStarted agent a") == 2


async def test_errors_are_those_that_a_direct_run_raises(runner: Runner) -> None:
    """Errors of the function's code are unchanged; those of a step come from the SDK."""

    def fail(context: Any) -> None:
        raise LookupError("hook")

    broken = Agent(name="a", system="S", model=ScriptedModel(), lifecycle=Lifecycle(on_start=fail))
    with pytest.raises(LookupError, match="hook"):
        await runner.run(broken, "q?")
    with pytest.raises(MissingModelError):
        await runner.run(Agent(name="a", system="S"), "q?")
    with runner.raises(KeyError, match="step"):
        if runner.mode == "inngest":
            raise inngest.StepError("step", "KeyError", None)
        raise KeyError("step")
