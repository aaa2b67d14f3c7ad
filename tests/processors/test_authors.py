"""ByAuthor and HandoffView: what an agent sees of the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Message, ReasoningMessage, ToolResultMessage
from agentkit_py.processors import ByAuthor, HandoffView

from .conversations import CONTEXT, asked, call, gave, left, processed, said, shown, user

MINE, THEIRS = call(1, "own"), call(2, "lookup", order=7)
HISTORY: list[Message] = [
    user("q"),
    ReasoningMessage("hm", agent="billing"),
    asked(THEIRS, agent="billing"),
    gave(THEIRS, {"total": 3}, agent="billing"),
    said("It is 3.", agent="billing"),
    asked(MINE, agent="me"),
    gave(MINE, agent="me"),
    said("Done.", agent="me"),
    said("Who am I?"),
]


def test_by_author_keeps_the_named_agents() -> None:
    """Users, and authors that are not known, are nobody's to drop."""
    assert shown(left(HISTORY, ByAuthor(keep=["me"]))) == [
        "q",
        "calls call_1",
        'call_1: {"data":"found"}',
        "Done.",
        "Who am I?",
    ]


def test_by_author_drops_the_named_agents() -> None:
    """Their texts, their reasoning, their calls with results."""
    assert shown(left(HISTORY, ByAuthor(drop=["me"]))) == [
        "q",
        "hm",
        "calls call_2",
        'call_2: {"data":{"total":3}}',
        "It is 3.",
        "Who am I?",
    ]


def test_results_stay_with_their_calls_whatever_their_author() -> None:
    """A result may not name its author."""
    messages = [asked(MINE, agent="billing"), gave(MINE), user("q")]
    assert shown(left(messages, ByAuthor(drop=["billing"]))) == ["q"]
    mixed = [asked(MINE, agent="me"), gave(MINE, agent="billing")]
    assert left(mixed, ByAuthor(drop=["billing"])) == mixed


def test_protected_calls_stay_whichever_agent_is_left_out() -> None:
    """The agent waits for them."""
    context = replace(CONTEXT, protected=frozenset(map(id, HISTORY[5:7])))
    kept = left(HISTORY, ByAuthor(drop=["me", "billing"]), context=context)
    assert shown(kept)[1:3] == ["calls call_1", 'call_1: {"data":"found"}']


def test_a_history_without_other_authors_is_returned_itself() -> None:
    """No message is copied."""
    assert processed(ByAuthor(drop=["sales"]), HISTORY) is HISTORY
    assert processed(HandoffView(), HISTORY[4:]) == HISTORY[4:]
    own = HISTORY[4:]
    assert processed(HandoffView(), own) is own


def test_by_author_refuses_invalid_names() -> None:
    """Exactly one list of names."""
    made = ByAuthor.from_settings({"keep": ["b", "a"]})
    assert made.reason == "only of a, b"
    assert ByAuthor(drop=[]).reason == "nothing of no agent"
    for settings in ({}, {"keep": ["a"], "drop": ["b"]}):
        with pytest.raises(ConfigurationError, match="takes either keep"):
            ByAuthor.from_settings(settings)
    with pytest.raises(ConfigurationError, match="keep must be a list of names"):
        ByAuthor.from_settings({"keep": "billing"})


def test_handoff_view_shows_others_calls_as_text_and_own_ones_whole() -> None:
    """The results are readable, but there is no call for the model to imitate."""
    assert shown(left(HISTORY, HandoffView()))[:5] == [
        "q",
        '[billing called tool lookup with {"order":7}]\n[Result of lookup: {"data":{"total":3}}]',
        "It is 3.",
        "calls call_1",
        'call_1: {"data":"found"}',
    ]


def test_handoff_text_has_the_callers_name_and_is_made_once() -> None:
    """One object per message is counted once, and keeps the beginning of requests equal."""
    first, again = left(HISTORY, HandoffView()), left(HISTORY, HandoffView())
    assert first[1] is again[1]
    assert (first[1].agent, first[1].role) == ("billing", "assistant")
    assert left(first, HandoffView()) == first


def test_results_may_be_left_out_and_are_shortened() -> None:
    """A long one by head and tail."""
    (_, text, *_) = shown(left(HISTORY, HandoffView(results=False)))
    assert text == '[billing called tool lookup with {"order":7}]'
    long = [asked(THEIRS, agent="billing"), ToolResultMessage(THEIRS, "x" * 900)]
    (text,) = shown(left(long, HandoffView(max_chars=100)))
    assert len(text) < 200
    with pytest.raises(ConfigurationError, match="max_chars must be"):
        HandoffView.from_settings({"max_chars": 3})
