"""A shop whose clerk answers from a script: for tests that talk to it in several ways."""

from __future__ import annotations

from agentkit_py import Agent, Network, SqliteHistory, ToolContext, tool
from agentkit_py.testing import ScriptedModel, tool_call, tool_calls
from tests.server.world import once

LINES = ["Good morning", "I want my money back for both hats", "And the gloves?"]
WORDS = [True, "We do not take gloves back."]
"""The person's word on each question: yes, or why not."""


@tool(needs_approval=True)
def refund(order: str, amount: int, ctx: ToolContext) -> str:
    """Pay money back."""
    ctx.state.data["paid"] = ctx.state.data.get("paid", 0) + amount
    return f"paid {amount} for {order}"


def make(path: str = "threads.db") -> Network:
    """The network, its threads in a file."""
    both = [("refund", {"order": order, "amount": 30}) for order in ("bowler", "béret")]
    model = ScriptedModel(
        "Good morning! What can I do for you?",
        tool_calls(*both),
        "Both are paid back.",
        tool_call("refund", {"order": "gloves", "amount": 9}),
        "I am sorry: we do not take gloves back.",
    )
    triage = Agent(name="clerk", system="You sell hats.", tools=[refund], max_iter=3)
    return Network(
        name="shop", agents=[triage], router=once, default_model=model, history=SqliteHistory(path)
    )
