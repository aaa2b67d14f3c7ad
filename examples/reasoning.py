"""Reasoning that goes back to the model that made it, or does not."""

# --8<-- [start:loss]
import asyncio
from dataclasses import replace

from agentkit_py import Agent, Network, State
from agentkit_py.models import anthropic, openai
from agentkit_py.testing import FakeProvider, Signing

fake = FakeProvider(
    lambda _: {"reasoning": "Let me see.", "text": "In Linz."},
    signing=Signing(fail_on_loss=True),
)
claude = replace(anthropic("claude-opus-5-5", api_key="sk-test"), transport=fake.transport)
clerk = Agent(name="clerk", system="You find parcels.", model=claude)


async def ask_twice() -> None:
    """Ask on one thread."""
    state = State()
    await clerk.run("Where is parcel 17?", state=state)
    await clerk.run("And parcel 18?", state=state)


asyncio.run(ask_twice())
assert not fake.rejections
thinking = fake.requests[-1].body["messages"][1]["content"][0]
assert thinking["thinking"] == "Let me see."
# --8<-- [end:loss]

# --8<-- [start:account]
model = openai("gpt-6.2-sol", account="acme")  # the key is in the environment, and may change
# --8<-- [end:account]

# --8<-- [start:shared]
clerk = Agent(name="clerk", system="You find parcels.")
billing = Agent(name="billing", system="You refund.")
desk = Network(
    name="desk",
    agents=[clerk, billing],
    default_model="anthropic:claude-opus-5-5",
    prefix="shared",
    router=lambda context: ["clerk", "billing"] if context.call_count == 0 else None,
)
# --8<-- [end:shared]
desk.run_sync("Where is parcel 19?", model=claude)
assert not fake.rejections
beginnings = {str(received.body["system"]) for received in fake.requests[-2:]}
assert len(beginnings) == 1
