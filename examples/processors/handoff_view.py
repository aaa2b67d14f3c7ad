"""Own tool calls whole, others' as text."""

import asyncio

from agentkit_py import Message, TextMessage
from agentkit_py.messages import ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.processors import HandoffView, ProcessorContext, apply_processors

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
    view = HandoffView(max_chars=60)
    context = ProcessorContext(agent="booking")  # in a run, the agent that is asked
    left = await apply_processors(history, [view], context)
    assert all(m.type == "text" for m in left)
    print(left[1])

    own = ProcessorContext(agent="weather")
    assert await apply_processors(history, [view], own) == tuple(history)


if __name__ == "__main__":
    asyncio.run(main())
