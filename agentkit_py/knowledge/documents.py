"""What is kept of documents, and what a search gives."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentkit_py._core.json import JsonObject
from agentkit_py.knowledge.metadata import Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document as stores keep it."""

    id: str
    source: str
    hash: str
    """Of content, metadata and how it was cut: what has the same one is the same."""

    metadata: Mapping[str, Scalar | list[Scalar]]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document, with its vector at length 1."""

    text: str
    vector: array[float] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A piece that a search found."""

    text: str
    source: str
    score: float
    """How good it is, within one search: likeness (``vector``, 1: equal), the share of what the
    query's words say (``keyword``, about 1: all of them), or both (``hybrid``, at most 1)."""

    document: str
    """The document's id."""

    position: int
    """Which piece of it, from 0."""

    metadata: Mapping[str, Scalar | list[Scalar]]

    def to_dict(self) -> JsonObject:
        """What a model reads of it."""
        return {"source": self.source, "score": round(self.score, 4), "text": self.text}


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """What became of a document that was added."""

    id: str
    chunks: int
    changed: bool
    """False: it was there already, as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far adding has come."""

    source: str
    done: int
    """Pieces that are embedded."""

    total: int


Ranked = Sequence[Hit]
