"""Chains of processors: what they get, what they may return, what happens when they fail."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from agentkit_py import Agent, Network
from agentkit_py.errors import (
    ConfigurationError,
    NonRetriableError,
    ProcessorError,
    RetryAfterError,
)
from agentkit_py.messages import (
    Message,
    ReasoningMessage,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
)
from agentkit_py.processors import (
    ApproximateTokenizer,
    HistoryProcessor,
    MessageWindow,
    ProcessorContext,
    TokenLimiter,
    ToolCallFilter,
    apply_processors,
)
from agentkit_py.processors.apply import as_processor, as_processors, run_chain
from agentkit_py.processors.pairing import pair
from agentkit_py.processors.validity import ensure_valid
from agentkit_py.testing import ScriptedModel

A, B, C = (TextMessage("user", text) for text in "abc")
CONTEXT = ProcessorContext(agent="billing", tokenizer=ApproximateTokenizer())


class Tag(HistoryProcessor):
    """Adds a text that says how many messages it saw."""

    def __init__(self, label: str) -> None:
        self._label = label

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """The messages and the tag."""
        return [*messages, TextMessage("user", f"{self._label} saw {len(messages)}")]


def drop_first(messages: Sequence[Message]) -> Sequence[Message]:
    """All but the oldest."""
    return messages[1:]


def texts(messages: Sequence[Message]) -> list[str]:
    """Return the texts of the text messages."""
    return [m.text for m in messages if isinstance(m, TextMessage)]


async def test_each_processor_gets_the_output_of_the_previous_processor() -> None:
    """Processors run in the order given."""
    left = await apply_processors([A, B], [Tag("x"), drop_first, Tag("y")])
    assert texts(left) == ["b", "x saw 2", "y saw 2"]


async def test_levels_run_in_order_and_each_processor_has_its_entry() -> None:
    """An entry has the level, the name, the reason, and the messages before and after."""
    outcome = await run_chain(
        [A, B, C],
        [("history", [drop_first]), ("network", []), ("agent", [TokenLimiter(1)])],
        CONTEXT,
    )
    assert list(outcome.messages) == [C]
    assert [(e.level, e.name, e.reason) for e in outcome.entries] == [
        ("history", "drop_first", ""),
        ("agent", "TokenLimiter", "limit of 1 tokens"),
    ]
    first, second = outcome.entries
    assert list(first.before) == [A, B, C]
    assert first.after is second.before
    assert second.after is outcome.messages
    assert (first.tokens_before, first.tokens_after, second.tokens_after) == (3, 2, 1)


async def test_without_processors_the_history_is_returned_itself() -> None:
    """An empty chain costs nothing."""
    history = [A]
    outcome = await run_chain(history, [("history", []), ("agent", ())], CONTEXT)
    assert outcome.messages is history
    assert outcome.entries == ()


async def test_functions_may_be_sync_or_async_and_take_the_context_or_not() -> None:
    """Users write processors in any of these forms."""

    def one(messages: Sequence[Message]) -> Sequence[Message]:
        return [*messages, B]

    def two(messages: Sequence[Message], context: ProcessorContext) -> Sequence[Message]:
        return [*messages, TextMessage("user", context.agent)]

    async def later(messages: Sequence[Message], context: ProcessorContext) -> Sequence[Message]:
        return [*messages, TextMessage("user", f"later {context.agent}")]

    def defaulted(
        messages: Sequence[Message], context: ProcessorContext | None = None
    ) -> Sequence[Message]:
        return [*messages, TextMessage("user", context.agent if context else "none")]

    def setting(messages: Sequence[Message], suffix: str = "!") -> Sequence[Message]:
        return [*messages, TextMessage("user", suffix)]

    def generated(messages: Sequence[Message]) -> Iterator[Message]:
        yield from messages
        yield C

    chain: list[Any] = [one, two, later, defaulted, setting, generated, iter]
    left = await apply_processors([A], chain, CONTEXT)
    assert texts(left) == ["a", "b", "billing", "later billing", "billing", "!", "c"]


def test_the_name_of_a_function_is_its_own() -> None:
    """An object that is called has its class's, a partial function its own class's."""
    assert as_processor(drop_first).name == "drop_first"
    assert as_processor(functools.partial(drop_first)).name == "partial"
    assert as_processor(Tag("x")).name == "Tag"


async def test_a_method_that_names_no_parameters_gets_the_messages() -> None:
    """``*messages`` is one argument too few to be sure, so it gets the first."""

    def starred(*args: Any) -> Any:
        return args[0]

    assert list(await apply_processors([A], [starred])) == [A]


def _no_arguments() -> list[Message]:
    return []


def _three_arguments(one: object, two: object, three: object) -> list[Message]:
    return []


@pytest.mark.parametrize(
    "value", [None, "ToolCallFilter", 3, Tag, TokenLimiter, _no_arguments, _three_arguments]
)
def test_a_value_that_is_no_processor_is_refused_when_it_is_configured(value: Any) -> None:
    """The error names the value and its replacement."""
    with pytest.raises(ConfigurationError, match=r"processor|messages"):
        as_processor(value)


@pytest.mark.parametrize("value", [Tag("x"), 3])
def test_processors_are_given_as_a_list(value: Any) -> None:
    """One by itself is a slip that is said so."""
    with pytest.raises(ConfigurationError, match="list"):
        as_processors(value)
    assert as_processors(None) == ()
    assert [p.name for p in as_processors([drop_first])] == ["drop_first"]


async def _stream(messages: Sequence[Message]) -> AsyncIterator[Message]:
    for message in messages:
        yield message


class _WithoutContext(HistoryProcessor):
    def process(self, messages: Sequence[Message]) -> Sequence[Message]:  # type: ignore[override] - it need not be async
        return messages


class _Bare:
    def process(self, messages: Sequence[Message], context: ProcessorContext) -> None:
        del messages, context


def _no_context() -> list[Any]:
    return []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (ToolCallFilter(), r"processors=\[<ToolCallFilter"),
        (ToolCallFilter, r"processors=\[ToolCallFilter\(…\)\]"),
        ([ToolCallFilter], r"give a processor of it: ToolCallFilter\(…\)"),
        ([[ToolCallFilter()]], r"processors=\[\*first, second\]"),
        ([{"type": "ToolCallFilter"}], r"processor_from_settings\(\{…\}\)"),
        ([_Bare()], r"class _Bare\(HistoryProcessor\)"),
        ([_WithoutContext()], r"write def process\(self, messages, context\)"),
        ([_stream], "let it return a list"),
        (drop_first, r"processors=\[drop_first\]"),
        (_no_context, "lambda context"),
        ("ToolCallFilter", "must be a list"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_shape_is_refused_where_it_is_configured(given: Any, says: str) -> None:
    """The error names the agent, and says the line to write instead."""
    with pytest.raises(ConfigurationError, match=f"^Agent 'a': .*{says}"):
        Agent(name="a", system="s", processors=given)


async def test_an_option_of_a_wrong_shape_is_refused() -> None:
    """The error says where it was given."""
    agent = Agent(name="a", system="S", model=ScriptedModel("ok"))
    with pytest.raises(ConfigurationError, match=r"^run\(\): processors must be a list"):
        await agent.run("q?", processors=MessageWindow(1))  # type: ignore[arg-type] - on purpose: it is refused
    agent.processors = lambda _context: MessageWindow(1)  # type: ignore[assignment,return-value] - on purpose: it is refused
    with pytest.raises(ConfigurationError, match=r"<lambda> returned MessageWindow.*; return a l"):
        await agent.run("q?")
    with pytest.raises(ConfigurationError, match="own_tools"):
        Network(name="n", agents=[agent], isolation="all")  # type: ignore[arg-type] - on purpose: it is refused


async def test_a_process_method_may_be_sync() -> None:
    """Most processors wait for nothing."""

    class Last(HistoryProcessor):
        def process(
            self, messages: Sequence[Message], context: ProcessorContext
        ) -> Sequence[Message]:
            return messages[-1:]

    assert texts(await apply_processors([A, B], [Last()])) == ["b"]


def returning(value: object) -> Callable[[Sequence[Message]], Any]:
    """A function that returns ``value``."""

    def function(messages: Sequence[Message]) -> Any:
        return value

    return function


FORGETS_TO_RETURN = None


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (returning(FORGETS_TO_RETURN), "returned None"),
        (returning("abc"), "returned 'abc'"),
        (returning({"messages": 1}), "returned {"),
        (returning(3), "returned 3"),
        (returning([A, "text"]), "item 1"),
        (returning([None]), "item 0"),
    ],
)
async def test_a_return_value_that_is_no_list_of_messages_is_named(
    function: Callable[..., Any], says: str
) -> None:
    """The error names the processor that returned it."""
    with pytest.raises(ProcessorError, match=says) as caught:
        await apply_processors([A], [function], level="agent")
    assert caught.value.level == "agent"
    assert caught.value.processor == function.__name__


async def test_a_processor_that_works_in_place_damages_nothing() -> None:
    """It gets a tuple, so it fails, and the history is as it was."""
    history = [A, B]

    def clear(messages: Any) -> Any:
        messages.clear()
        return messages

    with pytest.raises(ProcessorError, match="AttributeError"):
        await apply_processors(history, [clear])
    assert history == [A, B]


async def test_a_list_that_a_processor_keeps_is_not_the_list_that_is_passed_on() -> None:
    """A later change of the processor's own list must not reach the messages."""
    kept: list[Message] = []

    def keep(messages: Sequence[Message]) -> Sequence[Message]:
        kept.extend(messages)
        return kept

    left = await apply_processors([A], [keep])
    kept.clear()
    assert list(left) == [A]


async def test_a_failure_is_wrapped_with_its_cause() -> None:
    """The error names the processor that failed."""

    def fail(messages: Sequence[Message]) -> Sequence[Message]:
        raise ValueError("no luck")

    with pytest.raises(ProcessorError, match="no luck") as caught:
        await apply_processors([A], [fail])
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize(
    "error",
    [
        NonRetriableError("stop"),
        RetryAfterError("later", 3),
        ProcessorError("inner", processor="p", level="chain"),
        KeyboardInterrupt(),
    ],
)
async def test_errors_that_are_meant_for_the_run_pass_unchanged(error: BaseException) -> None:
    """A chain inside a processor has named the culprit already."""

    def fail(messages: Sequence[Message]) -> Awaitable[Sequence[Message]]:
        raise error

    with pytest.raises(type(error)) as caught:
        await apply_processors([A], [fail])
    assert caught.value is error


X, Y = ToolCall("1", "x"), ToolCall("2", "y")
CALLS = ToolCallMessage([X, Y])
RESULT_X, RESULT_Y = ToolResultMessage(X, {"data": "long"}), ToolResultMessage(Y, 2)
OWN: list[Message] = [CALLS, RESULT_X, RESULT_Y]
PROTECTED = replace(CONTEXT, protected=frozenset(map(id, OWN)))


async def kept(
    function: Callable[[Sequence[Message]], Sequence[Message]], history: Sequence[Message]
) -> tuple[list[Message], int]:
    """Return the messages left with this agent's own calls protected, and the number put back."""
    outcome = await run_chain(history, [("agent", [function])], PROTECTED)
    return list(outcome.messages), outcome.entries[0].kept_back


async def test_protected_messages_are_put_back_at_their_position() -> None:
    """The place is after the nearest remaining predecessor, else before the successor."""
    history = [A, *OWN, B]
    assert await kept(lambda _: [A, B], history) == (history, 3)
    assert await kept(lambda _: [C, A, C, B], history) == ([C, A, *OWN, C, B], 3)
    assert await kept(lambda _: [C, B], history) == ([C, *OWN, B], 3)
    assert await kept(lambda _: [C], history) == ([C, *OWN], 3)
    assert await kept(lambda _: [A, CALLS, B], history) == (history, 2)
    assert await kept(lambda _: [A, RESULT_X, RESULT_Y], history) == ([A, *OWN], 1)


async def test_messages_that_a_processor_removes_are_not_put_back() -> None:
    """Messages that the processor keeps are not added twice."""
    assert await kept(lambda messages: messages[1:], [A, *OWN]) == (OWN, 0)
    assert await kept(lambda messages: messages, [A, *OWN]) == ([A, *OWN], 0)


async def test_a_rewritten_protected_message_counts_as_there() -> None:
    """A compressed result is this call's result; later processors may not drop it either."""
    short = ToolResultMessage(X, {"data": "short"})

    def compress(messages: Sequence[Message]) -> Sequence[Message]:
        return [short if m is RESULT_X else m for m in messages]

    expected = [A, CALLS, short, RESULT_Y]
    assert await kept(compress, [A, *OWN]) == (expected, 0)
    outcome = await run_chain([A, *OWN], [("agent", [compress, lambda _: []])], PROTECTED)
    assert list(outcome.messages) == expected[1:]
    assert [entry.kept_back for entry in outcome.entries] == [0, 3]


async def test_a_protected_message_that_lost_some_of_its_calls_is_made_whole() -> None:
    """The whole message replaces the partial one, instead of standing there twice."""
    part = ToolCallMessage([Y])
    assert await kept(lambda _: [A, part, RESULT_Y, B], [A, *OWN, B]) == ([A, *OWN, B], 2)
    other = ToolCallMessage([ToolCall("3", "z")])
    assert await kept(lambda _: [A, other], [A, *OWN]) == ([A, *OWN, other], 3)


async def test_protected_messages_keep_their_own_order() -> None:
    """A result that came before its call would be no result."""
    history = [A, *OWN, B]
    assert (await kept(lambda messages: messages[::-1], history))[0] == [B, A, *OWN]
    assert (await kept(lambda _: [RESULT_X, A, CALLS, RESULT_Y, B], history))[0] == history


async def test_protected_reasoning_goes_with_its_calls() -> None:
    """Providers want it back with them."""
    reasoning = ReasoningMessage("because")
    context = replace(CONTEXT, protected=frozenset(map(id, [reasoning, *OWN])))
    outcome = await run_chain([A, reasoning, *OWN], [("agent", [lambda _: []])], context)
    assert list(outcome.messages) == [reasoning, *OWN]


class DropAll(HistoryProcessor):
    """One that asks to drop even the agent's own calls."""

    may_drop_protected = True

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """Return no messages, after a check that all are protected."""
        assert all(map(context.is_protected, messages))
        return []


async def test_a_processor_may_ask_to_drop_protected_messages() -> None:
    """No message is put back then."""
    outcome = await run_chain(OWN, [("agent", [DropAll()])], PROTECTED)
    assert list(outcome.messages) == []
    assert outcome.entries[0].kept_back == 0


@pytest.mark.parametrize("rewrites", [False, True])
async def test_a_call_never_gets_the_result_of_another_with_its_id(rewrites: bool) -> None:
    """Whatever subset of three exchanges with one id a function leaves, rewritten or not."""
    history: list[Message] = []
    for number in range(3):
        call = ToolCall("call_1", "balance", {"account": number})
        history += [ToolCallMessage([call]), ToolResultMessage(call, {"data": f"of {number}"})]
    for chosen in product([False, True], repeat=len(history)):

        def leave(messages: Sequence[Message], chosen: tuple[bool, ...] = chosen) -> list[Message]:
            left = [m for m, stays in zip(messages, chosen, strict=True) if stays]
            return [
                replace(m, content={"data": f"[{m.content}]"})
                if rewrites and isinstance(m, ToolResultMessage)
                else m
                for m in left
            ]

        valid, _ = ensure_valid(await apply_processors(history, [leave]))
        for answer, (index, _) in pair(valid).calls.items():
            calls, result = valid[index], valid[answer]
            assert isinstance(calls, ToolCallMessage)
            assert isinstance(result, ToolResultMessage)
            number = history.index(calls) // 2
            content = str(result.content)
            assert f"of {number}" in content or "MissingToolResult" in content, chosen
