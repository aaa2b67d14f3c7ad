"""A hat shop whose clerk pays money back, if a person agrees."""

from __future__ import annotations

from agentkit_py import Agent, Network, RouterContext, SqliteHistory, ToolContext, tool
from agentkit_py.testing import ScriptedModel, tool_call

ORDERS = {"ada": ["A1: bowler, 30"], "bob": ["B7: beret, 25"], "local": ["A1: bowler, 30"]}


@tool
def my_orders(ctx: ToolContext) -> list[str]:
    """The customer's orders."""
    return ORDERS[ctx.state.data["user_id"]]  # from auth, not from the model and not from the page


@tool(needs_approval=True)
def refund(order: str, amount: int) -> str:
    """Pay money back."""
    return f"paid {amount} for {order}"


def clerk_first(context: RouterContext) -> str | None:
    """One agent turn for each message."""
    return "clerk" if context.call_count == 0 else None


def shop_network(threads: str = "threads.db") -> Network:
    """The network, its threads in an SQLite file."""
    model = ScriptedModel(  # or openai("gpt-4.1"), anthropic("claude-sonnet-4-5"), …
        tool_call("my_orders", {}),
        "You bought a bowler for 30.",
        tool_call("refund", {"order": "A1", "amount": 30}),
        "Your 30 are on their way.",
        "You bought a bowler, and sent it back.",
    )
    clerk = Agent(
        name="clerk", system="You sell hats.", tools=[my_orders, refund], max_iter=5, model=model
    )
    return Network(name="shop", agents=[clerk], router=clerk_first, history=SqliteHistory(threads))
