"""Long results become short ones that still tell what matters."""

import asyncio

from agentkit_py import Message, TextMessage
from agentkit_py.messages import ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.processors import CompressToolResults, apply_processors

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
    call = ToolCall("call_9", "list_meetings")
    meetings = [{"id": n, "title": f"Meeting {n}", "room": "x" * 60} for n in range(20)]
    listed = ToolResultMessage(call, {"data": {"success": True, "items": meetings, "total": 20}})
    messages = [ToolCallMessage([call]), listed, *history]

    left = await apply_processors(messages, [CompressToolResults(max_tokens=200, keep_recent=3)])
    short = left[1]
    assert isinstance(short, ToolResultMessage)
    print(short.content)


if __name__ == "__main__":
    asyncio.run(main())
