"""A summary in place of what is older, kept beside the thread."""

import asyncio
from dataclasses import replace

from agentkit_py import Agent, SqliteHistory, openai
from agentkit_py.events import ContextActivity, Event
from agentkit_py.processors import Summarize


async def clerk(body: dict[str, object]) -> object:
    """Stands for a model here, so that this program runs without a key."""
    del body
    message = {"role": "assistant", "content": "It arrives tomorrow. " * 40}
    return {"choices": [{"message": message, "finish_reason": "stop"}]}


async def summary(body: dict[str, object]) -> object:
    """Another, which summarises."""
    del body
    message = {"role": "assistant", "content": "The customer waits for parcel 17 (Linz)."}
    return {"choices": [{"message": message, "finish_reason": "stop"}]}


model = replace(openai("gpt-4.1", api_key="none"), answers=clerk)
cheap = replace(openai("gpt-4.1-mini", api_key="none"), answers=summary)

store = SqliteHistory("desk.db")
agent = Agent(
    name="clerk",
    system="You answer questions on parcels.",
    model=model,
    history=store,
    processors=[Summarize(cheap, upper=3_000, lower=1_500)],
)


def watch(event: Event) -> None:
    """Summaries announce their start and their end."""
    if isinstance(event, ContextActivity):
        print(event.activity, event.stage, dict(event.facts))


async def main() -> None:
    """Twenty turns of one thread; a new process would go on with the same summary."""
    reasons: list[str] = []
    for _ in range(20):
        result = await agent.run("Where is parcel 17?", thread_id="ada", observer=watch)
        assert result.context is not None
        entry = result.context.entries[0]
        assert entry.tokens_after <= 3_000
        reasons.append(entry.reason)
    print(reasons[-1])
    assert "summary of" in reasons[-1]
    stored = await store.load_summary("ada", "agent:clerk")  # see "Read a summary"
    assert stored is not None
    print(stored.text)


if __name__ == "__main__":
    asyncio.run(main())
