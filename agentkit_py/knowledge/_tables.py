"""The tables of a store, and the queries that are the same in both databases. All of it blocks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agentkit_py._core.json import as_object, dumps
from agentkit_py.errors import KnowledgeError
from agentkit_py.knowledge.compiling import Dialect, compiled
from agentkit_py.knowledge.documents import Document, Hit
from agentkit_py.knowledge.filters import FilterExpr
from agentkit_py.knowledge.metadata import Scalar, facts_of

VERSION = 1
MOST_KEYS = 50

_IDENTITY = {
    "sqlite": "INTEGER PRIMARY KEY",
    "postgres": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
}
_TEXT = {"sqlite": "TEXT", "postgres": 'text COLLATE "C"'}


class Run(Protocol):
    """Runs one statement inside the transaction; ``?`` stands for a value."""

    def __call__(self, statement: str, values: Sequence[Any] = (), /) -> list[Any]:
        """All rows."""
        ...


def schema(dialect: Dialect) -> list[str]:
    """What makes the tables that both databases have."""
    identity, text = _IDENTITY[dialect], _TEXT[dialect]
    return [
        f"CREATE TABLE knowledge_facts_of_store (name {text} PRIMARY KEY, value {text} NOT NULL)",
        (
            f"CREATE TABLE knowledge_documents (id {identity}, name {text} NOT NULL UNIQUE, "
            f"source {text} NOT NULL, hash {text} NOT NULL, metadata {text} NOT NULL)"
        ),
        (
            "CREATE TABLE knowledge_facts (document bigint NOT NULL "
            f"REFERENCES knowledge_documents (id) ON DELETE CASCADE, key {text} NOT NULL, "
            f"in_list smallint NOT NULL, kind {text} NOT NULL, text {text}, folded {text}, "
            "number double precision)"
        ),
        "CREATE INDEX knowledge_facts_by_document ON knowledge_facts (document, key)",
        "CREATE INDEX knowledge_facts_by_text ON knowledge_facts (key, text, document)",
        "CREATE INDEX knowledge_facts_by_number ON knowledge_facts (key, number, document)",
    ]


@dataclass(frozen=True, slots=True)
class Tables:
    """The queries of one dialect."""

    dialect: Dialect

    def fact(self, run: Run, name: str) -> str | None:
        """A fact of the store itself, e.g. its embedder."""
        rows = run("SELECT value FROM knowledge_facts_of_store WHERE name = ?", [name])
        return rows[0][0] if rows else None

    def claim(self, run: Run, embedder: str, dimensions: int) -> bool:
        """Say whose vectors these are; True if that was not known before.

        Raises:
            KnowledgeError: There are those of another embedder.
        """
        mine = f"{dimensions} {embedder}"
        known = self.fact(run, "embedder")
        if known is None:
            run("INSERT INTO knowledge_facts_of_store VALUES ('embedder', ?)", [mine])
            return True
        self.compare(known, mine)
        return False

    @staticmethod
    def compare(known: str, mine: str) -> None:
        """Refuse vectors that cannot be compared.

        Raises:
            KnowledgeError: They are of different embedders.
        """
        if known != mine:
            raise KnowledgeError(
                f"The store has vectors of {known.partition(' ')[2]!r} with "
                f"{known.partition(' ')[0]} numbers, and {mine.partition(' ')[2]!r} gives "
                f"{mine.partition(' ')[0]}: they cannot be compared. Use that embedder, or add "
                "the documents to another store."
            )

    def get(self, run: Run, name: str) -> Document | None:
        """A document by its id."""
        rows = run(
            "SELECT name, source, hash, metadata FROM knowledge_documents WHERE name = ?", [name]
        )
        if not rows:
            return None
        row = rows[0]
        return Document(id=row[0], source=row[1], hash=row[2], metadata=metadata_of(row[3]))

    def insert(self, run: Run, document: Document) -> int:
        """Keep what is known of a document; returns its number."""
        values = [document.id, document.source, document.hash, dumps(dict(document.metadata))]
        number = run(
            "INSERT INTO knowledge_documents (name, source, hash, metadata) VALUES (?, ?, ?, ?) "
            "RETURNING id",
            values,
        )[0][0]
        for fact in facts_of(dict(document.metadata)):
            run(
                "INSERT INTO knowledge_facts VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    number,
                    fact.key,
                    int(fact.in_list),
                    fact.kind,
                    fact.text,
                    fact.folded,
                    fact.number,
                ],
            )
        return number

    def passing(
        self, run: Run, filters: FilterExpr | None, ids: Sequence[str] | None = None
    ) -> list[int]:
        """The numbers of the documents that pass."""
        condition, values = compiled(filters, self.dialect)
        query = f"SELECT d.id FROM knowledge_documents d WHERE {condition}"  # noqa: S608 - parameters
        if ids is None:
            return [row[0] for row in run(query, values)]
        return [row[0] for one in ids for row in run(f"{query} AND d.name = ?", [*values, one])]

    def keys(self, run: Run, filters: FilterExpr | None, most: int) -> dict[str, list[Scalar]]:
        """The keys of the documents that pass, with a few values each."""
        condition, values = compiled(filters, self.dialect)
        rows = run(
            "SELECT DISTINCT f.key FROM knowledge_facts f JOIN knowledge_documents d "  # noqa: S608 - no value of a user is in it
            f"ON d.id = f.document WHERE {condition} ORDER BY f.key",
            values,
        )
        query = (
            "SELECT f.kind, f.text, f.number FROM knowledge_facts f "  # noqa: S608 - parameters
            f"JOIN knowledge_documents d ON d.id = f.document WHERE {condition} AND f.key = ? "
            "GROUP BY f.kind, f.text, f.number ORDER BY COUNT(*) DESC, f.text, f.number LIMIT ?"
        )
        found: dict[str, list[Scalar]] = {}
        for (key,) in rows:
            some = run(query, [*values, key, most]) if len(found) < MOST_KEYS and most else []
            found[key] = [_value(*row) for row in some]
        return found

    def count(self, run: Run, filters: FilterExpr | None) -> tuple[int, int]:
        """How many documents and pieces pass."""
        condition, values = compiled(filters, self.dialect)
        documents = f"SELECT COUNT(*) FROM knowledge_documents d WHERE {condition}"  # noqa: S608 - no value of a user is in it
        chunks = (
            "SELECT COUNT(*) FROM knowledge_chunks c JOIN knowledge_documents d "  # noqa: S608 - no value of a user is in it
            f"ON d.id = c.document WHERE {condition}"
        )
        return run(documents, values)[0][0], run(chunks, values)[0][0]


def metadata_of(text: str) -> dict[str, Scalar | list[Scalar]]:
    """The metadata that was stored."""
    found: Any = as_object(json.loads(text))
    if found is None:
        raise KnowledgeError(f"The store holds {text!r:.80} as metadata")
    return found


def hit(row: Sequence[Any]) -> Hit:
    """A row of text, position, name, source, metadata and score."""
    return Hit(
        text=row[0],
        position=row[1],
        document=row[2],
        source=row[3],
        metadata=metadata_of(row[4]),
        score=float(row[5]),
    )


FOUND = "c.text, c.position, d.name, d.source, d.metadata"


def _value(kind: str, text: str | None, number: float | None) -> Scalar:
    if kind == "text":
        return text or ""
    if kind == "bool":
        return bool(number)
    plain = number or 0.0
    return int(plain) if plain.is_integer() else plain
