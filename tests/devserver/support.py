"""The support network that the scenarios run, as Inngest functions."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import inngest
from pydantic import BaseModel

from agentkit_py import (
    Agent,
    Network,
    RouterContext,
    SqliteHistory,
    Tool,
    ToolContext,
    openai,
    tool,
)
from agentkit_py.errors import RetryAfterError
from agentkit_py.history.leases import ThreadLease
from agentkit_py.inngest import FunctionOptions, create_functions, inngest_tool
from agentkit_py.inngest.runtime import Inference
from agentkit_py.models.base import Model
from agentkit_py.routing import Together, together

from .faulty import faulty_functions

APP = "devtest"


def app_of(world: str, inference: Inference, *, connects: bool = False) -> str:
    """Return the id of the app with a module's functions, whose models are asked so.

    Each has its own: functions that are registered under an app's id take the place of others.
    """
    name = f"{APP}-{world}-{inference}"
    return f"{name}-connect" if connects else name


SUPPORT = f"{APP}/network-support"
"""The event that starts the network."""

TELLERS = f"{APP}/network-tellers"
"""The event that starts a network whose runs take turns on a thread."""

CANCEL = "devtest/customer.left"
FREED = "devtest/seat.freed"


class Order(BaseModel):
    """The input of the other function."""

    order: str


class Books:
    """Side effects, counted in a database file as a real system's would be."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("create table if not exists effects (customer text, name text)")

    def enter(self, customer: str, name: str) -> int:
        """One side effect; gives how often it happened now."""
        with closing(sqlite3.connect(self._path)) as database, database:
            database.execute("insert into effects values (?, ?)", (customer, name))
        return self.of(customer)[name]

    def of(self, customer: str) -> Counter[str]:
        """Return the number of times each effect happened."""
        return Counter(self.in_order(customer))

    def count(self) -> int:
        """Return the number of effects of all customers."""
        with closing(sqlite3.connect(self._path)) as database:
            return database.execute("select count(*) from effects").fetchone()[0]

    def in_order(self, customer: str) -> list[str]:
        """Return the effects, the first first."""
        query = "select name from effects where customer = ? order by rowid"
        with closing(sqlite3.connect(self._path)) as database:
            return [name for (name,) in database.execute(query, (customer,))]


def functions_of(
    client: inngest.Inngest,
    *,
    model_url: str,
    folder: Path,
    inference: Inference,
    transport: Any = None,
) -> list[inngest.Function[Any]]:
    """The network, and a function that one of its tools invokes."""
    books = Books(folder / "books.db")
    invoked = _lookup_function(client, books)
    model = openai("gpt-4o", api_key="sk-test", base_url=model_url)
    if transport is not None:
        model = Model(**{**_fields(model), "transport": transport})
    network = Network(
        name="support",
        agents=_agents(books, folder, inngest_tool(invoked, parameters=Order)),
        default_model=model,
        router=_route,
        history=SqliteHistory(folder / "threads.db"),
    )
    options = FunctionOptions(
        retries=20,  # attempts that find no worker count, and a new one takes seconds to start
        cancel=[inngest.Cancel(event=CANCEL, if_exp="event.data.threadId == async.data.threadId")],
    )
    tellers = Network(
        name="tellers",
        agents=[_teller(books)],
        default_model=model,
        router=lambda context: None if context.call_count else "teller",
        history=SqliteHistory(folder / "tellers.db", lease=ThreadLease()),
    )
    made = create_functions(
        client,
        networks=[network, tellers],
        options={"support": options},
        inference=inference,
        realtime=True,
    )
    faulty = faulty_functions(client, model, folder, books.enter, inference)
    return [invoked, *made, *faulty]


def _teller(books: Books) -> Agent:
    @tool
    def pay(amount: int, ctx: ToolContext) -> str:
        """Pay, which takes a while."""
        books.enter(customer(ctx), f"pay {amount}")
        time.sleep(0.1)
        return f"paid {amount}"

    return Agent(name="teller", system="teller", tools=[pay], max_iter=4)


def _route(context: RouterContext) -> str | Together | None:
    data = context.network.state.data
    if context.call_count == 0:
        return "triage"
    if context.call_count == 1 and data.get("desk") == "both":
        return together("billing", "bookings")
    return data.get("desk") if context.call_count == 1 else None


def _agents(books: Books, folder: Path, lookup: Tool) -> list[Agent]:
    @tool
    def hand_over(desk: str, ctx: ToolContext) -> str:
        """Hand over."""
        books.enter(customer(ctx), f"hand over to {desk}")
        ctx.state.data["desk"] = desk
        return f"handed to {desk}"

    @tool(needs_approval=_is_large)
    def refund(amount: int, ctx: ToolContext) -> str:
        """Pay money back."""
        books.enter(customer(ctx), f"refund {amount}")
        return f"paid {amount}"

    @tool
    def reserve(seat: str, ctx: ToolContext) -> str:
        """Reserve a seat: the first attempt fails."""
        if books.enter(customer(ctx), f"reserve {seat}") == 1:
            raise RetryAfterError("the seat map is busy", retry_after=1)
        return f"reserved {seat}"

    @tool
    def slow(ctx: ToolContext) -> str:
        """Take long, unless it is the second time."""
        if books.enter(customer(ctx), "slow") == 1 and (folder / "hang").exists():
            time.sleep(60)
        return "done"

    @tool(steps=True)
    async def wait_for_seat(ctx: ToolContext) -> Any:
        """Wait until a seat is free."""
        mine = f"async.data.customer == '{customer(ctx)}'"
        event = await ctx.wait_for_event(FREED, if_exp=mine, timeout=timedelta(minutes=5))
        return event.data["seat"] if event is not None else "none"

    desk: dict[str, Any] = {"max_iter": 4, "parallel_tools": True}
    return [
        Agent(name="triage", system="triage", tools=[hand_over], max_iter=2),
        Agent(name="billing", system="billing", tools=[refund, lookup, slow], **desk),
        Agent(name="bookings", system="bookings", tools=[reserve, wait_for_seat], **desk),
    ]


def _is_large(ctx: ToolContext) -> bool:
    return ctx.arguments.amount > 100


def customer(ctx: ToolContext) -> str:
    """Return the customer of the run."""
    return str(ctx.state.data["customer"])


def _lookup_function(client: inngest.Inngest, books: Books) -> inngest.Function[Any]:
    @client.create_function(
        fn_id="lookup", trigger=inngest.TriggerEvent(event=f"{APP}/lookup"), retries=1
    )
    async def lookup(ctx: inngest.Context) -> dict[str, Any]:
        order = str(ctx.event.data["order"])

        async def look() -> str:
            books.enter(order, "look up")
            return "shipped"

        return {"order": order, "status": await ctx.step.run("look", look)}

    return lookup


def _fields(model: Model) -> dict[str, Any]:
    return {name: getattr(model, name) for name in Model.__dataclass_fields__}
