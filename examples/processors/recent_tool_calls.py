"""Only the newest tool calls."""

import asyncio

from agentkit_py import Message, TextMessage
from agentkit_py.messages import ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.processors import RecentToolCalls, apply_processors

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
    left = await apply_processors(history, [RecentToolCalls(1)])
    assert [m.type for m in left] == ["text"] * 5 + ["tool_call", "tool_result", "text"]

    own_counts = RecentToolCalls(1, per_tool={"get_weather": 2})
    left = await apply_processors(history, [own_counts])
    assert sum(m.type == "tool_call" for m in left) == 2


if __name__ == "__main__":
    asyncio.run(main())
