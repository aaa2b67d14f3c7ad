"""A network whose router is a model; the twin of the TypeScript program beside this file."""

# ruff: noqa: E402 - what runs it offline stands below it
# --8<-- [start:twin]
from agentkit_py import create_agent, create_network, openai

trains = create_agent(
    name="trains",
    description="Knows timetables and fares.",
    system="You plan journeys by train.",
)

hotels = create_agent(
    name="hotels",
    description="Finds rooms.",
    system="You find rooms for the night.",
)

office = create_network(
    name="travel office",
    agents=[trains, hotels],
    default_model=openai("gpt-4o"),
    max_iter=10,
)


async def main() -> list[str]:
    """Run it."""
    run = await office.run("From Graz to Linz, with a bed there.")
    return [result.agent_name for result in run.results]


# --8<-- [end:twin]

import asyncio

from agentkit_py.testing import ScriptedModel, tool_call

model = ScriptedModel(
    tool_call("select_agent", {"name": "trains"}),
    "The 8:38 takes three hours.",
    tool_call("select_agent", {"name": "hotels"}),
    "There is a room by the river.",
    tool_call("done", {"summary": "Train and room are found."}),
)
office.default_model = model
assert asyncio.run(main()) == ["trains", "hotels"]
model.assert_finished()
