"""Functions whose code is wrong in one way each, and one whose code is deployed again."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import inngest

from agentkit_py import Agent, Network, RouterContext, ToolContext, tool
from agentkit_py.inngest import AgentKitMiddleware
from agentkit_py.inngest.runtime import Inference
from agentkit_py.models import Model
from agentkit_py.runs import Runnable

GO = "devtest/go"
BAN = 1150000000000000001
"""An id that a double cannot hold."""

FOUND: dict[str, Any] = {"user": {"id": BAN, "rates": [1.0, 1e21, -0.0]}, "area": [{}, []]}
"""What a server that sorts keys and keeps doubles would give back as something else."""

Enter = Callable[[str, str], object]
"""Enters a side effect of a customer."""


def faulty_functions(  # noqa: C901, PLR0915 - a list of small functions
    client: inngest.Inngest, model: Model, folder: Path, enter: Enter, inference: Inference
) -> list[inngest.Function[Any]]:
    """The functions; each is started by an event of its name."""
    middleware: Any = AgentKitMiddleware.configured(inference=inference)

    def function(name: str, work: Callable[[str], Any]) -> inngest.Function[Any]:
        async def handler(ctx: inngest.Context) -> Any:
            return await work(str(ctx.event.data["customer"]))

        trigger = inngest.TriggerEvent(event=f"{client.app_id}/{name}")
        make = client.create_function(
            fn_id=name, trigger=trigger, retries=1, middleware=[middleware]
        )
        return make(handler)

    def agent(name: str, *tools: Any, **options: Any) -> Agent:
        return Agent(name=name, system=name, tools=tools, model=model, max_iter=6, **options)

    async def run(item: Runnable[Any], customer: str) -> Any:
        return await item.run(f"I am {customer}.", state={"data": {"customer": customer}})

    @tool
    async def pay(order: str, ctx: ToolContext) -> str:
        """Pay."""
        enter(ctx.state.data["customer"], f"pay {order}")
        await asyncio.sleep(0.01)
        return "paid"

    @tool(steps=True)
    async def pay_all(ctx: ToolContext) -> str:
        """Pay three orders at the same time."""

        def step(order: str) -> Any:
            async def work() -> None:
                enter(ctx.state.data["customer"], f"pay {order}")
                await asyncio.sleep(0.01)

            return ctx.step.run(order, work)

        await asyncio.gather(step("one"), step("two"), step("three"))
        return "paid"

    async def gathered_steps(customer: str) -> str:
        return (await run(agent("payer", pay_all), customer)).text

    async def gathered_runs(customer: str) -> None:
        left, right = agent("left", pay), agent("right", pay)
        await asyncio.gather(run(left, customer), run(right, customer))

    async def random_router(customer: str) -> str:
        agents = [agent(name, pay) for name in ("one", "two", "three")]

        def router(context: RouterContext) -> Agent | None:
            return random.choice(agents) if context.call_count < 3 else None  # noqa: S311 - no secret

        return (await run(Network(name="chance", agents=agents, router=router), customer)).text

    async def clock_router(customer: str) -> str:
        def router(context: RouterContext) -> Agent | None:
            context.state.data["at"] = time.monotonic()
            return None if context.call_count else teller

        teller = agent("one", pay)
        return (await run(Network(name="clock", agents=[teller], router=router), customer)).text

    @tool
    def find(ctx: ToolContext) -> dict[str, Any]:
        """Find who is to be banned."""
        ctx.state.data["found"] = FOUND
        return FOUND

    @tool
    def ban(user: int, ctx: ToolContext) -> str:
        """Ban."""
        enter(ctx.state.data["customer"], f"ban {user} {json.dumps(ctx.state.data['found'])}")
        return "banned"

    async def numbers(customer: str) -> str:
        return (await run(agent("banner", find, ban), customer)).text

    async def large(customer: str) -> str:
        long = "x" * (4 * 1024 * 1024)
        item = Agent(name="large", system="large", assistant=long, model=model)
        return (await run(item, customer)).text

    def charge_of(version: str) -> Any:
        traits: dict[str, Any] = {"needs_approval": True} if version == "approval" else {}

        @tool(**traits)
        def charge(order: str, ctx: ToolContext) -> str:
            """Charge."""
            enter(ctx.state.data["customer"], f"charge {order}")
            return "charged"

        return charge

    @tool(steps=True)
    async def wait(ctx: ToolContext) -> str:
        """Wait for a signal."""
        mine = f"async.data.customer == '{ctx.state.data['customer']}'"
        await ctx.step.wait_for_event("go", event=GO, if_exp=mine, timeout=60000)
        return "went on"

    version = (folder / "version").read_text() if (folder / "version").exists() else "first"

    async def deployed(customer: str) -> str:
        name = "renamed" if version == "renamed" else "teller"
        teller = Agent(
            name=name, system="teller", tools=[charge_of(version), wait], model=model, max_iter=6
        )
        return (await run(teller, customer)).text

    works = [gathered_steps, gathered_runs, random_router, clock_router, numbers, large, deployed]
    return [function(work.__name__.replace("_", "-"), work) for work in works]
