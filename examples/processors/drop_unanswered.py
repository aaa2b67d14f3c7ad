"""Calls without results go."""

import asyncio

from agentkit_py import Message, TextMessage
from agentkit_py.messages import ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.processors import DropUnanswered, apply_processors

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
    answered, interrupted = ToolCall("call_8", "search"), ToolCall("call_9", "search")
    asked = ToolCallMessage([answered, interrupted])
    torn = [asked, ToolResultMessage(answered, {"data": 1}), TextMessage("user", "Never mind.")]
    left = await apply_processors([*history, *torn], [DropUnanswered()])
    kept = left[-3]
    assert isinstance(kept, ToolCallMessage)
    assert list(kept.tools) == [answered]


if __name__ == "__main__":
    asyncio.run(main())
