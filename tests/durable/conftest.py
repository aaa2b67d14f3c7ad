"""Scenarios that most tests here share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentkit_py import Agent, Network, RouterContext, ToolContext, tool
from agentkit_py.routing import Together, together
from agentkit_py.testing import tool_call, tool_calls

from .world import Scenario, Stage


def support_network(stage: Stage) -> Network:
    """A triage agent that hands over, and a billing agent that refunds."""

    @tool
    def hand_over(to: str, ctx: ToolContext) -> str:
        """Hand over."""
        stage.effects.happen(f"hand_over {to}")
        assert ctx.network is not None
        ctx.network.schedule(to)
        ctx.state.data.setdefault("path", []).append(to)
        return f"handed to {to}"

    @tool
    async def refund(order: str, amount: int, ctx: ToolContext) -> dict[str, Any]:
        """Refund."""
        stage.effects.happen(f"refund {order}")
        orders = ctx.state.data.setdefault("orders", {})
        orders.setdefault(order, {"refunds": []})["refunds"].append(amount)
        return {"data": {"refunded": amount}, "error": None}

    triage = Agent(name="triage", system="triage S", tools=[hand_over], max_iter=3)
    billing = Agent(name="billing", system="billing S", tools=[refund], max_iter=4)

    def router(context: RouterContext) -> Any:
        if context.call_count == 0:
            return triage
        return billing if "orders" not in context.network.state.data and not context.stack else None

    return Network(name="support", agents=[triage, billing], router=router, history=stage.store)


SUPPORT = {
    "triage": [tool_call("hand_over", {"to": "billing"}), "Billing will help."],
    "billing": [
        tool_call("refund", {"order": "A1", "amount": 5}),
        tool_call("refund", {"order": "B2", "amount": 7}),
        "Both refunded.",
    ],
}


def fan_out(stage: Stage) -> Network:
    """Two agents together, one of them with two tools at a time."""

    @tool
    def look(place: str, ctx: ToolContext) -> str:
        """Look somewhere."""
        stage.effects.happen(f"look {place}")
        ctx.state.data[place] = True
        return f"nothing in {place}"

    left = Agent(name="left", system="left S", tools=[look], max_iter=3, parallel_tools=True)
    right = Agent(name="right", system="right S", tools=[look], max_iter=3)

    def router(context: Any) -> Together | None:
        return together(left, right) if context.call_count == 0 else None

    return Network(name="search", agents=[left, right], router=router, history=stage.store)


FAN_OUT = {
    "left": [
        tool_calls(("look", {"place": "attic"}), ("look", {"place": "cellar"})),
        "Not on the left.",
    ],
    "right": [tool_call("look", {"place": "garden"}), "Not on the right."],
}


@pytest.fixture
def support(tmp_path: Path) -> Scenario:
    """The support network."""
    return Scenario(network=support_network, replies=SUPPORT, base=tmp_path)


@pytest.fixture
def scenario(tmp_path: Path) -> Callable[..., Scenario]:
    """Makes a scenario."""

    def make(network: Callable[[Stage], Network], replies: Any, **options: Any) -> Scenario:
        return Scenario(network=network, replies=replies, base=tmp_path, **options)

    return make
