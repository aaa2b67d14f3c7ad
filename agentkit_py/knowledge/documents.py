"""Documents, what a search finds of them, and the store that keeps them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentkit_py._core.json import JsonObject
from agentkit_py.knowledge.filters import FilterExpr, Metadata, Scalar
from agentkit_py.processors.vectors import Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document as stores keep it."""

    id: str
    source: str
    hash: str
    """A hash of content, metadata and chunking; if it is equal, nothing has changed."""

    metadata: Metadata


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk of a document, with its vector at length 1."""

    text: str
    vector: array[float] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A chunk that a search found."""

    text: str
    source: str
    score: float
    """Comparable within one search: likeness (``vector``, 1: equal), the share of what the
    query's words say (``keyword``, about 1: all of them), or both (``hybrid``, at most 1)."""

    document: str
    """The document's id."""

    position: int
    """The chunk's number in its document, from 0."""

    metadata: Metadata

    def to_dict(self) -> JsonObject:
        """Return the JSON that a model reads."""
        return {"source": self.source, "score": round(self.score, 4), "text": self.text}


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """The result of adding a document."""

    id: str
    chunks: int
    changed: bool
    """False: the store had it already, unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of adding a document."""

    source: str
    done: int
    """Chunks that are embedded."""

    total: int


class KnowledgeStore(ABC):
    """Keeps documents in chunks, and finds those that pass a filter.

    Every chunk that a search returns passes its filter, or the search fails. No method may block
    the event loop.
    """

    @abstractmethod
    async def get(self, document_id: str) -> Document | None:
        """Return the document, or None if there is none."""

    @abstractmethod
    async def put(self, document: Document, chunks: Sequence[Chunk], embedder: str) -> None:
        """Store a document in place of the one with its id: all of it, or nothing.

        Args:
            document: Its id, source, hash and metadata.
            chunks: Its chunks, in order.
            embedder: The embedder's key: all vectors of a store are of one embedder.

        Raises:
            KnowledgeError: The store has vectors of another embedder.
        """

    @abstractmethod
    async def remove(self, filters: FilterExpr | None, ids: Sequence[str] | None = None) -> int:
        """Remove the documents that pass (of ``ids``, if given), and return how many there were."""

    @abstractmethod
    async def nearest(
        self, vector: Vector, embedder: str, filters: FilterExpr | None, k: int
    ) -> list[Hit]:
        """Return the ``k`` chunks with the nearest vectors, best first."""

    @abstractmethod
    async def matching(self, query: str, filters: FilterExpr | None, k: int) -> list[Hit]:
        """Return the ``k`` chunks with the most telling words of the query, best first.

        A score is the share of the query's words that a chunk has, each weighted by how rare it is
        (as in BM25, a word that no chunk has included): hybrid search asks how near to 1 it is.
        """

    @abstractmethod
    async def keys(self, filters: FilterExpr | None, values: int) -> dict[str, list[Scalar]]:
        """Return the metadata keys of the documents that pass, each with a few of its values."""

    @abstractmethod
    async def count(self, filters: FilterExpr | None = None) -> tuple[int, int]:
        """Return the numbers of documents that pass and of their chunks."""

    @abstractmethod
    async def close(self) -> None:
        """Close the database; the next use opens it again."""
