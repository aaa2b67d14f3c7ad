"""The tables of a PostgresHistory, and how older ones become those of this version."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, LiteralString, TypeAlias

from psycopg import sql

from agentkit_py.errors import ConfigurationError
from agentkit_py.processors.base import Extent
from agentkit_py.stores.decoding import extent_of_json

if TYPE_CHECKING:
    from agentkit_py.stores._pg_server import Session

Change: TypeAlias = "LiteralString | Callable[[Session], Awaitable[None]]"

_BATCH = 1000

TABLES = ("version", "threads", "results", "summaries", "vectors", "leases", "runs")


async def _count_extents(session: Session) -> None:
    """Count what older versions did not."""
    for (thread_id,) in await session.all("SELECT id FROM {threads}"):
        position, total = 0, Extent()
        while rows := await session.all(
            "SELECT json::text FROM {results} WHERE thread_id = %s AND position >= %s "
            "AND position < %s ORDER BY position",
            thread_id,
            position,
            position + _BATCH,
        ):
            changes: list[tuple[Any, ...]] = []
            for (json,) in rows:
                changes.append((total.messages, total.size, total.system, thread_id, position))
                total += extent_of_json(json)
                position += 1
            await session.many(
                "UPDATE {results} SET messages = %s, size = %s, system = %s "
                "WHERE thread_id = %s AND position = %s",
                changes,
            )
        await session.run(
            "UPDATE {threads} SET messages = %s, size = %s, system = %s WHERE id = %s",
            total.messages,
            total.size,
            total.system,
            thread_id,
        )


MIGRATIONS: tuple[tuple[Change, ...], ...] = (
    (
        """
        CREATE TABLE {threads} (
            id          text COLLATE "C" PRIMARY KEY,
            number      bigint GENERATED ALWAYS AS IDENTITY,  -- in the order of creation
            user_id     text COLLATE "C",
            title       text NOT NULL,
            metadata    json NOT NULL,       -- JSON object of the application's
            results     bigint NOT NULL DEFAULT 0,  -- how many there are: the next position
            created_at  timestamptz NOT NULL,
            updated_at  timestamptz NOT NULL
        )
        """,
        # json, not jsonb: it keeps every text as it is, U+0000 and halves of surrogate pairs too.
        """
        CREATE TABLE {results} (
            thread_id   text COLLATE "C" NOT NULL REFERENCES {threads} (id) ON DELETE CASCADE,
            position    bigint NOT NULL,     -- from 0 in each thread, without gaps
            id          text COLLATE "C",    -- of the result; NULL where it has none
            agent_name  text NOT NULL,       -- 'user': what the user said
            created_at  timestamptz NOT NULL,
            json        json NOT NULL,       -- the result as AgentKit for TypeScript exports it
            metadata    json,                -- object kept beside it, e.g. the client's state
            tokens      json,                -- by tokenizer key, one count for each message
            PRIMARY KEY (thread_id, position),
            UNIQUE (thread_id, id)
        )
        """,
        "CREATE INDEX ON {threads} (updated_at DESC, number DESC)",
        "CREATE INDEX ON {threads} (user_id, updated_at DESC, number DESC)",
        """
        CREATE TABLE {summaries} (
            thread_id        text COLLATE "C" NOT NULL,
            key              text COLLATE "C" NOT NULL,  -- which of the thread's summaries
            text             json,         -- a string; NULL while the first one is being made
            covered          bigint,       -- messages it stands for, from the beginning
            anchor           text,         -- checksum of the last of them
            tokens           bigint,
            original_tokens  bigint,
            created_at       timestamptz,
            locked_by        text,         -- who is making the next one
            locked_until     timestamptz,
            PRIMARY KEY (thread_id, key)
        )
        """,
        """
        CREATE TABLE {vectors} (
            thread_id  text COLLATE "C" NOT NULL,
            key        text COLLATE "C" NOT NULL,  -- of the embedding model
            id         text COLLATE "C" NOT NULL,  -- checksum of what was embedded
            vector     bytea NOT NULL,             -- little-endian 4-byte floats, length 1
            PRIMARY KEY (thread_id, key, id)
        )
        """,
        """
        CREATE TABLE {leases} (
            thread_id  text COLLATE "C" PRIMARY KEY,
            owner      text NOT NULL,              -- the run that works on the thread
            until      timestamptz NOT NULL        -- after this it is taken for dead
        )
        """,
        """
        CREATE TABLE {runs} (
            thread_id   text COLLATE "C" NOT NULL REFERENCES {threads} (id) ON DELETE CASCADE,
            id          text COLLATE "C" NOT NULL,  -- of the user's message that began it
            number      bigint GENERATED ALWAYS AS IDENTITY,
            json        json NOT NULL,              -- status, state, outcome
            has_state   boolean NOT NULL,
            updated_at  timestamptz NOT NULL,
            PRIMARY KEY (thread_id, id)
        )
        """,
        "CREATE INDEX ON {runs} (thread_id, number) WHERE has_state",
    ),
    # How much stands before each result, so that the newest ones say where they are; and in all.
    (
        "ALTER TABLE {results} ADD COLUMN messages bigint NOT NULL DEFAULT 0",
        "ALTER TABLE {results} ADD COLUMN size bigint NOT NULL DEFAULT 0",  # characters
        "ALTER TABLE {results} ADD COLUMN system bigint NOT NULL DEFAULT 0",  # system messages
        "ALTER TABLE {threads} ADD COLUMN messages bigint NOT NULL DEFAULT 0",
        "ALTER TABLE {threads} ADD COLUMN size bigint NOT NULL DEFAULT 0",
        "ALTER TABLE {threads} ADD COLUMN system bigint NOT NULL DEFAULT 0",
        "ALTER TABLE {summaries} ADD COLUMN place bigint",  # messages before what comes after it
        _count_extents,
    ),
)
"""Statements that lead from version n to n + 1. Entries are only ever added."""

VERSION = len(MIGRATIONS)
"""The newest version this library knows; a database says its own in the table ``version``."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST = 40
"""PostgreSQL cuts names off at 63 bytes, and constraints' names are made of tables' names."""


class Tables:
    """The names of one store's tables, and its queries with these names in them."""

    def __init__(self, schema: str, prefix: str) -> None:
        """Check the names.

        Raises:
            ConfigurationError: One is not made of letters, digits and underscores, or is too long.
        """
        for what, value in (("schema", schema), ("prefix", prefix)):
            if (value or what == "schema") and not _NAME.fullmatch(value):
                raise ConfigurationError(
                    f"PostgresHistory: {what} must be a name of letters, digits and underscores, "
                    f"not {value!r:.80}."
                )
            if len(value) > _LONGEST:
                raise ConfigurationError(
                    f"PostgresHistory: {what} has {len(value)} characters, more than {_LONGEST}."
                )
        self.schema = schema
        self.prefix = prefix
        self._names: dict[str, sql.Composable] = {
            name: sql.Identifier(schema, f"{prefix}{name}") for name in TABLES
        }
        self._queries: dict[str, bytes] = {}

    def query(self, text: LiteralString) -> bytes:
        """``text`` with ``{threads}`` and the other tables' names filled in."""
        known = self._queries.get(text)
        if known is None:
            known = self._queries[text] = sql.SQL(text).format(**self._names).as_bytes(None)
        return known
