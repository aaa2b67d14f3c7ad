"""A worker that dies anywhere: each side effect once, no message lost or doubled."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import inngest
import pytest

from agentkit_py import Agent, State, tool
from agentkit_py.events.types import Event, ToolProgressed
from agentkit_py.inngest import AgentKitMiddleware
from agentkit_py.stores import SqliteHistory
from agentkit_py.testing import ScriptedModel, tool_call
from agentkit_py.testing.executor import KillAt, ReplayExecutor
from agentkit_py.tools import Progress

from .conftest import FAN_OUT, fan_out
from .world import INFERENCES, Inference, Scenario, sweep


@pytest.mark.parametrize("inference", INFERENCES)
async def test_a_kill_anywhere_changes_nothing(
    support: Scenario, inference: Inference, record_property: Callable[[str, object], None]
) -> None:
    """Each request is killed before it ran, after it ran, and after it was recorded."""
    points, doubled = await sweep(support, inference, record_property)
    assert points >= 30
    assert doubled == 3  # one for each tool call, killed inside


async def test_a_kill_anywhere_leaves_a_database_thread_whole(
    support: Scenario, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """The rows of a thread in a file: each second point, so that each kind comes in turn."""
    count = iter(range(10**6))
    support.store = lambda: SqliteHistory(tmp_path / f"threads-{next(count)}.db")
    each_second = slice(None, None, 2)
    points, doubled = await sweep(support, "offload", record_property, each_second)
    assert points >= 15
    assert doubled


@pytest.mark.parametrize(("inference", "discovery"), [("offload", "joined"), ("local", "eager")])
async def test_agents_and_tools_at_the_same_time_give_the_same_in_any_order(
    scenario: Callable[..., Scenario], inference: Inference, discovery: Any
) -> None:
    """Ten orders of what may happen in any order."""
    searched = scenario(fan_out, FAN_OUT)
    direct = await searched.direct()
    assert direct.error is None
    for seed in range(10):
        durable = await searched.durable(inference, seed=seed, discovery=discovery)
        for one in (direct, durable):
            one.requests.sort(key=str)
        assert durable == direct


async def test_a_kill_anywhere_in_parallel_steps_changes_nothing(
    scenario: Callable[..., Scenario], record_property: Callable[[str, object], None]
) -> None:
    """Planned steps, and the requests that planned them; who infers makes no step parallel."""
    points, doubled = await sweep(scenario(fan_out, FAN_OUT), "offload", record_property)
    assert points >= 20
    assert doubled == 3


@pytest.mark.parametrize("when", ["before", "inside", "after"])
async def test_a_kill_at_a_step_by_name(support: Scenario, when: Any) -> None:
    """`KillAt(step=…)` kills inside or after one step, as tests of single steps need it."""
    kill = KillAt(step="support.billing.0.0.tool.0.refund", when=when)
    outcome = await support.durable(kill=kill, check=False)
    assert outcome.effects["refund A1"] == (2 if when == "inside" else 1)
    assert outcome.state["orders"]["A1"] == {"refunds": [5]}


@pytest.mark.parametrize("when", ["before", "inside", "after"])
async def test_a_kill_while_a_tool_reports_gives_its_result_once(when: Any) -> None:
    """What was reported stays said; a call that has to be made again reports again."""
    reports: list[str] = []

    @tool
    async def ship(order: str) -> AsyncGenerator[Any, None]:
        """Ship."""
        yield Progress("Packing")
        yield Progress("Sending")
        yield f"shipped {order}"

    def note(event: Event) -> None:
        if isinstance(event, ToolProgressed):
            reports.append(event.progress.text)

    model = ScriptedModel(tool_call("ship", {"order": "A1"}), "Done.")
    agent = Agent(name="a", system="S", tools=[ship], model=model)
    client = inngest.Inngest(app_id="s", is_production=False, middleware=[AgentKitMiddleware])

    @client.create_function(fn_id="go", trigger=inngest.TriggerEvent(event="go"), retries=2)
    async def go(ctx: inngest.Context) -> Any:
        state = State[Any]()
        await agent.run("q?", state=state, observer=note)
        return [one.content for result in state.results for one in result.tool_calls]

    kill = KillAt(step="a.0.tool.0.ship", when=when)
    run = await ReplayExecutor(client, [go], kill=kill).run("go")

    assert run.output == [{"data": "shipped A1"}]
    assert reports == ["Packing", "Sending"] * (2 if when == "inside" else 1)
