"""A tool with several steps that waits for a person; the twin of the TypeScript program."""

# ruff: noqa: E402 - what runs it offline stands below it
# --8<-- [start:twin]
from datetime import timedelta

import inngest
from pydantic import BaseModel

from agentkit_py import (
    Agent,
    RouterContext,
    ToolContext,
    create_agent,
    create_network,
    create_tool,
    openai,
)
from agentkit_py.inngest import create_functions

bought: list[str] = []


class Order(BaseModel):
    """Arguments of `order`."""

    flowers: str


async def ask_and_buy(given: Order, ctx: ToolContext) -> str:
    """Several steps: what stands between them runs again on each replay."""
    flowers = given.flowers

    async def get_offer() -> str:
        return f"{flowers}: 40"

    async def buy() -> None:
        bought.append(flowers)

    offer = await ctx.step.run("get offer", get_offer)
    answer = await ctx.wait_for_event(
        "florist/offer.answered",
        if_exp=f"async.data.flowers == '{flowers}'",
        timeout=timedelta(hours=4),
    )
    if answer is None or not answer.data.get("approved"):
        return f"not ordered, {offer} is too much"
    await ctx.step.run("buy", buy)
    return f"ordered, {offer}"


order = create_tool(
    name="order",
    description="Order flowers; the manager is asked.",
    parameters=Order,
    handler=ask_and_buy,
    steps=True,
)

florist = create_agent(
    name="florist",
    system="You order flowers and say what came of it.",
    tools=[order],
)


def route(ctx: RouterContext) -> Agent | None:
    """Two turns: the call, and what came of it."""
    return florist if ctx.call_count < 2 else None


shop = create_network(
    name="shop",
    agents=[florist],
    default_model=openai("gpt-4o"),
    router=route,
)

client = inngest.Inngest(app_id="florist", is_production=False)
functions = create_functions(client, networks=[shop])
# --8<-- [end:twin]

import asyncio
from collections.abc import Mapping
from typing import Any

from agentkit_py.testing import ReplayExecutor, ScriptedModel, tool_call
from agentkit_py.testing.executor import Wait


async def conversation(*, approved: bool) -> Any:
    """The function under a server that calls it from its top for each step."""
    model = ScriptedModel(tool_call("order", {"flowers": "tulips"}), "So be it.")
    shop.default_model = model

    def manager(wait: Wait) -> Mapping[str, Any]:
        assert wait.event == "florist/offer.answered"
        return {"flowers": "tulips", "approved": approved}

    executor = ReplayExecutor(client, functions, transport=model.fake.transport, check=True)
    run = await executor.run("florist/network-shop", {"input": "Tulips!"}, answer=manager)
    assert (run.status, run.differences) == ("completed", []), run.error
    model.assert_finished()
    return run.output["results"][-2]["toolCalls"][0]["content"]


assert asyncio.run(conversation(approved=False)) == {"data": "not ordered, tulips: 40 is too much"}
assert bought == []
assert asyncio.run(conversation(approved=True)) == {"data": "ordered, tulips: 40"}
assert bought == ["tulips"]  # once, however often the function ran
