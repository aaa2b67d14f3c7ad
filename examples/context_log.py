"""The log of what processors left of each model call's history."""

import asyncio
import logging

from agentkit_py import Agent, State, TextMessage
from agentkit_py.processors import Budget
from agentkit_py.testing import ScriptedModel

logging.basicConfig(format="%(message)s", level=logging.WARNING)
logging.getLogger("agentkit_py.context").setLevel(logging.INFO)

agent = Agent(
    name="clerk",
    system="You answer questions on parcels.",
    model=ScriptedModel("Tomorrow."),
    processors=[Budget(context_window=4_000)],
)


async def main() -> None:
    """Ask once, with a history that is too long."""
    history = [TextMessage("user", f"Parcel {n} is on its way to Linz. " * 5) for n in range(100)]
    await agent.run("When does the last one arrive?", state=State(messages=history))


if __name__ == "__main__":
    asyncio.run(main())
