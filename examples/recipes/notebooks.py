"""A cell of a notebook, and a plain function that an async handler calls."""

# --8<-- [start:recipe]
import asyncio

from agentkit_py import Agent
from agentkit_py.testing import ScriptedModel

model = ScriptedModel("It is on its way.", "Tomorrow.")  # or "openai:gpt-4.1"
support = Agent(name="support", system="You help with orders.", model=model)


def answer(question: str) -> str:
    """Return the answer; works in scripts, notebooks and functions that async code calls."""
    return support.run_sync(question).text


async def handler() -> None:
    """Like a notebook's cell or a web handler, this runs in an event loop."""
    print(answer("Where is my order?"))


asyncio.run(handler())
print(answer("When will it arrive?"))
# --8<-- [end:recipe]
