"""The tables of both databases, and the migration of older ones to this version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from agentkit_py.errors import InvalidRecordError
from agentkit_py.processors.base import Extent, extent_of
from agentkit_py.results import USER, AgentResult
from agentkit_py.stores import _sql_words as words
from agentkit_py.stores._sql_session import Session
from agentkit_py.stores.rows import from_json

SchemaChange: TypeAlias = "str | Callable[[Session], None]"

_BATCH = 1000


def migrate(session: Session, steps_done: int) -> None:
    """Run the steps that a database still lacks, inside the caller's transaction."""
    for step in STEPS[steps_done:]:
        for change in step:
            if isinstance(change, str):
                session.execute(change)
            else:
                change(session)


def _count_extents(session: Session) -> None:
    """Compute the counts of rows that were stored before there were counts."""
    for (thread_id,) in session.execute("SELECT id FROM {threads}").fetchall():
        key = session.given(thread_id)
        position, total = 0, Extent()
        query = (
            "SELECT {bytes:json} FROM {results} WHERE thread_id = ? AND position >= ? "
            "AND position < ? ORDER BY position"
        )
        while rows := session.execute(query, key, position, position + _BATCH).fetchall():
            changes: list[tuple[Any, ...]] = []
            for (text,) in rows:
                changes.append((total.messages, total.size, total.system, key, position))
                total += _extent_of(text)
                position += 1
            session.execute_many(
                "UPDATE {results} SET messages = ?, size = ?, system = ? "
                "WHERE thread_id = ? AND position = ?",
                changes,
            )
        session.execute(
            "UPDATE {threads} SET results = ?, messages = ?, size = ?, system = ? WHERE id = ?",
            *(position, total.messages, total.size, total.system, key),
        )


def _place_runs(session: Session) -> None:
    """Say of older runs where they end: at the next message of the user, or with the thread."""
    query = (
        "SELECT t.id, t.results FROM {threads} t WHERE t.id IN (SELECT r.thread_id FROM {runs} r)"
    )
    for thread_id, count in session.execute(query).fetchall():
        key = session.given(thread_id)
        query = (
            "SELECT id, position FROM {results} WHERE thread_id = ? AND agent_name = ? "
            "ORDER BY position"
        )
        asked = session.execute(query, key, USER).fetchall()
        ends = [position for _, position in asked[1:]] + [count]
        session.execute("UPDATE {runs} SET position = ? WHERE thread_id = ?", count, key)
        session.execute_many(
            "UPDATE {runs} SET position = ? WHERE thread_id = ? AND id = ?",
            [
                (end, key, session.given(one))
                for (one, _), end in zip(asked, ends, strict=True)
                if one is not None
            ],
        )


def _extent_of(text: str | bytes) -> Extent:
    """Return the size of a row's messages, for rows stored before sizes were counted.

    A damaged row counts as its length, since reading it raises an error anyway.
    """
    try:
        return extent_of(AgentResult.from_dict(from_json(text, "", "(whole)")).messages)
    except InvalidRecordError:
        return Extent(size=len(text))


STEPS: tuple[tuple[SchemaChange, ...], ...] = (
    (
        """
        CREATE TABLE {threads} (
            id          {KEY} PRIMARY KEY NOT NULL,
            {NUMBER}
            user_id     {KEY},
            title       text NOT NULL,
            metadata    {JSON} NOT NULL,   -- object of the application
            created_at  {TIME} NOT NULL,
            updated_at  {TIME} NOT NULL
        )
        """,
        # PostgreSQL: json, not jsonb, since it keeps U+0000 and halves of surrogate pairs.
        """
        CREATE TABLE {results} (
            thread_id   {KEY} NOT NULL REFERENCES {threads} (id) ON DELETE CASCADE,
            position    bigint NOT NULL,   -- from 0 in each thread, without gaps
            id          {KEY},             -- of the result; NULL where it has none
            agent_name  text NOT NULL,     -- 'user': a user's message
            created_at  {TIME} NOT NULL,
            json        {JSON} NOT NULL,   -- the result as AgentKit for TypeScript exports it
            metadata    {JSON},            -- object saved with it, e.g. the client's state
            PRIMARY KEY (thread_id, position),
            UNIQUE (thread_id, id)
        )
        """,
        "CREATE INDEX {index:threads_by_time} ON {threads} (updated_at {THEN_NUMBER})",
        "CREATE INDEX {index:threads_by_user} ON {threads} (user_id, updated_at {THEN_NUMBER})",
    ),
    # Summaries and vectors; their threads need not be threads of this database.
    (
        """
        CREATE TABLE {summaries} (
            thread_id        {KEY} NOT NULL,
            key              {KEY} NOT NULL,  -- which of the thread's summaries
            text             {JSON},          -- NULL while the first one is being made
            covered          bigint,          -- messages it stands for, from the beginning
            anchor           text,            -- checksum of the last of them
            tokens           bigint,
            original_tokens  bigint,
            created_at       {TIME},
            locked_by        text,            -- the owner of the lock
            locked_until     {LEASE_TIME},
            PRIMARY KEY (thread_id, key)
        )
        """,
        """
        CREATE TABLE {vectors} (
            thread_id  {KEY} NOT NULL,
            key        {KEY} NOT NULL,    -- of the embedding model
            id         {KEY} NOT NULL,    -- checksum of the embedded text
            vector     {BYTES} NOT NULL,  -- little-endian 4-byte floats, length 1
            PRIMARY KEY (thread_id, key, id)
        ) {WITHOUT_ROWID}
        """,
    ),
    # Token counts of results, leases on threads, run records.
    (
        # JSON: by tokenizer key, one count for each message
        "ALTER TABLE {results} ADD COLUMN tokens {JSON}",
        """
        CREATE TABLE {leases} (
            thread_id  {KEY} PRIMARY KEY NOT NULL,
            owner      text NOT NULL,         -- the run that works on the thread
            until      {LEASE_TIME} NOT NULL  -- after this the run counts as dead
        )
        """,
        """
        CREATE TABLE {runs} (
            number     {IDENTITY},       -- in the order in which they began
            thread_id  {KEY} NOT NULL REFERENCES {threads} (id) ON DELETE CASCADE,
            id         {KEY} NOT NULL,   -- of the user's message that began it
            json       {JSON} NOT NULL,  -- status, state, outcome
            has_state  boolean NOT NULL,
            UNIQUE (thread_id, id)
        )
        """,
        "CREATE INDEX {index:runs_by_thread} ON {runs} (thread_id, number) WHERE has_state",
    ),
    # The size of the thread before each result, so that the newest ones know their positions.
    (
        "ALTER TABLE {results} ADD COLUMN messages bigint NOT NULL DEFAULT 0",
        "ALTER TABLE {results} ADD COLUMN size bigint NOT NULL DEFAULT 0",  # characters
        "ALTER TABLE {results} ADD COLUMN system bigint NOT NULL DEFAULT 0",  # system messages
        "ALTER TABLE {threads} ADD COLUMN {IF_MISSING} results bigint NOT NULL DEFAULT 0",
        "ALTER TABLE {threads} ADD COLUMN messages bigint NOT NULL DEFAULT 0",
        "ALTER TABLE {threads} ADD COLUMN size bigint NOT NULL DEFAULT 0",
        "ALTER TABLE {threads} ADD COLUMN system bigint NOT NULL DEFAULT 0",
        "ALTER TABLE {summaries} ADD COLUMN place bigint",  # messages of the thread before its end
        _count_extents,
    ),
    # PostgreSQL's run records had a time, and SQLite's none: now the tables are the same.
    ("ALTER TABLE {runs} ADD COLUMN {IF_MISSING} updated_at {TIME}",),
    # Runs in line for a thread, their begun and finished calls, and executions that were stopped.
    (
        "ALTER TABLE {leases} ADD COLUMN execution {KEY}",
        """
        CREATE TABLE {line} (
            number     {IDENTITY},            -- first come, first served
            thread_id  {KEY} NOT NULL,
            owner      {KEY} NOT NULL,
            execution  {KEY},
            until      {LEASE_TIME} NOT NULL, -- after this the run counts as dead
            UNIQUE (thread_id, owner)
        )
        """,
        """
        CREATE TABLE {notes} (
            number     {IDENTITY},
            thread_id  {KEY} NOT NULL,
            owner      {KEY} NOT NULL,
            execution  {KEY},
            key        {KEY} NOT NULL,   -- of a reply, a call or a step
            json       {JSON} NOT NULL,
            UNIQUE (thread_id, owner, key)
        )
        """,
        "CREATE INDEX {index:notes_by_execution} ON {notes} (execution)",
        """
        CREATE TABLE {stopped} (
            execution  {KEY} PRIMARY KEY NOT NULL,
            until      {LEASE_TIME} NOT NULL  -- after this nothing of it is under way any more
        )
        """,
    ),
    # Questions that wait for a person, and their answers.
    (
        """
        CREATE TABLE {questions} (
            number      {IDENTITY},
            id          {KEY} NOT NULL UNIQUE,
            thread_id   {KEY} NOT NULL REFERENCES {threads} (id) ON DELETE CASCADE,
            execution   {KEY},
            status      text NOT NULL,   -- open, answered, expired, stopped
            asked_at    {TIME} NOT NULL,
            expires_at  {TIME},
            json        {JSON} NOT NULL  -- the question with its answer
        )
        """,
        "CREATE INDEX {index:questions_by_thread} ON {questions} (thread_id)",
        "CREATE INDEX {index:questions_by_status} ON {questions} (status, number)",
    ),
    # What users and tenants have used up in a period.
    (
        """
        CREATE TABLE {budgets} (
            scope   {KEY} NOT NULL,  -- e.g. user:u1
            kind    {KEY} NOT NULL,  -- tokens, cost, runs
            period  {KEY} NOT NULL,  -- a day, a month, or empty
            used    double precision NOT NULL,
            PRIMARY KEY (scope, kind, period)
        )
        """,
    ),
    # What came from outside for runs that wait for it, or will.
    (
        """
        CREATE TABLE {mail} (
            number  {IDENTITY},
            box     {KEY} NOT NULL,
            id      {KEY} NOT NULL,
            taker   {KEY},                 -- who received it
            json    {JSON} NOT NULL,
            until   {LEASE_TIME} NOT NULL, -- after this it is removed
            UNIQUE (box, id)
        )
        """,
    ),
    # What is remembered of users across threads.
    (
        """
        CREATE TABLE {facts} (
            number       {IDENTITY},
            tenant       {KEY} NOT NULL,
            user_id      {KEY} NOT NULL,
            id           {KEY} NOT NULL,
            chain        {KEY} NOT NULL,  -- id of the first of those that replace one another
            thread_id    {KEY} REFERENCES {threads} (id) ON DELETE CASCADE,
            replaced_by  {KEY},           -- NULL: it holds
            json         {JSON} NOT NULL,
            UNIQUE (tenant, user_id, id)
        )
        """,
        "CREATE INDEX {index:facts_by_user} ON {facts} (user_id, tenant, number)",
        "CREATE INDEX {index:facts_by_thread} ON {facts} (thread_id)",
    ),
    # The index of words.
    (
        # how many results, from the beginning, the index has
        "ALTER TABLE {threads} ADD COLUMN indexed bigint NOT NULL DEFAULT 0",
        "CREATE INDEX {index:threads_not_indexed} ON {threads} (id) WHERE indexed < results",
        "{MAKE_WORDS}",
        "{NUMBER_THREADS}",
        "{INDEX_WORDS}",
        words.fill,
    ),
    # The staff members on a thread, and those who are wanted.
    (
        """
        CREATE TABLE {takeovers} (
            thread_id  {KEY} PRIMARY KEY NOT NULL REFERENCES {threads} (id) ON DELETE CASCADE,
            status     text NOT NULL,   -- asked, taken
            since      {TIME} NOT NULL,
            json       {JSON} NOT NULL  -- people, reason, times
        )
        """,
        "CREATE INDEX {index:takeovers_by_time} ON {takeovers} (since)",
    ),
    # Forks and rewinds: results are stored under a branch, which may share those of another.
    (
        # true: no thread itself, but results that threads have
        "ALTER TABLE {threads} ADD COLUMN hidden boolean NOT NULL DEFAULT false",
        # row that a thread's results are stored under; NULL: its own
        "ALTER TABLE {threads} ADD COLUMN branch {KEY}",
        # row whose results before start belong to this row, too
        "ALTER TABLE {threads} ADD COLUMN parent {KEY}",
        "ALTER TABLE {threads} ADD COLUMN start bigint NOT NULL DEFAULT 0",
        "ALTER TABLE {threads} ADD COLUMN start_messages bigint NOT NULL DEFAULT 0",
        # thread that it was forked from, or for which a hidden row was made
        "ALTER TABLE {threads} ADD COLUMN origin {KEY}",
        "CREATE INDEX {index:threads_by_branch} ON {threads} (branch) WHERE branch IS NOT NULL",
        "CREATE INDEX {index:threads_by_parent} ON {threads} (parent) WHERE parent IS NOT NULL",
        "CREATE INDEX {index:threads_by_origin} ON {threads} (origin) WHERE origin IS NOT NULL",
        # how many results the thread had when the run was saved
        "ALTER TABLE {runs} ADD COLUMN position bigint NOT NULL DEFAULT 0",
        _place_runs,
    ),
    (
        # thread that mail is about, with which it goes; NULL: none
        "ALTER TABLE {mail} ADD COLUMN thread_id {KEY}",
        "CREATE INDEX {index:mail_by_thread} ON {mail} (thread_id) WHERE thread_id IS NOT NULL",
    ),
    # How many threads each user has: a page of them says it, however many there are.
    (
        "CREATE TABLE {owners} (user_id {KEY} PRIMARY KEY NOT NULL, threads bigint NOT NULL)",
        (
            "INSERT INTO {owners} SELECT user_id, COUNT(*) FROM {threads} "
            "WHERE user_id IS NOT NULL AND NOT hidden GROUP BY user_id"
        ),
    ),
    # The time of a result is in its JSON, and nothing asks for the column.
    ("ALTER TABLE {results} DROP COLUMN created_at",),
    # Old mail is removed where new mail is put: streams put much of it.
    ("CREATE INDEX {index:mail_by_time} ON {mail} (until)",),
    # Records of later kinds, which need no table of their own; their threads may be elsewhere.
    (
        """
        CREATE TABLE {records} (
            number     {IDENTITY},       -- in the order in which their keys were added
            kind       {KEY} NOT NULL,
            key        {KEY} NOT NULL,
            thread_id  {KEY},            -- thread with which it is deleted
            owner      {KEY},            -- group that it is found by, e.g. of its user
            status     {KEY},
            until      double precision, -- seconds since 1970
            json       {JSON} NOT NULL,
            UNIQUE (kind, key)
        )
        """,
        "CREATE INDEX {index:records_by_thread} ON {records} (thread_id)",
        "CREATE INDEX {index:records_by_owner} ON {records} (kind, owner, number)",
    ),
)
"""Each step leads from a version to the next. Steps are only ever added."""
