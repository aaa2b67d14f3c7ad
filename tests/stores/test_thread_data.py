"""Thread data in every store: summaries with their lock, and vectors."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from agentkit_py.errors import ConfigurationError
from agentkit_py.processors import Summary

SUMMARY = Summary(
    text="They spoke of “parcels”.\n\0",
    covered=40,
    anchor="00ff",
    tokens=7,
    original_tokens=4000,
    created_at=datetime(2026, 11, 20, 10, 30, 1, 5, UTC),
)


async def test_concurrent_owners_one_gets_the_summary_lock(store: Any) -> None:
    """Eight at once."""
    await store.add_thread("t")
    asked = [store.lock_summary("t", "k", f"owner {n}", 60) for n in range(8)]
    assert sum(await asyncio.gather(*asked)) == 1


async def test_vectors_of_different_lengths_are_an_error(store: Any) -> None:
    """Two models under one key would give nonsense."""
    await store.add_vectors("t", "e", {"a": [1.0, 0.0]})
    with pytest.raises(ConfigurationError, match="its own key"):
        await store.nearest_vectors("t", "e", [1.0, 0.0, 0.0], ["a"], 1)


async def test_an_invalid_vector_is_an_error(store: Any) -> None:
    """Nothing is stored."""
    with pytest.raises(ConfigurationError, match="not a vector"):
        await store.add_vectors("t", "e", {"a": ["x"]})
