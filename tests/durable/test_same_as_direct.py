"""A durable run gives what a direct one gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import inngest
import pytest
from pydantic import BaseModel

from agentkit_py import (
    Agent,
    AgentResult,
    HistoryConfig,
    Network,
    RunLimits,
    State,
    TextMessage,
    ToolContext,
    tool,
)
from agentkit_py.errors import ConfigurationError
from agentkit_py.routing import Together, together
from agentkit_py.stores import SqliteHistory
from agentkit_py.testing import ScriptedModel, tool_call, tool_calls
from agentkit_py.testing.executor import ReplayExecutor

from .world import EVENT, INFERENCES, Inference, Scenario, Stage, executor_for


@pytest.mark.parametrize("inference", INFERENCES)
async def test_a_network_gives_the_same_result_as_directly(
    support: Scenario, inference: Inference
) -> None:
    """State, results, thread rows, requests, side effects and chunks, but for ids and times."""
    direct, durable = await support.direct(), await support.durable(inference)
    assert direct.error is None
    assert direct.rows
    assert direct.chunks
    assert durable == direct
    assert set(direct.effects.values()) == {1}


async def test_a_thread_in_a_database_is_the_same(support: Scenario, tmp_path: Any) -> None:
    """Rows of an SQLite file."""
    files = iter("ab")
    support.store = lambda: SqliteHistory(tmp_path / f"{next(files)}.db")
    direct, durable = await support.direct(), await support.durable()
    assert direct.rows == durable.rows
    assert len(direct.rows[0]) == 6


@dataclass
class Nested:
    """A dataclass inside a dataclass."""

    seen: list[str] = field(default_factory=list[str])


@dataclass
class Typed:
    """State of a dataclass type."""

    count: int = 0
    nested: Nested = field(default_factory=Nested)


class Pydantic(BaseModel):
    """State of a pydantic type."""

    count: int = 0
    nested: dict[str, list[str]] = {}


def _in_dict(data: Any, word: str) -> None:
    data["count"] = data.get("count", 0) + 1
    data.setdefault("nested", {}).setdefault("seen", []).append(word)


def _in_dataclass(data: Any, word: str) -> None:
    data.count += 1
    data.nested.seen.append(word)


def _in_pydantic(data: Any, word: str) -> None:
    data.count += 1
    data.nested.setdefault("seen", []).append(word)


@pytest.mark.parametrize(
    ("data", "change"),
    [(dict, _in_dict), (Typed, _in_dataclass), (Pydantic, _in_pydantic)],
    ids=["dict", "dataclass", "pydantic"],
)
async def test_deep_changes_of_tools_to_the_state_are_there_in_each_replay(
    scenario: Callable[..., Scenario], data: Callable[[], Any], change: Callable[[Any, str], None]
) -> None:
    """A router that counts decides the same every time."""

    def network(stage: Stage) -> Network:
        @tool
        def note(word: str, ctx: ToolContext) -> None:
            """Note a word."""
            stage.effects.happen(word)
            change(ctx.state.data, word)

        writer = Agent(name="writer", system="writer S", tools=[note], max_iter=1)

        def router(context: Any) -> Agent | None:
            return writer if context.network.state.dump().get("count", 0) < 3 else None

        return Network(name="notes", agents=[writer], router=router)

    replies = {"writer": [tool_call("note", {"word": word}) for word in ("a", "b", "c")]}
    noted = scenario(network, replies, state=lambda: State(data()))
    direct, durable = await noted.direct(), await noted.durable()
    assert durable == direct
    assert direct.state["count"] == 3
    assert durable.effects == {"a": 1, "b": 1, "c": 1}


async def test_agents_that_run_together_each_count_for_the_limit_as_they_do_directly(
    scenario: Callable[..., Scenario],
) -> None:
    """No agent counts the others' use, directly and durably."""

    def network(stage: Stage) -> Network:
        agents = [Agent(name=name, system=f"{name} S", max_iter=2) for name in ("one", "two")]

        def router(context: Any) -> Together | None:
            return together(*agents) if context.call_count == 0 else None

        return Network(name="pair", agents=agents, router=router)

    limited = scenario(
        network, {"one": ["1"], "two": ["2"]}, options={"limits": RunLimits(max_inferences=1)}
    )
    direct, durable = await limited.direct(), await limited.durable()
    for one in (direct, durable):
        one.requests.sort(key=str)
    assert durable == direct
    assert [result["agentName"] for result in direct.results] == ["user", "one", "two"]
    assert direct.stop_reason == "max_inferences"


async def test_an_agent_by_itself_is_durable_too() -> None:
    """Its tool runs once, and its result is the same."""
    effects: list[str] = []

    @tool
    def act() -> str:
        """Act."""
        effects.append("act")
        return "done"

    model = ScriptedModel(tool_call("act"), "Finished.")
    agent = Agent(name="solo", system="S", tools=[act], model=model, max_iter=3)

    async def handler(ctx: inngest.Context) -> str:
        return (await agent.run("go")).text

    executor = executor_for(handler)
    run = await executor.run(EVENT)
    assert (run.status, run.output, effects) == ("completed", "Finished.", ["act"])
    assert run.names == ["solo.0.infer", "solo.0.tool.0.act", "solo.1.infer"]
    model.assert_finished()


async def test_ctx_can_be_given_where_there_is_no_middleware() -> None:
    """The steps are those of the middleware, and runs of one function number their shared names."""
    model = ScriptedModel("one", "two")
    agent = Agent(name="solo", system="S", model=model)
    client = inngest.Inngest(app_id="test", is_production=False)

    async def handler(ctx: inngest.Context) -> list[str]:
        return [(await agent.run("go", ctx=ctx)).text for _ in range(2)]

    make = client.create_function(fn_id="f", trigger=inngest.TriggerEvent(event=EVENT))
    executor = ReplayExecutor(client, [make(handler)], transport=model.transport, check=True)
    run = await executor.run(EVENT)
    assert run.output == ["one", "two"]
    assert run.names == ["solo.0.infer", "solo:2.0.infer"]
    assert run.differences == []


async def test_require_durable_refuses_a_run_outside_of_inngest() -> None:
    """A run inside Inngest continues."""
    agent = Agent(name="solo", system="S", model=ScriptedModel("one"))
    with pytest.raises(ConfigurationError, match="must be durable"):
        await agent.run("go", require_durable=True)

    async def handler(ctx: inngest.Context) -> str:
        return (await agent.run("go", require_durable=True)).text

    assert (await executor_for(handler).run(EVENT)).output == "one"


async def test_the_steps_of_a_turn_are_one_inference_one_per_tool_call_and_the_store(
    support: Scenario,
) -> None:
    """No step for ids or times; the guide names these numbers."""
    run = (await support.durable()).run
    assert run is not None
    assert run.names == [
        "support.history.create-thread",
        "support.history.append-user-message",
        "support.triage.0.0.infer",
        "support.triage.0.0.tool.0.hand_over",
        "support.history.append-results.triage.0",
        "support.triage.0.1.infer",
        "support.history.append-results.triage.1",
        "support.billing.0.0.infer",
        "support.billing.0.0.tool.0.refund",
        "support.history.append-results.billing.0",
        "support.billing.0.1.infer",
        "support.billing.0.1.tool.0.refund",
        "support.history.append-results.billing.1",
        "support.billing.0.2.infer",
        "support.history.append-results.billing.2",
        "support.history.state.end",  # a tool has changed the state
    ]


async def test_a_thread_that_is_longer_than_a_step_may_keep_is_read_again_by_its_cursor(
    support: Scenario,
) -> None:
    """The step keeps a number; what was added since is left out."""
    support.store = lambda: None
    reads: list[int] = []
    rows = [f"{number} " + "x" * 2000 for number in range(200)]

    def get(context: Any) -> Any:
        reads.append(len(rows))
        found = [
            AgentResult("old", [TextMessage("assistant", text)], [], id=f"old-{index}")
            for index, text in enumerate(rows)
        ]
        rows.append("late " + "y" * 2000)
        return found

    support.store = lambda: HistoryConfig(get=get)
    support.options = {"thread_id": "long"}
    durable = await support.durable("local", check=False)
    assert durable.error is None
    assert durable.run is not None
    loaded = next(step for step in durable.run.steps if step.name.endswith("history.get"))
    assert loaded.output["cursor"] == 200
    assert len(reads) > 2
    assert all("late" not in str(request) for request in durable.requests)
    assert len(durable.results) == 206


async def test_two_tools_at_a_time_merge_as_they_do_directly(
    scenario: Callable[..., Scenario],
) -> None:
    """Each on its own fork; schedule() from both, in the order of the calls."""

    def network(stage: Stage) -> Network:
        @tool
        def send_to(name: str, ctx: ToolContext) -> str:
            """Schedule."""
            stage.effects.happen(name)
            assert ctx.network is not None
            ctx.network.schedule(name)
            ctx.state.data[name] = {"sent": True}
            return name

        first = Agent(
            name="first", system="first S", tools=[send_to], parallel_tools=True, max_iter=1
        )
        others = [Agent(name=name, system=f"{name} S") for name in ("left", "right")]

        def router(context: Any) -> Agent | None:
            return first if context.call_count == 0 else None

        return Network(name="spread", agents=[first, *others], router=router)

    calls = tool_calls(("send_to", {"name": "right"}), ("send_to", {"name": "left"}))
    spread = scenario(network, {"first": [calls], "left": ["L"], "right": ["R"]})
    direct = await spread.direct()
    for seed in range(6):
        assert await spread.durable(seed=seed) == direct
    assert [r["agentName"] for r in direct.results] == ["user", "first", "right", "left"]
