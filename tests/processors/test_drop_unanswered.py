"""DropUnanswered: calls without results go, and nothing else."""

from __future__ import annotations

from dataclasses import replace

from agentkit_py.processors import DropUnanswered, ProcessorContext

from .conversations import CONTEXT, asked, call, gave, left, said, shown, turns, user


def test_an_unanswered_call_goes_and_its_answered_siblings_stay() -> None:
    """The seed dropped the message and left the siblings' results orphaned."""
    one, two = call(1), call(2)
    messages = [user("q"), asked(one, two), gave(two), user("never mind")]
    assert shown(left(messages, DropUnanswered())) == [
        "q",
        "calls call_2",
        'call_2: {"data":"found"}',
        "never mind",
    ]


def test_a_message_with_no_answered_call_goes_and_texts_stay() -> None:
    """Text before a call does not belong to the call."""
    messages = [said("I look it up"), asked(call(1)), user("never mind")]
    assert shown(left(messages, DropUnanswered())) == ["I look it up", "never mind"]


def test_calls_of_the_current_run_stay() -> None:
    """Their results are on the way."""
    messages = [user("q"), asked(call(1), agent="me")]
    context = replace(CONTEXT, protected=frozenset({id(messages[1])}))
    assert left(messages, DropUnanswered(), context=context) == messages


async def test_a_whole_history_is_the_very_list() -> None:
    """No message is copied."""
    messages = turns(3)
    assert await DropUnanswered().process(messages, ProcessorContext()) is messages
    assert DropUnanswered.from_settings({}).reason == "calls without a result"
