"""What a store of documents must do. Everything here blocks nobody: it is async."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from agentkit_py.knowledge.documents import Chunk, Document, Hit
from agentkit_py.knowledge.filters import FilterExpr
from agentkit_py.knowledge.metadata import Scalar
from agentkit_py.processors.vectors import Vector


class KnowledgeStore(ABC):
    """Keeps documents in pieces, and finds those that pass a filter.

    A filter holds for every piece that is given back, or the search fails: there is no third way.
    """

    @abstractmethod
    async def get(self, document_id: str) -> Document | None:
        """The document, if it is there."""

    @abstractmethod
    async def put(self, document: Document, chunks: Sequence[Chunk], embedder: str) -> None:
        """Keep a document, in place of what was there by its id: all of it, or nothing.

        Args:
            document: What is known of it.
            chunks: Its pieces, in order.
            embedder: The embedder's key: all vectors of a store are of the same.

        Raises:
            KnowledgeError: The store has vectors of another embedder.
        """

    @abstractmethod
    async def remove(self, filters: FilterExpr | None, ids: Sequence[str] | None = None) -> int:
        """Remove the documents that pass (of ``ids``, if given); returns how many."""

    @abstractmethod
    async def nearest(
        self, vector: Vector, embedder: str, filters: FilterExpr | None, k: int
    ) -> list[Hit]:
        """The ``k`` pieces with the nearest vectors, best first."""

    @abstractmethod
    async def matching(self, query: str, filters: FilterExpr | None, k: int) -> list[Hit]:
        """The ``k`` pieces that have the most telling words of the query, best first.

        A score is the share of the query's words that a piece has, each weighted by how rare it is
        (as in BM25, a word that no piece has included): hybrid search asks how near to 1 it is.
        """

    @abstractmethod
    async def keys(self, filters: FilterExpr | None, values: int) -> dict[str, list[Scalar]]:
        """The metadata keys of the documents that pass, each with a few of its values."""

    @abstractmethod
    async def count(self, filters: FilterExpr | None = None) -> tuple[int, int]:
        """How many documents pass, and how many pieces they have."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of the database; the next use opens it again."""
