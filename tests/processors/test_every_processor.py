"""Properties of every processor: no needless change, no repeated count, linear time."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from inspect import isabstract
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit_py import processors
from agentkit_py._core.digests import settings_of
from agentkit_py._core.json import dumps
from agentkit_py.messages import Message, text_of
from agentkit_py.processors import (
    Budget,
    ByAuthor,
    Chain,
    ClearToolResults,
    CompressToolResults,
    Deduplicate,
    DropUnanswered,
    HandoffView,
    HistoryProcessor,
    KeepImages,
    MessageWindow,
    Pin,
    Processor,
    ProviderCompaction,
    Recall,
    RecentToolCalls,
    RecentTurns,
    Redact,
    StripImages,
    Threshold,
    TokenLimiter,
    ToolCallFilter,
    TruncateToolResults,
    apply_processors,
    ensure_valid,
)
from agentkit_py.processors.compose import PROCESSORS
from agentkit_py.processors.pairing import pair
from agentkit_py.testing import HashingEmbedder

from .conversations import CONTEXT, Counting, asked, call, gave, left, processed, said, user
from .test_properties import any_lists, faults, same, valid_lists

IDLE: list[HistoryProcessor] = [
    Budget(10**9, method="estimate"),
    ByAuthor(drop=["nobody"]),
    Chain([MessageWindow(10**6)]),
    ClearToolResults(10**9),
    CompressToolResults(10**6),
    Deduplicate(reads=["none"], min_chars=10**6),
    DropUnanswered(),
    HandoffView(),
    KeepImages(),
    MessageWindow(10**6),
    Pin(lambda _: True),
    ProviderCompaction(),
    Recall(HashingEmbedder(), keep_recent=10**6),
    RecentToolCalls(10**6),
    RecentTurns(10**6),
    Redact(["iban"]),
    StripImages(),
    Threshold(10**9, then=[MessageWindow(1)]),
    TokenLimiter(10**9),
    ToolCallFilter(exclude=["none"]),
    TruncateToolResults(10**6),
]
BUSY: list[Callable[[], HistoryProcessor]] = [
    lambda: Chain([RecentToolCalls(10), MessageWindow(30)]),
    lambda: ClearToolResults(500, 2, clear_inputs=True, clear_at_least=200),
    lambda: Budget(1500, method="estimate"),
    lambda: ByAuthor(drop=["other"]),
    lambda: ClearToolResults(0, 2),
    lambda: CompressToolResults(30, keep_recent=2),
    lambda: Deduplicate(reads=["read"], min_chars=1),
    DropUnanswered,
    HandoffView,
    lambda: MessageWindow(30),
    lambda: RecentToolCalls(10),
    lambda: RecentTurns(5),
    lambda: Redact(["email"]),
    lambda: Threshold(1, then=[MessageWindow(30)]),
    lambda: TokenLimiter(500),
    lambda: ToolCallFilter(include=["read"]),
    lambda: TruncateToolResults(40),
]


def name_of(made: HistoryProcessor | Callable[[], HistoryProcessor]) -> str:
    """Return the processor's name for the test's id."""
    return (made if isinstance(made, HistoryProcessor) else made()).name


NEEDS_A_MODEL = {"Summarize"}
NEVER_IDLE = {"ContextPolicy", "TableResults"}


def test_every_exported_processor_is_tried_and_can_be_made_from_a_dict() -> None:
    """A new one that is on no list here would have none of these properties checked."""
    exported = {name for name in processors.__all__ if is_processor(getattr(processors, name))}
    listed = {one.name for one in IDLE} | NEEDS_A_MODEL | NEVER_IDLE
    assert exported == listed, "add it to IDLE, and to BUSY if it drops or changes something"
    configured = {name for name in exported if hasattr(getattr(processors, name), "from_settings")}
    assert configured <= PROCESSORS.keys(), "add it to PROCESSORS in processors/compose.py"


def is_processor(value: object) -> bool:
    """Return whether a name of the package is a processor's class."""
    return isinstance(value, type) and issubclass(value, HistoryProcessor) and not isabstract(value)


KIND_IN_STORED_KEYS = {
    "budget": ["Budget"],
    "compose": ["Chain", "ContextPolicy", "Threshold"],
    "recall": ["Recall"],
    "redaction": ["Redact"],
    "summarize": ["Summarize"],
    "tables": ["TableResults"],
    "tool_results": [
        *("ClearToolResults", "CompressToolResults", "Deduplicate"),
        *("ToolCallFilter", "TruncateToolResults"),
    ],
    "views": ["ByAuthor", "HandoffView", "KeepImages", "StripImages"],
    "windowing": [
        *("DropUnanswered", "MessageWindow", "Pin", "ProviderCompaction"),
        *("RecentToolCalls", "RecentTurns", "TokenLimiter"),
    ],
}
"""The modules of the processors: a class that moves has another fingerprint."""


def test_the_module_of_a_processor_is_part_of_stored_keys_and_stays() -> None:
    """Summaries behind a processor that moved would be made again, and runs see a change."""
    expected = {
        f"agentkit_py.processors.{module}.{name}"
        for module, names in KIND_IN_STORED_KEYS.items()
        for name in names
    }
    kinds = [getattr(processors, name) for name in processors.__all__]
    found = {f"{kind.__module__}.{kind.__qualname__}" for kind in filter(is_processor, kinds)}
    assert found == expected
    name = "agentkit_py.processors.tool_results.Deduplicate"
    assert name in dumps(settings_of(Deduplicate(reads=["read"])))


@pytest.mark.parametrize("processor", IDLE, ids=name_of)
@settings(max_examples=30)
@given(messages=valid_lists())
def test_a_processor_with_nothing_to_do_returns_the_very_list(
    processor: HistoryProcessor, messages: list[Message]
) -> None:
    """Identity, not equality, shows the next processor that nothing changed."""
    assert processed(processor, messages) is messages


def history(count: int, salt: str = "") -> list[Message]:
    """Turns with something for every processor."""
    messages: list[Message] = []
    for number in range(count):
        one = call(number, "read", path=f"{number % 7}.py")
        agent = "other" if number % 3 else "me"
        text = f"{number % 5} found {salt} " * 20
        messages += [
            user(f"{salt} {number} ada@example.com"),
            asked(one, agent=agent),
            gave(one, text, agent=agent),
            said(f"answer {number}", agent=agent),
        ]
    return messages


@pytest.mark.parametrize("make", BUSY, ids=name_of)
def test_messages_are_counted_once_in_all_runs_together(
    make: Callable[[], HistoryProcessor],
) -> None:
    """Messages that a processor makes are made once, so they are counted once, too."""
    messages = history(40, "once")
    counting = Counting()
    context = replace(CONTEXT, tokenizer=counting)
    chain = [make(), TokenLimiter(10**6, tokenizer=counting)]
    left(messages, *chain, context=context)
    again = len(counting.counted)
    left(messages, *chain, context=context)
    assert len(counting.counted) == again
    known = Counter(text_of(m) for m in messages)
    asked_for = Counter(text for text in counting.counted if text in known)
    assert not asked_for - known


def instructions(processor: Processor, turns: int, salt: str) -> int:
    """Return the number of bytecode instructions that a processor takes for so many turns.

    What only a first call does (loading modules) is not counted, nor what other tests left: to the
    collector (finalizers run in whatever thread allocates), and as tasks that a new loop looks at.
    """
    left(history(1, f"{salt} first"), processor)
    messages, counted = history(turns, salt), 0

    def seen(frame: FrameType, event: str, _: object) -> Any:
        nonlocal counted
        frame.f_trace_opcodes = True
        counted += event == "opcode"
        return seen

    async def count() -> None:
        before = sys.gettrace()
        sys.settrace(seen)
        try:
            await apply_processors(messages, [processor], CONTEXT)
        finally:
            sys.settrace(before)

    gc.collect()
    gc.disable()
    try:
        asyncio.run(count())
    finally:
        gc.enable()
    return counted


@pytest.mark.parametrize("make", BUSY, ids=name_of)
def test_eight_times_the_messages_take_about_eight_times_the_work(
    make: Callable[[], HistoryProcessor],
) -> None:
    """Instructions are counted, as a busy machine decides times; the square would be 64 times."""
    few = instructions(make(), 25, "few")
    assert instructions(make(), 200, "many") < 12 * few


def test_work_that_grows_with_the_square_is_found() -> None:
    """The count above can fail, by twice its bound: some work does not depend on the messages."""

    def square(messages: Sequence[Message]) -> Sequence[Message]:
        return [m for m in messages if all(m is one or id(m) != id(one) for one in messages)]

    few = instructions(square, 10, "few")
    assert instructions(square, 80, "many") > 24 * few


@given(valid_lists(), st.sampled_from(BUSY))
def test_a_whole_history_stays_whole_without_validitys_help(
    messages: list[Message], make: Callable[[], HistoryProcessor]
) -> None:
    """The given history is not changed."""
    before = list(messages)
    assert faults(list(left(messages, make()))) == []
    assert same(messages, before)


@given(any_lists, st.sampled_from(BUSY))
def test_processing_twice_changes_nothing_more(
    messages: list[Message], make: Callable[[], HistoryProcessor]
) -> None:
    """The list may be valid or not; the result can always be repaired."""
    once = left(messages, make())
    assert same(left(once, make()), once)
    assert faults(list(ensure_valid(once)[0])) == []


@given(valid_lists(), any_lists)
def test_pairs_of_a_whole_history_are_the_same_whatever_follows(
    messages: list[Message], more: list[Message]
) -> None:
    """A complete exchange does not depend on later messages."""
    pairs = pair([*messages, user("and?"), *more]).calls
    assert {r: c for r, c in pairs.items() if r < len(messages)} == pair(messages).calls
