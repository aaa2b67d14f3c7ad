"""Processors that run only when it is worth it."""

import asyncio

from agentkit_py import Message, TextMessage
from agentkit_py.messages import ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.processors import CompressToolResults, MessageWindow, Threshold, apply_processors

# Three questions, each with a tool call, its result and an answer.
history: list[Message] = []
for number, city in enumerate(["Graz", "Linz", "Wien"]):
    call = ToolCall(f"call_{number}", "get_weather", {"city": city})
    history += [
        TextMessage("user", f"How is {city}?"),
        ToolCallMessage([call], agent="weather"),
        ToolResultMessage(call, {"data": f"{city}: sunny, " + "and so on " * 200}),
        TextMessage("assistant", f"Fine in {city}.", agent="weather"),
    ]


async def main() -> None:
    """Try it by hand."""
    careful = Threshold(trigger=50_000, then=[CompressToolResults(), MessageWindow()])
    assert await apply_processors(history, [careful]) == tuple(history)

    eager = Threshold(trigger=500, min_messages=10, then=[MessageWindow(2)])
    assert len(await apply_processors(history, [eager])) < 3


if __name__ == "__main__":
    asyncio.run(main())
