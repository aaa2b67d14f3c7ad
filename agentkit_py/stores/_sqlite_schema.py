"""The tables of a SqliteHistory file, and how files of older versions become files of this one."""

from __future__ import annotations

APPLICATION_ID = 0x41674B74
"""Marks our files ("AgKt"), so that another program's file is not taken for one of ours."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
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
)
"""Statements that lead from version n to n + 1. Entries are only ever added."""

VERSION = len(MIGRATIONS)
"""The newest version this library knows; files say theirs in ``PRAGMA user_version``."""
