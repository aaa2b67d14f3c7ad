"""ToolCallFilter: which calls a model gets to see."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import (
    Message,
    ReasoningMessage,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
)
from agentkit_py.processors import ProcessorContext, ToolCallFilter, apply_processors

DEBUG, SEARCH, TRACE = (ToolCall(f"id-{n}", n) for n in ("debug", "search", "trace"))


def result(call: ToolCall) -> ToolResultMessage:
    """Return the result of a call."""
    return ToolResultMessage(call, {"data": f"{call.name} done"})


USER, END = TextMessage("user", "u"), TextMessage("assistant", "end")
MIXED: list[Message] = [
    USER,
    ToolCallMessage([DEBUG, SEARCH, TRACE], agent="billing"),
    result(DEBUG),
    result(SEARCH),
    result(TRACE),
    ToolCallMessage([DEBUG]),
    result(DEBUG),
    END,
]


async def shown(
    messages: Sequence[Message], chosen: ToolCallFilter, context: ProcessorContext | None = None
) -> list[str]:
    """Return a short form of the messages left."""
    return [_short(m) for m in await apply_processors(messages, [chosen], context)]


def _short(message: Message) -> str:
    match message:
        case ToolCallMessage():
            return "calls " + " ".join(call.name for call in message.tools)
        case ToolResultMessage():
            return f"result {message.tool.name}"
        case TextMessage():
            return message.text
        case _:
            return message.type


async def test_without_options_all_calls_and_results_go() -> None:
    """This is the setting of agents without tools."""
    assert await shown(MIXED, ToolCallFilter()) == ["u", "end"]


async def test_include_keeps_calls_of_the_named_tools_only() -> None:
    """A message that keeps some calls keeps their results too."""
    left = await shown(MIXED, ToolCallFilter(include=["search"]))
    assert left == ["u", "calls search", "result search", "end"]


async def test_exclude_removes_calls_of_the_named_tools_only() -> None:
    """Everything else stays."""
    left = await shown(MIXED, ToolCallFilter(exclude=["debug"]))
    assert left == ["u", "calls search trace", "result search", "result trace", "end"]


async def test_including_nothing_removes_all_and_excluding_nothing_none() -> None:
    """An empty list is a list."""
    assert await shown(MIXED, ToolCallFilter(include=[])) == ["u", "end"]
    chosen = ToolCallFilter(exclude=[])
    assert await chosen.process(MIXED, ProcessorContext()) is MIXED


async def test_a_line_of_text_may_replace_removed_calls() -> None:
    """The model learns that a tool was used, but not how."""
    left = await shown(MIXED, ToolCallFilter(persist_results=True))
    assert left == ["u", "Used tools: debug, search, trace", "Used **debug** tool", "end"]


@pytest.mark.parametrize(
    "chosen",
    [
        ToolCallFilter(include=["search", "trace"], persist_results=True),
        ToolCallFilter(exclude=["debug"], persist_results=True),
    ],
)
async def test_the_line_is_before_calls_that_stay_and_never_among_their_results(
    chosen: ToolCallFilter,
) -> None:
    """The upstream proposal put it between call and result, or left it out."""
    left = await shown(MIXED[:5], chosen)
    assert left == [
        "u",
        "Used **debug** tool",
        "calls search trace",
        "result search",
        "result trace",
    ]


async def test_the_line_is_the_models_and_of_the_agent_that_called() -> None:
    """It counts as a text of that agent like any other."""
    (line,) = await apply_processors(MIXED[1:5], [ToolCallFilter(persist_results=True)])
    assert line == TextMessage(
        "assistant", "Used tools: debug, search, trace", agent="billing", stop_reason="stop"
    )


async def test_a_result_follows_its_own_call_when_ids_repeat() -> None:
    """Recorded conversations use one id twice within a turn, for different tools."""
    search, trace = ToolCall("same", "search"), ToolCall("same", "trace")
    nameless = ToolResultMessage(ToolCall("same", ""), {"data": "trace done"})
    messages = [
        ToolCallMessage([search]),
        result(search),
        ToolCallMessage([trace]),
        nameless,
    ]
    assert await shown(messages, ToolCallFilter(exclude=["search"])) == ["calls trace", "result "]
    assert await shown(messages, ToolCallFilter(exclude=["trace"])) == [
        "calls search",
        "result search",
    ]


async def test_results_without_their_call_go_by_their_own_tool() -> None:
    """Results without a call are filtered, too."""
    messages = [result(DEBUG), result(SEARCH)]
    assert await shown(messages, ToolCallFilter(exclude=["debug"])) == ["result search"]


async def test_reasoning_goes_with_the_calls_it_led_to() -> None:
    """Some providers refuse reasoning that leads to nothing."""
    messages = [ReasoningMessage("why"), ToolCallMessage([DEBUG]), result(DEBUG), END]
    assert await shown(messages, ToolCallFilter()) == ["end"]
    assert await shown(messages, ToolCallFilter(include=["debug"])) == [
        "reasoning",
        "calls debug",
        "result debug",
        "end",
    ]


async def test_untouched_messages_stay_the_same_objects() -> None:
    """Only a message that loses some of its calls is made again."""
    left = await apply_processors(MIXED, [ToolCallFilter(exclude=["debug"])])
    assert [any(m is x for x in MIXED) for m in left] == [True, False, True, True, True]
    untouched = ToolCallFilter(exclude=["other"])
    assert await untouched.process(MIXED, ProcessorContext()) is MIXED
    nameless = [ToolCallMessage([SEARCH]), ToolResultMessage(ToolCall(SEARCH.id, ""), 1)]
    included = ToolCallFilter(include=["search"])
    assert await included.process(nameless, ProcessorContext()) is nameless


async def test_messages_without_calls_go() -> None:
    """They say nothing, and no provider takes them."""
    messages = [USER, ToolCallMessage([]), END]
    left = await shown(messages, ToolCallFilter(exclude=["x"], persist_results=True))
    assert left == ["u", "end"]


async def test_calls_that_the_agent_made_in_this_run_stay() -> None:
    """It waits for their results; a line about them would say twice what it sees."""
    context = ProcessorContext(protected=frozenset(id(m) for m in MIXED[5:7]))
    left = await shown(MIXED, ToolCallFilter(persist_results=True), context)
    assert left == ["u", "Used tools: debug, search, trace", "calls debug", "result debug", "end"]


def test_include_and_exclude_together_are_refused() -> None:
    """The upstream proposal silently ignored one of them."""
    with pytest.raises(ConfigurationError, match="not both"):
        ToolCallFilter(include=["a"], exclude=["b"])


@pytest.mark.parametrize("names", ["search", [1]])
def test_names_must_be_a_list_of_strings(names: list[str]) -> None:
    """A bare string would be read letter by letter."""
    with pytest.raises(ConfigurationError, match="ToolCallFilter: exclude must be a list of names"):
        ToolCallFilter(exclude=names)
    with pytest.raises(ConfigurationError, match=r"'search': write \['search'\]"):
        ToolCallFilter(include="search")


def test_reason_names_the_removed_calls() -> None:
    """The reason is a sentence."""
    assert ToolCallFilter().reason == "no tool calls"
    assert ToolCallFilter(include=["b", "a"]).reason == "only calls of a, b"
    assert ToolCallFilter(exclude=["b"]).reason == "no calls of b"
    assert ToolCallFilter(include=[]).reason == "only calls of no tool"


async def test_partly_kept_calls_and_lines_in_their_place_are_the_same_in_each_request() -> None:
    """So that their tokens are counted once, and providers cache what was sent."""
    calls = [ToolCall("c1", "search", {}), ToolCall("c2", "book", {})]
    history: list[Message] = [
        ToolCallMessage(calls),
        *(ToolResultMessage(call, {"data": "x"}) for call in calls),
    ]
    policy = ToolCallFilter(exclude=["search"], persist_results=True)
    first, second = [await apply_processors(history, [policy]) for _ in range(2)]
    assert [message.type for message in first] == ["text", "tool_call", "tool_result"]
    assert [id(message) for message in first] == [id(message) for message in second]
