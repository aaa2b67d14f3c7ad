"""Both stores, and what is kept in them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentkit_py.knowledge import Knowledge, KnowledgeStore, PostgresKnowledge, SqliteKnowledge
from agentkit_py.testing.fakes import HashingEmbedder


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[KnowledgeStore]:
    """A new store of each kind."""
    if request.param == "sqlite":
        made: KnowledgeStore = SqliteKnowledge(tmp_path / "documents.db")
    else:
        url = request.getfixturevalue("postgres_url")
        made = PostgresKnowledge(url, schema=request.getfixturevalue("postgres_schema"))
    yield made
    await made.close()


@pytest.fixture
def embedder() -> HashingEmbedder:
    """Vectors of words."""
    return HashingEmbedder()


@pytest.fixture
def knowledge(store: KnowledgeStore, embedder: HashingEmbedder) -> Knowledge:
    """Nothing known yet."""
    return Knowledge(store=store, embedder=embedder)
