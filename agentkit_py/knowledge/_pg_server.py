"""One PostgreSQL database with pgvector. Everything here blocks; psycopg loads with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool, PoolTimeout

from agentkit_py._core.conninfo import conninfo_problem
from agentkit_py.errors import ConfigurationError, KnowledgeError
from agentkit_py.knowledge._tables import FOUND, VERSION, Run, Tables, hit, schema
from agentkit_py.knowledge.compiling import compiled
from agentkit_py.knowledge.documents import Chunk, Document, Hit
from agentkit_py.knowledge.filters import FilterExpr
from agentkit_py.knowledge.words import rarity, telling, words
from agentkit_py.processors.vectors import Vector, unit

T = TypeVar("T")

_LOCK = 0x41674B6E
"""First half of the advisory lock under which tables are made: "AgKn"."""

_TABLES = Tables("postgres")

_ONCE = 0.0607927
"""What ts_rank gives for a word that stands once in a piece; for more, up to 1.6 times as much."""

_LENGTH = "2.2 / (1.3 + 0.9 * length(c.words) / avg(length(c.words)) OVER ())"
"""How BM25 (k1 = 1.2, b = 0.75) sees the length of a piece, beside that of all that match."""


class PgServer:
    """A pool of connections, and what is asked of them."""

    def __init__(self, conninfo: str, schema_name: str, language: str, most: int) -> None:
        if problem := conninfo_problem(conninfo):
            raise ConfigurationError(f"PostgresKnowledge: {problem}")
        self._schema = schema_name
        self._language = language
        self._where = _where(conninfo)
        self._conninfo = conninfo
        self._pool: ConnectionPool[psycopg.Connection[Any]] = ConnectionPool(
            conninfo,
            min_size=0,
            max_size=most,
            open=False,
            kwargs={"autocommit": False},
            configure=self._configure,
        )
        self._ready = False
        self._setting_up = Lock()

    def transact(self, work: Callable[[Run], T], *, write: bool = False) -> T:
        """Run ``work`` in a transaction.

        Raises:
            KnowledgeError: The database cannot be used.
        """
        del write
        try:
            self._set_up()
            with self._pool.connection() as connection:
                return work(_runner(connection))
        except (psycopg.Error, PoolTimeout) as error:
            problem = f"{type(error).__name__}: {error}"
            raise KnowledgeError(f"{self._where} cannot be used: {problem}") from error

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()

    def _configure(self, connection: psycopg.Connection[Any]) -> None:
        found = connection.execute(
            "SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace "
            "WHERE e.extname = 'vector'"
        ).fetchone()
        names = [self._schema, "public", *(found or ())]
        path = sql.SQL(", ").join(map(sql.Identifier, names))
        connection.execute(sql.SQL("SET search_path TO {}").format(path))
        connection.commit()

    def _set_up(self) -> None:
        with self._setting_up:
            if self._ready:
                return
            # By hand first: the pool would only say that it waited in vain.
            psycopg.connect(self._conninfo).close()
            self._pool.open()
            with self._pool.connection() as connection:
                self._make(connection)
            self._ready = True

    def _make(self, connection: psycopg.Connection[Any]) -> None:
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
        if found:
            version = _TABLES.fact(run, "version")
            if version != str(VERSION):
                raise KnowledgeError(
                    f"{self._where} has schema version {version}, this library knows {VERSION}."
                )
            return
        for statement in schema("postgres"):
            run(statement)
        run(
            "CREATE TABLE knowledge_chunks (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
            "document bigint NOT NULL REFERENCES knowledge_documents (id) ON DELETE CASCADE, "
            "position integer NOT NULL, text text NOT NULL, words tsvector NOT NULL, "
            "embedding vector NOT NULL) WITH (toast_tuple_target = 8160)"
        )
        # All in the row, nothing beside it: comparing 100,000 vectors takes half of the time.
        run("ALTER TABLE knowledge_chunks ALTER COLUMN embedding SET STORAGE MAIN")
        run("CREATE INDEX knowledge_chunks_by_document ON knowledge_chunks (document)")
        # What is new is found as quickly as the rest: no list of pending entries.
        run(
            "CREATE INDEX knowledge_chunks_by_word ON knowledge_chunks USING gin (words) "
            "WITH (fastupdate = off)"
        )
        run("INSERT INTO knowledge_facts_of_store VALUES ('version', ?)", [str(VERSION)])

    def put(self, run: Run, document: Document, chunks: Sequence[Chunk], embedder: str) -> None:
        """Keep a document in place of what was there."""
        # Two who add the same document, or the first one, do so one after the other.
        run("SELECT pg_advisory_xact_lock(?, hashtext(?))", [_LOCK + 1, document.id])
        if chunks:
            self._claim(run, embedder, len(chunks[0].vector))
        self.remove(run, _TABLES.passing(run, None, [document.id]))
        number = _TABLES.insert(run, document)
        run(
            "INSERT INTO knowledge_chunks (document, position, text, words, embedding) "
            "SELECT ?, n.position, n.text, to_tsvector(?::text::regconfig, n.words), "
            "n.embedding::vector FROM unnest(?::int[], ?::text[], ?::text[], ?::text[]) "
            "AS n (position, text, words, embedding)",
            [
                number,
                self._language,
                list(range(len(chunks))),
                [chunk.text for chunk in chunks],
                [" ".join(words(chunk.text)) for chunk in chunks],
                [_literal(chunk.vector) for chunk in chunks],
            ],
        )

    def _claim(self, run: Run, embedder: str, dimensions: int) -> None:
        if _TABLES.fact(run, "embedder") is None:
            run("SELECT pg_advisory_xact_lock(?, hashtext(?))", [_LOCK + 2, self._schema])
        _TABLES.claim(run, embedder, dimensions)

    def remove(self, run: Run, numbers: Sequence[int]) -> int:
        """Remove documents by number."""
        run("DELETE FROM knowledge_documents WHERE id = ANY(?)", [list(numbers)])
        return len(numbers)

    def nearest(
        self, run: Run, vector: Vector, embedder: str, filters: FilterExpr | None, k: int
    ) -> list[Hit]:
        """The nearest pieces, found by looking at each that passes."""
        known = _TABLES.fact(run, "embedder")
        if known is None:
            return []
        sought = unit(vector)
        _TABLES.compare(known, f"{len(sought)} {embedder}")
        condition, values = compiled(filters, "postgres")
        rows = run(
            f"SELECT {FOUND}, 1 - (c.embedding <=> ?::text::vector) AS score "  # noqa: S608 - no value of a user is in it
            "FROM knowledge_chunks c JOIN knowledge_documents d ON d.id = c.document "
            f"WHERE {condition} ORDER BY score DESC, c.id LIMIT ?",
            [_literal(sought), *values, k],
        )
        # The likeness to a zero vector is no number.
        return [hit(row) for row in rows if not math.isnan(row[5])]

    def matching(self, run: Run, query: str, filters: FilterExpr | None, k: int) -> list[Hit]:
        """The pieces with the most telling words: the rarer a word, the more it counts."""
        found, perfect = self._weights(run, telling(query))
        if not found:
            return []
        condition, values = compiled(filters, "postgres")
        ranks = " + ".join("? * ts_rank(c.words, ?::text::tsquery)" for _ in found)
        rows = run(
            f"SELECT {FOUND}, ({ranks}) * {_LENGTH} / ? AS score "  # noqa: S608 - parameters
            "FROM knowledge_chunks c JOIN knowledge_documents d ON d.id = c.document "
            f"WHERE c.words @@ ?::text::tsquery AND {condition} "
            "ORDER BY score DESC, c.id LIMIT ?",
            [
                *(one for word, weight in found.items() for one in (weight, word)),
                _ONCE * perfect,
                " | ".join(found),
                *values,
                k,
            ],
        )
        return [hit(row) for row in rows]

    def _weights(self, run: Run, sought: Sequence[str]) -> tuple[dict[str, float], float]:
        """How much each stem says that some piece has, and how much all of the query."""
        total = run("SELECT COUNT(*) FROM knowledge_chunks")[0][0]
        rows = run(
            "SELECT tsvector_to_array(to_tsvector(?::text::regconfig, word)) "
            "FROM unnest(?::text[]) AS word",
            [self._language, list(sought)],
        )
        weights: dict[str, float] = {}
        perfect = 0.0
        # What the dictionary leaves out (again, above, …) is in the query all the same.
        for lexeme in dict.fromkeys(one for (several,) in rows for one in several or [None]):
            word = f"'{lexeme}'"  # letters and digits only; a value all the same
            query = "SELECT COUNT(*) FROM knowledge_chunks WHERE words @@ ?::text::tsquery"
            have = 0 if lexeme is None else run(query, [word])[0][0]
            perfect += rarity(total, have)
            if have:
                weights[word] = rarity(total, have)
        return weights, perfect


def _runner(connection: psycopg.Connection[Any]) -> Run:
    def run(statement: str, values: Sequence[Any] = (), /) -> list[Any]:
        # Statements are ours, without a ? or % that is no place for a value.
        cursor = connection.execute(statement.replace("?", "%s").encode(), tuple(values))
        return cursor.fetchall() if cursor.description is not None else []

    return run


def _literal(vector: Vector) -> str:
    return f"[{','.join(f'{number:.9g}' for number in vector)}]"  # all that 4 bytes hold


def _where(conninfo: str) -> str:
    try:
        found = conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError:
        return "The PostgreSQL database"
    host = found.get("host", "localhost")
    return f"The PostgreSQL database {found.get('dbname', '')!r} at {host}"
