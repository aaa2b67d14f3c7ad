"""What stores keep beside threads: summaries with their lock, and vectors."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from psycopg import sql

from agentkit_py import AgentResult
from agentkit_py.errors import ConfigurationError
from agentkit_py.processors import Summary, SummaryStore, VectorIndex
from agentkit_py.processors.base import Extent
from agentkit_py.stores import HistoryStore, PostgresHistory, SqliteHistory, _pg_schema
from agentkit_py.stores._sqlite_schema import APPLICATION_ID, MIGRATIONS

RECORD = (
    '{"agentName":"user","output":[{"type":"text","role":"user","content":"Hello"}],'
    '"toolCalls":[],"createdAt":"2026-01-01T00:00:00.000Z","id":"m"}'
)

SUMMARY = Summary(
    text="They spoke of “parcels”.\n\0",
    covered=40,
    anchor="00ff",
    tokens=7,
    original_tokens=4000,
    created_at=datetime(2026, 11, 20, 10, 30, 1, 5, UTC),
)


async def test_a_summary_is_kept_by_thread_and_key(store: Any) -> None:
    """As it was, and only for whoever has the right to write."""
    assert isinstance(cast("object", store), SummaryStore)
    await store.add_thread("t")
    await store.add_thread("u")
    assert await store.load_summary("t", "thread") is None
    assert not await store.save_summary("t", "thread", SUMMARY, "nobody")
    assert await store.lock_summary("t", "thread", "me", 60)
    assert await store.load_summary("t", "thread") is None
    plain = replace(SUMMARY, text="They spoke of “parcels”.")
    assert await store.save_summary("t", "thread", plain, "me")
    assert await store.load_summary("t", "thread") == plain
    assert await store.load_summary("t", "agent:one") is None
    assert await store.load_summary("u", "thread") is None


async def test_one_writer_at_a_time(store: Any) -> None:
    """Asking again is allowed; saving and unlocking give the right back."""
    await store.add_thread("t")
    assert await store.lock_summary("t", "k", "one", 60)
    assert await store.lock_summary("t", "k", "one", 60)
    assert not await store.lock_summary("t", "k", "two", 60)
    assert await store.lock_summary("t", "other", "two", 60)
    await store.unlock_summary("t", "k", "two")
    assert not await store.lock_summary("t", "k", "two", 60)
    await store.unlock_summary("t", "k", "one")
    assert await store.lock_summary("t", "k", "two", 60)
    assert not await store.save_summary("t", "k", replace(SUMMARY, text="one"), "one")
    assert await store.save_summary("t", "k", replace(SUMMARY, text="two"), "two")
    assert await store.lock_summary("t", "k", "one", 60)


async def test_a_lock_ends_by_itself(store: Any) -> None:
    """A run that died does not keep others from writing; if it comes back, it has lost."""
    await store.add_thread("t")
    assert await store.lock_summary("t", "k", "dead", 0)
    assert await store.lock_summary("t", "k", "next", 60)
    assert not await store.save_summary("t", "k", replace(SUMMARY, text="x"), "dead")


async def test_of_many_at_once_one_gets_the_lock(store: Any) -> None:
    """Whoever they are."""
    await store.add_thread("t")
    asked = [store.lock_summary("t", "k", f"owner {n}", 60) for n in range(8)]
    assert sum(await asyncio.gather(*asked)) == 1


async def test_what_is_beside_a_thread_goes_with_it(store: Any) -> None:
    """A thread that is made anew under the same id begins without."""
    await store.add_thread("t")
    await store.lock_summary("t", "k", "me", 60)
    await store.save_summary("t", "k", replace(SUMMARY, text="x"), "me")
    await store.add_vectors("t", "e", {"a": [1.0, 0.0]})
    await store.delete_thread("t")
    await store.add_thread("t")
    assert await store.load_summary("t", "k") is None
    assert await store.missing_vectors("t", "e", ["a"]) == ["a"]


async def test_the_nearest_vectors_are_found_best_first(store: Any) -> None:
    """Of the ids that are asked for, however long the vectors are."""
    assert isinstance(cast("object", store), VectorIndex)
    vectors = {"east": [2.0, 0.0], "north": [0.0, 3.0], "northeast": [1.0, 1.0], "null": [0.0, 0.0]}
    await store.add_vectors("t", "e", vectors)
    ids = ["east", "north", "northeast", "null", "unknown"]
    found = await store.nearest_vectors("t", "e", [5.0, 0.1], ids, 2)
    assert [one for one, _ in found] == ["east", "northeast"]
    assert found[0][1] == pytest.approx(1, abs=1e-3)
    found = await store.nearest_vectors("t", "e", [5.0, 0.1], ["north"], 2)
    assert [one for one, _ in found] == ["north"]
    assert await store.nearest_vectors("t", "other", [1.0, 0.0], ids, 2) == []


async def test_vectors_stay_as_they_were_added_first(store: Any) -> None:
    """An id names what was embedded, so it cannot change."""
    await store.add_vectors("t", "e", {"a": [1.0, 0.0]})
    await store.add_vectors("t", "e", {"a": [0.0, 1.0], "b": [0.0, 1.0]})
    assert await store.missing_vectors("t", "e", ["c", "a", "b"]) == ["c"]
    ((best, likeness), *_) = await store.nearest_vectors("t", "e", [1.0, 0.0], ["a"], 1)
    assert (best, likeness) == ("a", pytest.approx(1))


async def test_vectors_of_different_lengths_are_an_error(store: Any) -> None:
    """Two models under one key would give nonsense."""
    await store.add_vectors("t", "e", {"a": [1.0, 0.0]})
    with pytest.raises(ConfigurationError, match="its own key"):
        await store.nearest_vectors("t", "e", [1.0, 0.0, 0.0], ["a"], 1)


async def test_what_is_no_vector_is_an_error(store: Any) -> None:
    """Before anything is kept."""
    with pytest.raises(ConfigurationError, match="no vector"):
        await store.add_vectors("t", "e", {"a": ["x"]})


async def says_where_it_is(store: HistoryStore) -> None:
    """What was stored before that was counted is counted."""
    info = await store.get_thread("t")
    assert (info.results, info.messages) == (1, 1)
    await store.append("t", [AgentResult.from_user("more", id="m2")])
    count, (first, second) = await store.newest("t", 5)
    assert (count, first.before, second.before) == (2, Extent(), Extent(1, len("Hello")))


async def test_tables_of_the_first_version_are_brought_forward(
    postgres_url: str, postgres_schema: str
) -> None:
    """The same in PostgreSQL."""
    tables = _pg_schema.Tables(postgres_schema, "agentkit_")
    time = "2026-01-01T00:00:00Z"
    with psycopg.connect(postgres_url, autocommit=True) as old:
        old.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(postgres_schema)))
        old.execute(tables.query("CREATE TABLE {version} (version integer NOT NULL)"))
        old.execute(tables.query("INSERT INTO {version} VALUES (1)"))
        for statement in _pg_schema.MIGRATIONS[0]:
            assert not callable(statement)
            old.execute(tables.query(statement))
        old.execute(
            tables.query(
                "INSERT INTO {threads} (id, title, metadata, results, created_at, updated_at) "
                "VALUES ('t', 'Hello', '{{}}', 1, %s, %s)"
            ),
            (time, time),
        )
        old.execute(
            tables.query("INSERT INTO {results} VALUES ('t', 0, 'm', 'user', %s, %s, NULL, NULL)"),
            (time, RECORD),
        )
    async with PostgresHistory(postgres_url, schema=postgres_schema, connections=2) as store:
        await says_where_it_is(store)


async def test_a_file_of_the_first_version_is_brought_forward(tmp_path: Path) -> None:
    """Its threads stay, and what is kept beside them has a place."""
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as old, old:
        for statement in MIGRATIONS[0]:
            assert isinstance(statement, str)
            old.execute(statement)
        old.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        old.execute("PRAGMA user_version = 1")
        time = "2026-01-01T00:00:00.000000Z"
        old.execute("INSERT INTO threads VALUES ('t', NULL, 'Hello', '{}', ?, ?)", (time, time))
        old.execute("INSERT INTO results VALUES ('t', 0, 'm', 'user', ?, ?, NULL)", (time, RECORD))
    async with SqliteHistory(path) as store:
        (result,) = await store.load("t")
        assert result.messages[0].type == "text"
        await says_where_it_is(store)
        assert await store.lock_summary("t", "thread", "me", 60)
        summary = replace(SUMMARY, text="x")
        assert await store.save_summary("t", "thread", summary, "me")
        await store.add_vectors("t", "e", {"a": [1.0]})
    async with SqliteHistory(path) as again:
        assert await again.load_summary("t", "thread") == summary
        assert await again.missing_vectors("t", "e", ["a"]) == []
