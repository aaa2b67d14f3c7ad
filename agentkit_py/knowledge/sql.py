"""The base of stores in SQL databases: tables, queries, and filters as conditions.

Every key and value of a filter is a parameter, never a part of a statement. Everything but the
public methods of `SqlStore` blocks.
"""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import anyio.to_thread

from agentkit_py._core.json import as_object, dumps
from agentkit_py.errors import ConfigurationError, FilterError, KnowledgeError
from agentkit_py.knowledge.documents import Document, DocumentChunk, Hit, KnowledgeStore
from agentkit_py.knowledge.filters import (
    AND,
    CONTAINS,
    EQ,
    IN,
    NEQ,
    NOT,
    OR,
    SOURCE,
    STARTSWITH,
    Comparison,
    FilterExpr,
    Metadata,
    Ordered,
    Scalar,
    facts_of,
    kind_of,
)
from agentkit_py.search.vectors import Vector, normalized
from agentkit_py.search.words import LANGUAGES, sought, terms

T = TypeVar("T")
DatabaseName: TypeAlias = Literal["sqlite", "postgres"]
SqlCondition: TypeAlias = tuple[str, list[Any]]
"""A condition on ``knowledge_documents d``, and its parameters in order."""

VERSION = 3
"""The version of the tables' schema. Since 2, documents can be filtered by their source; since 3,
words are the stems of `agentkit_py.search`."""

FROM_CHUNKS = "FROM knowledge_chunks c JOIN knowledge_documents d ON d.id = c.document"
"""Chunks ``c`` with their documents ``d``."""

FOUND = "c.text, c.position, d.name, d.source, d.metadata"
"""The columns of a found chunk ``c`` of a document ``d``; its score follows."""

_SPOKEN = "language "
"""Before the name of a language of some chunk, among the store's settings."""

_MAX_KEYS = 50
_IDENTITY = {
    "sqlite": "INTEGER PRIMARY KEY",
    "postgres": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
}
_TEXT = {"sqlite": "TEXT", "postgres": 'text COLLATE "C"'}
_POSITION = {"sqlite": "instr", "postgres": "strpos"}
_SIGNS = {"GT": ">", "GTE": ">=", "LT": "<", "LTE": "<="}
_IS_METADATA = "(f.key <> ? OR f.in_list = 1 OR f.kind <> 'text' OR f.text <> d.source)"
"""Leaves the source out, which every document has."""

_SAMPLE = 500
"""The number of documents, the newest, whose metadata shows which values a key has."""

_ALL_KEYS = (
    "WITH RECURSIVE known (key) AS (SELECT MIN(key) FROM knowledge_facts UNION ALL SELECT "
    "(SELECT MIN(f.key) FROM knowledge_facts f WHERE f.key > known.key) FROM known "
    "WHERE known.key IS NOT NULL) SELECT key FROM known WHERE key IS NOT NULL"
)
"""Leaps from key to key in an index, past all documents that have the key."""

_OLDER = (
    "SELECT DISTINCT f.kind, f.text, f.number FROM knowledge_facts f JOIN knowledge_documents d "
    "ON d.id = f.document WHERE {} AND f.key = ? LIMIT ?"
)
"""Some values of a key that none of the newest documents has."""

_HAS = "d.id IN (SELECT f.document FROM knowledge_facts f WHERE f.key = ? AND "
"""Found by an index of facts, not by asking for each document."""

_FEW = 2000
"""The most chunks that are compared directly, instead of asking an index of all."""


class Execute(Protocol):
    """Runs a statement inside the transaction; ``?`` is a placeholder."""

    def __call__(self, statement: str, values: Sequence[Any] = (), /) -> list[Any]:
        """Return all rows."""
        ...


class SqlStore(KnowledgeStore):
    """A store in an SQL database: each method is a transaction, in a worker thread."""

    _dialect: DatabaseName
    _language: str | None

    async def get(self, document_id: str) -> Document | None:
        """Return the document, or None if there is none."""
        query = "SELECT name, source, hash, metadata FROM knowledge_documents WHERE name = ?"
        rows = await self._do(lambda run: run(query, [document_id]))
        if not rows:
            return None
        name, source, digest, metadata = rows[0]
        return Document(id=name, source=source, hash=digest, metadata=_metadata(metadata))

    async def put(self, document: Document, chunks: Sequence[DocumentChunk], embedder: str) -> None:
        """Store a document, replacing the document with its id."""
        await self._do(lambda run: self._put(run, document, chunks, embedder), write=True)

    async def remove(self, filters: FilterExpr | None, ids: Sequence[str] | None = None) -> int:
        """Remove the documents that pass (of ``ids``, if given), and return how many there were."""

        def work(run: Execute) -> int:
            numbers = self._passing(run, filters, ids)
            self._remove(run, numbers)
            return len(numbers)

        return await self._do(work, write=True)

    async def nearest(
        self, vector: Vector, embedder: str, filters: FilterExpr | None, k: int
    ) -> list[Hit]:
        """Return the chunks with the nearest vectors, best first; every vector is compared."""

        def work(run: Execute) -> list[Any]:
            known = self._setting(run, "embedder")
            if known is None:
                return []
            sought = normalized(vector)
            _check_comparable(known, f"{len(sought)} {embedder}")
            return self._nearest(run, sought, filters, k)

        rows = await self._do(work)
        # The likeness to a zero vector is not a number.
        return [_hit(row) for row in rows if row[5] is not None and not math.isnan(row[5])]

    async def matching(self, query: str, filters: FilterExpr | None, k: int) -> list[Hit]:
        """Return the chunks with the most telling words of the query, best first."""

        def work(run: Execute) -> list[Any]:
            asked = sought(query, self._languages(run))
            return self._matching(run, asked, filters, k) if asked else []

        return [_hit(row) for row in await self._do(work)]

    async def keys(self, filters: FilterExpr | None, values: int) -> dict[str, list[Scalar]]:
        """Return the metadata keys of the documents that pass, each with a few of its values."""
        return await self._do(lambda run: self._keys(run, filters, values))

    async def count(self, filters: FilterExpr | None = None) -> tuple[int, int]:
        """Return the numbers of documents that pass and of their chunks."""
        condition, values = compiled(filters, self._dialect)
        documents = f"SELECT COUNT(*) FROM knowledge_documents d WHERE {condition}"  # noqa: S608 - parameters
        chunks = f"SELECT COUNT(*) {FROM_CHUNKS} WHERE {condition}"
        return await self._do(lambda run: (run(documents, values)[0][0], run(chunks, values)[0][0]))

    async def _do(self, work: Callable[[Execute], T], *, write: bool = False) -> T:
        return await anyio.to_thread.run_sync(partial(self._transact, work, write=write))

    @abstractmethod
    def _transact(self, work: Callable[[Execute], T], *, write: bool) -> T:
        """Run ``work`` in a transaction; open the database if it is not open.

        Raises:
            KnowledgeError: The database cannot be used.
        """

    @abstractmethod
    def _add(self, run: Execute, number: int, chunks: Sequence[DocumentChunk]) -> None:
        """Store the chunks of a document."""

    @abstractmethod
    def _remove(self, run: Execute, numbers: Sequence[int]) -> None:
        """Remove documents by number, with their chunks."""

    @abstractmethod
    def _nearest(
        self, run: Execute, sought: array[float], filters: FilterExpr | None, k: int
    ) -> list[Any]:
        """Return rows of `FOUND` and the likeness to a vector of length 1, best first."""

    @abstractmethod
    def _matching(
        self, run: Execute, asked: Sequence[Sequence[str]], filters: FilterExpr | None, k: int
    ) -> list[Any]:
        """Return rows of `FOUND` and the share of the words' weight, best first.

        Args:
            run: Runs statements.
            asked: Words, each as its stems in the languages of the store.
            filters: What documents must pass.
            k: The most rows.
        """

    def _make_tables(self, run: Execute) -> None:
        """Create the tables that both databases have."""
        identity, text = _IDENTITY[self._dialect], _TEXT[self._dialect]
        run(
            f"CREATE TABLE knowledge_facts_of_store (name {text} PRIMARY KEY, "
            f"value {text} NOT NULL)"
        )
        run(
            f"CREATE TABLE knowledge_documents (id {identity}, name {text} NOT NULL UNIQUE, "
            f"source {text} NOT NULL, hash {text} NOT NULL, metadata {text} NOT NULL)"
        )
        run(
            "CREATE TABLE knowledge_facts (document bigint NOT NULL "
            f"REFERENCES knowledge_documents (id) ON DELETE CASCADE, key {text} NOT NULL, "
            f"in_list smallint NOT NULL, kind {text} NOT NULL, text {text}, folded {text}, "
            "number double precision)"
        )
        run("CREATE INDEX knowledge_facts_by_document ON knowledge_facts (document, key)")
        run("CREATE INDEX knowledge_facts_by_text ON knowledge_facts (key, text, document)")
        run("CREATE INDEX knowledge_facts_by_number ON knowledge_facts (key, number, document)")

    def _terms(self, run: Execute, texts: Sequence[str]) -> list[list[str]]:
        """Return the stems of texts; the store knows their languages from then on."""
        told = self._setting(run, "language")
        found = [terms(text, told) for text in texts]
        # A row for each, so that concurrent transactions can add others.
        for language in sorted({language for language, _ in found} - self._languages(run)):
            run(
                "INSERT INTO knowledge_facts_of_store VALUES (?, '') ON CONFLICT DO NOTHING",
                [f"{_SPOKEN}{language}"],
            )
        return [stems for _, stems in found]

    def _languages(self, run: Execute) -> set[str]:
        """Return the languages of the chunks."""
        rows = run("SELECT name FROM knowledge_facts_of_store")
        return {row[0][len(_SPOKEN) :] for row in rows if row[0].startswith(_SPOKEN)}

    def _set_language(self, run: Execute) -> None:
        if self._language is not None:
            run("INSERT INTO knowledge_facts_of_store VALUES ('language', ?)", [self._language])

    def _setting(self, run: Execute, name: str) -> str | None:
        """Return a setting of the store itself, e.g. its embedder."""
        rows = run("SELECT value FROM knowledge_facts_of_store WHERE name = ?", [name])
        return rows[0][0] if rows else None

    def _claim(self, run: Execute, embedder: str, dimensions: int) -> bool:
        """Name the embedder of the store's vectors; return True if it had none.

        Raises:
            KnowledgeError: It has vectors of another embedder.
        """
        mine = f"{dimensions} {embedder}"
        known = self._setting(run, "embedder")
        if known is None:
            run("INSERT INTO knowledge_facts_of_store VALUES ('embedder', ?)", [mine])
            return True
        _check_comparable(known, mine)
        return False

    def _put(
        self, run: Execute, document: Document, chunks: Sequence[DocumentChunk], embedder: str
    ) -> None:
        if chunks:
            self._claim(run, embedder, len(chunks[0].vector))
        self._remove(run, self._passing(run, None, [document.id]))
        values = [document.id, document.source, document.hash, dumps(dict(document.metadata))]
        number = run(
            "INSERT INTO knowledge_documents (name, source, hash, metadata) VALUES (?, ?, ?, ?) "
            "RETURNING id",
            values,
        )[0][0]
        self._put_facts(run, number, facts_of(document.source, document.metadata))
        self._add(run, number, chunks)

    def _put_facts(self, run: Execute, number: int, facts: Metadata) -> None:
        for key, value in facts.items():
            in_list = isinstance(value, list)
            for one in value if isinstance(value, list) else [value]:
                text = one if isinstance(one, str) else None
                # Without case by Python's rules: databases have others.
                folded = None if text is None else text.casefold()
                size = None if isinstance(one, str) else float(one)
                run(
                    "INSERT INTO knowledge_facts VALUES (?, ?, ?, ?, ?, ?, ?)",
                    [number, key, int(in_list), kind_of(one), text, folded, size],
                )

    def _add_sources(self, run: Execute) -> None:
        """Bring a store of version 1 to version 2."""
        for number, source, metadata in run("SELECT id, source, metadata FROM knowledge_documents"):
            known = _metadata(metadata)
            facts = facts_of(source, known)
            self._put_facts(run, number, {k: facts[k] for k in facts.keys() - known.keys()})

    def _passing(
        self, run: Execute, filters: FilterExpr | None, ids: Sequence[str] | None = None
    ) -> list[int]:
        """Return the numbers of the documents that pass."""
        condition, values = compiled(filters, self._dialect)
        query = f"SELECT d.id FROM knowledge_documents d WHERE {condition}"  # noqa: S608 - parameters
        if ids is None:
            return [row[0] for row in run(query, values)]
        return [row[0] for one in ids for row in run(f"{query} AND d.name = ?", [*values, one])]

    def _few(self, run: Execute, filters: FilterExpr | None) -> list[int] | None:
        """Return the chunks of the documents that pass a filter, if they are few."""
        if filters is None:
            return None
        condition, values = compiled(filters, self._dialect)
        query = f"SELECT c.id {FROM_CHUNKS} WHERE {condition} LIMIT ?"
        found = [row[0] for row in run(query, [*values, _FEW + 1])]
        return found if len(found) <= _FEW else None

    def _keys(self, run: Execute, filters: FilterExpr | None, most: int) -> dict[str, list[Scalar]]:
        """Return all keys, with values of the newest documents.

        Keys that none of these has are looked for one by one, at most `_MAX_KEYS` of them.
        """
        condition, values = compiled(filters, self._dialect)
        newest = run(
            f"SELECT d.id FROM knowledge_documents d WHERE {condition} ORDER BY d.id DESC LIMIT ?",  # noqa: S608 - parameters
            [*values, _SAMPLE],
        )
        ids = [row[0] for row in newest]
        if not ids:
            return {}
        rows = run(
            f"SELECT f.key, f.kind, f.text, f.number, MAX(CASE WHEN {_IS_METADATA} THEN 1 ELSE 0 "  # noqa: S608 - parameters
            "END), COUNT(*) AS found FROM knowledge_facts f JOIN knowledge_documents d "
            f"ON d.id = f.document WHERE d.id IN ({', '.join('?' * len(ids))}) "
            "GROUP BY f.key, f.kind, f.text, f.number ORDER BY f.key, found DESC, f.text, f.number",
            [SOURCE, *ids],
        )
        given = {row[0] for row in rows if row[4]}
        found: dict[str, list[Scalar]] = {key: [] for key in given}
        for key, *fact in rows:
            if key in given and len(found[key]) < most:
                found[key].append(_scalar(*fact[:3]))
        if len(ids) == _SAMPLE:
            others = [key for (key,) in run(_ALL_KEYS) if key not in found and key != SOURCE]
            for key in others[:_MAX_KEYS]:
                older = run(_OLDER.format(condition), [*values, key, max(1, most)])
                found |= {key: [_scalar(*fact) for fact in older][:most]} if older else {}
        names = sorted(found)
        return {key: found[key] if n < _MAX_KEYS else [] for n, key in enumerate(names)}


def checked_language(language: str | None) -> str | None:
    """Return the language of a store.

    Raises:
        ConfigurationError: There is none of this name.
    """
    if language is not None and language not in (*LANGUAGES, "simple"):
        names = ", ".join(sorted(LANGUAGES))
        raise ConfigurationError(
            f"language={language!r} is not known. Pass None, which guesses it for each text, "
            f"'simple', which leaves words as they are, or a language: {names}."
        )
    return language


def compiled(filters: FilterExpr | None, dialect: DatabaseName) -> SqlCondition:
    """Return a filter as a condition.

    Raises:
        FilterError: It is of a kind that is not known here; nothing is left out.
    """
    match filters:
        case None:
            return "1 = 1", []
        case AND() | OR():
            found = [compiled(one, dialect) for one in filters.conditions]
            text = f" {filters.op} ".join(sql for sql, _ in found)
            return f"({text})", [value for _, values in found for value in values]
        case NOT():
            sql, values = compiled(filters.condition, dialect)
            return f"NOT {sql}", values
        case IN(values=()):
            return "1 = 0", []
        case IN():
            tests = [_equal(value) for value in filters.values]
            test = f"({' OR '.join(sql for sql, _ in tests)})"
            values = [value for _, several in tests for value in several]
        case NEQ():
            test, values = _equal(filters.value)
            return f"NOT {_HAS}{test})", [filters.key, *values]
        case Comparison():
            test, values = _compared(filters, dialect)
        case _:
            raise FilterError(f"{filters!r:.80} is not a filter that can be searched with")
    return f"{_HAS}{test})", [filters.key, *values]


def _compared(one: Comparison, dialect: DatabaseName) -> SqlCondition:
    match one:
        case EQ():
            return _equal(one.value)
        case Ordered():
            column, value = _column(one.value)
            test = f"f.in_list = 0 AND f.kind = ? AND f.{column} {_SIGNS[one.op]} ?"
            return test, [kind_of(one.value), value]
        case CONTAINS():
            item, values = _equal(one.value, in_list=1)
            if not isinstance(one.value, str):
                return item, values
            inside = f"f.in_list = 0 AND f.kind = 'text' AND {_POSITION[dialect]}(f.folded, ?) > 0"
            return f"({item} OR ({inside}))", [*values, one.value.casefold()]
        case STARTSWITH():
            test = "f.in_list = 0 AND f.kind = 'text' AND substr(f.text, 1, ?) = ?"
            return test, [len(str(one.value)), one.value]
        case _:
            raise FilterError(f"{one!r:.80} is not a filter that can be searched with")


def _column(value: Scalar) -> tuple[str, Any]:
    return ("text", value) if isinstance(value, str) else ("number", float(value))


def _equal(value: Scalar, *, in_list: int = 0) -> SqlCondition:
    column, plain = _column(value)
    return f"(f.in_list = {in_list} AND f.kind = ? AND f.{column} = ?)", [kind_of(value), plain]


def _check_comparable(known: str, mine: str) -> None:
    if known != mine:
        dimensions, _, embedder = known.partition(" ")
        my_dimensions, _, my_embedder = mine.partition(" ")
        raise KnowledgeError(
            f"The store has vectors of {embedder!r} with {dimensions} numbers, and {my_embedder!r} "
            f"gives {my_dimensions}: they cannot be compared. Use that embedder, or add the "
            "documents to another store."
        )


def _metadata(text: str) -> dict[str, Scalar | list[Scalar]]:
    found: Any = as_object(json.loads(text))
    if found is None:
        raise KnowledgeError(f"The store holds {text!r:.80} as metadata")
    return found


def _hit(row: Sequence[Any]) -> Hit:
    return Hit(
        text=row[0],
        position=row[1],
        document=row[2],
        source=row[3],
        metadata=_metadata(row[4]),
        score=float(row[5]),
    )


def _scalar(kind: str, text: str | None, number: float | None) -> Scalar:
    if kind == "text":
        return text or ""
    if kind == "bool":
        return bool(number)
    plain = number or 0.0
    return int(plain) if plain.is_integer() else plain
