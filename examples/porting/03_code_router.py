"""A router that is code and reads the state; the twin of the TypeScript program beside it."""

# ruff: noqa: E402 - what runs it offline stands below it
# --8<-- [start:twin]
from dataclasses import dataclass

from pydantic import BaseModel

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


@dataclass
class Recipe:
    """The state's data."""

    draft: str = ""
    tasted: bool = False


class Draft(BaseModel):
    """Arguments of `write_down`."""

    recipe: str


def keep(given: Draft, ctx: ToolContext) -> str:
    """Keep a recipe in the state."""
    ctx.state.data.draft = given.recipe
    return "kept"


write_down = create_tool(
    name="write_down",
    description="Keep a recipe.",
    parameters=Draft,
    handler=keep,
)


def note(_: object, ctx: ToolContext) -> str:
    """Note in the state that it is good."""
    ctx.state.data.tasted = True
    return "noted"


taste = create_tool(
    name="taste",
    description="Say that the recipe is good.",
    handler=note,
)

cook = create_agent(
    name="cook",
    system="You write recipes and keep them.",
    tools=[write_down],
)


def taster_system(ctx: AgentContext) -> str:
    """Made anew for each inference."""
    return f"You taste: {ctx.state.data.draft}"


taster = create_agent(
    name="taster",
    system=taster_system,
    tools=[taste],
)


def route(ctx: RouterContext) -> Agent | None:
    """Return the next agent; None: the run is done."""
    if not ctx.network.state.data.draft:
        return cook
    if not ctx.network.state.data.tasted:
        return taster
    return None


kitchen = create_network(
    name="kitchen",
    agents=[cook, taster],
    default_model=openai("gpt-4o"),
    router=route,
)


async def main() -> Recipe:
    """Run it."""
    state = create_state(Recipe())
    await kitchen.run("Soup, please.", state=state)
    return state.data


# --8<-- [end:twin]

import asyncio

from agentkit_py.testing import ScriptedModel, tool_call

model = ScriptedModel(
    "What kind of soup? I take leeks.",  # nothing is kept, so the cook is asked again
    tool_call("write_down", {"recipe": "Leeks, water, salt."}),
    tool_call("taste", {}),
)
kitchen.default_model = model
assert asyncio.run(main()) == Recipe("Leeks, water, salt.", tasted=True)
model.assert_saw("You taste: Leeks, water, salt.")
model.assert_finished()
