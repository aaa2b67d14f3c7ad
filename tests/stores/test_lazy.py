"""Loading a part of a thread gives the model what loading all of it would."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from itertools import islice
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit_py import Agent, AgentResult
from agentkit_py.history.paging import FIRST_PAGE
from agentkit_py.messages import (
    ImageContent,
    Message,
    ReasoningMessage,
    TextContent,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
    token_memo,
)
from agentkit_py.processors import (
    ApproximateTokenizer,
    ByAuthor,
    CompressToolResults,
    DropUnanswered,
    HandoffView,
    HistoryProcessor,
    KeepImages,
    MessageWindow,
    Pin,
    ProcessorContext,
    RecentToolCalls,
    StripImages,
    TokenLimiter,
    ToolCallFilter,
    TruncateToolResults,
)
from agentkit_py.stores import HistoryStore, MemoryHistory, StoredResult
from agentkit_py.testing import ScriptedModel

LENGTH = 10 * FIRST_PAGE


class Counting(MemoryHistory):
    """Counts what is read."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.read = 0

    async def page(self, thread_id: str, before: int, limit: int) -> list[StoredResult]:
        found = await super().page(thread_id, before, limit)
        self.read += len(found)
        return found


def result(number: int, rng: random.Random) -> AgentResult:
    """Any kind of result, calls with odd ids among them."""
    if number % 3 == 0:
        picture = rng.random() < 0.2
        parts = (TextContent("look"), ImageContent(url="https://x.test/a.png"))
        return AgentResult.from_user(
            parts if picture else "q" * rng.randrange(1, 60), id=f"r{number}"
        )
    author = rng.choice(["desk", "other"])
    output: list[Message] = [TextMessage("assistant", "a" * rng.randrange(1, 90))]
    if rng.random() < 0.3:
        output.insert(0, ReasoningMessage("hm"))
    calls = [
        ToolCall(rng.choice(["", "1", "2"]), rng.choice(["search", "pay"]), {"n": number})
        for _ in range(rng.randrange(3))
    ]
    if calls:
        output.append(ToolCallMessage(tuple(calls)))
    done = [ToolResultMessage(call, {"data": "d" * rng.randrange(300)}) for call in calls]
    return AgentResult(author, output, done, id=f"r{number}")


async def seen(store: HistoryStore, processors: Sequence[HistoryProcessor], seed: int) -> Any:
    """What the model is sent in a turn on a long thread."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    await store.add_thread("t")
    await store.append("t", [result(number, rng) for number in range(LENGTH)])
    agent = Agent(
        name="desk",
        system="S",
        model=ScriptedModel("hello"),
        history=store,
        processors=processors,
        token_counter=ApproximateTokenizer(),
    )
    found = await agent.run("hi", thread_id="t")
    return found.prompt, found.history


bounding: list[HistoryProcessor] = [TokenLimiter(n) for n in (60, 500, 5000, 10**6)]
passing: list[HistoryProcessor] = [
    RecentToolCalls(0),
    RecentToolCalls(3),
    RecentToolCalls(per_tool={"pay": 1}),
    ToolCallFilter(),
    ToolCallFilter(exclude=["pay"]),
    ByAuthor(keep=["desk"]),
    HandoffView(),
    KeepImages(2),
    StripImages(),
    DropUnanswered(),
    TruncateToolResults(100),
    CompressToolResults(max_tokens=30),
    MessageWindow(40),
    Pin(lambda message: message.type == "text" and message.text.startswith("qqqqq")),
]
chains = st.lists(st.sampled_from([*passing, *bounding]), max_size=4)


@settings(max_examples=60)
@given(chains, st.integers(0, 10**6))
def test_a_lazy_store_shows_a_model_what_an_eager_one_does(
    chain: list[HistoryProcessor], seed: int
) -> None:
    """Whatever processors there are, in any order."""
    lazy = asyncio.run(seen(MemoryHistory(lazy=True), chain, seed))
    assert lazy == asyncio.run(seen(MemoryHistory(), chain, seed))


async def test_no_more_is_read_than_the_processors_want() -> None:
    """Processors that do not look back pass the question on to the next."""
    for chain in ([TokenLimiter(60)], [RecentToolCalls(3), StripImages(), TokenLimiter(60)]):
        store = Counting(lazy=True)
        await seen(store, chain, 1)
        assert store.read == FIRST_PAGE


class Silent(HistoryProcessor):
    """Says nothing of how far it looks."""

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        del context
        return list(islice(messages, 5))


async def test_a_processor_that_says_nothing_gets_everything() -> None:
    """So does a model that nothing is kept from."""
    for chain in ([], [Silent()], [Silent(), TokenLimiter(60)], [RecentToolCalls(3)]):
        store = Counting(lazy=True)
        await seen(store, chain, 1)
        assert store.read == LENGTH


async def test_counts_of_tokens_come_from_the_store() -> None:
    """A lazy store counts when it saves, so that loading need not."""
    store = MemoryHistory(lazy=True)
    agent = Agent(name="desk", system="S", model=ScriptedModel("hello"), history=store)
    await agent.run("hi", thread_id="t")
    for message in await store.messages("t"):
        assert token_memo(message)
