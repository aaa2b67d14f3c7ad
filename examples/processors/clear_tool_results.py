"""Placeholders in place of old results."""

import asyncio

from agentkit_py import Message, TextMessage
from agentkit_py.messages import ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.processors import ClearToolResults, apply_processors

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
    clearing = ClearToolResults(trigger=500, keep=1, clear_inputs=True)
    left = await apply_processors(history, [clearing])
    cleared, call = left[2], left[1]
    assert isinstance(cleared, ToolResultMessage)
    assert cleared.content == {"data": "[tool result cleared]"}
    assert isinstance(call, ToolCallMessage)
    assert call.tools[0].arguments == {}
    assert left[-2:] == tuple(history[-2:])


if __name__ == "__main__":
    asyncio.run(main())
