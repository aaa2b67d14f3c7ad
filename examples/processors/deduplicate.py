"""Deduplicate: equal results are shown once."""

import asyncio

from agentkit_py.messages import ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.processors import Deduplicate, apply_processors


async def main() -> None:
    """Try it by hand."""
    before, after = (ToolCall(f"call_{n}", "read_file", {"path": "a.py"}) for n in (8, 9))
    messages = [
        ToolCallMessage([before]),
        ToolResultMessage(before, {"data": "old line\n" * 50}),
        ToolCallMessage([after]),
        ToolResultMessage(after, {"data": "new line\n" * 50}),
    ]
    left = await apply_processors(messages, [Deduplicate(reads=["read_file"])])
    older = left[1]
    assert isinstance(older, ToolResultMessage)
    print(older.content)


if __name__ == "__main__":
    asyncio.run(main())
