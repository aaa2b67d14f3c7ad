"""Files and schemas of older versions: they are opened, brought to this version, and keep all."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from agentkit_py import AgentResult, UserMessage
from agentkit_py.history.runs import RunRecord
from agentkit_py.messages import token_memo
from agentkit_py.processors import Summary
from agentkit_py.processors.base import Extent
from agentkit_py.stores import HistoryStore, PostgresHistory, SqliteHistory
from agentkit_py.stores.thread_data import ThreadData

USER = (
    '{"agentName":"user","output":[{"type":"text","role":"user","content":"Hello"}],'
    '"toolCalls":[],"createdAt":"2026-01-01T00:00:00.000Z","id":"m"}'
)
REPLY = (
    '{"agentName":"desk","output":[{"type":"text","role":"assistant","content":"Hi."}],'
    '"toolCalls":[],"createdAt":"2026-01-01T00:00:00.000Z","id":"r"}'
)
RUN = '{"status":"completed","state":{"n":2},"stopReason":null,"results":["r"]}'
TIME = datetime(2026, 1, 1, tzinfo=UTC)

SQLITE_1 = f"""
CREATE TABLE threads (id TEXT PRIMARY KEY NOT NULL, user_id TEXT, title TEXT NOT NULL,
    metadata TEXT NOT NULL, created_at TEXT NOT NULL, updated_at TEXT NOT NULL);
CREATE TABLE results (thread_id TEXT NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
    position INTEGER NOT NULL, id TEXT, agent_name TEXT NOT NULL, created_at TEXT NOT NULL,
    json TEXT NOT NULL, metadata TEXT, PRIMARY KEY (thread_id, position), UNIQUE (thread_id, id));
CREATE INDEX threads_by_time ON threads (updated_at);
CREATE INDEX threads_by_user ON threads (user_id, updated_at);
INSERT INTO threads VALUES ('t', 'u', 'Hello', '{{"n":1}}', '2026-01-01T00:00:00.000000Z',
    '2026-01-01T00:00:00.000000Z');
INSERT INTO results VALUES ('t', 0, 'm', 'user', '2026-01-01T00:00:00.000Z', '{USER}',
    '{{"state":{{"page":1}}}}');
INSERT INTO results VALUES ('t', 1, 'r', 'desk', '2026-01-01T00:00:00.000Z', '{REPLY}', NULL);
PRAGMA application_id = 1097288564;
PRAGMA user_version = 1;
"""

SQLITE_4 = f"""
CREATE TABLE threads (id TEXT PRIMARY KEY NOT NULL, user_id TEXT, title TEXT NOT NULL,
    metadata TEXT NOT NULL, created_at TEXT NOT NULL, updated_at TEXT NOT NULL,
    results INTEGER NOT NULL DEFAULT 0, messages INTEGER NOT NULL DEFAULT 0,
    size INTEGER NOT NULL DEFAULT 0, system INTEGER NOT NULL DEFAULT 0);
CREATE TABLE results (thread_id TEXT NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
    position INTEGER NOT NULL, id TEXT, agent_name TEXT NOT NULL, created_at TEXT NOT NULL,
    json TEXT NOT NULL, metadata TEXT, tokens TEXT, messages INTEGER NOT NULL DEFAULT 0,
    size INTEGER NOT NULL DEFAULT 0, system INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (thread_id, position), UNIQUE (thread_id, id));
CREATE TABLE summaries (thread_id TEXT NOT NULL, key TEXT NOT NULL, text TEXT, covered INTEGER,
    anchor TEXT, tokens INTEGER, original_tokens INTEGER, created_at TEXT, locked_by TEXT,
    locked_until REAL, place INTEGER, PRIMARY KEY (thread_id, key));
CREATE TABLE vectors (thread_id TEXT NOT NULL, key TEXT NOT NULL, id TEXT NOT NULL,
    vector BLOB NOT NULL, PRIMARY KEY (thread_id, key, id)) WITHOUT ROWID;
CREATE TABLE leases (thread_id TEXT PRIMARY KEY NOT NULL, owner TEXT NOT NULL, until REAL NOT NULL);
CREATE TABLE runs (number INTEGER PRIMARY KEY, thread_id TEXT NOT NULL
    REFERENCES threads (id) ON DELETE CASCADE, id TEXT NOT NULL, json TEXT NOT NULL,
    has_state INTEGER NOT NULL, UNIQUE (thread_id, id));
CREATE INDEX threads_by_time ON threads (updated_at);
CREATE INDEX threads_by_user ON threads (user_id, updated_at);
CREATE INDEX runs_by_thread ON runs (thread_id, number) WHERE has_state;
INSERT INTO threads VALUES ('t', 'u', 'Hello', '{{"n":1}}', '2026-01-01T00:00:00.000000Z',
    '2026-01-01T00:00:00.000000Z', 2, 2, 8, 0);
INSERT INTO results VALUES ('t', 0, 'm', 'user', '2026-01-01T00:00:00.000Z', '{USER}',
    '{{"state":{{"page":1}}}}', '{{"o200k_base":[1]}}', 0, 0, 0);
INSERT INTO results VALUES ('t', 1, 'r', 'desk', '2026-01-01T00:00:00.000Z', '{REPLY}', NULL, NULL,
    1, 5, 0);
INSERT INTO summaries VALUES ('t', 'k', 'They greet.', 2, '00ff', 3, 9,
    '2026-01-01T00:00:00+00:00', NULL, NULL, 2);
INSERT INTO summaries VALUES ('t', 'locked', NULL, NULL, NULL, NULL, NULL, NULL, 'me', 9e9, NULL);
INSERT INTO vectors VALUES ('t', 'e', 'a', X'9A99193FCDCC4C3F');
INSERT INTO leases VALUES ('t', 'run', 9e9);
INSERT INTO runs VALUES (1, 't', 'm', '{RUN}', 1);
PRAGMA application_id = 1097288564;
PRAGMA user_version = 4;
"""

POSTGRES_1 = f"""
CREATE TABLE agentkit_version (version integer NOT NULL);
INSERT INTO agentkit_version VALUES (1);
CREATE TABLE agentkit_threads (id text COLLATE "C" PRIMARY KEY,
    number bigint GENERATED ALWAYS AS IDENTITY, user_id text COLLATE "C", title text NOT NULL,
    metadata json NOT NULL, results bigint NOT NULL DEFAULT 0, created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL);
CREATE TABLE agentkit_results (thread_id text COLLATE "C" NOT NULL
    REFERENCES agentkit_threads (id) ON DELETE CASCADE, position bigint NOT NULL,
    id text COLLATE "C", agent_name text NOT NULL, created_at timestamptz NOT NULL,
    json json NOT NULL, metadata json, tokens json,
    PRIMARY KEY (thread_id, position), UNIQUE (thread_id, id));
CREATE INDEX ON agentkit_threads (updated_at DESC, number DESC);
CREATE INDEX ON agentkit_threads (user_id, updated_at DESC, number DESC);
CREATE TABLE agentkit_summaries (thread_id text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL,
    text json, covered bigint, anchor text, tokens bigint, original_tokens bigint,
    created_at timestamptz, locked_by text, locked_until timestamptz, PRIMARY KEY (thread_id, key));
CREATE TABLE agentkit_vectors (thread_id text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL, vector bytea NOT NULL, PRIMARY KEY (thread_id, key, id));
CREATE TABLE agentkit_leases (thread_id text COLLATE "C" PRIMARY KEY, owner text NOT NULL,
    until timestamptz NOT NULL);
CREATE TABLE agentkit_runs (thread_id text COLLATE "C" NOT NULL
    REFERENCES agentkit_threads (id) ON DELETE CASCADE, id text COLLATE "C" NOT NULL,
    number bigint GENERATED ALWAYS AS IDENTITY, json json NOT NULL, has_state boolean NOT NULL,
    updated_at timestamptz NOT NULL, PRIMARY KEY (thread_id, id));
CREATE INDEX ON agentkit_runs (thread_id, number) WHERE has_state;
INSERT INTO agentkit_threads (id, user_id, title, metadata, results, created_at, updated_at)
    VALUES ('t', 'u', 'Hello', '{{"n":1}}', 2, '2026-01-01T00:00:00Z', '2026-01-01T00:00:00Z');
INSERT INTO agentkit_results VALUES ('t', 0, 'm', 'user', '2026-01-01T00:00:00Z', '{USER}',
    '{{"state":{{"page":1}}}}', '{{"o200k_base":[1]}}');
INSERT INTO agentkit_results VALUES ('t', 1, 'r', 'desk', '2026-01-01T00:00:00Z', '{REPLY}',
    NULL, NULL);
INSERT INTO agentkit_summaries VALUES ('t', 'k', '"They greet."', 2, '00ff', 3, 9,
    '2026-01-01T00:00:00Z', NULL, NULL);
INSERT INTO agentkit_summaries VALUES ('t', 'locked', NULL, NULL, NULL, NULL, NULL, NULL, 'me',
    '2255-01-01');
INSERT INTO agentkit_vectors VALUES ('t', 'e', 'a', '\\x9a99193fcdcc4c3f');
INSERT INTO agentkit_leases VALUES ('t', 'run', '2255-01-01');
INSERT INTO agentkit_runs (thread_id, id, json, has_state, updated_at)
    VALUES ('t', 'm', '{RUN}', true, '2026-01-01T00:00:00Z');
"""

POSTGRES_2 = f"""
{POSTGRES_1}
UPDATE agentkit_version SET version = 2;
ALTER TABLE agentkit_results ADD COLUMN messages bigint NOT NULL DEFAULT 0;
ALTER TABLE agentkit_results ADD COLUMN size bigint NOT NULL DEFAULT 0;
ALTER TABLE agentkit_results ADD COLUMN system bigint NOT NULL DEFAULT 0;
ALTER TABLE agentkit_threads ADD COLUMN messages bigint NOT NULL DEFAULT 0;
ALTER TABLE agentkit_threads ADD COLUMN size bigint NOT NULL DEFAULT 0;
ALTER TABLE agentkit_threads ADD COLUMN system bigint NOT NULL DEFAULT 0;
ALTER TABLE agentkit_summaries ADD COLUMN place bigint;
UPDATE agentkit_results SET messages = 1, size = 5 WHERE position = 1;
UPDATE agentkit_threads SET messages = 2, size = 8;
UPDATE agentkit_summaries SET place = 2 WHERE key = 'k';
"""


def sqlite_file(path: Path, script: str) -> None:
    """A file that an older version wrote."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)


def postgres_schema_of(url: str, schema: str, script: str) -> None:
    """A schema that an older version made."""
    with psycopg.connect(url, autocommit=True) as connection:
        statements = f'CREATE SCHEMA "{schema}"; SET search_path TO "{schema}"; {script}'
        connection.execute(statements.encode())


async def check_thread(store: HistoryStore) -> None:
    """Thread and results are complete, and can be added to."""
    info = await store.get_thread("t")
    assert (info.user_id, info.title, info.metadata) == ("u", "Hello", {"n": 1})
    assert (info.created_at, info.updated_at, info.result_count, info.message_count) == (
        TIME,
        TIME,
        2,
        2,
    )
    first, second = await store.stored_results("t")
    assert [one.result.id for one in (first, second)] == ["m", "r"]
    assert (first.metadata, second.metadata) == ({"state": {"page": 1}}, {})
    assert (first.before, second.before) == (Extent(), Extent(1, len("Hello")))
    assert [thread.id for thread in await store.list_threads(user_id="u")] == ["t"]
    assert (await store.thread_page(1, user_id="u"))[1] == 1
    assert [match.position for match in await store.search("hi.")] == [1]
    await store.append("t", [first.result, AgentResult.from_user("more", id="m2")])
    count, (newest,) = await store.newest("t", 1)
    assert (count, newest.position, newest.before) == (3, 2, Extent(2, len("HelloHi.")))
    assert await store.delete_thread("t")


async def check_thread_data(store: SqliteHistory | PostgresHistory, place: int | None) -> None:
    """Token counts, summaries, vectors, leases and runs are complete, and can be written."""
    (record, _) = await store.stored_results("t")
    assert token_memo(record.result.output[0])["o200k_base"] == 1
    run = RunRecord(id="m", status="completed", state={"n": 2}, results=("r",))
    assert await store.load_run("t") == run
    whole, none = await store.fork("t"), await store.fork("t", "m")
    assert [await store.load_run(one) for one in (whole, none)] == [run, None]
    await store.delete_thread(whole)
    await store.delete_thread(none)
    summary = Summary(
        text="They greet.",
        covered=2,
        anchor="00ff",
        tokens=3,
        original_tokens=9,
        created_at=TIME,
        place=place,
    )
    assert await store.load_summary("t", "k") == summary
    assert await store.missing_vectors("t", "e", ["a", "b"]) == ["b"]
    ((_, likeness),) = await store.nearest_vectors("t", "e", [3.0, 4.0], ["a"], 1)
    assert likeness == pytest.approx(1)
    data = await store.thread_data("t")
    assert (
        data.to_dict().keys()
        == ThreadData(summaries={"k": summary}, runs=(run,), vectors={"e": {"a": [0.6, 0.8]}})
        .to_dict()
        .keys()
    )
    assert not await store.lock_summary("t", "locked", "you", 60)
    assert not await store.lock_thread("t", "other", 60)
    assert await store.lock_thread("t", "run", 60)
    newer = RunRecord(id="m2", status="completed", state={"n": 3})
    await store.save_run("t", newer)
    assert await store.load_run("t") == newer


async def test_a_file_of_the_version_before_keeps_everything(tmp_path: Path) -> None:
    """A second opening must not change it either."""
    path = tmp_path / "old.db"
    sqlite_file(path, SQLITE_4)
    async with SqliteHistory(path) as store:
        await check_thread_data(store, place=2)
    async with SqliteHistory(path) as store:
        await check_thread(store)


async def test_a_file_of_the_first_version_keeps_its_threads(tmp_path: Path) -> None:
    """The file can hold thread data afterwards."""
    path = tmp_path / "old.db"
    sqlite_file(path, SQLITE_1)
    async with SqliteHistory(path) as store:
        assert await store.lock_summary("t", "k", "me", 60)
        await store.add_vectors("t", "e", {"a": [1.0]})
        await store.save_run("t", RunRecord(id="m", status="running"))
        await check_thread(store)


@pytest.mark.parametrize(("script", "place"), [(POSTGRES_1, None), (POSTGRES_2, 2)])
async def test_a_schema_of_an_older_version_keeps_everything(
    script: str, place: int | None, postgres_url: str, postgres_schema: str
) -> None:
    """Both versions that there were; also when it is opened a second time."""
    postgres_schema_of(postgres_url, postgres_schema, script)
    async with PostgresHistory(postgres_url, schema=postgres_schema, connections=2) as store:
        await check_thread_data(store, place)
    async with PostgresHistory(postgres_url, schema=postgres_schema, connections=2) as store:
        await check_thread(store)


async def test_several_stores_migrate_one_old_schema_at_once(
    postgres_url: str, postgres_schema: str
) -> None:
    """One does it, the others wait and find it done."""
    postgres_schema_of(postgres_url, postgres_schema, POSTGRES_1)
    stores = [
        PostgresHistory(postgres_url, schema=postgres_schema, connections=1) for _ in range(4)
    ]
    await asyncio.gather(*(store.setup() for store in stores))
    await check_thread_data(stores[0], None)
    await check_thread(stores[-1])
    for store in stores:
        await store.close()


OPENER = """
import asyncio, sys
from agentkit_py.stores import SqliteHistory
import agentkit_py.stores._sqlite_file

print("ready", flush=True)
sys.stdin.readline()
asyncio.run(SqliteHistory(sys.argv[1]).setup())
"""


async def test_several_processes_migrate_one_old_file_at_once(tmp_path: Path) -> None:
    """All succeed."""
    path = tmp_path / "old.db"
    sqlite_file(path, SQLITE_4)
    command = [sys.executable, "-c", OPENER, str(path)]
    pipe = subprocess.PIPE
    openers = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(4)]  # noqa: ASYNC220 - nothing else runs here
    for opener in openers:
        assert opener.stdout is not None
        assert opener.stdout.readline() == "ready\n"
    for opener in openers:
        assert opener.stdin is not None
        opener.stdin.write("go\n")
        opener.stdin.flush()
    for opener in openers:
        with opener:
            opener.communicate()
    assert [opener.returncode for opener in openers] == [0] * 4
    async with SqliteHistory(path) as store:
        await check_thread_data(store, place=2)
        await check_thread(store)


async def test_messages_that_an_older_version_kept_go_with_their_thread(tmp_path: Path) -> None:
    """It did not say of mail which thread it is about; a new thread of the id has none of it."""
    path = tmp_path / "old.db"
    async with SqliteHistory(path) as store:
        await store.add_thread("t")
        await store.put_message("t", UserMessage("private", "m"))
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE mail SET thread_id = NULL")
        assert await store.delete_thread("t")
        await store.add_thread("t")
        assert await store.take_messages("t", "run") == []
