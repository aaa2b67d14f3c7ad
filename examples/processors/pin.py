"""Messages that survive everything."""

import asyncio

from agentkit_py import Message, TextMessage
from agentkit_py.messages import ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.processors import MessageWindow, Pin, apply_processors

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
    agreed = TextMessage("user", "Never book flights before nine.")
    chain = [MessageWindow(1), Pin(lambda message: "Never" in str(message))]
    left = await apply_processors([agreed, *history], chain)
    assert left == (agreed, history[-1])

    stored = Pin.from_settings({"contains": ["never book"]})
    assert await apply_processors([agreed, *history], [MessageWindow(1), stored]) == left


if __name__ == "__main__":
    asyncio.run(main())
