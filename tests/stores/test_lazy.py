"""Loading a part of a thread gives the model what loading all of it would."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit_py import Agent, AgentResult, Network, openai
from agentkit_py.errors import ThreadNotFoundError
from agentkit_py.history.config import HistoryContext
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
from agentkit_py.models import Model
from agentkit_py.processors import (
    ApproximateTokenizer,
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
    Recall,
    RecentToolCalls,
    Redact,
    StripImages,
    Summarize,
    Threshold,
    TokenLimiter,
    ToolCallFilter,
    TruncateToolResults,
)
from agentkit_py.processors.apply import as_processor
from agentkit_py.stores import HistoryStore, MemoryHistory, StoredResult, for_user
from agentkit_py.testing import HashingEmbedder, ScriptedModel

LENGTH = 400

CATCHING_UP = 25
"""Turns after which a summary, which gets two pieces in each, has all of a thread."""


class Counting(MemoryHistory):
    """Counts what is read."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.read = 0

    async def page(self, thread_id: str, before: int, limit: int) -> list[StoredResult]:
        found = await super().page(thread_id, before, limit)
        self.read += len(found)
        return found

    async def newest(self, thread_id: str, limit: int) -> tuple[int, list[StoredResult]]:
        count, found = await super().newest(thread_id, limit)
        self.read += len(found)
        return count, found


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


async def seen(
    store: HistoryStore, processors: Sequence[HistoryProcessor], seed: int, turns: int = 1
) -> Any:
    """Return the messages that the model is sent in some turns on a long thread."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    thread = f"t{seed}"
    await store.delete_thread(thread)
    await store.add_thread(thread)
    await store.append(thread, [result(number, rng) for number in range(LENGTH)])
    agent = Agent(
        name="desk",
        system="S",
        model=ScriptedModel(*["hello"] * turns),
        history=store,
        processors=processors,
        token_counter=ApproximateTokenizer(),
    )
    found = [await agent.run("hi" * 99, thread_id=thread) for _ in range(turns)]
    return [(one.prompt, one.history) for one in found]


def summary(body: dict[str, Any]) -> str:
    """A summary that tells whether the same was to be summarised."""
    return f"Summary {sum(map(ord, str(body['messages']))) % 1000}"


def summaries() -> Model:
    """A model that makes them, however many are wanted."""
    made = openai("gpt-4o", api_key="sk-test")

    async def answer(body: dict[str, Any]) -> object:
        message = {"role": "assistant", "content": summary(body)}
        return {"choices": [{"message": message, "finish_reason": "stop"}]}

    return replace(made, answers=answer)


bounding: list[HistoryProcessor] = [
    *(TokenLimiter(n) for n in (60, 500, 5000)),
    MessageWindow(1),
    MessageWindow(40),
    MessageWindow(100, lower=99),
    Budget(4000),
    Budget(1500, compress_tool_output=False),
    Budget(4000, method="estimate", summary=0.2),
    Budget(4000, model=summaries()),
    Summarize(summaries(), 1500, 900),
    Summarize(summaries(), 700, 200, keep_recent=4),
    Recall(HashingEmbedder(16), 2, keep_recent=9, most_turns=14),
    Recall(HashingEmbedder(16), 2, window=[ToolCallFilter(), MessageWindow(20)], most_turns=5),
    Recall(HashingEmbedder(16), 3, window=[TokenLimiter(300)], most_turns=20, neighbours=0),
]
passing: list[HistoryProcessor] = [
    TokenLimiter(10**6),
    Budget(10**6),
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
    Pin(lambda message: message.type == "text" and message.text.startswith("qqqqq")),
    Chain([StripImages(), MessageWindow(40), ToolCallFilter(exclude=["pay"])]),
    Threshold(500, then=[TokenLimiter(400), Chain([Deduplicate()])], min_messages=60),
    ClearToolResults(300, 2),
    Deduplicate(),
    Redact(["email"]),
    Recall(HashingEmbedder(16), 2, keep_recent=9, most_turns=10**6),
    as_processor(lambda messages: [*messages[:2], *messages[-9:]]),
]
chains = st.lists(st.sampled_from([*passing, *bounding]), max_size=4)


@settings(max_examples=15)
@given(chains, st.integers(0, 10**6))
def test_a_lazy_store_shows_a_model_the_same_as_an_eager_store(
    chain: list[HistoryProcessor], seed: int
) -> None:
    """Loading must not change the input for any processors, in any order."""
    lazy = asyncio.run(seen(MemoryHistory(), chain, seed, 3))
    assert lazy == asyncio.run(seen(MemoryHistory(lazy=False), chain, seed, 3))


@pytest.mark.parametrize("bound", bounding, ids=repr)
async def test_each_database_shows_the_same_as_loading_all(
    store: HistoryStore, bound: HistoryProcessor
) -> None:
    """This holds after a first turn that made a summary, too."""
    chain = [ToolCallFilter(exclude=["pay"]), bound]
    lazy = await seen(store, chain, 5, 3)
    assert lazy == await seen(MemoryHistory(lazy=False), chain, 5, 3)


def _sums_up(bound: HistoryProcessor) -> bool:
    return isinstance(bound, Summarize | Budget)


@pytest.mark.parametrize("bound", bounding, ids=repr)
async def test_a_processor_that_needs_no_more_says_so(bound: HistoryProcessor) -> None:
    """A summary that is not whole yet needs everything, for a few turns."""
    store = Counting()
    await seen(store, [bound], 7, 1)
    first = store.read
    agent = Agent(
        name="desk",
        system="S",
        model=ScriptedModel(*["hello"] * CATCHING_UP),
        history=store,
        processors=[bound],
        token_counter=ApproximateTokenizer(),
    )
    for _ in range(CATCHING_UP if _sums_up(bound) else 1):
        store.read = 0
        await agent.run("hi", thread_id="t7")
        if store.read < LENGTH // 2:
            break
    assert store.read <= first
    assert store.read <= 7 * FIRST_PAGE < LENGTH


async def test_results_loaded_later_are_in_the_state_too() -> None:
    """It takes its place before the run's own entries, like with eager loading."""
    store = MemoryHistory()
    await seen(store, [], 3)
    agent = Agent(name="desk", system="S", model=ScriptedModel("hello"))
    network = Network(name="n", agents=[agent], max_iter=1, history=store, router=lambda c: agent)
    run = await network.run("hi", thread_id="t3")
    assert [r.id for r in run.state.transcript] == [r.id for r in await store.load("t3")]
    assert [r.text for r in run.results] == ["hello"]


async def test_no_more_is_read_than_the_processors_want() -> None:
    """Processors that do not look back pass the question on to the next."""
    passing_on = [Redact(["email"]), RecentToolCalls(3), StripImages()]
    for chain in ([TokenLimiter(60)], [*passing_on, TokenLimiter(60)]):
        store = Counting()
        await seen(store, chain, 1)
        assert store.read == FIRST_PAGE


class Watched(MemoryHistory):
    """Does something of its own whenever a run asks for its thread."""

    asked = 0

    async def add_thread(self, thread_id: str | None = None, **options: Any) -> str:
        self.asked += 1
        return await super().add_thread(thread_id, **options)


async def test_a_store_that_makes_threads_in_its_own_way_is_asked_in_each_run() -> None:
    """Only the library's own way looks for a thread by loading it."""
    store, plain = Watched(), MemoryHistory()
    hooks: list[str | None] = []
    made = plain.create_thread
    assert made is not None

    def create(context: HistoryContext) -> Any:
        hooks.append(context.thread_id)
        return made(context)

    plain.create_thread = create
    for history in (store, plain):
        agent = Agent(
            name="desk", system="S", model=ScriptedModel("hello", "hello"), history=history
        )
        await agent.run("hi", thread_id="t")
        await agent.run("hi", thread_id="t")
    assert store.asked == 2
    assert hooks == ["t", "t"]


async def test_a_run_on_the_thread_of_another_user_is_refused(store: HistoryStore) -> None:
    """This holds for lazy loading, too."""
    await store.add_thread("t", user_id="ada")
    for user, count in (("ada", 2), ("bob", 2)):
        seen = for_user(store, user)
        agent = Agent(name="desk", system="S", model=ScriptedModel("hello"), history=seen)
        with suppress(ThreadNotFoundError):
            await agent.run("hi", thread_id="t")
        assert await store.count_results("t") == count


class Silent(HistoryProcessor):
    """Says nothing of how far it looks."""

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        del context
        return list(islice(messages, 5))


async def test_a_processor_that_says_nothing_gets_everything() -> None:
    """A model without processors gets everything, too."""
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
