"""ClearToolResults: placeholders in place of old results, once it is worth it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Message, ToolCallMessage
from agentkit_py.processors import ClearToolResults
from agentkit_py.processors.tokenizers import count_messages

from .conversations import CONTEXT, asked, call, gave, left, processed, shown, turns, user


def tokens(messages: Sequence[Message]) -> int:
    """Return the tokens by the estimate of the tests' context."""
    assert CONTEXT.tokenizer is not None
    return count_messages(messages, CONTEXT.tokenizer)


def results(messages: list[Message]) -> list[str]:
    """Return the results among the messages, as text."""
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


def test_results_are_cleared_several_at_once_and_stay_as_they_are_until_then() -> None:
    """The beginning of a request is what the provider has cached, at most turns."""
    messages: list[Message] = []
    sent: list[Message] = []
    anew = 0
    for number in range(30):
        one = call(number)
        messages += [user("q"), asked(one), gave(one, "x" * 380)]
        kept = left(messages, ClearToolResults(1500, keep=2))
        assert tokens(kept) <= 1500
        anew += [id(m) for m in kept[: len(sent)]] != [id(m) for m in sent]
        sent = kept
    assert 1 <= anew <= 5


def test_nothing_is_cleared_below_clear_at_least() -> None:
    """`clear_at_least`, as Anthropic has it: each time the cache is broken, it is worth it."""
    messages = [m for n in range(9) for m in (asked(call(n)), gave(call(n), "x" * 380))]
    cleared = [
        sum("cleared" in text for text in results(left(messages[: 2 * n], policy)))
        for policy in [ClearToolResults(10, keep=1, clear_at_least=300)]
        for n in range(10)
    ]
    assert cleared == [0, 0, 0, 0, 0, 4, 4, 4, 4, 8]


def test_inputs_may_be_cleared_too() -> None:
    """Only the inputs of cleared calls are cleared."""
    kept = left(turns(3), ClearToolResults(0, keep=1, clear_inputs=True))
    inputs = [m.tools[0].arguments for m in kept if isinstance(m, ToolCallMessage)]
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


def test_clearing_twice_changes_nothing_more() -> None:
    """A second pass returns the same objects."""
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
