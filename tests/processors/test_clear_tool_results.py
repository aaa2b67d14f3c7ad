"""ClearToolResults: placeholders in place of old results, once it is worth it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Message, ToolCallMessage
from agentkit_py.processors import ClearToolResults

from .conversations import CONTEXT, asked, call, gave, left, processed, shown, turns, user


def results(messages: list[Message]) -> list[str]:
    """What the results say."""
    return [text for text in shown(messages) if text.startswith("call_")]


def test_all_but_the_newest_results_are_cleared_over_the_trigger() -> None:
    """The calls stay: the model knows what it did."""
    kept = left(turns(5), ClearToolResults(10, keep=2))
    assert results(kept) == [
        *(f'call_{n}: {{"data":"[tool result cleared]"}}' for n in range(3)),
        'call_3: {"data":"r3"}',
        'call_4: {"data":"r4"}',
    ]
    assert len(kept) == 20


async def test_below_the_trigger_nothing_happens() -> None:
    """The prompt counts, too."""
    messages = turns(5)
    assert await ClearToolResults(1000).process(messages, CONTEXT) is messages
    context = replace(CONTEXT, prompt=[user("p" * 9000)])
    assert await ClearToolResults(1000).process(messages, context) is not messages


def test_inputs_may_be_cleared_too() -> None:
    """Of the cleared calls only."""
    kept = left(turns(3), ClearToolResults(0, keep=1, clear_inputs=True))
    inputs = [m.tools[0].input for m in kept if isinstance(m, ToolCallMessage)]
    assert inputs == [{}, {}, {"q": 2}]


def test_excluded_tools_and_current_calls_stay() -> None:
    """Current calls are not counted either."""
    one, two, three = call(1, "notes"), call(2), call(3)
    messages = [m for c in (one, two, three) for m in (asked(c), gave(c))]
    context = replace(CONTEXT, protected=frozenset(map(id, messages[4:])))
    processor = ClearToolResults(0, keep=0, exclude=["notes"], placeholder="-", clear_inputs=True)
    kept = left(messages, processor, context=context)
    assert results(kept) == [
        'call_1: {"data":"found"}',
        'call_2: {"data":"-"}',
        'call_3: {"data":"found"}',
    ]


def test_clearing_twice_is_clearing_once() -> None:
    """And each time gives the same objects."""
    messages = turns(4)
    processor = ClearToolResults(0, keep=1, clear_inputs=True)
    once = left(messages, processor)
    assert processed(processor, once) is once
    assert [id(m) for m in left(messages, processor)] == [id(m) for m in once]
    assert processed(processor, []) == []


def test_settings_have_the_apis_names_and_are_checked() -> None:
    """`clear_tool_inputs` and `exclude_tools`, as Anthropic has them."""
    given = {"trigger": 5, "keep": 1, "clear_tool_inputs": True, "exclude_tools": ["a"]}
    made = ClearToolResults.from_settings(given)
    assert made == ClearToolResults(5, 1, clear_inputs=True, exclude=frozenset({"a"}))
    assert made.reason == "over 5 tokens: tool results but for the newest 1"
    with pytest.raises(ConfigurationError, match="clear_tool_inputs must be True or False"):
        ClearToolResults.from_settings({"clear_tool_inputs": "yes"})
    with pytest.raises(ConfigurationError, match="placeholder must be a non-empty string"):
        ClearToolResults(placeholder="")
