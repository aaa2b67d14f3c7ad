"""A small shop to play with: two agents, processors at each level, and a model that is a script."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio

from agentkit_py import (
    Agent,
    Message,
    Network,
    RouterContext,
    SqliteHistory,
    State,
    TextMessage,
    TokenLimiter,
    ToolCallFilter,
    ToolContext,
    openai,
    tool,
)
from agentkit_py.budgets import Price, Prices
from agentkit_py.models import Model
from agentkit_py.playground.runs import Playground
from agentkit_py.testing import FakeProvider, ReceivedRequest, text, tool_call
from agentkit_py.testing.provider import Reply

SECRET = "sk-the-secret-of-this-shop"


@dataclass
class ShopState:
    """The state that the shop's agents share."""

    topic: str = ""


def note(topic: str, ctx: ToolContext) -> str:
    """Keep in mind what it is about."""
    ctx.state.data.topic = topic
    return "noted"


def look_up(order: str) -> dict[str, Any]:
    """Look an order up."""
    return {"order": order, "status": "sent", "lines": [f"item {n}" for n in range(40)]}


@tool(needs_approval=True)
def refund(order: str) -> str:
    """Give the money back."""
    return f"{order} is refunded"


async def wait_for_stock(order: str) -> str:
    """Wait, in these tests for ever."""
    await anyio.sleep_forever()
    return order


def hide_mail(messages: Sequence[Message]) -> list[Message]:
    """Hide a mail address in what was said before."""
    return [
        replace(m, content=m.text.replace("ann@example.com", "[hidden]"))
        if isinstance(m, TextMessage) and "ann@example.com" in m.text
        else m
        for m in messages
    ]


_WISHES = {"refund": "refund", "wait": "wait_for_stock", "order": "look_up"}


def scripted(request: ReceivedRequest) -> Reply:
    """Answer as the shop's model: nothing but the request is known here."""
    messages: list[dict[str, Any]] = request.body["messages"]
    system, last = messages[0]["content"], messages[-1]
    question = next(m["content"] for m in reversed(messages) if m["role"] == "user")
    if system.startswith("You greet"):
        done = last["role"] == "tool"
        return text("One moment.") if done else tool_call("note", {"topic": question[:30]})
    if "Be brief." in system:
        return text("Briefly: yes.")
    if last["role"] == "tool":
        return text(f"The tool said {str(last['content'])[:80]}")
    for word, name in _WISHES.items():
        if word in question:
            return tool_call(name, {"order": "A7"})
    return text(f"You said: {question}")


def route(context: RouterContext) -> str | None:
    """First the greeter, then the clerk."""
    return ["greeter", "clerk", None][min(context.call_count, 2)]


def shop_model(provider: FakeProvider | None = None) -> Model:
    """The shop's model, over HTTP that never leaves this process."""
    provider = provider or FakeProvider(scripted, api_keys={"openai": SECRET})
    return replace(openai("gpt-shop", api_key=SECRET), transport=provider.transport)


def shop(folder: Path, model: Model | None = None) -> Network:
    """The shop, its threads in a file of ``folder``."""
    greeter = Agent(name="greeter", system="You greet.", tools=[note], max_iter=2)
    clerk = Agent(
        name="clerk",
        system="You sell.",
        tools=[look_up, refund, wait_for_stock],
        max_iter=3,
        processors=[ToolCallFilter(include=["look_up", "refund", "wait_for_stock"])],
    )
    return Network(
        name="shop",
        agents=[greeter, clerk],
        router=route,
        default_model=model or shop_model(),
        default_state=State(ShopState()),
        history=SqliteHistory(folder / "shop.db", processors=[TokenLimiter(4000)]),
        processors=[hide_mail],
    )


def playground(folder: Path) -> Playground:
    """The shop as something to play with."""
    prices = Prices({"gpt-shop": Price(2.0, 8.0)}, "EUR")
    return Playground(shop(folder), prices, ["Where is order 7?"])


async def until_done(played: Playground, run_id: str) -> None:
    """Wait until a run is over."""
    task = played.runs[run_id].task
    if task is not None:
        await asyncio.wait([task])
