"""Growth: Recall and Summarize ask the same in a turn, however long a thread is new to them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from agentkit_py import Agent, AgentResult, Network, SqliteHistory
from agentkit_py.errors import ProcessorError
from agentkit_py.messages import TextMessage
from agentkit_py.network import index_thread
from agentkit_py.processors import ApproximateTokenizer, Recall, Summarize
from agentkit_py.routing import once
from agentkit_py.testing import HashingEmbedder
from tests.growth.counting import CountedStore
from tests.processors.replies import Answers, down

SHORT, LONG = 400, 4000
"""Messages of a thread."""


class CountedEmbedder(HashingEmbedder):
    """Counts its calls, the one for the question included."""

    calls = 0

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the vectors."""
        self.calls += 1
        return await super().embed(texts)


async def _filled(path: Path, messages: int) -> SqliteHistory:
    store = SqliteHistory(path)
    await _fill(store, messages)
    return store


async def _fill(store: SqliteHistory, messages: int) -> None:
    await store.add_thread("t")
    said = [AgentResult.from_user(f"Hat {n}?", id=f"q{n}") for n in range(messages // 2)]
    turns = [
        result
        for n, asked in enumerate(said)
        for result in (asked, AgentResult("clerk", [TextMessage("assistant", f"Yes, hat {n}.")]))
    ]
    await store.append("t", turns)


def _recalling(embedder: HashingEmbedder, store: SqliteHistory, most_turns: int = 800) -> Agent:
    return Agent(
        name="clerk",
        system="You sell hats.",
        model=Answers().model,
        processors=[Recall(embedder, 2, keep_recent=4, most_turns=most_turns)],
        history=store,
    )


@pytest.mark.parametrize("messages", [SHORT, LONG])
async def test_a_turn_with_recall_makes_two_calls_to_catch_up(
    tmp_path: Path, messages: int
) -> None:
    """The newest turns have vectors first; the report says how many have none yet."""
    store, embedder = await _filled(tmp_path / "t.db", messages), CountedEmbedder()
    clerk = _recalling(embedder, store)
    result = await clerk.run("Which hat was it?", thread_id="t")
    assert embedder.calls == 3
    assert len(embedder.texts) == 129
    assert f"Hat {messages // 2 - 20}?" in "".join(embedder.texts)
    assert "Hat 0?" not in "".join(embedder.texts)
    assert result.context is not None
    assert "older turns have no vectors yet" in result.context.entries[0].reason
    await store.close()


async def test_a_thread_that_was_indexed_leaves_one_call_to_a_turn(tmp_path: Path) -> None:
    """The question's own."""
    store, embedder = await _filled(tmp_path / "t.db", SHORT), CountedEmbedder()
    clerk = _recalling(embedder, store)
    await index_thread(clerk, "t")
    assert embedder.calls == -(-(SHORT // 2 - 2) // 64)
    assert await store.count_results("t") == SHORT
    embedder.calls = 0
    result = await clerk.run("Which hat was it?", thread_id="t")
    assert embedder.calls == 1
    assert result.context is not None
    assert "vectors" not in result.context.entries[0].reason
    await store.close()


async def test_a_turn_with_recall_reads_no_more_of_a_longer_thread(tmp_path: Path) -> None:
    """Nor is more of it embedded when it is indexed; the report says how much was searched."""
    rows: list[int] = []
    for messages in (SHORT, 4 * SHORT, 16 * SHORT):
        store, embedder = CountedStore(tmp_path / f"{messages}.db"), CountedEmbedder()
        await _fill(store, messages)
        clerk = _recalling(embedder, store, most_turns=SHORT // 4)
        await index_thread(clerk, "t")
        assert len(embedder.texts) == SHORT // 4
        store.counts.reset()
        result = await clerk.run("Which hat was it?", thread_id="t")
        rows.append(store.counts.rows)
        assert result.context is not None
        assert "newest 100 that are left out" in result.context.entries[0].reason
        await store.close()
    assert rows[0] > SHORT // 2
    assert rows[1] == rows[2] <= 2 * rows[0]


async def test_several_results_are_appended_at_the_same_cost_to_a_longer_thread(
    tmp_path: Path,
) -> None:
    """Counted in instructions of SQLite's machine: those that are there are sought by their ids."""
    steps: list[int] = []
    for messages in (SHORT, LONG):
        store = CountedStore(tmp_path / f"{messages}.db")
        await _fill(store, messages)
        store.counts.reset()
        await store.append(
            "t", [AgentResult.from_user(f"Hat {n}?", id=f"new{n}") for n in range(5)]
        )
        steps.append(store.counts.steps)
        assert await store.count_results("t") == messages + 5
        await store.close()
    assert steps[1] < 1.1 * steps[0] + 100


def _summarising(writer: Answers, store: SqliteHistory) -> Network:
    clerk = Agent(
        name="clerk",
        system="You sell hats.",
        model=Answers().model,
        processors=[Summarize(writer.model, 300, 200, summary_tokens=50)],
        token_counter=ApproximateTokenizer(chars_per_token=4),
    )
    router = once("clerk")
    return Network(name="shop", agents=[clerk], router=router, history=store)


@pytest.mark.parametrize("messages", [SHORT, LONG])
async def test_a_turn_with_summarize_asks_twice(tmp_path: Path, messages: int) -> None:
    """Of a thread that has no summary yet, later turns take in the rest."""
    store, writer = await _filled(tmp_path / "t.db", messages), Answers("Hats.")
    await _summarising(writer, store).run("Which hat was it?", thread_id="t")
    assert writer.asked == 2
    await store.close()


async def test_a_thread_that_was_indexed_has_its_whole_summary(tmp_path: Path) -> None:
    """The next turn asks for none."""
    store, writer = await _filled(tmp_path / "t.db", SHORT), Answers("Hats.")
    shop = _summarising(writer, store)
    await index_thread(shop, "t")
    asked = writer.asked
    assert asked == 4
    await shop.run("Which hat was it?", thread_id="t")
    assert writer.asked == asked
    summary = await store.load_summary("t", "agent:clerk")
    assert summary is not None
    assert summary.covered > SHORT // 2
    await store.close()


class Down(HashingEmbedder):
    """An embedder that cannot be reached after its first call."""

    calls = 0

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return vectors once."""
        self.calls += 1
        if self.calls > 1:
            down({})
        return await super().embed(texts)


async def test_messages_that_cannot_be_indexed_are_an_error(tmp_path: Path) -> None:
    """Entries made before stay; a run would only have noted the error."""
    store = await _filled(tmp_path / "t.db", SHORT)
    with pytest.raises(ProcessorError, match="overloaded"):
        await index_thread(_recalling(Down(), store), "t")
    embedder = CountedEmbedder()
    await index_thread(_recalling(embedder, store), "t")
    assert len(embedder.texts) == SHORT // 2 - 2 - 64

    with pytest.raises(ProcessorError, match="no new summary"):
        await index_thread(_summarising(Answers(down), store), "t")
    await store.close()
