"""Any processors on any history: what the model sees is whole, and nothing is touched in vain."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from agentkit_py.messages import (
    Message,
    OpaqueMessage,
    ReasoningMessage,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
)
from agentkit_py.processors import (
    ApproximateTokenizer,
    Processor,
    ProcessorContext,
    TokenLimiter,
    ToolCallFilter,
    apply_processors,
    ensure_valid,
)
from agentkit_py.processors.cutting import segments
from agentkit_py.processors.pairing import pair
from agentkit_py.processors.tokenizers import count_messages

TOKENIZER = ApproximateTokenizer()
CONTEXT = ProcessorContext(tokenizer=TOKENIZER)

# Few ids and tools, so that they collide; an id may be missing, as in Gemini's replies.
tool_calls = st.builds(
    ToolCall, st.sampled_from(["a", "b", ""]), st.sampled_from(["search", "calc"])
)
texts = st.builds(
    TextMessage, st.sampled_from(["system", "user", "assistant"]), st.text(max_size=20)
)
reasonings = st.builds(ReasoningMessage, st.text(max_size=5))
call_messages = st.builds(ToolCallMessage, st.lists(tool_calls, max_size=3))
nameless = st.builds(ToolCall, st.sampled_from(["a", "b"]), st.just(""))
results = st.builds(
    ToolResultMessage, tool_calls | nameless, st.text(max_size=20).map(lambda text: {"data": text})
)
opaques = st.builds(
    OpaqueMessage,
    st.sampled_from(["x", "y"]).map(lambda said: {"type": "block", "said": said}),
    st.just("anthropic"),
    st.just(""),
    st.sampled_from(["", "search", "web_search"]),
    st.sampled_from(["h", "i", ""]),
    st.sampled_from(["call", "result", "whole"]),
)
any_lists = st.lists(texts | reasonings | call_messages | results | opaques, max_size=14)
said_beside_calls = opaques | st.builds(TextMessage, st.just("assistant"), st.text(max_size=20))


@st.composite
def exchanges(draw: st.DrawFn, calls: st.SearchStrategy[ToolCall] = tool_calls) -> list[Message]:
    """One reply: calls, and what it says and thinks among them; all results in any order."""
    messages: list[Message] = []
    made: list[ToolCall] = []
    for _ in range(draw(st.integers(1, 3))):
        messages += draw(st.lists(reasonings, max_size=1))
        messages += draw(st.lists(said_beside_calls, max_size=1))
        tools = draw(st.lists(calls, min_size=1, max_size=2))
        messages.append(ToolCallMessage(tools))
        made += tools
    messages += draw(st.lists(said_beside_calls, max_size=1))
    answered = draw(st.permutations(made))
    return [*messages, *(ToolResultMessage(call, {"data": call.name}) for call in answered)]


@st.composite
def valid_lists(draw: st.DrawFn) -> list[Message]:
    """Histories as runs write them."""
    parts = draw(st.lists(st.lists(texts, max_size=2) | exchanges(), max_size=6))
    return [message for part in parts for message in part]


def faults(messages: Sequence[Message]) -> list[str]:
    """Return a provider's objections, found by reading the list as a grammar."""
    found: list[str] = []
    rest = list(messages)
    while rest:
        message = rest.pop(0)
        if isinstance(message, ToolResultMessage):
            found.append("a result without its call")
        if not isinstance(message, ToolCallMessage):
            continue
        if not message.tools:
            found.append("no calls")
        asked = list(message.tools)
        for said in _rest_of_reply(rest):
            asked += said.tools if isinstance(said, ToolCallMessage) else ()
            del rest[0]
        answers = rest[: len(asked)]
        if Counter(ids(asked)) != Counter(
            ids(m.tool for m in answers if isinstance(m, ToolResultMessage))
        ):
            found.append("calls and the results after them differ")
        del rest[: len(asked)]
    return found


def _rest_of_reply(messages: Sequence[Message]) -> list[Message]:
    """Return what a reply with calls says after the first of them: nothing ends in reasoning."""
    said: list[Message] = []
    for message in messages:
        if isinstance(message, ToolResultMessage) or message.role in ("user", "system"):
            break
        said.append(message)
    while said and isinstance(said[-1], ReasoningMessage):
        said.pop()
    return said


def ids(calls: object) -> list[str]:
    """Return the ids by which providers pair calls and results."""
    return [call.id for call in calls]  # type: ignore[attr-defined]


def same(one: Sequence[Message], other: Sequence[Message]) -> bool:
    """Return whether two lists hold the same objects."""
    return [id(m) for m in one] == [id(m) for m in other]


def _drop(messages: list[Message], chance: random.Random) -> list[Message]:
    return [m for m in messages if chance.random() < 0.6]


def _repeat(messages: list[Message], chance: random.Random) -> list[Message]:
    return messages + messages[: chance.randrange(len(messages) + 1)]


def _double(messages: list[Message], chance: random.Random) -> list[Message]:
    return [m for m in messages for _ in range(chance.randrange(1, 3))]


def _reverse(messages: list[Message], chance: random.Random) -> list[Message]:
    return messages[::-1]


def _shuffle(messages: list[Message], chance: random.Random) -> list[Message]:
    chance.shuffle(messages)
    return messages


def _rewrite(messages: list[Message], chance: random.Random) -> list[Message]:
    return [replace(m) if chance.random() < 0.5 else m for m in messages]


def _halve_calls(messages: list[Message], chance: random.Random) -> list[Message]:
    return [
        replace(m, tools=m.tools[: len(m.tools) // 2]) if isinstance(m, ToolCallMessage) else m
        for m in messages
    ]


def _insert_texts(messages: list[Message], chance: random.Random) -> list[Message]:
    role = chance.choice(["user", "assistant"])
    new = TextMessage("user" if role == "user" else "assistant", "between")
    return [x for m in messages for x in ((m, new) if chance.random() < 0.3 else (m,))]


HOSTILE = [_drop, _repeat, _double, _reverse, _shuffle, _rewrite, _halve_calls, _insert_texts]
"""Changes that a user's function may make to a list."""


def hostile(
    work: Callable[[list[Message], random.Random], list[Message]], seed: int
) -> Callable[[Sequence[Message]], list[Message]]:
    """A processor function that does ``work`` the same way for the same seed."""
    return lambda messages: work(list(messages), random.Random(seed))  # noqa: S311 - the same each time


def tool_call_filter(mode: str, names: list[str], persist: bool) -> ToolCallFilter:
    """A filter of one of the three modes."""
    return ToolCallFilter(
        include=names if mode == "include" else None,
        exclude=names if mode == "exclude" else None,
        persist_results=persist,
    )


tools = st.lists(st.sampled_from(["search", "calc", "other"]), max_size=2)
filters: st.SearchStrategy[ToolCallFilter] = st.builds(
    tool_call_filter,
    st.sampled_from(["include", "exclude", "neither"]),
    tools,
    st.booleans(),
)
limiters = st.integers(1, 60).map(TokenLimiter)
hostiles = st.builds(hostile, st.sampled_from(HOSTILE), st.integers(0, 1000))
chains: st.SearchStrategy[list[Processor]] = st.lists(filters | limiters | hostiles, max_size=5)


def run(
    messages: Sequence[Message], chain: Sequence[Processor], context: ProcessorContext = CONTEXT
) -> Sequence[Message]:
    """Return the messages that the chain leaves."""
    return asyncio.run(apply_processors(messages, chain, context))


@given(any_lists, chains)
def test_whatever_processors_do_validity_makes_calls_and_results_whole(
    messages: list[Message], chain: list[Processor]
) -> None:
    """Promise 2, checked by a reader of its own; a second pass finds nothing to do."""
    before = list(messages)
    left = run(messages, chain)
    whole, _ = ensure_valid(left)
    assert faults(whole) == []
    again, repairs = ensure_valid(whole)
    assert again is whole
    assert repairs == []
    assert same(messages, before)


@given(any_lists)
def test_a_list_is_returned_itself_exactly_when_nothing_was_repaired(
    messages: list[Message],
) -> None:
    """A report without repairs must mean that there were none."""
    whole, repairs = ensure_valid(messages)
    assert (whole is messages) == (repairs == [])
    assert (faults(messages) == []) or repairs != []


@given(valid_lists())
def test_a_valid_list_comes_back_object_for_object(messages: list[Message]) -> None:
    """The lists have repeated ids, parallel calls, and results in any order."""
    assert faults(messages) == []
    whole, repairs = ensure_valid(messages)
    assert whole is messages
    assert repairs == []


@given(any_lists)
def test_validity_loses_no_text_and_no_call(messages: list[Message]) -> None:
    """Only results without calls, and messages without calls, are dropped."""
    whole, _ = ensure_valid(messages)
    kept = {id(m) for m in whole}
    lost = [m for m in messages if id(m) not in kept]
    assert all(m.type == "tool_result" or (m.type == "tool_call" and not m.tools) for m in lost)


@given(any_lists)
def test_pairing_and_segments_agree(messages: list[Message]) -> None:
    """Segments cover the list in order, and no result lies in another segment than its call."""
    pairing = pair(messages)
    parts = list(segments(messages))
    assert [i for part in parts for i in part] == list(range(len(messages)))
    where = {i: n for n, part in enumerate(parts) for i in part}
    for result, (call, place) in pairing.calls.items():
        assert where[result] == where[call]
        assert call < result
        assert pairing.answers[call][place] == result


@given(any_lists, st.integers(1, 60))
def test_a_limited_history_is_the_end_of_the_whole_one_and_fits(
    messages: list[Message], limit: int
) -> None:
    """No message is missing in between, and no call is parted from its result."""
    left = run(messages, [TokenLimiter(limit)])
    assert count_messages(left, TOKENIZER) <= limit
    start = len(messages) - len(left)
    assert same(left, messages[start:])
    parted = [r for r, (call, _) in pair(messages).calls.items() if call < start <= r]
    assert parted == []


@given(valid_lists(), st.integers(1, 60))
def test_limiting_a_valid_history_leaves_a_valid_one(messages: list[Message], limit: int) -> None:
    """The limiter itself keeps the list valid, without `ensure_valid`."""
    assert faults(run(messages, [TokenLimiter(limit)])) == []


SEARCH, CALC = ToolCall("a", "search"), ToolCall("b", "calc")
HOSTED_AFTER_CALLS: list[Message] = [
    ToolCallMessage([SEARCH]),
    ReasoningMessage("It led to the call that is filtered."),
    ToolCallMessage([CALC]),
    OpaqueMessage({"type": "block"}, "anthropic", "", "web_search", "h", "call"),
    ToolResultMessage(SEARCH, {"data": 1}),
    ToolResultMessage(CALC, {"data": 2}),
]
"""A reply whose last call is followed by the activity of a tool that the provider ran."""


@given(valid_lists(), filters)
@example(HOSTED_AFTER_CALLS, ToolCallFilter(include=["search"]))
def test_filtering_a_valid_history_leaves_a_valid_one(
    messages: list[Message], chosen: ToolCallFilter
) -> None:
    """The filter itself keeps it valid; the messages left keep their identity and order."""
    left = run(messages, [chosen])
    assert faults(left) == []
    calls = [call for m in left if isinstance(m, ToolCallMessage) for call in m.tools]
    had = [call for m in messages if isinstance(m, ToolCallMessage) for call in m.tools]
    assert [id(c) for c in calls] == [id(c) for c in had if chosen.keeps(c.name)]
    stayed = [m for m in messages if m.type in ("text", "tool_result")]
    gone = {id(m) for m in stayed} - {id(m) for m in left}
    assert all(
        isinstance(m, ToolResultMessage) and not chosen.keeps(m.tool.name)
        for m in stayed
        if id(m) in gone
    )


@given(any_lists, filters)
def test_no_call_of_a_filtered_tool_is_left(
    messages: list[Message], chosen: ToolCallFilter
) -> None:
    """The list may be valid or not, and a second pass changes nothing."""
    left = run(messages, [chosen])
    calls = [c for m in left if isinstance(m, ToolCallMessage) for c in m.tools]
    assert all(chosen.keeps(call.name) for call in calls)
    assert same(run(left, [chosen]), left)


own_calls = st.builds(ToolCall, st.uuids().map(str), st.sampled_from(["search", "calc", "refund"]))


@given(any_lists, st.lists(exchanges(own_calls), min_size=1, max_size=2), any_lists, chains)
def test_protected_calls_are_always_there(
    before: list[Message],
    own: list[list[Message]],
    after: list[Message],
    chain: list[Processor],
) -> None:
    """Itself or rewritten, in order; and validity, which may move a result up, drops none."""
    ours = [message for group in own for message in group]
    context = replace(CONTEXT, protected=frozenset(map(id, ours)))
    left = run([*before, *ours, *after], chain, context)
    whole, _ = ensure_valid(left)
    assert faults(whole) == []
    shapes = [_shape(m) for m in ours]
    assert _is_subsequence(shapes, [_shape(m) for m in left])
    assert Counter(shapes) <= Counter(_shape(m) for m in whole)
    answered = {m.tool.id for m in whole if isinstance(m, ToolResultMessage) and not m.is_error}
    assert {m.tool.id for m in ours if isinstance(m, ToolResultMessage)} <= answered


def _shape(message: Message) -> tuple[object, ...]:
    match message:
        case ToolCallMessage():
            return ("calls", *ids(message.tools))
        case ToolResultMessage():
            return ("result", message.tool.id)
        case _:
            return (message.type,)


def _is_subsequence(part: Sequence[object], whole: Sequence[object]) -> bool:
    rest = iter(whole)
    return all(item in rest for item in part)
