"""Chain, Threshold, and processors from plain dicts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from agentkit_py.errors import ConfigurationError, ProcessorError
from agentkit_py.messages import Message
from agentkit_py.processors import (
    Chain,
    DropUnanswered,
    MessageWindow,
    RecentToolCalls,
    Threshold,
    ToolCallFilter,
    processor_from_settings,
)
from agentkit_py.processors.apply import run_chain
from agentkit_py.processors.compose import POLICIES

from .conversations import CONTEXT, left, processed, shown, turns, user


def test_a_chain_is_its_members_each_with_an_entry() -> None:
    """Also where chains are in chains, and by hand."""
    chain = Chain([RecentToolCalls(1), Chain([MessageWindow(3)])])
    outcome = asyncio.run(run_chain(turns(3), [("agent", [chain])], CONTEXT))
    assert [e.name for e in outcome.entries] == ["RecentToolCalls", "MessageWindow"]
    assert list(processed(chain, turns(3))) == list(outcome.messages)
    assert chain.reason == "RecentToolCalls → Chain"
    messages = turns(1)
    assert processed(Chain([]), messages) is messages
    assert processed(Chain([MessageWindow()]), messages) is messages


def test_a_threshold_of_tokens_counts_prompt_and_history() -> None:
    """Beyond it, not at it."""
    messages = turns(3)
    assert processed(Threshold(10**6, then=[ToolCallFilter()]), messages) is messages
    assert len(left(messages, Threshold(0, then=[ToolCallFilter()]))) == 6
    context = replace(CONTEXT, prompt=[user("p" * 10**5)])
    assert len(left(messages, Threshold(10**4, then=[ToolCallFilter()]), context=context)) == 6


def test_a_threshold_of_messages() -> None:
    """The seed's "more than 10 messages"; with both, both have to be passed."""
    only = Threshold(min_messages=4, then=[MessageWindow(1)])
    assert len(left(turns(1), only)) == 4
    assert len(left(turns(2), only)) == 1
    both = Threshold(10**6, min_messages=4, then=[MessageWindow(1)])
    assert len(left(turns(2), both)) == 8
    assert both.reason == "over 1000000 tokens and 4 messages: MessageWindow"


def test_protected_calls_stay_within_a_threshold() -> None:
    """As they do everywhere."""
    messages = turns(2)
    context = replace(CONTEXT, protected=frozenset(map(id, messages[1:3])))
    kept = left(messages, Threshold(0, then=[ToolCallFilter()]), context=context)
    assert shown(kept)[1:3] == ["calls call_0", 'call_0: {"data":"r0"}']


def test_errors_inside_name_the_processor_that_failed() -> None:
    """And where it was configured."""

    def fail(messages: Sequence[Message]) -> Sequence[Message]:
        raise LookupError("no such thing")

    with pytest.raises(ProcessorError, match="no such thing") as caught:
        left(turns(1), Threshold(0, then=[fail]))
    assert (caught.value.processor, caught.value.level) == ("fail", "chain")


EXAMPLES: dict[str, dict[str, Any]] = {
    "ByAuthor": {"keep": ["a"]},
    "Chain": {"processors": [{"type": "DropUnanswered"}]},
    "Pin": {"contains": ["x"]},
    "RecentToolCalls": {"n": 3},
    "Threshold": {"trigger": 5, "then": [{"type": "MessageWindow", "max_messages": 12}]},
    "TokenLimiter": {"limit": 100, "use_tiktoken": False},
    "ToolCallFilter": {"include": ["a"], "persistResults": True},
}


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_can_be_made_from_a_plain_dict(name: str) -> None:
    """By its type; an unknown key is named."""
    settings = {"type": name, **EXAMPLES.get(name, {})}
    made = processor_from_settings(settings)
    assert type(made).__name__ == name
    left(turns(2), made)
    with pytest.raises(ConfigurationError, match=f"{name}.*'nonsense'"):
        processor_from_settings({**settings, "nonsense": 1})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "type: there is no processor None"),
        ({"type": "Window"}, "there is no processor 'Window'; there are: "),
        ({"type": "Chain", "processors": "x"}, "Chain: processors must be a list"),
        ({"type": "Threshold", "trigger": -1, "then": []}, "trigger must be"),
        ({"type": "Threshold", "then": []}, "needs trigger"),
        ({"type": "Threshold", "trigger": 1}, "then must be a list"),
        ({"type": "Chain", "processors": [{"type": "MessageWindow", "max_messages": 0}]}, "max_m"),
        ({"type": "TokenLimiter", "limit": "a lot"}, "TokenLimiter: limit must be"),
        ({"type": "TokenLimiter"}, "needs more than"),
        ([], "must be a dict"),
        ({1: 2}, "string keys"),
    ],
)
def test_wrong_settings_are_named(settings: Any, said: str) -> None:
    """Before anything runs."""
    with pytest.raises(ConfigurationError, match=said):
        processor_from_settings(settings)


def test_what_is_no_processor_is_refused_at_once() -> None:
    """When it is configured, not when it runs."""
    with pytest.raises(ConfigurationError, match="no history processor"):
        Chain([cast("Any", 5)])
    with pytest.raises(ConfigurationError, match="is a class"):
        Threshold(1, then=[cast("Any", DropUnanswered)])
