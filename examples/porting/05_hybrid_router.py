"""Code decides where it can, a model elsewhere; the twin of the TypeScript program beside it."""

# ruff: noqa: E402 - what runs it offline stands below it
# --8<-- [start:twin]
from agentkit_py import Agent, RouterContext, create_agent, create_network, openai
from agentkit_py.routing import get_default_routing_agent

greeter = create_agent(
    name="greeter",
    description="Says hello.",
    system="You greet the guest in one sentence.",
)

guide = create_agent(
    name="guide",
    description="Knows every picture in the house.",
    system="You explain pictures.",
)


def route(ctx: RouterContext) -> Agent | None:
    """Return the next agent, or the one that decides it; None: the run is done."""
    if ctx.call_count == 0:
        return greeter
    if ctx.call_count >= 4:
        return None
    return get_default_routing_agent()


museum = create_network(
    name="museum",
    agents=[greeter, guide],
    default_model=openai("gpt-4o"),
    router=route,
)


async def main() -> list[str]:
    """Run it."""
    run = await museum.run("Who painted the blue horse?")
    return [result.agent_name for result in run.results]


# --8<-- [end:twin]

import asyncio

from agentkit_py.testing import ScriptedModel, tool_call

model = ScriptedModel(
    "Welcome to the museum.",
    tool_call("select_agent", {"name": "guide"}),
    "Franz Marc, in 1911.",
    tool_call("done", {"summary": "The guest knows."}),
)
museum.default_model = model
assert asyncio.run(main()) == ["greeter", "guide"]
model.assert_finished()
