"""A payment that may come before anybody waits for it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import inngest

from agentkit_py import Agent, MemoryHistory, ToolContext, tool
from agentkit_py.inngest import create_functions, mailbox_function
from agentkit_py.models import Model
from agentkit_py.testing import ScriptedModel, tool_call
from agentkit_py.testing.executor import ReplayExecutor


# --8<-- [start:mailbox]
@tool(steps=True)
async def wait_for_payment(order: str, ctx: ToolContext) -> str:
    """Wait until an order is paid."""
    paid: Any = await ctx.receive("shop/paid", key=order, timeout=timedelta(days=3))
    return "not paid" if paid is None else f"{paid['amount']} paid"


def functions_of(client: inngest.Inngest, clerk: Agent, store: MemoryHistory) -> list[Any]:
    """Return the agent's function, and the one that keeps events by their `data.order`."""
    mailbox = mailbox_function(client, store, {"shop/paid": "order"})
    return [*create_functions(client, agents=[clerk]), mailbox]


# --8<-- [end:mailbox]


async def main() -> None:
    """Pay first, then run the agent that waits for the payment."""
    model: Model = ScriptedModel(tool_call("wait_for_payment", {"order": "A1"}), "It is paid.")
    store = MemoryHistory()
    clerk = Agent(
        name="clerk", system="S", model=model, tools=[wait_for_payment], max_iter=2, history=store
    )
    client = inngest.Inngest(app_id="shop", is_production=False)
    executor = ReplayExecutor(client, functions_of(client, clerk, store))
    await executor.send_event("shop/paid", {"order": "A1", "amount": 20})
    run = await executor.run("shop/agent-clerk", {"input": "Is A1 paid?", "threadId": "t"})
    print(run.output["text"])


if __name__ == "__main__":
    asyncio.run(main())
