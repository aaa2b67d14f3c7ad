"""A run that is stopped frees its thread at once, and what it had done is there."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from pathlib import Path
from typing import Any

import inngest
import pytest

from agentkit_py import (
    Agent,
    MemoryHistory,
    Network,
    RouterContext,
    SqliteHistory,
    ToolContext,
    tool,
)
from agentkit_py.history.leases import ThreadLease
from agentkit_py.inngest import CANCEL_EVENT, create_functions
from agentkit_py.inngest.sending import SIGNAL_EVENT
from agentkit_py.results import AgentResult
from agentkit_py.stores import HistoryStore, PostgresHistory
from agentkit_py.testing import ScriptedModel, tool_call, tool_calls
from agentkit_py.testing.executor import ReplayExecutor
from tests.stores.record_store import record_store

MakeStore = Callable[..., HistoryStore]


@pytest.fixture(params=["memory", "sqlite", "records", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> HistoryStore:
    """A store of each kind, with leases of an hour."""
    lease = ThreadLease(seconds=3600)
    if request.param == "memory":
        return MemoryHistory(lease=lease)
    if request.param == "sqlite":
        return SqliteHistory(tmp_path / "threads.db", lease=lease)
    if request.param == "records":
        return record_store(tmp_path, lease=lease)
    url = request.getfixturevalue("postgres_url")
    schema = request.getfixturevalue("postgres_schema")
    return PostgresHistory(url, schema=schema, connections=4, lease=lease)


@pytest.fixture(params=["a lease", "no lease"])
def any_store(request: pytest.FixtureRequest, store: HistoryStore) -> HistoryStore:
    """A store of each kind, with leases and without."""
    if request.param == "no lease":
        store.lease = None
    return store


class Desk:
    """A network as a function, whose tools may stop its run while they work."""

    def __init__(self, store: HistoryStore, *replies: Any, parallel: bool = False) -> None:
        self.store = store
        self.paid: list[int] = []
        self.model = ScriptedModel(*replies)
        self.stop_at: int | None = None
        self.next: list[Any] = []
        self._context = contextvars.copy_context()

        @tool
        async def pay(amount: int, ctx: ToolContext) -> str:
            """Pay."""
            self.paid.append(amount)
            if amount == self.stop_at:
                await self.stopped()
            return f"paid {amount}"

        @tool(steps=True)
        async def pay_twice(ctx: ToolContext) -> str:
            """Pay in two steps."""
            for amount in (1, 2):

                async def once(amount: int = amount) -> str:
                    self.paid.append(amount)
                    if amount == self.stop_at:
                        await self.stopped()
                    return f"paid {amount}"

                await ctx.step.run(f"pay-{amount}", once)
            return "paid twice"

        self.clerk = Agent(
            name="clerk", system="S", model=self.model, tools=[pay, pay_twice], max_iter=4,
            parallel_tools=parallel,
        )  # fmt: skip
        client = inngest.Inngest(app_id="app", is_production=False)
        functions = create_functions(client, networks=[self.network()], inference="local")
        assert [one.local_id for one in functions] == ["network-desk", "agentkit-stop"]
        self.executor = ReplayExecutor(client, functions, seed=None)

    def network(self) -> Network:
        def router(context: RouterContext) -> Agent | None:
            return None if context.call_count else self.clerk

        return Network(name="desk", agents=[self.clerk], router=router, history=self.store)

    async def stopped(self) -> None:
        """Cancel the run, and let its thread be freed before the tool continues."""
        await asyncio.create_task(self._stop(), context=self._context)

    async def _stop(self) -> None:
        run = self.executor.runs[0]
        self.executor.cancel(run)
        while await self.executor.do_next(timeouts=False):
            pass
        if self.next:
            self.next.append(await self.say(self.next.pop(0)))

    async def say(self, text: str, *, thread: str = "t") -> Any:
        """Send a message."""
        return await self.executor.run("app/network-desk", {"input": text, "threadId": thread})

    async def results(self) -> list[AgentResult]:
        return await self.store.load("t")


def contents(results: list[AgentResult]) -> list[Any]:
    """Return the contents of tool results."""
    return [one.content for result in results for one in result.tool_calls]


async def test_the_next_message_is_answered_at_once_and_sees_the_finished_calls(
    any_store: HistoryStore,
) -> None:
    """The first of two calls is done, the second under way: the model reads both."""
    store = any_store
    async with store:
        calls = tool_calls(("pay", {"amount": 1}), ("pay", {"amount": 2}))
        desk = Desk(store, calls, "As I said.")
        desk.stop_at, desk.next = 2, ["And now?"]
        run = await desk.say("Pay twice.")
        assert run.status == "cancelled"
        assert desk.next[0].output["text"] == "As I said."
        seen = str(desk.model.bodies[1])
        assert "paid 1" in seen
        assert "Whether it took effect is not known" in seen
        assert desk.paid == [1, 2]
        found = await desk.results()
        assert [one.agent_name for one in found] == ["user", "clerk", "user", "clerk", "clerk"]
        done, unknown, late = contents(found)
        assert done == {"data": "paid 1"}
        assert unknown["error"]["name"] == "RunStoppedError"
        assert late["data"] == "paid 2"
        assert "after the run had been stopped" in late["note"]


async def test_the_second_of_two_finished_calls_is_in_the_thread(
    any_store: HistoryStore,
) -> None:
    """The run is stopped before it could save the reply that made them."""
    store = any_store
    async with store:
        calls = tool_calls(("pay", {"amount": 1}), ("pay", {"amount": 2}))
        desk = Desk(store, calls, "Paid both.")
        run = await desk.executor.start("app/network-desk", {"input": "x", "threadId": "u"})
        assert run.status == "completed"
        after = "desk.clerk.0.0.tool.1.pay"
        desk = Desk(store, calls, "Paid both.")
        await stop_after(desk, after)
        assert contents(await desk.results()) == [{"data": "paid 1"}, {"data": "paid 2"}]
        assert (await desk.say("Well?")).output["text"] == "Paid both."
        assert contents(await desk.results()) == [{"data": "paid 1"}, {"data": "paid 2"}]


async def stop_after(desk: Desk, step: str) -> None:
    """Cancel a run right after a step."""
    desk.executor.receive({"name": "app/network-desk", "data": {"input": "x", "threadId": "t"}})
    run = desk.executor.runs[-1]
    while step not in run.names:
        assert await desk.executor.do_next(timeouts=False)
    desk.executor.cancel(run)
    while await desk.executor.do_next(timeouts=False):
        pass
    assert run.status == "cancelled"


async def test_a_run_that_is_stopped_anywhere_frees_its_thread(any_store: HistoryStore) -> None:
    """After each request: the next message is answered, and no call is lost or made twice."""
    store = any_store
    async with store:
        calls = tool_calls(("pay", {"amount": 1}), ("pay", {"amount": 2}))
        desk = Desk(store)
        for requests in range(40):
            thread = f"t{requests}"
            desk.clerk.model = ScriptedModel(calls, tool_call("pay", {"amount": 3}), "Done.")
            desk.clerk.parallel_tools = requests % 2 == 1
            desk.paid.clear()
            data = {"input": "x", "threadId": thread}
            desk.executor.receive({"name": "app/network-desk", "data": data})
            run = desk.executor.runs[-1]
            for _ in range(requests):
                await desk.executor.do_next(timeouts=False)
            ended = run.status == "completed"
            desk.executor.cancel(run)
            desk.clerk.model = ScriptedModel("Yes.")
            paid = list(desk.paid)
            after = await desk.say("Well?", thread=thread)
            assert after.output["text"] == "Yes."
            assert not any("line" in name for name in after.names)
            found = [one["data"] for one in contents(await store.load(thread)) if "data" in one]
            assert found == [f"paid {amount}" for amount in paid]
            if ended:
                return
        raise AssertionError("the run never ended")


async def test_the_finished_steps_of_a_tool_are_in_the_thread(any_store: HistoryStore) -> None:
    """Also what the step gives that was at work when the run was stopped."""
    store = any_store
    async with store:
        desk = Desk(store, tool_call("pay_twice", {}), "Fine.")
        desk.stop_at, desk.next = 2, ["And now?"]
        await desk.say("Pay.")
        seen, late = contents(await desk.results())
        assert seen["error"]["done"] == {"pay-1": "paid 1"}
        assert late["data"] == {"pay-2": "paid 2"}
        assert desk.paid == [1, 2]


async def test_a_cancel_event_stops_a_run_too(store: HistoryStore) -> None:
    """The event names thread and user."""
    async with store:
        desk = Desk(store, "one", "two")
        executor = desk.executor
        data = {"input": "x", "threadId": "t", "userId": "ada"}
        executor.receive({"name": "app/network-desk", "data": data})
        for _ in range(3):
            await executor.do_next(timeouts=False)
        await executor.send_event(CANCEL_EVENT, {"threadId": "t", "userId": "ada"})
        assert executor.runs[0].status == "cancelled"
        assert (await executor.run("app/network-desk", data)).output["text"] == "one"


async def test_runs_wait_in_line_without_steps(store: HistoryStore) -> None:
    """However long the one before takes; first come, first served."""
    async with store:
        await store.add_thread("t")
        keeper: Any = store
        assert await keeper.lock_thread("t", "somebody", 3600)
        desk = Desk(store, "one", "two", "three")
        for number in range(3):
            data = {"input": f"m{number}", "threadId": "t"}
            await desk.executor.start("app/network-desk", data)
        runs = desk.executor.runs
        before = [list(run.names) for run in runs]
        await desk.executor.advance(50)
        assert [run.names for run in runs] == before
        after = await keeper.unlock_thread("t", "somebody")
        await desk.executor.send_event(SIGNAL_EVENT, {"key": after})
        assert [run.status for run in runs] == ["completed"] * 3
        assert [run.output["text"] for run in runs] == ["one", "two", "three"]
        asked = [str(one.output[0]) for one in await desk.results() if one.agent_name == "user"]
        assert [f"m{n}" in said for n, said in enumerate(asked)] == [True] * 3
        assert all(len([n for n in run.names if ".turn." in n]) <= 6 for run in runs)


async def test_a_run_in_line_without_a_signal_asks_again(store: HistoryStore) -> None:
    """Whoever has the lease may have died."""
    async with store:
        await store.add_thread("t")
        keeper: Any = store
        assert await keeper.lock_thread("t", "somebody", 0)
        assert await keeper.lock_thread("t", "somebody", 3600)
        desk = Desk(store, "one")
        run = await desk.executor.start("app/network-desk", {"input": "hi", "threadId": "t"})
        await keeper.unlock_thread("t", "somebody")
        await desk.executor.finish(run)
        assert run.output["text"] == "one"


async def test_a_cancelled_direct_run_keeps_the_calls_that_were_done(store: HistoryStore) -> None:
    """The second of two is under way."""
    async with store:
        begun = asyncio.Event()

        @tool
        async def pay(amount: int) -> str:
            """Pay."""
            if amount == 2:
                begun.set()
                await asyncio.Event().wait()
            return f"paid {amount}"

        model = ScriptedModel(tool_calls(("pay", {"amount": 1}), ("pay", {"amount": 2})), "Fine.")
        agent = Agent(name="clerk", system="S", model=model, tools=[pay], history=store)
        task = asyncio.create_task(agent.run("hi", thread_id="t"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        done, unknown = contents(await store.load("t"))
        assert done == {"data": "paid 1"}
        assert unknown["error"]["name"] == "RunStoppedError"
        assert (await agent.run("And?", thread_id="t")).text == "Fine."


async def test_the_work_of_a_nested_run_is_in_its_own_call_alone(
    any_store: HistoryStore,
) -> None:
    """Its own calls are none of its caller's, who reads what they did in one result."""

    @tool
    async def look(order: str) -> str:
        """Look."""
        return f"saw {order}"

    @tool(steps=True)
    async def book(order: str, ctx: ToolContext) -> str:
        """Book, and be stopped before the end."""

        async def hold() -> str:
            return f"held {order}"

        await ctx.step.run("hold", hold)
        await ctx.step.sleep("rest", 10**9)
        return "never"

    store = any_store
    async with store:
        calls = tool_calls(("look", {"order": "A1"}), ("book", {"order": "B2"}))
        model = ScriptedModel(tool_call("helper", {"task": "all"}), calls, "As I said.")
        helper = Agent(name="helper", system="H", tools=[look, book], max_iter=3)
        clerk = Agent(
            name="clerk", system="S", model=model, history=store, max_iter=3,
            tools=[helper.as_tool(allowed_tools="own")],
        )  # fmt: skip
        client = inngest.Inngest(app_id="app", is_production=False)
        executor = ReplayExecutor(client, create_functions(client, agents=[clerk]), seed=None)
        executor.receive({"name": "app/agent-clerk", "data": {"input": "Go.", "threadId": "t"}})
        (run,) = executor.runs
        while not any(step.name.endswith("rest") for step in run.recorded.values()):
            await executor.do_next(timeouts=False)
        executor.cancel(run)
        assert await executor.send_event("app/agent-clerk", {"input": "Now?", "threadId": "t"})
        rows = await store.load("t")
        assert [one.agent_name for one in rows] == ["user", "clerk", "user", "clerk"]
        (content,) = contents(rows)
        done = content["error"]["done"].values()
        assert [one["tool"] for one in done] == ["look", "book"]
        assert [str(done).count(one) for one in ("saw A1", "held B2")] == [1, 1]
        assert all(str(model.bodies[-1]).count(one) == 1 for one in ("saw A1", "held B2"))
