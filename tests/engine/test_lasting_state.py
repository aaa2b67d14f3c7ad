"""State data that a thread keeps from run to run; what a run says where it cannot."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agentkit_py import Agent, MemoryHistory, Network, State, ToolContext
from agentkit_py.errors import AgentKitError, StateError
from agentkit_py.history.config import HistoryConfig
from agentkit_py.lifecycle import AgentContext
from agentkit_py.stores import HistoryStore, SqliteHistory, ThreadLease, for_user
from agentkit_py.testing import ScriptedModel, tool_call

from .runner import Runner


def note(ctx: ToolContext, who: str) -> str:
    """Note who the user is."""
    ctx.state.data["user"] = who
    return "noted"


def desk(store: HistoryConfig | None, *replies: Any) -> tuple[Agent, ScriptedModel]:
    """An agent whose prompt names the user of its state, and its model."""
    script = ScriptedModel(*replies)

    def system(ctx: AgentContext) -> str:
        return f"Your user is {ctx.state.data.get('user', 'unknown')}."

    agent = Agent(name="desk", system=system, tools=[note], history=store, model=script)
    return agent, script


STORES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "with a lease": {"lease": ThreadLease()},
    "loaded whole": {"lazy": False},
}


@pytest.mark.parametrize("options", STORES.values(), ids=STORES)
async def test_the_next_run_begins_with_the_data_of_the_last_run(
    runner: Runner, options: dict[str, Any]
) -> None:
    """A second turn of a customer begins with what the first one found out."""
    agent, script = desk(MemoryHistory(**options), tool_call("note", {"who": "ada"}), "Hi.", "Hi.")
    await runner.run(agent, "I am Ada.", thread_id="t", max_iter=2)
    await runner.run(agent, "Who am I?", thread_id="t")
    script.assert_saw("Your user is ada.", request=-1)


async def test_data_that_a_run_was_given_stay_for_the_next(runner: Runner) -> None:
    """Also where no tool changed them."""
    agent, script = desk(MemoryHistory(), "Hi.", "Hi.")
    await runner.run(agent, "I am Ada.", state=State({"user": "ada"}, thread_id="t"))
    await runner.run(agent, "Who am I?", thread_id="t")
    script.assert_saw("Your user is ada.", request=-1)


async def test_data_that_are_given_count_before_those_that_are_stored(runner: Runner) -> None:
    """Who keeps state otherwise continues as before."""
    agent, script = desk(MemoryHistory(), "Hi.", "Hi.", "Hi.")
    await runner.run(agent, "I am Ada.", state=State({"user": "ada"}, thread_id="t"))
    await runner.run(agent, "I am Bob.", state=State({"user": "bob"}, thread_id="t"))
    script.assert_saw("Your user is bob.", request=-1)
    await runner.run(agent, "Who am I?", thread_id="t")
    script.assert_saw("Your user is bob.", request=-1)


async def test_a_state_that_was_emptied_stays_empty(runner: Runner) -> None:
    """Data from two runs ago must not come back."""
    agent, script = desk(MemoryHistory(), "Hi.", "Hi.", "Hi.")
    await runner.run(agent, "1", state=State({"user": "ada"}, thread_id="t"))
    await runner.run(agent, "2", state=State(thread_id="t"))
    await runner.run(agent, "3", thread_id="t")
    script.assert_saw("Your user is unknown.", request=-1)


async def test_another_thread_begins_with_the_default(runner: Runner) -> None:
    """State is the thread's, not the store's."""
    agent, script = desk(MemoryHistory(), "Hi.", "Hi.")
    await runner.run(agent, "1", state=State({"user": "ada"}, thread_id="t"))
    await runner.run(agent, "2", thread_id="other")
    script.assert_saw("Your user is unknown.", request=-1)


async def test_state_outlives_the_process_in_a_file(runner: Runner, tmp_path: Path) -> None:
    """Another store object opens the file, as another process would."""
    async with SqliteHistory(tmp_path / "threads.db") as store:
        agent, _ = desk(store, "Hi.")
        await runner.run(agent, "1", state=State({"user": "ada"}, thread_id="t"))
    async with SqliteHistory(tmp_path / "threads.db") as store:
        agent, script = desk(store, "Hi.")
        await runner.run(agent, "2", thread_id="t")
    script.assert_saw("Your user is ada.", request=-1)


async def test_a_run_that_failed_leaves_the_state_of_the_one_before(runner: Runner) -> None:
    """As with a lease."""
    store = MemoryHistory()
    agent, script = desk(store, "Hi.", tool_call("note", {"who": "bob"}))
    await runner.run(agent, "1", state=State({"user": "ada"}, thread_id="t"))
    with pytest.raises(AgentKitError):  # the script ends
        await runner.run(agent, "2", thread_id="t", max_iter=2)
    script.assert_saw("Your user is bob.", request=-1)
    agent, script = desk(store, "Hi.")
    await runner.run(agent, "3", thread_id="t")
    script.assert_saw("Your user is ada.", request=-1)


async def test_a_run_without_state_writes_none(runner: Runner) -> None:
    """Most agents have no state: it costs them no write and no step."""
    store = MemoryHistory()
    agent, _ = desk(store, "Hi.", "Hi.")
    for _ in range(2):
        await runner.run(agent, "Hi!", thread_id="t")
    assert await store.load_run("t") is None
    steps = [step for run in runner.runs for step in run.steps]
    assert [step for step in map(str, steps) if ".history.state" in step] == []


@dataclass
class Order:
    """A typed state."""

    items: list[str] = field(default_factory=list[str])


async def test_typed_state_stays_typed(runner: Runner) -> None:
    """And the network's default is not changed."""

    def add(ctx: ToolContext[Order]) -> str:
        ctx.state.data.items.append("tea")
        return "added"

    agent = Agent(
        name="shop",
        system="S",
        tools=[add],
        state_type=Order,
        model=ScriptedModel(tool_call("add"), "Yes.", tool_call("add"), "Yes."),
    )
    shop = Network(
        name="shops",
        agents=[agent],
        history=MemoryHistory(),
        router=lambda ctx: None if ctx.call_count else agent,
        default_state=State(Order()),
    )
    await runner.run(shop, "Tea!", thread_id="t")
    run = await runner.run(shop, "Tea!", thread_id="t")
    assert run.state.data == Order(["tea", "tea"])
    assert shop.default_state is not None
    assert shop.default_state.data == Order()


async def test_stored_data_that_do_not_fit_are_reported(
    runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    """A type that has changed must not stop a thread for ever."""
    store = MemoryHistory()
    agent, _ = desk(store, "Hi.")
    await runner.run(agent, "1", state=State({"items": 3}, thread_id="t"))
    typed = Agent(
        name="shop", system="S", state_type=Order, history=store, model=ScriptedModel("Yes.")
    )
    with caplog.at_level(logging.WARNING, "agentkit_py.history"):
        await runner.run(typed, "2", thread_id="t")
    assert "Thread 't' continues with the default state" in caplog.text
    assert "items" in caplog.text


async def test_data_that_cannot_be_stored_are_reported(
    runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    """In a durable run they are an error."""
    agent, _ = desk(MemoryHistory(), "Hi.")
    state = State({"user": {"ada"}}, thread_id="t")
    if runner.mode == "inngest":
        with pytest.raises(StateError, match=r"data\.user"):
            await runner.run(agent, "1", state=state)
        return
    with caplog.at_level(logging.WARNING, "agentkit_py.history"):
        await runner.run(agent, "1", state=state)
    assert "Thread 't' does not keep its state" in caplog.text
    assert "data.user" in caplog.text


class Callbacks(HistoryConfig):
    """A store of the user's own, which keeps no records of runs."""


async def test_a_store_of_callbacks_leaves_state_to_its_callbacks(runner: Runner) -> None:
    """They get the state in their context, as in TypeScript."""
    seen: list[Any] = []
    store = Callbacks(
        get=lambda _: [], append_results=lambda context: seen.append(dict(context.state.data))
    )
    agent, _ = desk(store, tool_call("note", {"who": "ada"}), "Hi.")
    await runner.run(agent, "1", thread_id="t")
    assert seen[-1] == {"user": "ada"}


async def test_another_user_of_a_store_does_not_get_it(runner: Runner) -> None:
    """State may name the customer."""
    store: HistoryStore = MemoryHistory()
    mine, script = desk(for_user(store, "ada"), "Hi.", "Hi.")
    await runner.run(mine, "1", state=State({"user": "ada"}, thread_id="t"))
    await runner.run(mine, "2", thread_id="t")
    script.assert_saw("Your user is ada.", request=-1)
    other, script = desk(for_user(store, "bob"), "Hi.")
    with pytest.raises(AgentKitError):
        await runner.run(other, "3", thread_id="t")
    assert script.requests == []


async def test_typescripts_mode_begins_each_run_with_the_default(runner: Runner) -> None:
    """As the programs that are ported from there do."""
    agent, script = desk(MemoryHistory(), "Hi.", "Hi.")
    agent.history_mode = "typescript"
    await runner.run(agent, "1", state=State({"user": "ada"}, thread_id="t"))
    await runner.run(agent, "2", thread_id="t")
    script.assert_saw("Your user is unknown.", request=-1)
