"""The code of docs/guides/streaming.md."""

# ruff: noqa: E402 - each section shows its own imports

# --8<-- [start:agent]
import asyncio

from agentkit_py import Agent, tool
from agentkit_py.testing import ScriptedModel, tool_calls


@tool
def order_status(number: str) -> str:
    """Where an order is."""
    return f"{number} is on its way"


agent = Agent(
    name="support",
    system="You help customers of a shoe shop.",
    tools=[order_status],
    model=ScriptedModel(  # or openai("gpt-4o"), anthropic("claude-sonnet-4-5"), …
        tool_calls(("order_status", {"number": "A1"}), text="Let me look."),
        "Your order is on its way.",
    ),
    max_iter=5,
)
# --8<-- [end:agent]

# --8<-- [start:pieces]
from agentkit_py.events.types import ReplyDelta, ToolFinished
from agentkit_py.messages import ReasoningDelta, TextDelta, ToolCallDelta


async def print_pieces() -> None:
    """Print the model's words as they come."""
    async with agent.stream("Where is my order A1?") as stream:
        async for event in stream:
            match event:
                case ReplyDelta(delta=TextDelta(delta=text)):
                    print(text, end="", flush=True)
                case ReplyDelta(delta=ToolCallDelta(name=name, delta=piece)):
                    print(f"[{name} {piece}]", end="")
                case ReplyDelta(delta=ReasoningDelta()):
                    pass  # only where the provider shows it
                case ToolFinished(result=result):
                    print(f"\n{result.tool.name}: {result.content}")
                case _:
                    pass  # runs that begin and end, replies as a whole, …
    print(f"\n{stream.result.text}")
    # --8<-- [end:pieces]


# --8<-- [start:chunks]
from typing import Any

from agentkit_py.runs import StreamingConfig


async def publish(chunk: dict[str, Any]) -> None:
    """Send one chunk to the front end: over a socket, a queue, whatever you have."""
    if chunk["event"] == "text.delta":
        print(chunk["sequenceNumber"], chunk["data"]["delta"])


async def publish_chunks() -> None:
    """The chunks of the TypeScript package."""
    model = ScriptedModel("Good morning.")
    await agent.run("Hello", model=model, streaming=StreamingConfig(publish=publish))
    # --8<-- [end:chunks]


# --8<-- [start:broken]
from agentkit_py.errors import ModelStreamError
from agentkit_py.testing import Raw


async def broken() -> str:
    """A connection that breaks in the middle of a reply."""
    model = ScriptedModel(Raw(reply="Your refund is on its way.", cut_after=900))
    try:
        async for _ in agent.stream("Where is my refund?", model=model):
            pass
    except ModelStreamError as error:
        return error.partial
    return "nothing broke"
    # --8<-- [end:broken]


# --8<-- [start:hook]
from dataclasses import replace

from agentkit_py import AgentResult, Lifecycle, TextMessage
from agentkit_py.lifecycle import ResultContext


def mask(ctx: ResultContext) -> AgentResult:
    """Let no card number through."""
    masked = [
        replace(message, content=message.text.replace("4111", "****"))
        if isinstance(message, TextMessage)
        else message
        for message in ctx.result.output
    ]
    return replace(ctx.result, output=tuple(masked))


careful = Agent(name="careful", system="…", lifecycle=Lifecycle(on_response=mask))
quick = Agent(
    name="quick", system="…", lifecycle=Lifecycle(on_response=mask), stream_before_response=True
)
# --8<-- [end:hook]

# --8<-- [start:responses]
from agentkit_py.models import openai_responses

thinker = openai_responses(
    "gpt-5",  # OPENAI_API_KEY
    settings={"reasoning": {"effort": "low", "summary": "auto"}},
)
# --8<-- [end:responses]


async def main() -> None:
    """All of them."""
    await print_pieces()
    await publish_chunks()
    assert await broken() == "Your refun"
    for masking in (careful, quick):
        stream = masking.stream("Card?", model=ScriptedModel("It is 4111."))
        told = [event.delta.delta async for event in stream if isinstance(event, ReplyDelta)]
        assert "".join(told) == ("It is 4111." if masking is quick else "")


if __name__ == "__main__":
    asyncio.run(main())
