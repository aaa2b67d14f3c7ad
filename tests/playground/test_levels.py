"""The changes of each message at each level, in the layout of the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agentkit_py import Agent, Lifecycle, Message, State, TextMessage, explain
from agentkit_py.lifecycle import Start, StartContext
from agentkit_py.messages import (
    ImageContent,
    ReasoningMessage,
    TextContent,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
)
from agentkit_py.playground.levels import levels_json, message_json
from agentkit_py.processors import MessageWindow, TruncateToolResults
from agentkit_py.processors.fates import rows_of
from agentkit_py.processors.report import ContextReport
from agentkit_py.testing import ScriptedModel

CALL = ToolCall("c1", "search", {"q": "hats"})


def said(text: str) -> TextMessage:
    """A user's message."""
    return TextMessage("user", text)


def brief(before: Sequence[Message], after: Sequence[Message]) -> list[tuple[str, str, str]]:
    """The rows, with texts in place of messages."""

    def text(message: Message | None) -> str:
        return message.text if isinstance(message, TextMessage) else ""

    return [(row.change, text(row.before), text(row.after)) for row in rows_of(before, after)]


def test_rows_are_in_the_order_of_the_conversation() -> None:
    """Removed and rewritten messages keep their rows; added messages keep their place."""
    a, b, c, d = (said(text) for text in "abcd")
    shorter = replace(b, content="b'")
    assert brief([a, b, c], [a, shorter, c]) == [
        ("kept", "a", "a"), ("rewritten", "b", "b'"), ("kept", "c", "c")
    ]  # fmt: skip
    assert brief([a, b, c], [c, d]) == [
        ("removed", "a", ""), ("removed", "b", ""), ("kept", "c", "c"), ("added", "", "d")
    ]  # fmt: skip
    assert brief([], [a]) == [("added", "", "a")]
    summary = TextMessage("assistant", "Summary.")
    assert brief([a, b, c], [summary, c]) == [
        ("removed", "a", ""), ("removed", "b", ""), ("added", "", "Summary."), ("kept", "c", "c")
    ]  # fmt: skip


def test_every_kind_of_message_has_its_json() -> None:
    """Images and files are named, not shown; errors are marked."""
    picture = ImageContent(url="u", media_type="image/png")
    shown = message_json(TextMessage("user", (TextContent("Look:"), picture)))
    assert (shown["text"], shown["media"]) == ("Look:", ["image"])
    calls = message_json(ToolCallMessage([CALL, ToolCall("c2", "x", {}, "{oops")]))["calls"]
    assert [call["input"] for call in calls] == [{"q": "hats"}, "{oops"]
    assert message_json(ReasoningMessage("Hm."))["text"] == "Hm."
    failed = message_json(ToolResultMessage(CALL, {"error": {"name": "E", "message": "m"}}))
    assert (failed["tool"], failed["isError"]) == ("search", True)


async def report_of(agent: Agent, messages: Sequence[Message]) -> ContextReport:
    """Return the report of an agent's request about a conversation."""
    return await explain(agent, input="And now?", state=State({}, messages=messages))


def overview(shown: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the change of each message, with the processor that made it."""
    return [(row["change"], row.get("by", "")) for row in shown["overview"]]


async def test_the_overview_names_the_processor_of_each_change() -> None:
    """Processor by processor, up to `on_start` and validity."""
    long = {"data": "x" * 900}
    history: list[Message] = [
        said("one"), said("two"), ToolCallMessage([CALL]), ToolResultMessage(CALL, long),
        TextMessage("assistant", "Found.", agent="clerk"),
    ]  # fmt: skip

    def add(context: StartContext) -> Start:
        return Start(context.prompt, [said("remember"), *context.history])

    agent = Agent(
        name="clerk",
        system="You sell.",
        model=ScriptedModel(),
        processors=[MessageWindow(4), TruncateToolResults(100)],
        lifecycle=Lifecycle(on_start=add),
    )
    report = await report_of(agent, history)
    shown = levels_json(report)
    assert [level["level"] for level in shown["levels"]] == ["agent", "agent", "on_start"]
    changes = overview(shown)
    assert ("kept", "prompt") in changes
    assert ("removed", "agent: MessageWindow") in changes
    assert ("rewritten", "agent: TruncateToolResults") in changes
    assert ("added", "on_start") in changes
    sent = [row["after"] for row in shown["overview"] if row["after"] is not None]
    assert sent == shown["sent"]


async def test_validity_is_a_level_of_the_report() -> None:
    """A result without its call is taken out, and it says so."""
    history: list[Message] = [said("one"), ToolResultMessage(CALL, {"data": 1})]
    agent = Agent(name="clerk", system="S", model=ScriptedModel())
    shown = levels_json(await report_of(agent, history))
    assert [level["level"] for level in shown["levels"]] == ["validity"]
    assert ("removed", "validity") in overview(shown)
