"""ByAuthor: an agent sees only some of the others."""

import asyncio

from agentkit_py import Message, TextMessage
from agentkit_py.messages import ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.processors import ByAuthor, apply_processors

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
    history.append(TextMessage("assistant", "Shall I book?", agent="booking"))
    left = await apply_processors(history, [ByAuthor(keep=["booking"])])
    assert [m.role for m in left] == ["user", "user", "user", "assistant"]

    left = await apply_processors(history, [ByAuthor(drop=["booking"])])
    assert left == tuple(history[:-1])


if __name__ == "__main__":
    asyncio.run(main())
