"""One search by words and by meaning: of recall, documents, memory and tool results."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentkit_py.search.ranking import (
        DOCUMENTS,
        FACTS,
        TURNS,
        Weights,
        by_words,
        passages,
        ranked,
    )
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

if not TYPE_CHECKING:  # else every misspelled name would be an Any
    from agentkit_py._core.lazy import lazily as _lazily

    __getattr__ = _lazily(
        __name__,
        {
            "agentkit_py.search.ranking": "DOCUMENTS FACTS TURNS Weights by_words passages ranked",
            "agentkit_py.search.vectors": "Embedder MemoryIndex VectorIndex embed_all",
        },
    )
