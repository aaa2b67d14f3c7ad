"""Only the newest messages."""

import asyncio

from agentkit_py import Message, TextMessage
from agentkit_py.messages import ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.processors import MessageWindow, apply_processors

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
    left = await apply_processors(history, [MessageWindow(5)])
    assert left == tuple(history[-5:])

    # The third message from the end is a result, whose call would not fit: both go.
    left = await apply_processors(history, [MessageWindow(2)])
    assert left == tuple(history[-1:])

    assert MessageWindow.from_env({"MAX_MESSAGE_HISTORY": "60"}) == MessageWindow(60)


if __name__ == "__main__":
    asyncio.run(main())
