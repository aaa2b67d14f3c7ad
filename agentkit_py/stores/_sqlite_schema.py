"""The tables of a SqliteHistory file, and how files of older versions become files of this one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from agentkit_py.processors.base import Extent
from agentkit_py.stores.decoding import extent_of_json

if TYPE_CHECKING:
    from sqlite3 import Connection

Change: TypeAlias = "str | Callable[[Connection], None]"

APPLICATION_ID = 0x41674B74
"""Marks our files ("AgKt"), so that another program's file is not taken for one of ours."""


def _count_extents(connection: Connection) -> None:
    """Count what older versions did not."""
    rows = connection.execute(
        "SELECT thread_id, position, CAST(json AS BLOB) FROM results ORDER BY thread_id, position"
    )
    change = (
        "UPDATE results SET messages = ?, size = ?, system = ? WHERE thread_id = ? AND position = ?"
    )
    totals: dict[str, tuple[int, Extent]] = {}
    for thread_id, position, json in rows:
        total = totals.get(thread_id, (0, Extent()))[1]
        values = (total.messages, total.size, total.system, thread_id, position)
        connection.execute(change, values)
        totals[thread_id] = position + 1, total + extent_of_json(json)
    connection.executemany(
        "UPDATE threads SET results = ?, messages = ?, size = ?, system = ? WHERE id = ?",
        [
            (results, total.messages, total.size, total.system, thread_id)
            for thread_id, (results, total) in totals.items()
        ],
    )


MIGRATIONS: tuple[tuple[Change, ...], ...] = (
    (
        """
        CREATE TABLE threads (
            id          TEXT PRIMARY KEY NOT NULL,
            user_id     TEXT,
            title       TEXT NOT NULL,
            metadata    TEXT NOT NULL,  -- JSON object of the application's
            created_at  TEXT NOT NULL,  -- UTC, fixed width: sorts by time
            updated_at  TEXT NOT NULL
        )
        """,
        """
        CREATE TABLE results (
            thread_id   TEXT NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
            position    INTEGER NOT NULL,  -- from 0 in each thread, without gaps
            id          TEXT,              -- of the result; NULL where it has none
            agent_name  TEXT NOT NULL,     -- 'user': what the user said
            created_at  TEXT NOT NULL,
            json        TEXT NOT NULL,     -- the result as AgentKit for TypeScript exports it
            metadata    TEXT,              -- JSON object kept beside it, e.g. the client's state
            PRIMARY KEY (thread_id, position),
            UNIQUE (thread_id, id)
        )
        """,
        "CREATE INDEX threads_by_time ON threads (updated_at)",
        "CREATE INDEX threads_by_user ON threads (user_id, updated_at)",
    ),
    # What is kept beside threads. They need not be threads of this file.
    (
        """
        CREATE TABLE summaries (
            thread_id        TEXT NOT NULL,
            key              TEXT NOT NULL,  -- which of the thread's summaries
            text             TEXT,           -- NULL while the first one is being made
            covered          INTEGER,        -- messages it stands for, from the beginning
            anchor           TEXT,           -- checksum of the last of them
            tokens           INTEGER,
            original_tokens  INTEGER,
            created_at       TEXT,
            locked_by        TEXT,           -- who is making the next one
            locked_until     REAL,           -- seconds since 1970
            PRIMARY KEY (thread_id, key)
        )
        """,
        """
        CREATE TABLE vectors (
            thread_id  TEXT NOT NULL,
            key        TEXT NOT NULL,  -- of the embedding model
            id         TEXT NOT NULL,  -- checksum of what was embedded
            vector     BLOB NOT NULL,  -- little-endian 4-byte floats, length 1
            PRIMARY KEY (thread_id, key, id)
        ) WITHOUT ROWID
        """,
    ),
    # Token counts beside results; who works on a thread; how runs ended.
    (
        # JSON: by tokenizer key, one count for each message
        "ALTER TABLE results ADD COLUMN tokens TEXT",
        """
        CREATE TABLE leases (
            thread_id  TEXT PRIMARY KEY NOT NULL,
            owner      TEXT NOT NULL,  -- the run that works on the thread
            until      REAL NOT NULL   -- seconds since 1970; after this it is taken for dead
        )
        """,
        """
        CREATE TABLE runs (
            number     INTEGER PRIMARY KEY,  -- in the order in which they began
            thread_id  TEXT NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
            id         TEXT NOT NULL,        -- of the user's message that began it
            json       TEXT NOT NULL,        -- status, state, outcome
            has_state  INTEGER NOT NULL,
            UNIQUE (thread_id, id)
        )
        """,
        "CREATE INDEX runs_by_thread ON runs (thread_id, number) WHERE has_state",
    ),
    # How much stands before each result, so that the newest ones say where they are; and in all.
    (
        "ALTER TABLE results ADD COLUMN messages INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE results ADD COLUMN size INTEGER NOT NULL DEFAULT 0",  # characters
        "ALTER TABLE results ADD COLUMN system INTEGER NOT NULL DEFAULT 0",  # system messages
        "ALTER TABLE threads ADD COLUMN results INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE threads ADD COLUMN messages INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE threads ADD COLUMN size INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE threads ADD COLUMN system INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE summaries ADD COLUMN place INTEGER",  # messages before what comes after it
        _count_extents,
    ),
)
"""Statements that lead from version n to n + 1. Entries are only ever added."""

VERSION = len(MIGRATIONS)
"""The newest version this library knows; files say theirs in ``PRAGMA user_version``."""
