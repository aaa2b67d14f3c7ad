"""A long conversation that the model sums up for itself."""

import asyncio
from dataclasses import replace

from agentkit_py import Agent, State, anthropic
from agentkit_py.processors import ProviderCompaction
from agentkit_py.testing import FakeProvider

fake = FakeProvider(lambda _: "Noted.")
claude = replace(anthropic("claude-opus-5-5", api_key="sk-test"), transport=fake.transport)
clerk = Agent(
    name="clerk",
    system="You keep the log of a depot.",
    model=claude,
    processors=[ProviderCompaction(100_000)],
)


async def main() -> None:
    """Say more than the limit, and go on."""
    state = State()
    await clerk.run("Today's scans: " + "parcel 17 came in, " * 30_000, state=state)
    await clerk.run("And parcel 18?", state=state)
    first = fake.requests[-1].body["messages"][0]
    assert first["content"][0]["type"] == "compaction"
    assert len(state.results) == 2


if __name__ == "__main__":
    asyncio.run(main())
