"""A support desk that waits for people: triage, and a billing desk that asks before it pays."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from agentkit_py import Agent, Network, RouterContext, SqliteHistory, ToolContext, tool
from agentkit_py.models import Model

# --8<-- [start:approval]
ORDERS = {"A1": 120, "B2": 30}
"""Amounts that may be refunded; in a real desk a table of the shop's database."""

PAID: list[str] = []
"""Refunds that were paid, by order: in this example each must be here once."""


def is_large(ctx: ToolContext) -> bool:
    """Refunds above 100 need a person."""
    return ctx.arguments.amount > 100


def still_open(ctx: ToolContext) -> str | None:
    """Nothing is locked while a person decides, so this runs before and after."""
    order = ctx.arguments.order
    left = ORDERS.get(order, 0) - ctx.arguments.amount
    return None if left >= 0 and order not in PAID else f"{order} cannot be refunded any more"


@tool(needs_approval=is_large, check=still_open, approval_timeout=timedelta(hours=8))
def refund(order: str, amount: int) -> str:
    """Pay money back for an order."""
    PAID.append(order)
    return f"paid {amount} for {order}"


# --8<-- [end:approval]


@tool
def hand_over(desk: str, ctx: ToolContext) -> str:
    """Hand the customer over to another desk."""
    ctx.state.data["desk"] = desk
    return f"handed over to {desk}"


# --8<-- [start:steps]
@tool(steps=True)
async def wait_for_parcel(order: str, ctx: ToolContext) -> dict[str, Any]:
    """Wait until the returned parcel has arrived."""

    async def announce() -> str:
        return f"return label for {order} sent"

    label = await ctx.step.run("announce", announce)
    arrived = await ctx.wait_for_event(
        "parcel/arrived", if_exp=f"async.data.order == '{order}'", timeout=timedelta(days=14)
    )
    return {"label": label, "arrived": arrived is not None}


# --8<-- [end:steps]


def route(context: RouterContext) -> str | None:
    """Triage, then the desk it chose. Routers run on every replay, so they have no side effects."""
    if context.call_count == 0:
        return "triage"
    return context.network.state.data.get("desk") if context.call_count == 1 else None


def support_network(model: Model, threads: str) -> Network:
    """Return the network, with its threads in an SQLite file."""
    triage = Agent(
        name="triage",
        system="Find out what the customer wants and hand over: billing knows refunds and returns.",
        tools=[hand_over],
        max_iter=2,
    )
    billing = Agent(
        name="billing",
        system="You refund orders and look after returns.",
        tools=[refund, wait_for_parcel],
        max_iter=6,
    )
    return Network(
        name="support",
        agents=[triage, billing],
        router=route,
        default_model=model,
        history=SqliteHistory(threads),
    )
