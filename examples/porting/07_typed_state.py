"""Typed state that tools change; the twin of the TypeScript program beside this file."""

# ruff: noqa: E402 - what runs it offline stands below it
# --8<-- [start:twin]
from pydantic import BaseModel, PositiveInt

from agentkit_py import (
    Agent,
    RouterContext,
    ToolContext,
    create_agent,
    create_network,
    create_state,
    create_tool,
    openai,
)
from agentkit_py.lifecycle import AgentContext


class Basket(BaseModel):
    """The state's data: a pydantic model, a dataclass or a dict."""

    customer: str
    items: dict[str, int] = {}
    paid: bool = False


class Put(BaseModel):
    """Arguments of `put`."""

    item: str
    count: PositiveInt


def put_in(given: Put, ctx: ToolContext) -> dict[str, int]:
    """Put something into the basket."""
    items: dict[str, int] = ctx.state.data.items
    items[given.item] = items.get(given.item, 0) + given.count
    return items


put = create_tool(
    name="put",
    description="Put something into the basket.",
    parameters=Put,
    handler=put_in,
)


def pay_all(_: object, ctx: ToolContext) -> str:
    """Pay what is in the basket."""
    ctx.state.data.paid = True
    return "paid"


pay = create_tool(
    name="pay",
    description="Pay what is in the basket.",
    handler=pay_all,
)


def clerk_system(ctx: AgentContext) -> str:
    """Made anew for each inference."""
    return f"You serve {ctx.state.data.customer}."


clerk = create_agent(
    name="clerk",
    system=clerk_system,
    tools=[put, pay],
)


def route(ctx: RouterContext) -> Agent | None:
    """Until it is paid."""
    return None if ctx.network.state.data.paid else clerk


shop = create_network(
    name="shop",
    agents=[clerk],
    default_model=openai("gpt-4o"),
    default_state=create_state(Basket(customer="Ada")),
    max_iter=10,
    router=route,
)


async def main() -> Basket:
    """Run it."""
    run = await shop.run("Two apples, another one, and the bill.")
    return run.state.data


# --8<-- [end:twin]

import asyncio

from agentkit_py.testing import ScriptedModel, tool_call

model = ScriptedModel(
    tool_call("put", {"item": "apple", "count": 2}),
    tool_call("put", {"item": "apple", "count": 1}),
    tool_call("pay", {}),
)
shop.default_model = model
assert asyncio.run(main()) == Basket(customer="Ada", items={"apple": 3}, paid=True)
assert shop.default_state is not None
assert shop.default_state.data == Basket(customer="Ada")  # each run has a copy
model.assert_saw("You serve Ada.", r"{\"apple\":2}", r"{\"apple\":3}")
model.assert_finished()
