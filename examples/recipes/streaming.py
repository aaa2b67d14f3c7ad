"""A reply while the model writes it."""

# --8<-- [start:recipe]
import asyncio

from agentkit_py import Agent
from agentkit_py.events.types import ReplyDelta
from agentkit_py.messages import TextDelta
from agentkit_py.testing import ScriptedModel

model = ScriptedModel("Invoice 7 is still open.")  # or "openai:gpt-4.1"
agent = Agent(name="clerk", system="You sell hats.", model=model)


async def main() -> None:
    """Print the pieces as they come."""
    async with agent.stream("Is invoice 7 paid?") as stream:
        async for event in stream:
            match event:
                case ReplyDelta(delta=TextDelta(delta=text)):
                    print(text, end="", flush=True)
                case _:
                    pass  # runs that begin and end, calls, results, …
    print()


asyncio.run(main())
# --8<-- [end:recipe]
