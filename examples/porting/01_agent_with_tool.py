"""An agent with a tool; the twin of the TypeScript program beside this file."""

# ruff: noqa: E402 - what runs it offline stands below it
# --8<-- [start:twin]
from pydantic import BaseModel

from agentkit_py import Message, create_agent, create_tool, openai

shelves = {"rye": 4, "brioche": 0}


class Bread(BaseModel):
    """Arguments of `count_loaves`."""

    bread: str


def count(given: Bread) -> int:
    """The tool's handler."""
    return shelves.get(given.bread, 0)


count_loaves = create_tool(
    name="count_loaves",
    description="How many loaves of a bread are left.",
    parameters=Bread,
    handler=count,
)

baker = create_agent(
    name="baker",
    system="You sell bread. Count before you promise.",
    model=openai("gpt-4o"),
    tools=[count_loaves],
)


async def main() -> list[Message]:
    """Run it."""
    result = await baker.run("Have you got rye?", max_iter=2)
    return list(result.output)


# --8<-- [end:twin]

import asyncio

from agentkit_py.testing import ScriptedModel, tool_call

model = ScriptedModel(tool_call("count_loaves", {"bread": "rye"}), "Four loaves are left.")
baker.model = model
assert [message.text for message in asyncio.run(main()) if message.type == "text"] == [
    "Four loaves are left."
]
model.assert_saw("Have you got rye?", r"{\"data\":4}")
model.assert_finished()
