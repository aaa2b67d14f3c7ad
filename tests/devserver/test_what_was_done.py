"""What was done is known, and done once, however a run ends or waits: on the real server.

The worker serves `functions_of`.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import inngest
import pytest

from agentkit_py import Agent, Network, SqliteHistory, Tool, ToolContext, openai, tool
from agentkit_py.errors import NonRetriableError, NotPendingError
from agentkit_py.events.approvals import APPROVAL_EVENT
from agentkit_py.inngest import FunctionOptions, answer_question, create_functions
from agentkit_py.inngest.runtime import Inference
from agentkit_py.stores import ThreadLease
from agentkit_py.testing import tool_call, tool_calls

from .conftest import Working
from .shop import Lost, Shop, Unheard, opened, person, serving
from .support import APP, Books, customer

pytestmark = pytest.mark.devserver

WORLD = __name__.rpartition(".")[2]

HOLD = "hold"
"""Name of a file: while it is there, the tool that holds does not end."""

RETRIES = 4


def store_of(folder: Path) -> SqliteHistory:
    """The store of the threads, which gives up soon and whose leases outlast a test."""
    return SqliteHistory(
        folder / "threads.db", lease=ThreadLease(seconds=100_000), busy_timeout=0.5
    )


def functions_of(
    client: inngest.Inngest, *, model_url: str, folder: Path, inference: Inference
) -> list[inngest.Function[Any]]:
    """A clerk with all tools, the same with calls at the same time, and a function of a user."""
    model = openai("gpt-4o", api_key="sk-test", base_url=model_url)
    tools, store = _tools(Books(folder / "books.db"), folder / HOLD), store_of(folder)

    def agent(name: str, **options: Any) -> Agent:
        return Agent(name=name, system=name, tools=tools, model=model, max_iter=4, **options)

    made = create_functions(
        client,
        agents=[agent("clerk", history=store), agent("desk", history=store, parallel_tools=True)],
        options={name: FunctionOptions(retries=RETRIES) for name in ("clerk", "desk")},
        inference=inference,
    )
    return [*made, _without_middleware(client, agent("clerk"))]


def _tools(books: Books, hold: Path) -> list[Tool]:
    def enter(ctx: ToolContext, name: str) -> str:
        books.enter(customer(ctx), name)
        return f"done: {name}"

    @tool
    def charge(order: str, ctx: ToolContext) -> str:
        """Charge."""
        return enter(ctx, f"charge {order}")

    @tool
    def charge_slowly(order: str, ctx: ToolContext) -> str:
        """Charge, and end once it is not held any more."""
        done = enter(ctx, f"charge {order}")
        while hold.exists():
            time.sleep(0.02)
        return done

    @tool
    def refuse() -> str:
        """End the run."""
        raise NonRetriableError("the account is frozen")

    @tool(needs_approval=True)
    def refund(order: str, ctx: ToolContext) -> str:
        """Pay back."""
        return enter(ctx, f"refund {order}")

    @tool
    async def leave(order: str, ctx: ToolContext) -> str:
        """Charge, and be left by a cancellation of its own."""
        enter(ctx, f"charge {order}")
        raise asyncio.CancelledError("something of its own was cancelled")

    @tool(steps=True)
    async def buy(order: str, ctx: ToolContext) -> str:
        """Buy in a step that is a plain function."""
        return await ctx.step.run("buy", lambda: enter(ctx, f"buy {order}"))

    @tool(steps=True)
    async def pay(person: str, ctx: ToolContext) -> str:
        """Pay somebody once a person agrees."""
        await ctx.approve(f"Pay {person}?")
        return await ctx.step.run("money", lambda: enter(ctx, f"pay {person}"))

    return [charge, charge_slowly, refuse, refund, leave, buy, pay]


def _without_middleware(client: inngest.Inngest, clerk: Agent) -> inngest.Function[Any]:
    network = Network(
        name="shop", agents=[clerk], router=lambda context: None if context.call_count else clerk
    )

    @client.create_function(
        fn_id="own", trigger=inngest.TriggerEvent(event=f"{client.app_id}/own"), retries=RETRIES
    )
    async def own(ctx: inngest.Context) -> str:
        data: Any = ctx.event.data
        found = await network.run(data["input"], state={"data": data["state"]})
        await ctx.step.run("first", _nothing)
        await ctx.step.run("second", _nothing)
        return found.text

    return own


async def _nothing() -> None:
    """Do nothing."""


@pytest.fixture(scope="module", params=["local", "offload"])
def working(
    request: pytest.FixtureRequest, server_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Working]:
    """A worker with `functions_of`."""
    with serving(WORLD, server_url, tmp_path_factory.mktemp("done"), request.param) as worker:
        yield worker


@pytest.fixture
async def shop(working: Working) -> AsyncGenerator[Shop]:
    """Where the functions run."""
    async with opened(working, store_of(working[2])) as shop:
        yield shop


async def test_the_next_message_reads_a_charge_of_a_run_that_failed(
    shop: Shop, customer: str
) -> None:
    """The call after it ended the run; both are in the thread."""
    calls = [tool_call("charge", {"order": "a"}), tool_call("refuse", {})]
    shop.place.model.says(customer, {"clerk": calls})
    end = await shop.place.end(await shop.start("clerk", customer))
    assert end.status == "failed"
    assert "the account is frozen" in json.dumps(end.output)
    read = await shop.say_more("clerk", customer)
    assert "done: charge a" in read
    assert "the account is frozen" in read
    assert shop.place.books.of(customer) == {"charge a": 1}


async def test_a_store_that_is_locked_once_a_tool_has_acted_does_not_repeat_it(
    shop: Shop, customer: str
) -> None:
    """Another connection holds the file until the worker has given the note up."""
    folder = shop.place.folder
    (folder / HOLD).touch()
    calls = [tool_call("charge_slowly", {"order": "a"}), "Charged."]
    shop.place.model.says(customer, {"clerk": calls})
    run = await shop.start("clerk", customer)
    await shop.happens(customer, "charge a")
    with closing(sqlite3.connect(folder / "threads.db", isolation_level=None)) as other:
        other.execute("begin immediate")
        (folder / HOLD).unlink()
        await shop.logs("'charge_slowly' was made, and the store could not note it")
        other.execute("rollback")
    assert await shop.text(run) == "Charged."
    assert "done: charge a" in await shop.say_more("clerk", customer)
    assert shop.place.books.of(customer) == {"charge a": 1}


@pytest.mark.parametrize("network", [Lost, Unheard])
async def test_a_run_acts_on_the_answer_in_the_row_where_the_network_failed(
    shop: Shop, working: Working, customer: str, network: type[inngest.Middleware]
) -> None:
    """A second person's denial is refused, told who was first, and changes nothing."""
    calls = [tool_call("refund", {"order": "a"}), "Paid back."]
    shop.place.model.says(customer, {"clerk": calls})
    run = await shop.start("clerk", customer)
    await shop.place.waits(run, ".approve")
    (asked,) = await shop.questions(customer)
    url = working[0].server_url
    async with person(url, network) as mia:
        with pytest.raises(ConnectionError):
            await answer_question(mia, shop.store, asked.id, answer=True, by="mia")
    async with person(url) as sam:
        with pytest.raises(NotPendingError, match="approved by 'mia'") as refused:
            await answer_question(sam, shop.store, asked.id, answer=False, by="sam")
    assert refused.value.answered_by == "mia"
    assert await shop.text(run) == "Paid back."
    assert shop.place.books.of(customer) == {"refund a": 1}
    (row,) = await shop.store.list_questions(thread_id=customer, status=None)
    assert row.answer is not None
    assert (row.answered_by, row.answer.approved, row.is_undelivered) == ("mia", True, False)


async def test_a_message_that_comes_again_while_its_run_waits_is_paid_back_once(
    shop: Shop, customer: str
) -> None:
    """The second run says who has the message, and asks nobody."""
    calls = [tool_call("refund", {"order": "a"}), "Paid back."]
    shop.place.model.says(customer, {"clerk": calls})
    first = await shop.start("clerk", customer)
    await shop.place.waits(first, ".approve")
    second = await shop.place.end(await shop.start("clerk", customer))
    assert (second.status, second.output["stopReason"]) == ("completed", "steered")
    assert second.output["answeredBy"] == first
    assert len(await shop.questions(customer)) == 1
    await shop.place.answer(first, {"approved": True})
    assert await shop.text(first) == "Paid back."
    assert await shop.text(await shop.start("clerk", customer)) == "Paid back."
    assert shop.place.books.of(customer) == {"refund a": 1}


async def test_a_tool_that_a_cancellation_of_its_own_leaves_acts_once(
    shop: Shop, customer: str
) -> None:
    """The model reads it as any other error."""
    shop.place.model.says(customer, {"clerk": [tool_call("leave", {"order": "a"}), "Well."]})
    assert await shop.text(await shop.start("clerk", customer)) == "Well."
    assert shop.place.books.of(customer) == {"charge a": 1}
    assert "CancelledError" in str(shop.place.model.read("Well."))


async def test_a_step_that_is_a_plain_function_buys_once(shop: Shop, customer: str) -> None:
    """Its result is the step's."""
    shop.place.model.says(customer, {"clerk": [tool_call("buy", {"order": "a"}), "Bought."]})
    run = await shop.start("clerk", customer)
    assert await shop.text(run) == "Bought."
    assert shop.place.books.of(customer) == {"buy a": 1}
    assert "done: buy a" in str(shop.place.model.read("Bought."))


async def test_a_network_in_a_function_without_the_middleware_is_refused_before_it_acts(
    shop: Shop, customer: str
) -> None:
    """Each step of the function would repeat it."""
    call: Any = tool_call("charge", {"order": customer})
    shop.place.model.says(customer, {"clerk": [call, "Charged."]})
    data = {"input": f"I am {customer}.", "state": {"customer": customer}}
    end = await shop.place.end(await shop.place.start(f"{APP}/own", data))
    assert end.status == "failed"
    assert "AgentKitMiddleware" in json.dumps(end.output)
    assert shop.place.books.of(customer) == {}
    assert shop.place.model.read(call) == [], "the model was asked"


async def test_a_message_gets_through_while_one_of_two_calls_still_waits(
    shop: Shop, customer: str
) -> None:
    """Neither holds the thread, nor does the call beside them that waited for nobody.

    The server continues with the first that waits once both are answered.
    """
    people = [("pay", {"person": name}) for name in ("ada", "bob")]
    calls = tool_calls(*people, ("charge", {"order": "a"}))
    shop.place.model.says(customer, {"desk": [calls, "Both are paid."]})
    first = await shop.start("desk", customer)
    await shop.happens(customer, "charge a")
    await shop.waits(first, 2)
    ada, bob = sorted(await shop.questions(customer, 2), key=lambda asked: "bob" in asked.message)
    await shop.place.send(APPROVAL_EVENT, {"approvalId": ada.id, "approved": True})
    await shop.waits(first, 1)
    await shop.say_more("desk", customer)
    assert shop.place.books.of(customer)["pay bob"] == 0
    await shop.place.send(APPROVAL_EVENT, {"approvalId": bob.id, "approved": True})
    assert await shop.text(first) == "Both are paid."
    assert shop.place.books.of(customer) == {"charge a": 1, "pay ada": 1, "pay bob": 1}
    await shop.say_more("desk", customer, "later")
