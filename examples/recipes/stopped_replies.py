"""A user closes the page while a reply is being written, and asks about it later."""

# --8<-- [start:recipe]
import asyncio

from agentkit_py import Agent, MemoryHistory
from agentkit_py.events.types import ReplyDelta
from agentkit_py.testing import Raw, ScriptedModel

slow = Raw(reply="Your refund was approved and will arrive on Monday.", pause=0.001)
model = ScriptedModel(slow, "I was telling you about your refund.")  # or "openai:gpt-4.1"
support = Agent(name="support", system="You do refunds.", model=model, history=MemoryHistory())


async def main() -> None:
    """Leave in the middle of the reply; the thread has what was seen of it."""
    async with support.stream("Where is my refund?", thread_id="ada") as stream:
        async for event in stream:
            if isinstance(event, ReplyDelta):
                break
    answer = await support.run("What were you saying?", thread_id="ada")
    print(answer.text)


asyncio.run(main())
# --8<-- [end:recipe]
seen = model.bodies[-1]["messages"][2]
assert seen["role"] == "assistant"
assert seen["content"].startswith("You")
