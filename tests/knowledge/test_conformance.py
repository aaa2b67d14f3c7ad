"""Every store of documents keeps the promises of the suite for stores of your own."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agentkit_py.knowledge import DocumentChunk, FilterExpr, Hit, KnowledgeStore, SqliteKnowledge
from agentkit_py.testing.knowledge_conformance import KnowledgeCheck, knowledge_checks

CHECKS = knowledge_checks()


@pytest.mark.parametrize("check", CHECKS, ids=str)
async def test_a_store_keeps_every_promise(check: KnowledgeCheck, store: KnowledgeStore) -> None:
    """SQLite in a file, and PostgreSQL."""
    await check(store)


@pytest.mark.parametrize("check", CHECKS, ids=str)
async def test_a_store_in_memory_keeps_every_promise(check: KnowledgeCheck) -> None:
    """What tests use in place of a database."""
    store = SqliteKnowledge(":memory:")
    await check(store)
    await store.close()


class Leaky(SqliteKnowledge):
    """A store that searches without the filter, and filters what it found."""

    async def nearest(
        self, vector: Sequence[float], embedder: str, filters: FilterExpr | None, k: int
    ) -> list[Hit]:
        return await super().nearest(vector, embedder, None, k)


class Forgetful(SqliteKnowledge):
    """A store that keeps the chunks of older versions."""

    async def put(self, document: object, chunks: Sequence[DocumentChunk], embedder: str) -> None:
        known = await super().get(document.id)  # type: ignore[attr-defined] - a document
        if known is None:
            await super().put(document, chunks, embedder)  # type: ignore[arg-type] - a document


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (Leaky, "all_methods_take_what_passes_a_filter"),
        (Leaky, "a_filter_leaves_as_many_hits_as_there_are"),
        (Forgetful, "a_document_replaces_the_one_with_its_id"),
    ],
)
async def test_a_broken_promise_is_found(kind: type[SqliteKnowledge], check: str) -> None:
    """The checks fail where a store is wrong."""
    store = kind(":memory:")
    with pytest.raises(AssertionError):
        await next(one for one in CHECKS if one.name == check)(store)
    await store.close()
