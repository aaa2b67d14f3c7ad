"""Policies as an application stores them."""

import asyncio

from agentkit_py import Message, TextMessage, openai
from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.processors import (
    CompressToolResults,
    ProcessorParts,
    apply_processors,
    processor_from_settings,
    processors_from_env,
)

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
    stored = {
        "type": "Threshold",
        "min_messages": 10,
        "then": [
            {"type": "CompressToolResults", "tool_output_max_tokens": 150, "keep_recent": 1},
            {"type": "MessageWindow", "max_message_history": 10},
        ],
    }
    left = await apply_processors(history, [processor_from_settings(stored)])
    assert len(left) <= 10

    # What no dict can hold, a model or an embedder, comes beside it.
    parts = ProcessorParts(model=openai("gpt-4.1-mini", api_key="none"))
    variables = {"AGENTKIT_PROCESSORS": '[{"type": "Summarize", "upper_threshold": 60000}]'}
    (summarize,) = processors_from_env(parts=parts, environment=variables)
    assert summarize.reason == "a summary above 60000 tokens, down to 30000 tokens"

    try:
        CompressToolResults.from_settings({"tool_output_max_tokens": "a lot"})
    except ConfigurationError as error:
        print(error)


if __name__ == "__main__":
    asyncio.run(main())
