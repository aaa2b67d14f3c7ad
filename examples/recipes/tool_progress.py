"""A tool that says how far it has come."""

# --8<-- [start:recipe]
from collections.abc import AsyncGenerator
from typing import Any

from agentkit_py import Agent
from agentkit_py.events.types import Event, ToolProgressed
from agentkit_py.testing import ScriptedModel, tool_call
from agentkit_py.tools import Progress


async def export(orders: int) -> AsyncGenerator[Any, None]:
    """Export the newest orders."""
    for number in range(orders):
        yield Progress(f"Order {number + 1}", fraction=number / orders)
    yield {"file": "orders.csv", "orders": orders}  # the last value is the result


def show(event: Event) -> None:
    """Front ends get the same in their streams."""
    if isinstance(event, ToolProgressed):
        print(event.call.name, event.progress.text, event.progress.fraction)


model = ScriptedModel(tool_call("export", {"orders": 2}), "Your file is ready.")
clerk = Agent(name="clerk", system="You export orders.", model=model, tools=[export])
print(clerk.run_sync("Export two orders.", observer=show).text)
# --8<-- [end:recipe]
model.assert_saw("orders.csv")
