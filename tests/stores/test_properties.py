"""Whatever a run can produce, a store gives back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit_py.history.result import AgentResult
from agentkit_py.messages import (
    ReasoningMessage,
    TextContent,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
)
from agentkit_py.models.base import Usage
from agentkit_py.stores import HistoryStore, MemoryHistory, SqliteHistory


def one_by_one(text: str) -> str:
    """The text with two halves of a surrogate pair in a row made the character that they mean."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


texts = st.text(st.characters(codec=None, exclude_categories=())).map(one_by_one)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
jsons: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts, jsons, max_size=3)
common: dict[str, Any] = {
    "stop_reason": st.sampled_from([None, "tool", "stop"]),
    "agent": st.none() | texts,
    "provider_metadata": st.none() | objects,
}
parts = st.lists(st.builds(TextContent, texts), max_size=3).map(tuple)
roles: Any = st.sampled_from(["system", "user", "assistant"])
# Few ids, so that they repeat; providers give empty ones too.
call_ids = st.sampled_from(["", "call-1", "call-2"])
calls = st.builds(ToolCall, call_ids, texts, jsons, st.none() | texts, st.none() | objects)
tool_results = st.builds(ToolResultMessage, calls, jsons, **common)
messages = (
    st.builds(TextMessage, roles, texts | parts, **common)
    | st.builds(ToolCallMessage, st.lists(calls, max_size=3).map(tuple), **common)
    | tool_results
    | st.builds(ReasoningMessage, texts, **common)
)
tokens = st.integers(0, 2**40)


def moment(microseconds: int, zone: int) -> datetime:
    """A time some microseconds after 2000, as a clock some hours off Greenwich shows it."""
    offset = timezone(timedelta(hours=zone))
    return datetime(2000, 1, 1, tzinfo=offset) + timedelta(microseconds=microseconds)


times = st.builds(moment, st.integers(0, 10**17), st.integers(-12, 14))
results = st.builds(
    AgentResult,
    texts,
    st.lists(messages, max_size=4),
    st.lists(tool_results, max_size=3),
    times,
    usage=st.none() | st.builds(Usage, tokens, tokens, tokens, tokens),
)
threads = st.lists(st.lists(results, max_size=3), max_size=3)


async def save_and_load(
    store: HistoryStore, batches: list[list[AgentResult]]
) -> tuple[list[AgentResult], list[AgentResult]]:
    """The thread as another reader finds it, and the same after saving everything again."""
    async with store:
        await store.add_thread("t")
        for batch in batches:
            await store.append("t", batch)
        found = await store.load("t")
        await store.append("t", [result for result in found if result.id is not None])
        return found, await store.load("t")


def check_round_trip(store: HistoryStore, batches: list[list[AgentResult]]) -> None:
    """What was saved is found, once, in order."""
    expected = [result for batch in batches for result in batch]
    assert asyncio.run(save_and_load(store, batches)) == (expected, expected)


def numbered(batches: list[list[AgentResult]]) -> list[list[AgentResult]]:
    """The same with an id on every second result."""
    number = count()
    return [
        [replace(result, id=f"r{n}") if (n := next(number)) % 2 else result for result in batch]
        for batch in batches
    ]


@settings(max_examples=50)
@given(threads.map(numbered))
def test_memory_gives_back_what_it_got(batches: list[list[AgentResult]]) -> None:
    """Whatever it is."""
    check_round_trip(MemoryHistory(), batches)


@settings(max_examples=30)
@given(threads.map(numbered))
def test_sqlite_gives_back_what_it_got(batches: list[list[AgentResult]]) -> None:
    """Whatever it is."""
    with TemporaryDirectory() as folder:
        check_round_trip(SqliteHistory(Path(folder) / "threads.db"), batches)
