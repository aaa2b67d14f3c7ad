"""Events that come before anybody waits for them, kept until a tool receives them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import inngest
import pytest

from agentkit_py import Agent, AgentResult, MemoryHistory, SqliteHistory, ToolContext, tool
from agentkit_py.errors import ConfigurationError
from agentkit_py.history import deliver
from agentkit_py.inngest import create_functions, mailbox_function
from agentkit_py.stores import PostgresHistory, redacted
from agentkit_py.testing import ScriptedModel, tool_call, tool_calls
from agentkit_py.testing.executor import KillAt, ReplayExecutor, Run
from tests.stores.record_store import record_store

PAID = "shop/paid"
HOUR = timedelta(hours=1)


@pytest.fixture(params=["memory", "sqlite", "records", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A store of each kind."""
    if request.param == "memory":
        return MemoryHistory()
    if request.param == "sqlite":
        return SqliteHistory(tmp_path / "threads.db")
    if request.param == "records":
        return record_store(tmp_path)
    url = request.getfixturevalue("postgres_url")
    schema = request.getfixturevalue("postgres_schema")
    return PostgresHistory(url, schema=schema, connections=4)


@tool(steps=True)
async def payment(order: str, ctx: ToolContext) -> Any:
    """Wait for a payment."""
    found = await ctx.receive(PAID, key=order, timeout=HOUR)
    return "not paid" if found is None else found["amount"]


def clerk(store: Any, *orders: str) -> Agent:
    """An agent that waits for payments, one after another."""
    calls = tool_calls(*(("payment", {"order": order}) for order in orders))
    model = ScriptedModel(calls, "Done.")
    return Agent(name="clerk", system="S", model=model, tools=[payment], max_iter=3, history=store)


def executor_of(agent: Agent, store: Any, **options: Any) -> ReplayExecutor:
    """An executor with the agent and the mailbox as functions."""
    client = inngest.Inngest(app_id="app", is_production=False)
    functions = create_functions(client, agents=[agent])
    functions.append(mailbox_function(client, store, {PAID: "order"}))
    return ReplayExecutor(client, functions, check=not options, **options)


async def start(executor: ReplayExecutor) -> Run:
    """Start the agent."""
    return await executor.start("app/agent-clerk", {"input": "hi", "threadId": "t"})


def received(run: Run) -> list[Any]:
    """Return the data of the tool results."""
    assert (run.status, run.differences) == ("completed", []), run.error
    return [call["content"] for one in run.output["results"] for call in one["toolCalls"]]


async def test_an_event_that_came_before_the_wait_is_found(store: Any) -> None:
    """It was sent before the run began."""
    async with store:
        executor = executor_of(clerk(store, "A1"), store)
        await executor.send_event(PAID, {"order": "A1", "amount": 5})
        assert received(await start(executor)) == [{"data": 5}]


async def test_an_event_that_comes_later_wakes_the_run(store: Any) -> None:
    """Another order's does not."""
    async with store:
        executor = executor_of(clerk(store, 'it\'s "A1"'), store)
        run = await start(executor)
        await executor.send_event(PAID, {"order": "B2", "amount": 7})
        assert run.status == "running"
        await executor.send_event(PAID, {"order": 'it\'s "A1"', "amount": 5})
        await executor.finish(run)
        assert received(run) == [{"data": 5}]


async def test_each_event_is_received_once_and_in_order(store: Any) -> None:
    """The third call waits until its time is over."""
    async with store:
        executor = executor_of(clerk(store, "A1", "A1", "A1"), store)
        for amount in (5, 6):
            await executor.send_event(PAID, {"order": "A1", "amount": amount})
        run = await start(executor)
        await executor.finish(run)
        assert received(run) == [{"data": 5}, {"data": 6}, {"data": "not paid"}]


@pytest.mark.parametrize("when", ["before", "inside", "after"])
async def test_a_worker_that_dies_while_it_receives_loses_nothing(when: Any) -> None:
    """The step that is done again gets the same event."""
    store = MemoryHistory()
    kill = KillAt(step="clerk.0.0.tool.0.payment.receive.shop/paid.1.0", when=when)
    executor = executor_of(clerk(store, "A1", "A1"), store, kill=kill)
    for amount in (5, 6):
        await executor.send_event(PAID, {"order": "A1", "amount": amount})
    run = await start(executor)
    await executor.finish(run)
    assert [entry.outcome for entry in executor.journal].count(f"killed {when}") <= 1
    assert received(run) == [{"data": 5}, {"data": 6}]


async def test_a_direct_run_receives_delivered_mail(store: Any) -> None:
    """Before it began, or while it waits; the same id again changes nothing."""
    async with store:
        for _ in range(2):
            await deliver(store, PAID, "A1", {"amount": 5}, mail_id="m1")
        first = await clerk(store, "A1").run("hi", thread_id="t")
        assert data_of(first, await store.load("t")) == [{"data": 5}]

        @tool(steps=True)
        async def pay_first(ctx: ToolContext) -> Any:
            """Pay, and wait for the payment."""
            await deliver(store, PAID, "A1", {"amount": 6}, mail_id="m2")
            return (await ctx.receive(PAID, key="A1", timeout=HOUR))["amount"]

        model = ScriptedModel(tool_call("pay_first"), "Done.")
        agent = Agent(name="payer", system="S", model=model, tools=[pay_first], history=store)
        second = await agent.run("hi", thread_id="u")
        assert data_of(second, await store.load("u")) == [{"data": 6}]


def data_of(last: AgentResult, results: Any) -> list[Any]:
    """Return the contents of tool results."""
    assert last.text == "Done."
    return [one.content for result in results for one in result.tool_calls]


async def test_nothing_comes_in_time() -> None:
    """The tool gets None."""

    @tool(steps=True)
    async def glance(ctx: ToolContext) -> str:
        """Look once."""
        found = await ctx.receive(PAID, key="A1", timeout=timedelta(0))
        return f"got {found}"

    store = MemoryHistory()
    model = ScriptedModel(tool_call("glance"), "Done.")
    agent = Agent(name="payer", system="S", model=model, tools=[glance], history=store)
    last = await agent.run("hi", thread_id="t")
    assert data_of(last, await store.load("t")) == [{"data": "got None"}]


async def test_mail_is_masked_as_everything_else_is() -> None:
    """It goes through the redacted store."""
    store = redacted(MemoryHistory(), {"card": r"\d{16}"})
    await deliver(store, PAID, "A1", {"amount": "4111111111111111"}, mail_id="m")
    await clerk(store, "A1").run("hi", thread_id="t")
    assert "41111111" not in str(await store.load("t"))


async def test_a_mailbox_needs_a_store_and_a_key() -> None:
    """Each problem is named."""
    client = inngest.Inngest(app_id="app", is_production=False)
    with pytest.raises(ConfigurationError, match="name the events"):
        mailbox_function(client, MemoryHistory(), {})
    with pytest.raises(ConfigurationError, match="store that keeps mail"):
        await clerk(None, "A1").run("hi")
    executor = executor_of(clerk(MemoryHistory(), "A1"), MemoryHistory())
    for data, problem in (({}, "no data.order"), ({"order": "A", "n": 2**60}, "data of event")):
        run = await executor.run(PAID, data)
        assert run.error is not None
        assert problem in run.error["message"]
