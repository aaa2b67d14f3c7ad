"""Documents that agents search: ``Agent(knowledge=Knowledge(store=…, embedder=…))``.

`SqliteKnowledge` keeps them in a file (FTS5, vectors compared by numpy, extra ``knowledge``), and
`PostgresKnowledge` in a PostgreSQL database (pgvector, extra ``postgres``). Nothing here loads a
database before a store is used.
"""

from __future__ import annotations

from agentkit_py.errors import FilterError, KnowledgeError
from agentkit_py.knowledge.documents import (
    Added,
    Document,
    DocumentChunk,
    Hit,
    KnowledgeStore,
    Progress,
)
from agentkit_py.knowledge.embedders import LocalEmbedder, OpenAIEmbedder
from agentkit_py.knowledge.filters import (
    AND,
    CONTAINS,
    EQ,
    GT,
    GTE,
    IN,
    LT,
    LTE,
    NEQ,
    NOT,
    OR,
    STARTSWITH,
    FilterExpr,
)
from agentkit_py.knowledge.library import Knowledge
from agentkit_py.knowledge.postgres import PostgresKnowledge
from agentkit_py.knowledge.sqlite import SqliteKnowledge
from agentkit_py.search import Embedder

__all__ = [
    "AND",
    "CONTAINS",
    "EQ",
    "GT",
    "GTE",
    "IN",
    "LT",
    "LTE",
    "NEQ",
    "NOT",
    "OR",
    "STARTSWITH",
    "Added",
    "Document",
    "DocumentChunk",
    "Embedder",
    "FilterError",
    "FilterExpr",
    "Hit",
    "Knowledge",
    "KnowledgeError",
    "KnowledgeStore",
    "LocalEmbedder",
    "OpenAIEmbedder",
    "PostgresKnowledge",
    "Progress",
    "SqliteKnowledge",
]
