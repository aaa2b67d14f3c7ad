"""The report: what each processor did to what a model call saw."""

from __future__ import annotations

from agentkit_py.messages import TextMessage, ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.processors import (
    ApproximateTokenizer,
    ContextReport,
    ProcessorContext,
    ToolCallFilter,
)
from agentkit_py.processors.apply import run_chain

CALL_LENGTH = len('[{"type":"tool","id":"c1","name":"search","input":{}}]')
TOKENIZER = ApproximateTokenizer(chars_per_token=1)
CALL = ToolCall("c1", "search")
HISTORY = [
    TextMessage("user", "abc"),
    ToolCallMessage([CALL]),
    ToolResultMessage(CALL, "r"),
]
CONTEXT = ProcessorContext(tokenizer=TOKENIZER)


async def test_an_entry_counts_removed_and_added_messages() -> None:
    """The entry names messages, tool calls and tokens, also as JSON."""
    chosen = ToolCallFilter(persist_results=True)
    (entry,) = (await run_chain(HISTORY, [("agent", [chosen])], CONTEXT)).entries
    assert entry.removed == HISTORY[1:]
    assert [m.text for m in entry.added if isinstance(m, TextMessage)] == ["Used **search** tool"]
    assert entry.changed
    assert entry.to_dict() == {
        "level": "agent",
        "name": "ToolCallFilter",
        "messagesBefore": 3,
        "messagesAfter": 2,
        "tokensBefore": 3 + CALL_LENGTH + 3,
        "tokensAfter": 3 + 20,
        "removedToolCallIds": ["c1"],
        "reason": "no tool calls",
        "keptBack": 0,
    }


async def test_a_processor_that_changed_nothing_says_so() -> None:
    """Its entry is in the report nevertheless."""
    (entry,) = (
        await run_chain(HISTORY, [("agent", [ToolCallFilter(exclude=["x"])])], CONTEXT)
    ).entries
    assert not entry.changed
    assert entry.removed == entry.added == []


async def test_remaining_calls_of_a_message_are_not_reported_as_removed() -> None:
    """The newer of two equal messages is not reported either."""
    other = ToolCall("c2", "calc")
    messages = [ToolCallMessage([CALL]), ToolCallMessage([CALL, other])]
    chosen = ToolCallFilter(include=["search"])
    (entry,) = (await run_chain(messages, [("agent", [chosen])], CONTEXT)).entries
    assert entry.tool_call_ids == ["c2"]
    (entry,) = (await run_chain(messages, [("agent", [lambda m: m[1:]])], CONTEXT)).entries
    assert entry.tool_call_ids == ["c1"]


async def test_report_totals_are_those_of_its_entries() -> None:
    """Prompt, whole history, and what was sent."""
    outcome = await run_chain(HISTORY, [("agent", [ToolCallFilter()])], CONTEXT)
    prompt = [TextMessage("system", "12")]
    report = ContextReport(
        agent="billing",
        entries=outcome.entries,
        prompt=prompt,
        history=HISTORY,
        sent=[*prompt, *outcome.messages],
        tokenizer=TOKENIZER,
    )
    figures = report.to_dict()
    assert figures.pop("processors") == [entry.to_dict() for entry in outcome.entries]
    assert figures == {
        "agent": "billing",
        "promptTokens": 2,
        "historyMessages": 3,
        "historyTokens": 3 + CALL_LENGTH + 3,
        "sentMessages": 2,
        "sentTokens": 5,
        "foreignMessages": 0,
        "foreignTokens": 0,
        "tokenizer": "approximate:1",
    }
