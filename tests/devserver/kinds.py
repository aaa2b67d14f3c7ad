"""Functions of other kinds: a mailbox, a schedule, encrypted steps, and flow control by name."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import inngest
from inngest_encryption import EncryptionMiddleware

from agentkit_py import Agent, SqliteHistory, Tool, ToolContext, openai, tool
from agentkit_py.inngest import (
    AgentKitMiddleware,
    FunctionOptions,
    create_functions,
    mailbox_function,
    per_customer,
    per_thread,
)
from agentkit_py.inngest.runtime import Inference
from agentkit_py.models import Model

from .support import Books, customer

PAID = "devtest/paid"
"""The event that the mailbox keeps, by its ``data.order``."""

SECRET = "the vault is under the stairs"
"""A tool's result that the server must not see."""

PERIOD = timedelta(seconds=2)
"""The time of the flow control that needs one."""

FLOWS: Mapping[str, FunctionOptions] = {
    "in-turn": per_thread(),
    "throttled": per_customer(throttle=1, period=PERIOD, concurrency=None),
    "debounced": per_thread(debounce=PERIOD),
    "ranked": per_thread(priority="event.data.plan == 'gold' ? 600 : 0")
    | FunctionOptions(concurrency=[inngest.Concurrency(limit=1)]),
}
"""Options of functions, by the name of the agent."""

HOLD = "hold"
"""Name of a file: while it is there, tools that work do not end."""

CLOCK = "customer-clock"
"""The customer of the scheduled runs."""


def functions_of(
    client: inngest.Inngest, *, model_url: str, folder: Path, inference: Inference
) -> list[inngest.Function[Any]]:
    """One agent for each kind."""
    books = Books(folder / "books.db")
    model = openai("gpt-4o", api_key="sk-test", base_url=model_url)
    mail = SqliteHistory(folder / "mail.db")
    work = _work(books, folder / HOLD)

    def agent(name: str, *tools: Tool, **options: Any) -> Agent:
        return Agent(name=name, system=name, tools=tools, model=model, max_iter=4, **options)

    agents = [agent("cashier", _payment(), history=mail), agent("keeper", _find(books))]
    options: dict[str, FunctionOptions] = {}
    for name, flow in FLOWS.items():
        agents.append(agent(name, work))
        options[name] = FunctionOptions(retries=0) | flow
    sealed: Any = EncryptionMiddleware.factory("a key of our own")
    options["keeper"] = FunctionOptions(middleware=[sealed])
    made = create_functions(client, agents=agents, options=options, inference=inference)
    return [*made, mailbox_function(client, mail, {PAID: "order"}), _clock(client, model, books)]


def _payment() -> Tool:
    @tool(steps=True)
    async def payment(order: str, ctx: ToolContext) -> Any:
        """Wait for a payment."""
        paid = await ctx.receive(PAID, key=order, timeout=timedelta(minutes=5))
        return "not paid" if paid is None else paid["amount"]

    return payment


def _find(books: Books) -> Tool:
    @tool
    def find(ctx: ToolContext) -> str:
        """Find the vault."""
        books.enter(customer(ctx), "find")
        return SECRET

    return find


def _work(books: Books, hold: Path) -> Tool:
    @tool
    def work(order: str, ctx: ToolContext) -> str:
        """Work for a while, and as long as it is held."""
        books.enter(customer(ctx), f"begin {order}")
        time.sleep(0.2)
        while hold.exists():
            time.sleep(0.02)
        books.enter(customer(ctx), f"end {order}")
        return "done"

    return work


def _clock(client: inngest.Inngest, model: Model, books: Books) -> inngest.Function[Any]:
    @tool
    def report(ctx: ToolContext) -> str:
        """Report."""
        books.enter(CLOCK, ctx.idempotency_key)
        return "reported"

    reporter = Agent(name="reporter", system="reporter", tools=[report], model=model, max_iter=2)

    @client.create_function(
        fn_id="every-minute",
        trigger=inngest.TriggerCron(cron="* * * * *"),
        middleware=[AgentKitMiddleware],
    )
    async def every_minute(ctx: inngest.Context) -> str:
        return (await reporter.run(f"I am {CLOCK}.")).text

    return every_minute
