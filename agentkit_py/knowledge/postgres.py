"""PostgresKnowledge: documents in a PostgreSQL database, with pgvector and full text search.

psycopg loads when a store is first used.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import anyio.to_thread

from agentkit_py._core.databases import conninfo_problem, database_name
from agentkit_py._core.lazy import missing_package
from agentkit_py.errors import ConfigurationError, KnowledgeError, MissingDependencyError
from agentkit_py.knowledge.documents import Document, DocumentChunk
from agentkit_py.knowledge.filters import FilterExpr
from agentkit_py.knowledge.sql import (
    FOUND,
    FROM_CHUNKS,
    VERSION,
    Execute,
    SqlCondition,
    SqlStore,
    checked_language,
    compiled,
)
from agentkit_py.search.ranking import COMMON, rarity

if TYPE_CHECKING:
    import psycopg
    from psycopg_pool import ConnectionPool

T = TypeVar("T")

_LOCK = 0x41674B6E
"""First half of the advisory lock under which tables are made: "AgKn"."""

_ONCE = 0.0607927
"""The ts_rank of a word that a chunk has once; for more, up to 1.6 times as much."""

_LENGTH = "2.2 / (1.3 + 0.9 * length(c.words) / avg(length(c.words)) OVER ())"
"""BM25's factor (k1 = 1.2, b = 0.75) for the length of a chunk among all that match."""

_PLACES = 16_383
"""The words of a chunk that PostgreSQL counts."""

_INDEXED = 10_000
"""How many chunks were ever added when searches without a filter begin to use the index."""

_MAX_DIMENSIONS = 2000
"""The most numbers of a vector in an HNSW index."""

_LOOKED_AT = 400
"""The number of vectors that the index keeps in view (pgvector's ``ef_search``)."""


class PostgresKnowledge(SqlStore):
    """Documents in PostgreSQL 13 or newer with the extension pgvector.

    Needs the extra ``postgres`` (psycopg 3). Tables, schema and extension are made when the store
    is first used. With a filter, and until 10,000 chunks were added, all vectors are compared,
    which is exact. After that a search without a filter asks pgvector's HNSW index, which misses 1
    of 100 (vectors of up to 2,000 numbers).
    """

    _dialect = "postgres"

    def __init__(
        self,
        conninfo: str,
        *,
        schema: str = "agentkit_knowledge",
        language: str | None = None,
        connections: int = 4,
    ) -> None:
        """Remember the database; nothing is connected yet.

        Args:
            conninfo: ``postgresql://user:password@host/database``, or ``key=value`` pairs.
            schema: The schema for the tables; each schema is a store of its own.
            language: The language of the texts, whose words are searched by their stems;
                ``"simple"`` leaves words as they are; None: guessed for each text. Set when the
                schema is made.
            connections: How many connections there are at the most.

        Raises:
            ConfigurationError: A number makes no sense, or the language is not known.
            MissingDependencyError: psycopg is not installed.
        """
        if package := missing_package("psycopg", "psycopg_pool"):
            raise MissingDependencyError(package, "postgres", "PostgresKnowledge")
        if connections < 1:
            raise ConfigurationError(f"connections must be 1 or more, not {connections}.")
        self._schema = schema
        self._conninfo = conninfo
        self._language = checked_language(language)
        self._connections = connections
        self._pool: ConnectionPool[psycopg.Connection[Any]] | None = None
        self._lock = Lock()

    @property
    def schema(self) -> str:
        """The schema of its tables."""
        return self._schema

    def __repr__(self) -> str:
        return f"<PostgresKnowledge: {self._schema}>"

    async def close(self) -> None:
        """Close the connections; the next use connects again."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            await anyio.to_thread.run_sync(pool.close)

    def _transact(self, work: Callable[[Execute], T], *, write: bool) -> T:
        import psycopg
        from psycopg_pool import PoolTimeout

        del write
        if problem := conninfo_problem(self._conninfo):
            raise ConfigurationError(f"PostgresKnowledge: {problem}")
        try:
            with self._opened().connection() as connection:
                return work(_runner(connection))
        except (psycopg.Error, PoolTimeout) as error:
            problem = f"{type(error).__name__}: {error}"
            raise KnowledgeError(
                f"{database_name(self._conninfo)} cannot be used: {problem}"
            ) from error

    def _opened(self) -> ConnectionPool[psycopg.Connection[Any]]:
        import psycopg
        from psycopg_pool import ConnectionPool

        with self._lock:
            if self._pool is not None:
                return self._pool
            # Without the pool first: it would only say that it waited in vain.
            psycopg.connect(self._conninfo).close()
            pool: ConnectionPool[psycopg.Connection[Any]] = ConnectionPool(
                self._conninfo,
                min_size=0,
                max_size=self._connections,
                open=True,
                kwargs={"autocommit": False},
                configure=self._configure,
            )
            try:
                with pool.connection() as connection:
                    self._prepare(connection)
            except Exception:
                pool.close()
                raise
            self._pool = pool
            return pool

    def _configure(self, connection: psycopg.Connection[Any]) -> None:
        from psycopg import sql

        found = connection.execute(
            "SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace "
            "WHERE e.extname = 'vector'"
        ).fetchone()
        names = [self._schema, "public", *(found or ())]
        path = sql.SQL(", ").join(map(sql.Identifier, names))
        connection.execute(sql.SQL("SET search_path TO {}").format(path))
        connection.commit()

    def _prepare(self, connection: psycopg.Connection[Any]) -> None:
        from psycopg import sql

        run = _runner(connection)
        # Others wait here, and then find that it is done. The extension is the database's, so that
        # those who make other schemas wait as well: "if not exists" does not wait by itself.
        run("SELECT pg_advisory_xact_lock(?, 0)", [_LOCK + 3])
        run("SELECT pg_advisory_xact_lock(?, hashtext(?))", [_LOCK, self._schema])
        run("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
        make = sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(self._schema))
        connection.execute(make)
        found = run(
            "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = ? AND c.relname = 'knowledge_facts_of_store'",
            [self._schema],
        )
        if not found:
            self._make_tables(run)
            return
        self._index_vectors(run)
        version = self._setting(run, "version")
        if version in ("1", "2"):
            if version == "1":
                self._add_sources(run)
            self._set_language(run)
            for chunk, text in run("SELECT id, text FROM knowledge_chunks ORDER BY id"):
                (words,) = map(_indexed, self._terms(run, [text]))
                run(
                    "UPDATE knowledge_chunks SET words = ?::text::tsvector WHERE id = ?",
                    [words, chunk],
                )
            run(
                "UPDATE knowledge_facts_of_store SET value = ? WHERE name = 'version'",
                [str(VERSION)],
            )
        elif version != str(VERSION):
            raise KnowledgeError(
                f"{database_name(self._conninfo)} has schema version {version}, this library "
                f"knows {VERSION}."
            )

    def _make_tables(self, run: Execute) -> None:
        super()._make_tables(run)
        run(
            "CREATE TABLE knowledge_chunks (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
            "document bigint NOT NULL REFERENCES knowledge_documents (id) ON DELETE CASCADE, "
            "position integer NOT NULL, text text NOT NULL, words tsvector NOT NULL, "
            "embedding vector NOT NULL) WITH (toast_tuple_target = 8160)"
        )
        # In the row instead of a TOAST table: comparing 100,000 vectors takes half of the time.
        run("ALTER TABLE knowledge_chunks ALTER COLUMN embedding SET STORAGE MAIN")
        run("CREATE INDEX knowledge_chunks_by_document ON knowledge_chunks (document)")
        # What is new is found as quickly as the rest: no list of pending entries.
        run(
            "CREATE INDEX knowledge_chunks_by_word ON knowledge_chunks USING gin (words) "
            "WITH (fastupdate = off)"
        )
        run("INSERT INTO knowledge_facts_of_store VALUES ('version', ?)", [str(VERSION)])
        self._set_language(run)

    def _put(
        self, run: Execute, document: Document, chunks: Sequence[DocumentChunk], embedder: str
    ) -> None:
        # Transactions that add the same document wait for each other.
        run("SELECT pg_advisory_xact_lock(?, hashtext(?))", [_LOCK + 1, document.id])
        super()._put(run, document, chunks, embedder)

    def _claim(self, run: Execute, embedder: str, dimensions: int) -> bool:
        if self._setting(run, "embedder") is None:
            run("SELECT pg_advisory_xact_lock(?, hashtext(?))", [_LOCK + 2, self._schema])
        first = super()._claim(run, embedder, dimensions)
        if first:
            self._index_vectors(run)
        return first

    def _index_vectors(self, run: Execute) -> None:
        """Make the index of vectors, if they may have an index."""
        size = self._indexed_size(run)
        if size:
            run("SELECT set_config('maintenance_work_mem', '256MB', true)")
            run(
                "CREATE INDEX IF NOT EXISTS knowledge_chunks_by_vector ON knowledge_chunks "
                f"USING hnsw ((embedding::vector({size})) vector_cosine_ops)"
            )

    def _indexed_size(self, run: Execute) -> int:
        """Return how many numbers the vectors have, 0 if no index can have them."""
        size = int((self._setting(run, "embedder") or "0").partition(" ")[0])
        return size if size <= _MAX_DIMENSIONS else 0

    def _add(self, run: Execute, number: int, chunks: Sequence[DocumentChunk]) -> None:
        run(
            "INSERT INTO knowledge_chunks (document, position, text, words, embedding) "
            "SELECT ?, n.position, n.text, n.words::tsvector, "
            "n.embedding::vector FROM unnest(?::int[], ?::text[], ?::text[], ?::text[]) "
            "AS n (position, text, words, embedding)",
            [
                number,
                list(range(len(chunks))),
                [chunk.text for chunk in chunks],
                [*map(_indexed, self._terms(run, [chunk.text for chunk in chunks]))],
                [_literal(chunk.vector) for chunk in chunks],
            ],
        )

    def _remove(self, run: Execute, numbers: Sequence[int]) -> None:
        run("DELETE FROM knowledge_documents WHERE id = ANY(?)", [list(numbers)])

    def _nearest(
        self, run: Execute, sought: array[float], filters: FilterExpr | None, k: int
    ) -> list[Any]:
        if filters is None and (found := self._nearest_by_index(run, sought, k)):
            return found
        condition, values = self._condition(run, filters)
        return run(
            f"SELECT {FOUND}, 1 - (c.embedding <=> ?::text::vector) AS score {FROM_CHUNKS} "
            f"WHERE {condition} ORDER BY score DESC, c.id LIMIT ?",
            [_literal(sought), *values, k],
        )

    def _nearest_by_index(self, run: Execute, sought: array[float], k: int) -> list[Any]:
        """Return the results of the index; nothing if it has too little, or is not worth it."""
        size = self._indexed_size(run)
        most = run("SELECT max(id) FROM knowledge_chunks")[0][0] or 0
        if not size or most <= _INDEXED or k > _LOOKED_AT // 2:
            return []
        run("SELECT set_config('hnsw.ef_search', ?, true)", [str(_LOOKED_AT)])
        found = run(
            f"SELECT {FOUND}, 1 - c.distance AS score FROM (SELECT *, "  # noqa: S608 - parameters
            f"embedding::vector({size}) <=> ?::text::vector({size}) AS distance "
            "FROM knowledge_chunks ORDER BY distance LIMIT ?) c "
            "JOIN knowledge_documents d ON d.id = c.document ORDER BY score DESC, c.id",
            [_literal(sought), k],
        )
        return found if len(found) == k else []

    def _condition(self, run: Execute, filters: FilterExpr | None) -> SqlCondition:
        """Return a filter as a condition: the chunks that pass, if they are few."""
        few = self._few(run, filters)
        return compiled(filters, self._dialect) if few is None else ("c.id = ANY(?)", [few])

    def _matching(
        self, run: Execute, asked: Sequence[Sequence[str]], filters: FilterExpr | None, k: int
    ) -> list[Any]:
        found, perfect = self._weights(run, asked)
        if not found:
            return []
        condition, values = self._condition(run, filters)
        ranks = " + ".join("? * ts_rank(c.words, ?::text::tsquery)" for _ in found)
        weighed = [value for word, weight in found.items() for value in (weight, word)]

        def best(words: Iterable[str]) -> list[Any]:
            return run(
                f"SELECT {FOUND}, ({ranks}) * {_LENGTH} / ? AS score {FROM_CHUNKS} "
                f"WHERE c.words @@ ?::text::tsquery AND {condition} "
                "ORDER BY score DESC, c.id LIMIT ?",
                [*weighed, _ONCE * perfect, " | ".join(words), *values, k],
            )

        # Words of every second chunk weigh a millionth: chunks without others are last.
        telling = [word for word, weight in found.items() if weight > COMMON]
        if telling and len(telling) < len(found):
            rows = best(telling)
            if len(rows) == k:
                return rows
        return best(found)

    def _total(self, run: Execute) -> int:
        """Return the number of chunks; of many the database's guess, as counting reads them all."""
        most = run("SELECT max(id) FROM knowledge_chunks")[0][0] or 0
        if most <= _INDEXED:
            return run("SELECT COUNT(*) FROM knowledge_chunks")[0][0]
        known = run(
            "SELECT reltuples::bigint FROM pg_class WHERE oid = 'knowledge_chunks'::regclass"
        )
        return known[0][0] if known[0][0] > 0 else most  # else it was never looked at

    def _weights(
        self, run: Execute, asked: Sequence[Sequence[str]]
    ) -> tuple[dict[str, float], float]:
        """Return the weight of each stem that some chunk has, and that of the whole query."""
        total = self._total(run)
        weights: dict[str, float] = {}
        perfect = 0.0
        for stems in asked:
            found = [f"'{stem}'" for stem in stems]  # letters and digits only; a value all the same
            # Of a word of every second chunk it does not matter how many more have it.
            query = (
                "SELECT COUNT(*) FROM (SELECT 1 FROM knowledge_chunks "
                "WHERE words @@ ?::text::tsquery LIMIT ?) c"
            )
            have = run(query, [" | ".join(found), total // 2 + 1])[0][0]
            total = max(total, have)
            perfect += rarity(total, have)
            if have:
                weights |= dict.fromkeys(found, rarity(total, have))
        return weights, perfect


def _runner(connection: psycopg.Connection[Any]) -> Execute:
    def run(statement: str, values: Sequence[Any] = (), /) -> list[Any]:
        # Statements are ours, without a ? or % except as placeholders.
        cursor = connection.execute(statement.replace("?", "%s").encode(), tuple(values))
        return cursor.fetchall() if cursor.description is not None else []

    return run


def _indexed(stems: Sequence[str]) -> str:
    """Return stems, which are letters and digits only, as PostgreSQL keeps them."""
    places: dict[str, list[int]] = {}
    for place, stem in enumerate(stems[:_PLACES], 1):
        places.setdefault(stem, []).append(place)
    return " ".join(f"'{stem}':{','.join(map(str, found))}" for stem, found in places.items())


def _literal(vector: Sequence[float]) -> str:
    return f"[{','.join(f'{number:.9g}' for number in vector)}]"  # all that 4 bytes hold
