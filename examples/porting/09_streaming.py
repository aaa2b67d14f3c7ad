"""Streaming to a front end; the twin of the TypeScript program beside this file."""

# ruff: noqa: E402 - what runs it offline stands below it
# --8<-- [start:twin]
from typing import Any

from agentkit_py import Agent, RouterContext, create_agent, create_network, openai
from agentkit_py.runs import StreamingConfig

sent: list[dict[str, Any]] = []

teller = create_agent(name="teller", system="You tell short stories.")


def route(ctx: RouterContext) -> Agent | None:
    """One turn."""
    return teller if ctx.call_count == 0 else None


fireside = create_network(
    name="fireside",
    agents=[teller],
    default_model=openai("gpt-4o"),
    router=route,
)


async def publish(chunk: dict[str, Any]) -> None:
    """Send one chunk to wherever the front end listens."""
    sent.append(chunk)


async def main() -> str:
    """Run it."""
    await fireside.run("A story about a fox.", streaming=StreamingConfig(publish=publish))
    return "".join(chunk["data"]["delta"] for chunk in sent if chunk["event"] == "text.delta")


# --8<-- [end:twin]

import asyncio

from agentkit_py.events import assemble
from agentkit_py.testing import ScriptedModel

STORY = "A fox came by, looked in, and went on."
fireside.default_model = ScriptedModel(STORY)
assert asyncio.run(main()) == STORY
assert [chunk["sequenceNumber"] for chunk in sent] == list(range(len(sent)))
assert (sent[0]["event"], sent[-1]["event"]) == ("run.started", "stream.ended")
assert [part.text for part in assemble(reversed(sent)).parts] == [STORY]
