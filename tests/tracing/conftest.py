"""A collector, and a small support network."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from agentkit_py import Agent, Network, ToolContext, tool
from agentkit_py.testing import ScriptedModel, tool_call
from agentkit_py.tracing import uninstrument

from .collected import Collected


@pytest.fixture
def collected() -> Generator[Collected]:
    """A collector of its own for each test."""
    yield Collected()
    uninstrument()


def find_order(order: str) -> str:
    """Find an order."""
    return f"{order} is with ada@example.com"


@tool
def hand_over(to: str, ctx: ToolContext) -> str:
    """Hand the customer over."""
    assert ctx.network is not None
    ctx.network.schedule(to)
    return f"handed over to {to}"


def drop_nothing(messages: Any) -> Any:
    """A processor."""
    return messages


def support(model: ScriptedModel) -> Network:
    """Two desks, the first of which finds orders."""
    desk = Agent(
        name="desk",
        description="The first desk",
        system="You are the first desk.",
        tools=[find_order, hand_over],
        processors=[drop_nothing],
        max_iter=4,
    )
    refunds = Agent(name="refunds", system="You refund.")
    return Network(
        name="support",
        agents=[desk, refunds],
        router=lambda ctx: desk if ctx.call_count == 0 else None,
        default_model=model,
    )


def script() -> ScriptedModel:
    """The desk looks, hands over, and refunds answers."""
    return ScriptedModel(
        tool_call("find_order", {"order": "A1"}),
        tool_call("hand_over", {"to": "refunds"}),
        "I asked refunds.",
        "Your money is on its way, ada@example.com.",
    )
