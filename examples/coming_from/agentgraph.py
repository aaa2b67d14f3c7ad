"""A main agent that hands its reading to a subagent, with a bounded, clean history."""

import asyncio

from agentkit_py import Agent, SqliteHistory, tool
from agentkit_py.processors import DropUnanswered, MessageWindow, TruncateToolResults
from agentkit_py.testing import ScriptedModel, tool_call


@tool
def read_file(path: str) -> str:
    """Read a file of a skill."""
    return f"{path}: " + "how to convert a PDF " * 500


reader = Agent(
    name="call_subagent",
    description="Reads a skill and does a task with it.",
    system="Read what you need, do the task, and answer in one sentence.",
    model=ScriptedModel(tool_call("read_file", {"path": "skills/pdf/SKILL.md"}), "Converted."),
    tools=[read_file],
)
main_agent = Agent(
    name="main",
    system="You help with documents.",
    model=ScriptedModel(tool_call("call_subagent", {"task": "Make images of a.pdf"}), "Done."),
    tools=[reader.as_tool(allowed_tools="own", max_iter=10)],
    history=SqliteHistory("sessions.db"),
    processors=[DropUnanswered(), MessageWindow(40), TruncateToolResults(1000)],
)


async def main() -> None:
    """The main thread holds four messages; the skill's text is not among them."""
    result = await main_agent.run("Make images of a.pdf", thread_id="user-session-123")
    print(result.text)
    assert result.context is not None
    sent = result.context.sent
    assert [message.type for message in sent] == ["text", "text", "tool_call", "tool_result"]
    assert "how to convert" not in str(sent)


if __name__ == "__main__":
    asyncio.run(main())
