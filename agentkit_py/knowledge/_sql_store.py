"""What both stores have in common: work in a thread, inside one transaction."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

import anyio.to_thread

from agentkit_py.knowledge._tables import Run, Tables
from agentkit_py.knowledge.base import KnowledgeStore
from agentkit_py.knowledge.documents import Chunk, Document, Hit
from agentkit_py.knowledge.filters import FilterExpr
from agentkit_py.knowledge.metadata import Scalar
from agentkit_py.processors.vectors import Vector

T = TypeVar("T")


class Database(Protocol):
    """A database and the queries that only it has; everything blocks."""

    def transact(self, work: Callable[[Run], T], *, write: bool = False) -> T:
        """Run ``work`` in a transaction."""
        ...

    def put(self, run: Run, document: Document, chunks: Sequence[Chunk], embedder: str) -> None:
        """Keep a document in place of what was there."""
        ...

    def remove(self, run: Run, numbers: Sequence[int]) -> int:
        """Remove documents by number."""
        ...

    def nearest(
        self, run: Run, vector: Vector, embedder: str, filters: FilterExpr | None, k: int
    ) -> list[Hit]:
        """The nearest pieces."""
        ...

    def matching(self, run: Run, query: str, filters: FilterExpr | None, k: int) -> list[Hit]:
        """The pieces with the most telling words."""
        ...

    def close(self) -> None:
        """Let go of the database."""
        ...


class SqlStore(KnowledgeStore):
    """A store whose database is opened when it is first used."""

    _tables: Tables

    @abstractmethod
    def _database(self) -> Database:
        """The database; it blocks."""

    async def get(self, document_id: str) -> Document | None:
        """The document, if it is there."""
        return await self._do(lambda _, run: self._tables.get(run, document_id))

    async def put(self, document: Document, chunks: Sequence[Chunk], embedder: str) -> None:
        """Keep a document, in place of what was there by its id.

        Raises:
            KnowledgeError: The store has vectors of another embedder, or cannot be used.
        """
        await self._do(lambda base, run: base.put(run, document, chunks, embedder), write=True)

    async def remove(self, filters: FilterExpr | None, ids: Sequence[str] | None = None) -> int:
        """Remove the documents that pass; returns how many."""
        return await self._do(
            lambda base, run: base.remove(run, self._tables.passing(run, filters, ids)), write=True
        )

    async def nearest(
        self, vector: Vector, embedder: str, filters: FilterExpr | None, k: int
    ) -> list[Hit]:
        """The pieces with the nearest vectors, best first.

        Raises:
            KnowledgeError: The store has vectors of another embedder, or cannot be used.
        """
        return await self._do(lambda base, run: base.nearest(run, vector, embedder, filters, k))

    async def matching(self, query: str, filters: FilterExpr | None, k: int) -> list[Hit]:
        """The pieces that have the most telling words of the query, best first."""
        return await self._do(lambda base, run: base.matching(run, query, filters, k))

    async def keys(self, filters: FilterExpr | None, values: int) -> dict[str, list[Scalar]]:
        """The metadata keys of the documents that pass, each with a few of its values."""
        return await self._do(lambda _, run: self._tables.keys(run, filters, values))

    async def count(self, filters: FilterExpr | None = None) -> tuple[int, int]:
        """How many documents pass, and how many pieces they have."""
        return await self._do(lambda _, run: self._tables.count(run, filters))

    async def _do(self, work: Callable[[Database, Run], T], *, write: bool = False) -> T:
        def inside() -> T:
            base = self._database()
            return base.transact(partial(work, base), write=write)

        return await anyio.to_thread.run_sync(inside)
