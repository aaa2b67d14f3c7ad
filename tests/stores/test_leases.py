"""Runs on one thread take turns, answer each message once, and continue with the state before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from agentkit_py import (
    Agent,
    AgentResult,
    Network,
    RouterContext,
    State,
    TokenLimiter,
    ToolContext,
    UserMessage,
    tool,
)
from agentkit_py.errors import (
    ConfigurationError,
    ModelError,
    StateError,
    ThreadBusyError,
    ThreadNotFoundError,
)
from agentkit_py.history.config import HistoryConfig
from agentkit_py.history.leases import ThreadLease
from agentkit_py.history.runs import LeaseClaim, RunRecord
from agentkit_py.models.base import RetryPolicy
from agentkit_py.routing import together
from agentkit_py.stores import (
    HistoryStore,
    MemoryHistory,
    PostgresHistory,
    SqliteHistory,
    StoredResult,
    for_user,
)
from agentkit_py.stores.rows import encode_row
from agentkit_py.testing import ScriptedModel, error, tool_call, tool_calls
from agentkit_py.testing.executor import replay_programs

MakeStore = Callable[..., HistoryStore]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    """Makes a store of each kind whose runs take turns."""

    def made(**options: Any) -> HistoryStore:
        lease = ThreadLease(**options)
        if request.param == "memory":
            return MemoryHistory(lease=lease)
        if request.param == "sqlite":
            return SqliteHistory(tmp_path / "threads.db", lease=lease)
        url = request.getfixturevalue("postgres_url")
        schema = request.getfixturevalue("postgres_schema")
        return PostgresHistory(url, schema=schema, connections=4, lease=lease)

    return made


def desk(store: HistoryStore, *replies: Any, tools: Any = ()) -> Agent:
    """An agent with a script."""
    model = ScriptedModel(*replies, retry=RetryPolicy(attempts=1))
    return Agent(name="desk", system="S", model=model, tools=tools, max_iter=4, history=store)


def net(agent: Agent, state: State[Any] | None = None) -> Network:
    """A network that asks its only agent once."""

    def router(context: RouterContext) -> Agent | None:
        return agent if context.call_count == 0 else None

    return Network(
        name="net", agents=[agent], router=router, history=agent.history, default_state=state
    )


async def authors(store: HistoryStore) -> list[str]:
    """Return the authors of the thread's results."""
    return [result.agent_name for result in await store.load("t")]


async def test_runs_of_one_thread_wait_for_each_other(make: MakeStore) -> None:
    """Each one's results are together."""
    entered: list[str] = []

    @tool
    async def slow() -> str:
        """Let others run."""
        entered.append("in")
        for _ in range(200):
            await asyncio.sleep(0)
        entered.append("out")
        return "ok"

    async with make() as store:
        agents = [desk(store, tool_call("slow", {}), "done", tools=[slow]) for _ in range(3)]
        await asyncio.gather(*(agent.run("hi", thread_id="t") for agent in agents))
        assert entered == ["in", "out"] * 3
        assert await authors(store) == ["user", "desk", "desk"] * 3


async def test_a_run_that_is_not_to_wait_gets_an_error_at_once(make: MakeStore) -> None:
    """The message is not saved; other threads are not locked."""
    async with make(on_busy="error") as store:
        await store.add_thread("t")
        await lock(store, 60)
        with pytest.raises(ThreadBusyError) as caught:
            await desk(store).run("hi", thread_id="t")
        assert caught.value.thread_id == "t"
        assert await store.load("t") == []
        assert (await desk(store, "hello").run("hi", thread_id="other")).text == "hello"


async def lock(store: Any, seconds: float) -> None:
    """Lock the thread for another run."""
    assert await store.lock_thread("t", "somebody else", seconds)


async def test_a_dead_run_does_not_lock_its_thread_for_ever(make: MakeStore) -> None:
    """Its lease ends."""
    async with make(on_busy="error") as store:
        await store.add_thread("t")
        await lock(store, 0)
        assert (await desk(store, "hello").run("hi", thread_id="t")).text == "hello"


async def test_a_run_that_lost_its_turn_saves_nothing_more(make: MakeStore) -> None:
    """Another run has continued the conversation by then."""
    async with make(seconds=1e-6) as store:

        @tool
        async def stall() -> str:
            """Take so long that somebody else takes the thread."""
            await lock(store, 60)
            return "ok"

        agent = desk(store, tool_call("stall", {}), tools=[stall])
        with pytest.raises(ThreadBusyError):
            await agent.run("hi", thread_id="t")
        assert await authors(store) == ["user"]


@pytest.mark.parametrize("network", [False, True])
async def test_a_message_that_is_delivered_twice_is_answered_once(
    make: MakeStore, network: bool
) -> None:
    """The second delivery gets the stored answer and state, and no model is called."""
    async with make() as store:
        agent = desk(store, tool_call("count", {}), "It is done.", "More.", tools=[count])
        target = net(agent) if network else agent
        message = UserMessage("hi", "m1")
        first = await target.run(message, thread_id="t")
        state: State[Any] = State(thread_id="t")
        again = await target.run(message, state=state)
        assert again.text == first.text == "It is done."
        assert again.stop_reason == first.stop_reason
        assert state.data == {"n": 1}
        assert len(state.transcript) == 3
        await target.run("other", thread_id="t")
        late = await target.run(message, thread_id="t")
        assert late.text == "It is done."
        assert await authors(store) == ["user", "desk", "desk", "user", "desk"]


async def test_a_message_that_is_delivered_twice_at_once_is_answered_once(
    make: MakeStore,
) -> None:
    """The second waits for the first."""
    async with make() as store:
        agent = desk(store, "hello")
        message = UserMessage("hi", "m1")
        given = await asyncio.gather(*(agent.run(message, thread_id="t") for _ in range(4)))
        assert [result.text for result in given] == ["hello"] * 4
        assert await authors(store) == ["user", "desk"]


async def test_a_message_whose_run_failed_is_tried_again(make: MakeStore) -> None:
    """The question is in the thread and in the model's view once."""
    async with make() as store:
        agent = desk(store, error(400, "no"), "hello")
        message = UserMessage("hi", "m1")
        with pytest.raises(ModelError):
            await agent.run(message, thread_id="t")
        result = await agent.run(message, thread_id="t")
        assert result.text == "hello"
        seen = [m.text for m in (*result.prompt, *result.history) if m.type == "text"]
        assert seen == ["S", "hi"]
        assert await authors(store) == ["user", "desk"]


@tool
def count(ctx: ToolContext) -> str:
    """Count in the state."""
    ctx.state.data["n"] = ctx.state.data.get("n", 0) + 1
    return "ok"


async def test_a_run_continues_with_the_state_of_the_run_before_it(make: MakeStore) -> None:
    """A run with a state of its own does not load it."""
    async with make() as store:
        replies = [reply for _ in range(3) for reply in (tool_call("count", {}), "ok")]
        network = net(desk(store, *replies, tools=[count]))
        assert (await network.run("a", thread_id="t")).state.data == {"n": 1}
        assert (await network.run("b", thread_id="t")).state.data == {"n": 2}
        own = State({"n": 10}, thread_id="t")
        assert (await network.run("c", state=own)).state.data == {"n": 11}


class Old(BaseModel):
    """The state before the change."""

    name: str = "x"


class New(BaseModel):
    """The state after the change."""

    name: int = 0


async def test_a_stored_state_that_does_not_fit_is_an_error_that_names_the_field(
    make: MakeStore,
) -> None:
    """Otherwise the run would crash midway."""
    async with make() as store:
        for kind in (Old, New):
            network = net(desk(store, "hello"), State(kind()))
            if kind is Old:
                await network.run("a", thread_id="t")
            else:
                with pytest.raises(StateError, match="field 'name'"):
                    await network.run("b", thread_id="t")


async def test_a_run_that_cannot_begin_gives_its_turn_back(make: MakeStore) -> None:
    """Its error is not to lock the thread until the lease ends."""
    async with make(on_busy="error") as store:
        agent = desk(store, "a", "b")
        await net(agent, State(Old())).run("hi", thread_id="t")
        with pytest.raises(StateError):
            await net(agent, State(New())).run("hi", thread_id="t")
        assert (await net(agent).run("hi", thread_id="t")).text == "b"


class Slow(MemoryHistory):
    """Stops in the middle of loading."""

    def __init__(self) -> None:
        super().__init__(lease=ThreadLease(on_busy="error"))
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()

    async def newest(self, thread_id: str, limit: int) -> tuple[int, list[StoredResult]]:
        self.begun.set()
        await self.go_on.wait()
        return await super().newest(thread_id, limit)


async def test_a_run_that_is_cancelled_while_it_loads_gives_its_turn_back() -> None:
    """The next run may begin at once."""
    store = Slow()
    agent = desk(store, "hello")
    task = asyncio.create_task(agent.run("hi", thread_id="t"))
    await store.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    store.go_on.set()
    assert (await agent.run("hi", thread_id="t")).text == "hello"


async def test_the_thread_is_free_while_a_run_waits_for_a_person(make: MakeStore) -> None:
    """The run takes the lease again afterwards."""
    async with make(on_busy="error") as store:
        taken: list[bool] = []

        async def approve(request: object) -> bool:
            del request
            answer = await desk(store, "in between").run("hi", thread_id="t")
            taken.append(answer.text == "in between")
            return True

        @tool(needs_approval=True)
        async def pay() -> str:
            """Pay."""
            return "paid"

        agent = desk(store, tool_call("pay", {}), "done", tools=[pay])
        assert (await agent.run("pay", thread_id="t", approver=approve)).text == "done"
        assert taken == [True]


async def test_replayed_runs_take_turns_and_answer_once(make: MakeStore) -> None:
    """Inngest functions begin again for each step."""
    async with make() as store:
        agent = desk(store, tool_call("count", {}), "one", "two", tools=[count])
        once = UserMessage("hi", "m1")
        lines = [once, once, UserMessage("more", "m2"), once]
        runs = await replay_programs([partial(agent.run, m, thread_id="t") for m in lines])
        assert [run.status for run in runs] == ["completed"] * 4
        assert await authors(store) == ["user", "desk", "desk", "user", "desk"]


def test_a_lease_has_to_last() -> None:
    """A lease of no time is none."""
    with pytest.raises(ConfigurationError, match="lease"):
        ThreadLease(seconds=0)


def test_a_store_with_a_lease_that_is_none_is_refused_at_once(tmp_path: Path) -> None:
    """Without a check its runs would know of each other no better than without a lease."""
    wrong: Any = 60
    with pytest.raises(ConfigurationError, match=r"SqliteHistory: lease must be a ThreadLease.*60"):
        SqliteHistory(tmp_path / "t.db", lease=wrong)


def test_a_store_that_keeps_no_leases_takes_none() -> None:
    """Two runs of a thread would both answer, and nobody would be told why."""
    with pytest.raises(ConfigurationError, match=r"HistoryConfig: it cannot keep leases.*RunStore"):
        HistoryConfig(lease=ThreadLease())


def test_a_lease_is_not_lost_in_a_store_for_one_user() -> None:
    """A store of one's own may keep leases alone; the wrapped one would keep none."""
    kind = type("LeasesAlone", (MemoryHistory,), {"load_summary": None})
    assert for_user(kind(), "ada").lease is None
    with pytest.raises(ConfigurationError, match="LeasesAlone keeps leases, but no summaries"):
        for_user(kind(lease=ThreadLease()), "ada")


async def test_a_message_that_comes_again_much_later_is_answered_as_before() -> None:
    """The later part of the thread is read, but no model is called."""
    store = MemoryHistory(lease=ThreadLease())
    message = UserMessage("hi", "m1")
    agent = Agent(
        name="desk", system="S", model=ScriptedModel("first", "no"), history=store,
        processors=[TokenLimiter(50)],
    )  # fmt: skip
    for _ in range(2):
        assert (await agent.run(message, thread_id="t")).text == "first"
        await store.append("t", [AgentResult.from_user("x" * 200) for _ in range(300)])
    network = net(agent)
    run = await network.run(message, thread_id="t")
    assert [result.text for result in run.results] == ["first"]
    assert len(run.state.transcript) == 2


class Watched(MemoryHistory):
    """Notes who has the thread, whenever that is asked for."""

    def __init__(self) -> None:
        super().__init__(lease=ThreadLease(on_busy="error"))
        self.log: list[str] = []

    async def lock_thread(self, thread_id: str, owner: str, seconds: float) -> bool:
        self.log.append("lock")
        return await super().lock_thread(thread_id, owner, seconds)

    async def unlock_thread(self, thread_id: str, owner: str) -> None:
        self.log.append("unlock")
        await super().unlock_thread(thread_id, owner)


@tool(steps=True)
async def rest(ctx: ToolContext, place: str) -> str:
    """Sleep."""
    del place
    await ctx.step.sleep("nap", 1)
    return "rested"


def parts(log: list[str]) -> list[int]:
    """Return the number of locks before each unlock."""
    return [part.split().count("lock") for part in " ".join(log).split("unlock")]


@pytest.mark.parametrize("replayed", [False, True])
@pytest.mark.parametrize("calls", [1, 2])
async def test_the_thread_is_free_while_tools_sleep(calls: int, *, replayed: bool) -> None:
    """One, or several of one reply at the same time; taken again before anything is saved."""
    store = Watched()
    asked = [("rest", {"place": str(n)}) for n in range(calls)]
    model = ScriptedModel(tool_call(*asked[0]) if calls == 1 else tool_calls(*asked), "done")
    agent = Agent(
        name="desk", system="S", model=model, tools=[rest], max_iter=4, history=store,
        parallel_tools=True,
    )  # fmt: skip
    program = partial(agent.run, UserMessage("hi", "m1"), thread_id="t")
    if replayed:
        (run,) = await replay_programs([program])
        assert run.status == "completed"
    else:
        await program()
    # At the end of the run; for each call while it sleeps, and where others sleep on at its end.
    unlocked = 1 + (1 if calls == 1 else 2 * calls)
    assert store.log.count("unlock") == unlocked
    assert all(parts(store.log)[n] for n in (0, unlocked - 1))
    assert await authors(store) == ["user", "desk", "desk"]
    assert await store.lock_thread("t", "somebody else", 1)


@pytest.mark.parametrize("replayed", [False, True])
async def test_agents_that_work_at_the_same_time_give_the_thread_up_too(*, replayed: bool) -> None:
    """Each while it sleeps; so does an agent that is another one's tool."""
    store = Watched()
    inner = Agent(
        name="inner", system="S", tools=[rest], max_iter=4,
        model=ScriptedModel(tool_call("rest", {"place": "here"}), "woke up"),
    )  # fmt: skip
    left = Agent(
        name="left", system="S", tools=[inner.as_tool(allowed_tools="own")], max_iter=4,
        model=ScriptedModel(tool_call("inner", {"task": "rest"}), "done"),
    )  # fmt: skip
    other = Agent(
        name="other", system="S", tools=[rest], max_iter=4,
        model=ScriptedModel(tool_call("rest", {"place": "there"}), "done"),
    )  # fmt: skip

    def router(context: RouterContext) -> Any:
        return together(left, other) if context.call_count == 0 else None

    network = Network(name="n", agents=[left, other], router=router, history=store)
    program = partial(network.run, UserMessage("hi", "m1"), thread_id="t")
    if replayed:
        (run,) = await replay_programs([program])
        assert run.status == "completed", run.error
    else:
        await program()
    # Each while it sleeps, and where the other may sleep on at its end; at the end of the run.
    assert store.log.count("unlock") == 5
    assert sorted(await authors(store)) == ["left", "left", "other", "other", "user"]


async def test_a_thread_of_another_user_gives_and_takes_nothing_with_a_lease(
    make: MakeStore,
) -> None:
    """Owner and lease are asked for in one transaction; nothing of it stays."""
    store = make()
    theirs: Any = for_user(store, "bob")
    await theirs.add_thread("t")
    mine: Any = for_user(store, "ada")
    claim = LeaseClaim(owner="run", seconds=60)
    rows = [encode_row(AgentResult.from_user("Hi", id="m"), "t")]
    run = RunRecord(id="m", status="completed", state={"a": 1})
    for thread in ("t", "none"):
        for call in (
            lambda: mine.open_run(thread, claim, "m", 5),  # noqa: B023 - called at once
            lambda: mine.append_held(thread, rows, claim),  # noqa: B023 - as above
            lambda: mine.end_run(thread, "run", run),  # noqa: B023 - as above
        ):
            with pytest.raises(ThreadNotFoundError):
                await call()
    assert await theirs.load("t") == []
    assert await theirs.load_run("t") is None
    assert await theirs.lock_thread("t", "another", 60)
    assert await theirs.open_run("t", claim, "m", 5) is None
    assert not await theirs.append_held("t", rows, claim)
    assert await theirs.load("t") == []
    await store.close()


async def test_a_run_begins_with_the_data_of_the_run_before_it(make: MakeStore) -> None:
    """Lease, records and results come together."""
    store: Any = make()
    claim = LeaseClaim(owner="run", seconds=60)
    await store.add_thread("t")
    rows = [encode_row(AgentResult.from_user(f"{n}", id=f"m{n}"), "t") for n in range(4)]
    opened = await store.open_run("t", claim, "m9", 2)
    assert (opened.own, opened.previous, opened.count, list(opened.results)) == (None, None, 0, [])
    assert await store.append_held("t", rows, claim)
    assert await store.end_run("t", "run", RunRecord(id="m9", status="completed", state={})) is None
    again = await store.open_run("t", LeaseClaim(owner="other", seconds=60), "m9", 2)
    assert again.own == again.previous == RunRecord(id="m9", status="completed", state={})
    assert (again.count, [one.id for one in again.results]) == (4, ["m2", "m3"])
    await store.close()
