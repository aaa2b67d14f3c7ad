"""MessageWindow: the newest messages, calls and results whole."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import TextMessage
from agentkit_py.processors import MessageWindow, ProcessorContext

from .conversations import CONTEXT, asked, call, gave, left, said, shown, turns, user


def test_the_newest_messages_stay_and_so_do_system_messages() -> None:
    """System messages are not counted."""
    rules = TextMessage("system", "rules")
    messages = [user("a"), rules, user("b"), user("c"), user("d")]
    kept = left(messages, MessageWindow(2))
    assert kept == [rules, messages[3], messages[4]]


def test_an_exchange_that_does_not_fit_goes_as_a_whole() -> None:
    """The seed kept a call message and dropped the results of its siblings."""
    one, two = call(1), call(2)
    messages = [asked(one, two), gave(one), gave(two), said("done"), user("next")]
    assert shown(left(messages, MessageWindow(3))) == ["done", "next"]
    assert left(messages, MessageWindow(5)) == messages


def test_the_newest_segment_stays_even_if_it_is_too_long() -> None:
    """A model that is shown nothing can do nothing."""
    one, two = call(1), call(2)
    messages = [user("q"), asked(one, two), gave(one), gave(two)]
    assert left(messages, MessageWindow(2)) == messages[1:]


def test_protected_and_pinned_messages_stay_and_are_counted_first() -> None:
    """They take room from the others."""
    messages = turns(3)
    context = replace(CONTEXT, protected=frozenset(map(id, messages[1:3])))
    kept = left(messages, MessageWindow(3), context=context)
    assert kept == [*messages[1:3], messages[-1]]


def test_a_full_window_is_cut_to_its_lower_size_at_once() -> None:
    """Cutting at once keeps the beginning of requests in the provider's cache."""
    said_so_far = [user(str(number)) for number in range(100)]
    begins: list[str] = []
    for count in range(1, 101):
        kept = left(said_so_far[:count], MessageWindow(24))
        assert min(count, 18) <= len(kept) <= 24
        assert kept == said_so_far[count - len(kept) : count]
        begins.append(shown(kept)[0])
    assert sum(one != other for one, other in pairwise(begins)) == 11
    assert len(left(said_so_far[:13], MessageWindow(12, lower=6))) == 6


def test_a_window_may_move_with_every_message() -> None:
    """It moves on request, and where the window is too small for a cut by turns."""
    said_so_far = [user(str(number)) for number in range(100)]
    for policy in (MessageWindow(24, lower=24), MessageWindow(19), MessageWindow(1)):
        for count in (24, 50, 51, 52, 100):
            kept = left(said_so_far[:count], policy)
            assert kept == said_so_far[count - policy.max_messages : count]


def test_the_lower_size_of_a_window_is_within_it() -> None:
    """Three quarters of it, if nobody says."""
    assert MessageWindow.from_settings({"max_messages": 20, "lower": 5}) == MessageWindow(20, 5)
    for lower in (-1, 0, 21):
        with pytest.raises(ConfigurationError, match="lower must be a whole number"):
            MessageWindow(20, lower=lower)


async def test_a_short_history_is_the_very_list() -> None:
    """System messages do not count for the length."""
    messages = turns(2)
    assert await MessageWindow(8).process(messages, ProcessorContext()) is messages
    rules = [TextMessage("system", "rules"), *messages]
    assert await MessageWindow(8).process(rules, ProcessorContext()) is rules


@pytest.mark.parametrize("value", ["10", "100", " 60 "])
def test_window_size_is_read_from_the_environment(value: str) -> None:
    """The variable is bounded by 10 and 100, like the seed's."""
    assert MessageWindow.from_env({"MAX_MESSAGE_HISTORY": value}).max_messages == int(value)


@pytest.mark.parametrize("value", ["9", "101", "ten", "1e1", "4_0", "-20", "٤٠"])
def test_invalid_environment_variable_is_refused(value: str) -> None:
    """The error names the variable and what it holds."""
    with pytest.raises(ConfigurationError, match=f"MAX_MESSAGE_HISTORY must be .* not '{value}'"):
        MessageWindow.from_env({"MAX_MESSAGE_HISTORY": value})


def test_window_without_the_variable_keeps_forty_messages() -> None:
    """An empty variable counts as a missing one."""
    assert MessageWindow.from_env({}).max_messages == 40
    assert MessageWindow.from_env({"MAX_MESSAGE_HISTORY": ""}) == MessageWindow()
    assert isinstance(MessageWindow.from_env(), MessageWindow)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"max_message_history": 5}, "max_message_history must be a whole number from 10 to 100"),
        ({"max_messages": 0}, "max_messages must be a whole number of at least 1, not 0"),
        ({"max_messages": True}, "not True"),
        ({"window": 5}, "no setting 'window'"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], said: str) -> None:
    """The error names the key as it was written."""
    with pytest.raises(ConfigurationError, match=said):
        MessageWindow.from_settings(settings)


def test_settings_have_the_seeds_names() -> None:
    """Both names of the setting work: that of the settings, and that of the function."""
    assert MessageWindow.from_settings({"max_message_history": 60}) == MessageWindow(60)
    assert MessageWindow.from_settings({"keep_recent": 7}) == MessageWindow(7)
    assert MessageWindow(7).reason == "window of 7 messages"
