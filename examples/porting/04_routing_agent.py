"""A routing agent of one's own; the twin of the TypeScript program beside this file."""

# ruff: noqa: E402 - what runs it offline stands below it
# --8<-- [start:twin]
from typing import Any, Literal

from pydantic import BaseModel

from agentkit_py import (
    Lifecycle,
    create_agent,
    create_network,
    create_routing_agent,
    create_tool,
    openai,
)
from agentkit_py.lifecycle import ResultContext

poet = create_agent(name="poet", system="You write verse.")
critic = create_agent(name="critic", system="You judge verse.")


class Assignment(BaseModel):
    """Arguments of `assign`."""

    to: Literal["poet", "critic", "nobody"]


def assigned(given: Assignment) -> str:
    """The tool's handler."""
    return given.to


assign = create_tool(
    name="assign",
    description="Give the desk to someone, or to nobody.",
    parameters=Assignment,
    handler=assigned,
)


def on_route(ctx: ResultContext) -> list[str] | None:
    """Return the next agent; None: the run is done."""
    content: Any = ctx.result.tool_calls[0].content
    to = content["data"]
    return None if to == "nobody" else [to]


editor = create_routing_agent(
    name="editor",
    description="Decides who works next",
    system="You lead a magazine. A poem is judged once, then printed.",
    tools=[assign],
    tool_choice="assign",
    lifecycle=Lifecycle(on_route=on_route),
)

magazine = create_network(
    name="magazine",
    agents=[poet, critic],
    router=editor,
    default_model=openai("gpt-4o"),
)


async def main() -> list[str]:
    """Run it."""
    run = await magazine.run("Two lines about rain.")
    return [result.agent_name for result in run.results]


# --8<-- [end:twin]

import asyncio

from agentkit_py.testing import ScriptedModel, tool_call

model = ScriptedModel(
    tool_call("assign", {"to": "poet"}),
    "It drips on slate,\nand drips till late.",
    tool_call("assign", {"to": "critic"}),
    "Short, and it rhymes.",
    tool_call("assign", {"to": "nobody"}),
)
magazine.default_model = model
assert asyncio.run(main()) == ["poet", "critic"]
model.assert_finished()
