"""RecentToolCalls: the newest calls only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from agentkit_py import Agent, MemoryHistory, tool
from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Message, ToolCallMessage
from agentkit_py.processors import ProcessorContext, RecentToolCalls
from agentkit_py.testing import ScriptedModel, tool_call

from .conversations import CONTEXT, asked, call, gave, left, said, shown, turns, user

CITIES = ["Tokyo", "Delhi", "Shanghai", "São Paulo", "Mumbai", "Beijing", "Cairo", "London"]


def calls_in(messages: Sequence[Message]) -> int:
    """Return the number of calls in the messages."""
    return sum(len(m.tools) for m in messages if isinstance(m, ToolCallMessage))


@tool
def get_weather_for_city(city: str) -> str:
    """Get the weather of a city."""
    return f"{city}: 20°C, sunny"


async def test_eight_cities_give_contexts_of_one_to_four_calls_and_a_complete_store() -> None:
    """The seed's table: three old calls plus the current one."""
    store = MemoryHistory()
    seen: list[int] = []
    for city in CITIES:
        model = ScriptedModel(tool_call("get_weather_for_city", {"city": city}), f"Fine in {city}.")
        agent = Agent(
            name="weather",
            system="You know the weather.",
            tools=[get_weather_for_city],
            model=model,
            max_iter=3,
            history=store,
            processors=[RecentToolCalls(3)],
        )
        result = await agent.run(f"How is {city}?", thread_id="t")
        model.assert_finished()
        assert result.context is not None
        seen.append(calls_in(result.context.sent))
    assert seen == [1, 2, 3, 4, 4, 4, 4, 4]
    stored = [message for kept in await store.load("t") for message in kept.output]
    assert calls_in(stored) == 8


def test_older_calls_go_with_their_results_and_texts_stay() -> None:
    """Questions and answers of before are still there."""
    assert shown(left(turns(3), RecentToolCalls(1))) == [
        "q0",
        "a0",
        "q1",
        "a1",
        "q2",
        "calls call_2",
        'call_2: {"data":"r2"}',
        "a2",
    ]


def test_calls_are_counted_and_not_messages() -> None:
    """Of three calls in one message the last two stay, in a new message."""
    first, second, third = (call(n) for n in range(3))
    messages = [said("let me see"), asked(first, second, third), gave(third), gave(first)]
    messages.append(gave(second))
    kept = left(messages, RecentToolCalls(2))
    assert shown(kept) == [
        "let me see",
        "calls call_1 call_2",
        'call_2: {"data":"found"}',
        'call_1: {"data":"found"}',
    ]
    assert kept[0] is messages[0]
    assert kept[2] is messages[2]


def test_a_tool_may_have_a_count_of_its_own() -> None:
    """It has a count of its own, apart from the other tools."""
    calls = [call(0, "order"), call(1), call(2, "order"), call(3), call(4)]
    messages = [m for c in calls for m in (asked(c), gave(c))]
    kept = left(messages, RecentToolCalls(2, per_tool={"order": 1}))
    assert shown(kept)[::2] == ["calls call_2", "calls call_3", "calls call_4"]
    others = left(messages, RecentToolCalls(per_tool={"search": 0}))
    assert shown(others)[::2] == ["calls call_0", "calls call_2"]


def test_protected_calls_are_additional() -> None:
    """The count ignores calls whose results the agent needs now."""
    messages = turns(4)
    context = replace(CONTEXT, protected=frozenset(map(id, messages[-3:-1])))
    kept = left(messages, RecentToolCalls(2), context=context)
    assert [s for s in shown(kept) if s.startswith("calls")] == [
        "calls call_1",
        "calls call_2",
        "calls call_3",
    ]


async def test_nothing_to_do_gives_the_very_list() -> None:
    """Object for object."""
    messages = turns(3)
    assert await RecentToolCalls(3).process(messages, ProcessorContext()) is messages


def test_none_at_all_and_unanswered_calls() -> None:
    """0 removes all; a call counts whether it was answered or not."""
    assert shown(left(turns(1), RecentToolCalls(0))) == ["q0", "a0"]
    messages = [asked(call(0)), gave(call(0)), asked(call(1)), user("never mind")]
    assert shown(left(messages, RecentToolCalls(1))) == ["calls call_1", "never mind"]


def test_settings_have_agnos_name_and_are_checked() -> None:
    """The errors name the key as it was written."""
    assert RecentToolCalls.from_settings({"max_tool_calls_from_history": 3}) == RecentToolCalls(3)
    made = RecentToolCalls.from_settings({"per_tool": {"order": 1}})
    assert made.reason == "1 of order"
    assert RecentToolCalls(3).reason == "the newest 3 tool calls"
    with pytest.raises(ConfigurationError, match=r"max_tool_calls_from_history must be .* not -1"):
        RecentToolCalls.from_settings({"max_tool_calls_from_history": -1})
    with pytest.raises(ConfigurationError, match=r"per_tool\['order'\] must be"):
        RecentToolCalls.from_settings({"per_tool": {"order": "x"}})
    with pytest.raises(ConfigurationError, match="no setting 'k'; known are: max_tool_calls"):
        RecentToolCalls.from_settings({"k": 1})
    with pytest.raises(ConfigurationError, match="are the same"):
        RecentToolCalls.from_settings({"n": 1, "max_tool_calls_from_history": 1})
    with pytest.raises(ConfigurationError, match="needs n"):
        RecentToolCalls()
