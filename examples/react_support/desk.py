"""A support desk for the page: triage, and a desk that looks up orders and pays money back."""

from __future__ import annotations

from agentkit_py import (
    Agent,
    Network,
    RouterContext,
    SqliteHistory,
    ToolCallFilter,
    ToolContext,
    tool,
)
from agentkit_py.models import Model
from agentkit_py.tools import ask_person

ORDERS = {
    "A1": {"order": "A1", "item": "a reading lamp", "paid": 120, "sent": "18 November"},
    "B2": {"order": "B2", "item": "a light bulb", "paid": 30, "sent": "19 November"},
}
"""The shop's orders; in a real desk a table of its database."""


@tool(title="Hand over to {desk}")
def hand_over(desk: str, ctx: ToolContext) -> str:
    """Hand the customer over to another desk."""
    ctx.state.data["desk"] = desk
    return f"handed over to {desk}"


@tool(title="Look up order {order}")
def find_order(order: str) -> dict[str, str | int]:
    """Look an order up."""
    return dict(ORDERS[order])


def is_large(ctx: ToolContext) -> bool:
    """Refunds above 100 need a colleague."""
    return ctx.arguments.amount > 100


@tool(title="Pay back {amount} € for order {order}", needs_approval=is_large)
def refund(order: str, amount: int) -> dict[str, str | int]:
    """Pay money back for an order."""
    return {"order": order, "refunded": amount}


@tool(title="Cancel order {order}", needs_approval=True, approvers=["owner"])
def cancel_order(order: str) -> dict[str, str]:
    """Cancel an order; the customer is asked first."""
    return {"order": order, "status": "cancelled"}


def route(ctx: RouterContext) -> str | None:
    """Triage first, then the desk that it names."""
    if ctx.call_count == 0:
        return "triage"
    desk = ctx.network.state.data.pop("desk", None)
    return desk if ctx.call_count == 1 else None


def support_network(model: Model, threads: str) -> Network:
    """Return the network; its threads are in the SQLite file ``threads``."""
    triage = Agent(
        name="triage",
        description="Finds out what it is about",
        system="You are triage. Hand every question about orders or money over to orders.",
        tools=[hand_over, ask_person],
        max_iter=1,
    )
    orders = Agent(
        name="orders",
        description="Orders, returns and money",
        system="You are orders. Look before you pay anything back. Write Markdown.",
        tools=[find_order, refund, cancel_order],
        processors=[ToolCallFilter(include="own")],
        max_iter=5,
    )
    return Network(
        name="support",
        agents=[triage, orders],
        router=route,
        default_model=model,
        history=SqliteHistory(threads),
    )
