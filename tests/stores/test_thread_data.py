"""Thread data in every store: summaries with their lock, and vectors."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from agentkit_py.errors import ConfigurationError
from agentkit_py.processors import Summary, SummaryStore, VectorIndex

SUMMARY = Summary(
    text="They spoke of “parcels”.\n\0",
    covered=40,
    anchor="00ff",
    tokens=7,
    original_tokens=4000,
    created_at=datetime(2026, 11, 20, 10, 30, 1, 5, UTC),
)


async def test_a_summary_is_stored_by_thread_and_key(store: Any) -> None:
    """Unchanged, and only by the owner of the lock."""
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


async def test_a_summary_lock_has_one_owner(store: Any) -> None:
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


async def test_a_summary_lock_expires(store: Any) -> None:
    """A dead run does not keep others from writing; if it returns, its summary is refused."""
    await store.add_thread("t")
    assert await store.lock_summary("t", "k", "dead", 0)
    assert await store.lock_summary("t", "k", "next", 60)
    assert not await store.save_summary("t", "k", replace(SUMMARY, text="x"), "dead")


async def test_concurrent_owners_one_gets_the_summary_lock(store: Any) -> None:
    """Eight at once."""
    await store.add_thread("t")
    asked = [store.lock_summary("t", "k", f"owner {n}", 60) for n in range(8)]
    assert sum(await asyncio.gather(*asked)) == 1


async def test_thread_data_is_deleted_with_its_thread(store: Any) -> None:
    """A new thread under the same id has none."""
    await store.add_thread("t")
    await store.lock_summary("t", "k", "me", 60)
    await store.save_summary("t", "k", replace(SUMMARY, text="x"), "me")
    await store.add_vectors("t", "e", {"a": [1.0, 0.0]})
    await store.delete_thread("t")
    await store.add_thread("t")
    assert await store.load_summary("t", "k") is None
    assert await store.missing_vectors("t", "e", ["a"]) == ["a"]


async def test_nearest_vectors_come_best_first(store: Any) -> None:
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


async def test_an_existing_vector_is_not_replaced(store: Any) -> None:
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


async def test_an_invalid_vector_is_an_error(store: Any) -> None:
    """Nothing is stored."""
    with pytest.raises(ConfigurationError, match="no vector"):
        await store.add_vectors("t", "e", {"a": ["x"]})
