"""Pin: some messages survive everything."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Message, TextMessage
from agentkit_py.processors import (
    Chain,
    MessageWindow,
    Pin,
    Processor,
    RecentToolCalls,
    Redact,
    Threshold,
    TokenLimiter,
    ToolCallFilter,
)
from agentkit_py.processors.apply import run_chain
from agentkit_py.processors.base import HistoryProcessor, ProcessorContext

from .conversations import CONTEXT, asked, call, gave, left, said, shown, turns, user


def nothing(messages: Sequence[Message]) -> Sequence[Message]:
    """Drops everything."""
    return []


def pin(text: str) -> Pin:
    """Pins what has a text in it."""
    return Pin.from_settings({"contains": [text]})


@pytest.mark.parametrize("place", [0, 1, 2])
def test_pinned_messages_survive_processors_of_any_level_before_and_after(place: int) -> None:
    """They keep their order, and the report names how many were put back."""
    levels: list[tuple[Any, list[Processor]]] = [
        ("history", [nothing]),
        ("network", [nothing]),
        ("agent", [nothing]),
    ]
    levels[place][1].append(pin("q1"))
    levels[place][1].append(pin("a2"))
    outcome = asyncio.run(run_chain(turns(4), levels, CONTEXT))
    assert shown(outcome.messages) == ["q1", "a2"]
    assert [e.kept_back for e in outcome.entries if e.name == "nothing"] == [2, 2, 2]


def test_a_pinned_call_keeps_its_whole_exchange() -> None:
    """One pinned result keeps its call and its siblings."""
    one, two = call(1), call(2)
    group = [asked(one, two), gave(one, "needle"), gave(two)]
    messages = [user("q"), *group, said("a")]
    assert left(messages, ToolCallFilter(), nothing, pin("needle")) == group
    assert left(messages, RecentToolCalls(0), MessageWindow(1), pin("needle")) == [
        *group,
        messages[-1],
    ]


def test_a_limit_counts_pinned_messages_first() -> None:
    """The limit holds for pinned and other messages together."""
    messages = [user("p" * 42), user("a" * 42), user("b" * 42), user("c" * 42)]
    assert left(messages, pin("ppp"), TokenLimiter(20)) == [messages[0], messages[3]]


def test_a_pinned_text_may_be_masked_but_not_be_replaced_by_another() -> None:
    """A summary in the same role is not what was pinned."""
    messages = [user("my mail is ada@example.com"), said("ok"), user("next")]
    assert shown(left(messages, pin("ada@"), Redact(["email"]))) == [
        "my mail is [email]",
        "ok",
        "next",
    ]

    def summary(given: Sequence[Message]) -> Sequence[Message]:
        return [user("(a summary)"), given[-1]]

    assert shown(left(messages, pin("my mail"), summary)) == [
        "(a summary)",
        "my mail is ada@example.com",
        "next",
    ]


def test_a_masked_pin_is_never_put_back_unmasked() -> None:
    """The mask holds whether one step masks and drops, or a later one drops."""
    messages = [user("my mail is ada@example.com"), said("ok"), user("next")]
    chains: list[list[Processor]] = [
        [Redact(["email"]), nothing],
        [Threshold(0, then=[Redact(["email"]), MessageWindow(1)])],
        [Chain([Redact(["email"]), MessageWindow(1)]), nothing],
    ]
    for chain in chains:
        kept = shown(left(messages, pin("my mail"), *chain))
        assert "my mail is [email]" in kept
        assert not any("ada@" in text for text in kept)


def test_a_processor_that_may_drop_protected_calls_may_not_drop_pinned_ones() -> None:
    """Pinned is pinned."""

    class Ruthless(HistoryProcessor):
        may_drop_protected = True

        async def process(
            self, messages: Sequence[Message], context: ProcessorContext
        ) -> Sequence[Message]:
            return []

    messages = turns(2)
    context = replace(CONTEXT, protected=frozenset(map(id, messages[5:7])))
    assert left(messages, Ruthless(), pin("q0"), context=context) == [messages[0]]


def test_pins_inside_of_chains_and_thresholds_count() -> None:
    """A pin counts even if its threshold is not reached."""
    messages = turns(2)
    assert left(messages, nothing, Chain([pin("q0")])) == [messages[0]]
    assert left(messages, nothing, Threshold(10**6, then=[pin("q0")])) == [messages[0]]


def test_settings_choose_by_text_tool_or_agent() -> None:
    """One of them suffices."""
    noted = call(1, "note")
    messages: list[Message] = [
        user("A Needle"),
        asked(noted),
        gave(noted),
        TextMessage("assistant", "mine", agent="boss"),
        user("other"),
    ]
    made = Pin.from_settings({"contains": ["needle"], "tools": ["note"], "agents": ["boss"]})
    assert left(messages, made, nothing) == messages[:4]
    assert made.reason == "pinned messages stay"
    with pytest.raises(ConfigurationError, match="no setting 'text'"):
        Pin.from_settings({"text": "x"})
    with pytest.raises(ConfigurationError, match="tools must be a list of names"):
        Pin.from_settings({"tools": "note"})
    with pytest.raises(ConfigurationError, match="needs agents"):
        Pin.from_settings({})
    with pytest.raises(ConfigurationError, match="function of a message"):
        Pin(cast("Any", "needle"))
