"""A shop whose clerk pays money back, if a person agrees: ``agentkit serve durable_start``."""

from agentkit_py import Agent, Network, SqliteHistory, tool
from agentkit_py.routing import once
from agentkit_py.stores import ThreadLease


@tool(needs_approval=True)
def refund(order: str, amount: int) -> str:
    """Pay money back for an order."""
    return f"paid {amount} for {order}"


clerk = Agent(name="clerk", system="You pay refunds.", tools=[refund], max_iter=5)
network = Network(
    name="shop",
    agents=[clerk],
    router=once(clerk),
    default_model="openai:gpt-4.1",
    history=SqliteHistory("threads.db", lease=ThreadLease()),
)
