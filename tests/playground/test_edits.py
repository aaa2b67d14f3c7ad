"""Which settings of a processor the page may edit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from agentkit_py import Message
from agentkit_py.errors import ConfigurationError
from agentkit_py.playground.edits import remade, settings_of
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
    ProcessorContext,
    RecentToolCalls,
    Redact,
    StripImages,
    Summarize,
    Threshold,
    TokenLimiter,
    ToolCallFilter,
    TruncateToolResults,
)
from agentkit_py.testing import ScriptedModel

KINDS: Sequence[tuple[HistoryProcessor, dict[str, Any]]] = [
    (Budget(context_window=9_000, method="estimate"), {"target": 0.5}),
    (ByAuthor(keep=["sales"]), {"keep": ["billing"]}),
    (Chain([MessageWindow(40)]), {}),
    (ClearToolResults(100, keep=2, clear_inputs=True), {"keep": 4}),
    (CompressToolResults(max_tokens=50), {"keep_recent": 1}),
    (Deduplicate(min_chars=10), {"min_chars": 20}),
    (DropUnanswered(), {}),
    (HandoffView(max_chars=60), {"results": False}),
    (KeepImages(last=2), {"files": True}),
    (MessageWindow(40), {"max_messages": 20}),
    (Pin(lambda message: message.type == "text"), {}),
    (RecentToolCalls(3, per_tool={"search": 1}), {"n": 2}),
    (Redact({"order": re.compile("WL-[0-9]+")}), {}),
    (StripImages(files=True), {"files": False}),
    (Summarize(ScriptedModel([]), upper=900, lower=400), {"upper": 800}),
    (Threshold(100, then=[MessageWindow(10)]), {"trigger": 90}),
    (TokenLimiter(100, encoding="cl100k_base"), {"limit": 90}),
    (TokenLimiter(100, use_tiktoken=False), {"limit": 90}),
    (TokenLimiter(100, tokenizer=len), {"limit": 90}),
    (ToolCallFilter(exclude=["search"], persist_results=True), {"exclude": ["find"]}),
    (TruncateToolResults(max_chars=10), {"max_chars": 20}),
]


@pytest.mark.parametrize(("processor", "changed"), KINDS, ids=lambda v: getattr(v, "name", ""))
def test_every_processor_of_the_library_keeps_its_other_settings(
    processor: HistoryProcessor, changed: dict[str, Any]
) -> None:
    """A processor that is made again with one other setting has all others as they were."""
    before = settings_of(processor)
    after = settings_of(remade(processor, changed))
    assert not before.missing
    assert after.shown == {**before.shown, **changed}
    assert after.others == before.others


class Forgetful(HistoryProcessor):
    """Uses its argument and does not keep it."""

    def __init__(self, shortest: int, words: int = 3) -> None:
        self.shortest = shortest
        self._few = words * 2

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """Leaves all as it is."""
        return messages


def test_a_processor_that_forgets_an_argument_is_not_made_again() -> None:
    """Made with the default of what it forgot, it would do something else without a word."""
    with pytest.raises(ConfigurationError, match=r"does not keep .*words"):
        remade(Forgetful(1, words=9), {"shortest": 2})
