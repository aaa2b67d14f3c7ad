"""Functions of both languages that invoke each other; the twin of the TypeScript program."""

# ruff: noqa: E402 - what runs it offline stands below it
# --8<-- [start:twin]
from datetime import timedelta
from typing import Any

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


class Bread(BaseModel):
    """Arguments of `ask_price`."""

    bread: str


async def invoke_price(given: Bread, ctx: ToolContext) -> Any:
    """Call the TypeScript function `price` of the app `shop-ts`."""
    return await ctx.step.invoke_by_id(
        "price",
        app_id="shop-ts",
        function_id="price",
        data={"bread": given.bread},
        timeout=timedelta(minutes=5),
    )


ask_price = create_tool(
    name="ask_price",
    description="The price of a bread.",
    parameters=Bread,
    handler=invoke_price,
    steps=True,
)

baker = create_agent(name="baker", system="You bake.", tools=[ask_price])


def route(ctx: RouterContext) -> Agent | None:
    """Two turns: the call, and what came of it."""
    return baker if ctx.call_count < 2 else None


bakery = create_network(
    name="bakery",
    agents=[baker],
    default_model=openai("gpt-4o"),
    router=route,
)

client = inngest.Inngest(app_id="bakery-py", is_production=False)
# TypeScript calls the network as bakery-py-network-bakery, and reads `text` of what it gives.
functions = create_functions(client, networks=[bakery])
# --8<-- [end:twin]

import asyncio

from agentkit_py.inngest import RunOutput
from agentkit_py.testing import ReplayExecutor, ScriptedModel, tool_call

model = ScriptedModel(tool_call("ask_price", {"bread": "rye"}), "Rye is 3.40.")
bakery.default_model = model
typescript = inngest.Inngest(app_id="shop-ts", is_production=False)


@typescript.create_function(fn_id="price", trigger=inngest.TriggerEvent(event="shop/price.asked"))
async def price(ctx: inngest.Context) -> dict[str, Any]:
    """Play the TypeScript function."""
    return {"bread": ctx.event.data["bread"], "cents": 340}


executor = ReplayExecutor(client, [*functions, price], transport=model.fake.transport)
run = asyncio.run(executor.run("bakery-py/network-bakery", {"input": "What is rye?"}))
assert run.status == "completed", run.error
assert [one.function for one in executor.runs] == ["bakery-py-network-bakery", "shop-ts-price"]
output = RunOutput.from_dict(run.output)
assert output.text == "Rye is 3.40."
assert output.results[0].tool_calls[0].content == {"data": {"bread": "rye", "cents": 340}}
