"""Stores give back whatever a run can produce."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentkit_py.history.runs import RunRecord
from agentkit_py.messages import (
    ReasoningMessage,
    TextContent,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
    Usage,
)
from agentkit_py.processors.base import Summary
from agentkit_py.results import AgentResult
from agentkit_py.stores import HistoryStore, MemoryHistory, PostgresHistory, SqliteHistory
from agentkit_py.stores.interchange import ExportFormat, export_threads, import_threads
from agentkit_py.stores.thread_data import ThreadData, restore


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
    """Assert that the saved results are found once and in order."""
    expected = [result for batch in batches for result in batch]
    assert asyncio.run(save_and_load(store, batches)) == (expected, expected)


def numbered(batches: list[list[AgentResult]]) -> list[list[AgentResult]]:
    """Return the results with an id on every second one."""
    number = count()
    return [
        [replace(result, id=f"r{n}") if (n := next(number)) % 2 else result for result in batch]
        for batch in batches
    ]


@settings(max_examples=50)
@given(threads.map(numbered))
def test_memory_returns_the_stored_results(batches: list[list[AgentResult]]) -> None:
    """Any results."""
    check_round_trip(MemoryHistory(), batches)


@settings(max_examples=30)
@given(threads.map(numbered))
def test_sqlite_returns_the_stored_results(batches: list[list[AgentResult]]) -> None:
    """Any results."""
    with TemporaryDirectory() as folder:
        check_round_trip(SqliteHistory(Path(folder) / "threads.db"), batches)


names = st.text(min_size=1, max_size=5)
utc = st.integers(0, 10**17).map(lambda n: moment(n, 0))
whole = st.integers(0, 2**40)
summaries = st.builds(
    Summary,
    text=st.text(),
    covered=whole,
    anchor=st.text("0123456789abcdef"),
    tokens=whole,
    original_tokens=whole,
    created_at=utc,
    place=st.none() | whole,
)
runs = st.builds(
    RunRecord,
    id=names,
    status=st.sampled_from(["completed", "failed"]),
    state=st.none() | objects,
    stop_reason=st.none() | st.text(),
    results=st.lists(st.text(), max_size=2).map(tuple),
)
floats = st.floats(-1, 1, width=32)
vectors = st.dictionaries(names, st.lists(floats, min_size=2, max_size=2), max_size=2)
thread_data = st.builds(
    ThreadData,
    summaries=st.dictionaries(names, summaries, max_size=2),
    runs=st.lists(runs, max_size=2, unique_by=lambda run: run.id).map(tuple),
    vectors=st.dictionaries(names, vectors, max_size=2),
)
stored = st.fixed_dictionaries(
    {
        "user_id": st.none() | names,
        "title": st.text(),
        "metadata": objects,
        "times": st.tuples(utc, utc),
        "results": threads.map(numbered).map(
            lambda batches: [one for batch in batches for one in batch]
        ),
        "beside": thread_data,
    }
)
archives = st.dictionaries(names, stored, max_size=2)


async def everything(store: HistoryStore) -> dict[str, Any]:
    """All threads with all that is theirs."""
    return {
        info.id: (
            info,
            await store.stored_results(info.id),
            (await store.thread_data(info.id)).to_dict(),
        )
        for info in await store.list_threads(None)
    }


async def go_round(
    store: HistoryStore, other: HistoryStore, given: dict[str, Any], form: ExportFormat
) -> None:
    """Fill a store, export it, import that into another and that again, and compare."""
    for one in (store, other):
        for info in await one.list_threads(None):
            await one.delete_thread(info.id)
    for thread, facts in given.items():
        await store.add_thread(
            thread, user_id=facts["user_id"], title=facts["title"], metadata=facts["metadata"]
        )
        await store.append(thread, facts["results"])
        await restore(store, thread, facts["beside"])
        await store.set_times(thread, *facts["times"])
    threads = await store.list_threads(None)
    lines = [line async for line in export_threads(store, threads, form)]
    await import_threads(other, lines)
    expected = await everything(store)
    assert expected.keys() == given.keys()
    assert await everything(other) == expected


@pytest.mark.parametrize("form", ["archive", "openai", "typescript"])
@settings(max_examples=25)
@given(archives)
def test_export_and_import_of_memory_lose_nothing(
    form: ExportFormat, given: dict[str, Any]
) -> None:
    """Threads, results, times, summaries, runs with their state, vectors."""
    asyncio.run(go_round(MemoryHistory(), MemoryHistory(), given, form))


@pytest.mark.parametrize("form", ["archive", "openai", "typescript"])
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(archives)
def test_export_and_import_of_databases_lose_nothing(
    postgres_url: str, postgres_schema: str, form: ExportFormat, given: dict[str, Any]
) -> None:
    """The data goes from SQLite to PostgreSQL and back."""

    async def there_and_back(folder: str) -> None:
        path = Path(folder) / "threads.db"
        postgres = PostgresHistory(postgres_url, schema=postgres_schema, connections=2)
        async with SqliteHistory(path) as sqlite, postgres:
            await go_round(sqlite, postgres, given, form)
            await go_round(postgres, sqlite, given, form)

    with TemporaryDirectory() as folder:
        asyncio.run(there_and_back(folder))
