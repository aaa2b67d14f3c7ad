"""One search by words and by meaning: of recall, documents, memory and tool results."""

from __future__ import annotations

from agentkit_py.search.ranking import DOCUMENTS, FACTS, TURNS, Weights, by_words, passages, ranked
from agentkit_py.search.vectors import Embedder, MemoryIndex, VectorIndex, embed_all

__all__ = [
    "DOCUMENTS",
    "FACTS",
    "TURNS",
    "Embedder",
    "MemoryIndex",
    "VectorIndex",
    "Weights",
    "by_words",
    "embed_all",
    "passages",
    "ranked",
]
