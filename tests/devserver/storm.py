"""Functions for storms: workers die at any write of a store, and before and after any act.

``functions_of`` gives networks whose agents run what the messages say: their programs are random.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import inngest

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
from agentkit_py.inngest import FunctionOptions, create_functions, mailbox_function
from agentkit_py.inngest.runtime import Inference
from agentkit_py.stores import ThreadLease
from agentkit_py.testing import tool_call, tool_calls

from .places import Replies
from .support import Books

WORKERS = 2
"""Processes behind the app."""

MAIL = "devtest/storm.mail"
"""The event that a wire waits for, by its ``data.order``."""

KILLS = "kills"
"""Name of a file with a line for each death of a worker."""

CALM = "calm"
"""Name of a file: while it is there, no worker dies."""

NETWORKS = ("serial", "parallel", "chance", "pair")
"""Calls in turn, calls together, a router that decides by chance, two agents in turn."""

DEADLY = 0.012
"""The chance of a death at each place where a worker may die."""

KINDS = ("pay", "wire", "refund", "odd", "ask")


def store_of(folder: Path) -> SqliteHistory:
    """The store of the threads; its leases outlast no test."""
    return SqliteHistory(folder / "threads.db", lease=ThreadLease(seconds=30))


class DeadlyStore(SqliteHistory):
    """A store whose process may die before and after each of its writes."""

    folder: Path

    def maybe_die(self, where: str) -> None:
        """End the process by chance, and leave a line that says where."""
        maybe_die(self.folder, where)


def _deadly(name: str) -> Callable[..., Any]:
    write = getattr(SqliteHistory, name)

    async def call(self: DeadlyStore, *given: Any, **how: Any) -> Any:
        self.maybe_die(f"before {name}")
        found = await write(self, *given, **how)
        self.maybe_die(f"after {name}")
        return found

    return call


for _name in (
    "open_run", "end_run", "save_run", "change_run", "note_calls", "drop_notes", "append_rows",
    "append_held", "lock_thread", "unlock_thread", "wait_in_line", "save_question",
    "change_question", "take_mail",
):  # fmt: skip
    if hasattr(SqliteHistory, _name):
        setattr(DeadlyStore, _name, _deadly(_name))


def maybe_die(folder: Path, where: str) -> None:
    """End this process by chance."""
    if random.random() >= DEADLY or (folder / CALM).exists():  # noqa: S311 - moments
        return
    with (folder / KILLS).open("a") as file:
        file.write(f"{where}\n")
    os.kill(os.getpid(), signal.SIGKILL)


def functions_of(
    client: inngest.Inngest, *, model_url: str, folder: Path, inference: Inference
) -> list[inngest.Function[Any]]:
    """The networks, and the mailbox."""
    store = DeadlyStore(folder / "threads.db", lease=ThreadLease(seconds=30))
    store.folder = folder
    model = openai("gpt-4o", api_key="sk-test", base_url=model_url)
    books = Books(folder / "books.db")
    inner = Agent(name="inner", system="inner", tools=_payments(books, folder)[:1], model=model)
    ask = inner.as_tool(allowed_tools="own", name="ask")
    tools = [*_payments(books, folder), ask]

    def agent(name: str, **options: Any) -> Agent:
        return Agent(name=name, system=name, tools=tools, model=model, max_iter=8, **options)

    def network(name: str) -> Network:
        count = {"chance": 3, "pair": 2}.get(name, 1)
        agents = [
            agent(f"{name}{n}", parallel_tools=name in ("parallel", "pair")) for n in range(count)
        ]

        def route(context: RouterContext) -> Agent | None:
            if context.call_count >= count:
                return None
            by_chance = name == "chance"
            return random.choice(agents) if by_chance else agents[context.call_count]  # noqa: S311

        return Network(name=name, agents=agents, router=route, history=store)

    made = create_functions(
        client,
        networks=[network(name) for name in NETWORKS],
        options={name: FunctionOptions(retries=4 if name == "chance" else 20) for name in NETWORKS},
        inference=inference,
    )
    return [*made, mailbox_function(client, store, {MAIL: "order"})]


def _payments(books: Books, folder: Path) -> Sequence[Tool]:
    def enter(order: str, key: str) -> str:
        whose, _, name = order.partition("/")
        maybe_die(folder, f"before {name}")
        books.enter(whose, f"{name} {key}")
        maybe_die(folder, f"after {name}")
        return f"done {name}"

    @tool
    def pay(order: str, ctx: ToolContext) -> str:
        """Pay."""
        return enter(order, ctx.idempotency_key)

    @tool(steps=True)
    async def wire(order: str, ctx: ToolContext) -> str:
        """Reserve, wait for mail, transfer."""

        def step(name: str) -> Any:
            return ctx.step.run(name, lambda: enter(f"{order}.{name}", ctx.idempotency_key))

        await step("reserve")
        mail: Any = await ctx.receive(MAIL, key=order, timeout=timedelta(minutes=5))
        assert mail is not None
        await step("transfer")
        return f"done {order.partition('/')[2]}"

    @tool(needs_approval=True)
    def refund(order: str, ctx: ToolContext) -> str:
        """Pay back."""
        return enter(order, ctx.idempotency_key)

    @tool
    async def odd(order: str, ctx: ToolContext) -> str:
        """Pay, and be left by a cancellation of its own."""
        enter(order, ctx.idempotency_key)
        raise asyncio.CancelledError("its own")

    return [pay, wire, refund, odd]


def program(name: str, customer: str, chance: random.Random) -> Replies:
    """Return the replies of a network's agents: calls of random kinds, each with an order."""
    counts = {"chance": 3, "pair": 2}
    replies: dict[str, list[Any]] = {"inner": []}
    number = 0
    for n in range(counts.get(name, 1)):
        given: list[Any] = []
        for _ in range(chance.randint(1, 2)):
            calls: list[tuple[str, dict[str, Any]]] = []
            for _ in range(chance.randint(1, 3)):
                number += 1
                kind = chance.choice(KINDS if not replies["inner"] else KINDS[:-1])
                order = f"{customer}/{kind}{number}"
                calls.append((kind, {"order": order}))
                if kind == "ask":
                    calls[-1] = (kind, {"task": f"I am {customer}. Pay {order}."})
                    paid = tool_call("pay", {"order": order})
                    replies["inner"] = [paid, f"done ask{number}"]
            given.append(tool_calls(*calls))
        replies[f"{name}{n}"] = [*given, f"End of {name}{n}."]
    if name == "chance":  # each may be asked three times
        replies |= {agent: said * 3 for agent, said in replies.items() if agent != "inner"}
    return replies
