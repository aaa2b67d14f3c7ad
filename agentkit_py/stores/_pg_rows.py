"""The queries of a PostgresHistory, each a function of a session inside a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from psycopg.types.json import Json

from agentkit_py.errors import ThreadNotFoundError
from agentkit_py.processors.base import Extent
from agentkit_py.results import USER
from agentkit_py.stores._pg_server import Session
from agentkit_py.stores.keeping import Decode
from agentkit_py.stores.records import (
    Match,
    Row,
    StoredResult,
    StoreStats,
    ThreadInfo,
    decode_row,
    find_words,
    load_metadata,
    new_rows,
    prefilter,
)
from agentkit_py.stores.titles import title_in

_ESCAPE = "\x1a"
_NEWEST = (
    "SELECT id, user_id, title, metadata::text, created_at, updated_at, results, messages "
    "FROM {threads} "
    "ORDER BY updated_at DESC, number DESC LIMIT %s"
)
_NEWEST_OF_USER = (
    "SELECT id, user_id, title, metadata::text, created_at, updated_at, results, messages "
    "FROM {threads} "
    "WHERE user_id = %s ORDER BY updated_at DESC, number DESC LIMIT %s"
)


def kept(text: str) -> str:
    """A text as PostgreSQL can keep it: U+0000, which it cannot, is written as an escape."""
    return text.replace(_ESCAPE, f"{_ESCAPE}1").replace("\0", f"{_ESCAPE}0")


def given(text: str) -> str:
    """The text that `kept` was given."""
    return text.replace(f"{_ESCAPE}0", "\0").replace(f"{_ESCAPE}1", _ESCAPE)


def kept_or_none(text: str | None) -> str | None:
    """`kept`, where there may be no text."""
    return None if text is None else kept(text)


def verbatim(text: str | None) -> Json | None:
    """JSON text, to be stored as it stands."""
    return None if text is None else Json(text, dumps=str)


async def nothing(session: Session) -> None:
    """Ask nothing: connecting has done what is to be done."""
    del session


async def add_thread(
    session: Session, thread_id: str, user_id: str | None, title: str, metadata: str
) -> None:
    """Add a thread unless it is there."""
    await session.run(
        "INSERT INTO {threads} (id, user_id, title, metadata, created_at, updated_at) "
        "VALUES (%s, %s, %s, %s, now(), now()) ON CONFLICT (id) DO NOTHING",
        kept(thread_id),
        kept_or_none(user_id),
        kept(title.encode("utf-8", "replace").decode()),
        verbatim(metadata),
    )


async def append_rows(session: Session, thread_id: str, rows: Sequence[Row]) -> None:
    """Add the rows that are new at the end of a thread.

    The thread's row is locked first, so that writers come one after another and each sees what the
    one before has added.
    """
    key = kept(thread_id)
    ids = [kept(row.id) for row in rows if row.id is not None]
    async with session.connection.pipeline():
        locked = await session.run(
            "SELECT results, title, messages, size, system FROM {threads} WHERE id = %s FOR UPDATE",
            key,
        )
        there = await session.run(
            "SELECT id, json::text FROM {results} WHERE thread_id = %s AND id = ANY(%s)", key, ids
        )
    found = await locked.fetchone()
    if found is None:
        raise ThreadNotFoundError(thread_id)
    first = found[0]
    stored = {given(one): text for one, text in await there.fetchall()}
    new = new_rows(thread_id, stored, rows)
    if not new:
        return
    title = found[1] or await _first_title(session, key, new)
    total = Extent(*found[2:])
    values: list[tuple[Any, ...]] = []
    for place, row in enumerate(new):
        values.append(_values(key, first + place, row, total))
        total += row.extent
    async with session.connection.pipeline():
        await session.many(
            "INSERT INTO {results} VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)", values
        )
        await session.run(
            "UPDATE {threads} SET title = %s, results = %s, messages = %s, size = %s, system = %s, "
            "updated_at = clock_timestamp() WHERE id = %s",
            title,
            first + len(new),
            total.messages,
            total.size,
            total.system,
            key,
        )


async def _first_title(session: Session, key: str, new: Sequence[Row]) -> str:
    """The title of a thread that has none, unless a user has said something in it before."""
    said = title_in(new)
    if not said:
        return ""  # an answer: nothing to look for
    query = "SELECT 1 FROM {results} WHERE thread_id = %s AND agent_name = %s LIMIT 1"
    before = await session.run(query, key, USER)
    return kept(said) if await before.fetchone() is None else ""


def _values(key: str, position: int, row: Row, before: Extent) -> tuple[Any, ...]:
    return (
        key,
        position,
        kept_or_none(row.id),
        kept(row.agent_name),
        datetime.fromisoformat(row.created_at),
        verbatim(row.json),
        verbatim(row.metadata),
        verbatim(row.tokens),
        before.messages,
        before.size,
        before.system,
    )


async def thread_exists(session: Session, thread_id: str) -> bool:
    """Whether there is such a thread."""
    return await session.one("SELECT 1 FROM {threads} WHERE id = %s", kept(thread_id)) is not None


async def count_results(session: Session, thread_id: str) -> int:
    """How many results a thread has."""
    row = await session.one("SELECT results FROM {threads} WHERE id = %s", kept(thread_id))
    if row is None:
        raise ThreadNotFoundError(thread_id)
    return row[0]


async def records(session: Session, thread_id: str, decode: Decode) -> list[StoredResult]:
    """A thread's results, oldest first."""
    rows = await session.all(
        "SELECT position, json::text, metadata::text, tokens::text, messages, size, system "
        "FROM {results} WHERE thread_id = %s ORDER BY position",
        kept(thread_id),
    )
    if not rows and not await thread_exists(session, thread_id):
        raise ThreadNotFoundError(thread_id)
    return decode(thread_id, rows)


async def page(
    session: Session, thread_id: str, before: int, limit: int, decode: Decode
) -> list[StoredResult]:
    """The last results before a position, oldest first."""
    rows = await session.all(
        "SELECT position, json::text, metadata::text, tokens::text, messages, size, system "
        # Not LIMIT: a planner without statistics might sort the whole thread for it.
        "FROM {results} WHERE thread_id = %s AND position >= %s AND position < %s "
        "ORDER BY position",
        kept(thread_id),
        before - limit,
        before,
    )
    return decode(thread_id, rows)


async def newest(
    session: Session, thread_id: str, limit: int, decode: Decode
) -> tuple[int, list[StoredResult]]:
    """How many results a thread has, and the last ones; asked at once, so of one moment."""
    rows = await session.all(
        "SELECT t.results, r.position, r.json::text, r.metadata::text, r.tokens::text, "
        "r.messages, r.size, r.system FROM {threads} t LEFT JOIN {results} r "
        "ON r.thread_id = t.id AND r.position >= t.results - %s AND r.position < t.results "
        "WHERE t.id = %s ORDER BY r.position",
        limit,
        kept(thread_id),
    )
    if not rows:
        raise ThreadNotFoundError(thread_id)
    return rows[0][0], decode(thread_id, [row[1:] for row in rows if row[1] is not None])


async def get_thread(session: Session, thread_id: str) -> ThreadInfo:
    """One thread."""
    row = await session.one(
        "SELECT id, user_id, title, metadata::text, created_at, updated_at, results, messages "
        "FROM {threads} "
        "WHERE id = %s",
        kept(thread_id),
    )
    if row is None:
        raise ThreadNotFoundError(thread_id)
    return _info(row)


async def select_threads(
    session: Session, limit: int | None, user_id: str | None
) -> list[ThreadInfo]:
    """Threads, those changed last first."""
    most = None if limit is None else min(limit, 2**63 - 1)
    if user_id is None:
        rows = await session.all(_NEWEST, most)
    else:
        rows = await session.all(_NEWEST_OF_USER, kept(user_id), most)
    return [_info(row) for row in rows]


async def search(session: Session, words: str, user_id: str | None, limit: int) -> list[Match]:
    """The first place in each thread where something was said."""
    found: dict[str, Match] = {}
    text = session.tables.query(
        "SELECT r.thread_id, r.position, r.json::text FROM {threads} t "
        "JOIN {results} r ON r.thread_id = t.id WHERE (%s::text IS NULL OR t.user_id = %s) "
        "AND position(%s::text in lower(r.json::text)) > 0 "
        "ORDER BY t.updated_at DESC, t.number DESC, r.position"
    )
    user = kept_or_none(user_id)
    # A cursor of the server's: there may be a million of them.
    async with session.connection.cursor(name="agentkit_search") as cursor:
        await cursor.execute(text, (user, user, prefilter(words)))
        async for key, position, json in cursor:
            if len(found) >= limit:
                break
            if key not in found:
                thread_id = given(key)
                match = find_words(decode_row(thread_id, position, json, None), thread_id, words)
                found.update({} if match is None else {key: match})
    return list(found.values())


async def stats(session: Session, user_id: str | None) -> StoreStats:
    """How much there is."""
    row = await session.one(
        "SELECT COUNT(*), COUNT(DISTINCT user_id), COALESCE(SUM(results), 0)::bigint, "
        "COALESCE(SUM(messages), 0)::bigint FROM {threads} "
        "WHERE %s::text IS NULL OR user_id = %s",
        kept_or_none(user_id),
        kept_or_none(user_id),
    )
    return StoreStats(*row)


def _info(row: tuple[str, str | None, str, str, datetime, datetime, int, int]) -> ThreadInfo:
    key, user_id, title, metadata, created, updated, results, messages = row
    thread_id = given(key)
    return ThreadInfo(
        id=thread_id,
        user_id=None if user_id is None else given(user_id),
        title=given(title),
        metadata=load_metadata(metadata, thread_id),
        created_at=created.astimezone(UTC),
        updated_at=updated.astimezone(UTC),
        results=results,
        messages=messages,
    )


async def set_times(
    session: Session, thread_id: str, created_at: datetime, updated_at: datetime
) -> None:
    """Say when a thread was made and changed."""
    done = await session.run(
        "UPDATE {threads} SET created_at = %s, updated_at = %s WHERE id = %s",
        created_at,
        updated_at,
        kept(thread_id),
    )
    if not done.rowcount:
        raise ThreadNotFoundError(thread_id)


async def delete_thread(session: Session, thread_id: str) -> bool:
    """Remove a thread; its results, its runs and what is kept beside it go with it."""
    key = kept(thread_id)
    async with session.connection.pipeline():
        gone = await session.run("DELETE FROM {threads} WHERE id = %s", key)
        await session.run("DELETE FROM {summaries} WHERE thread_id = %s", key)
        await session.run("DELETE FROM {vectors} WHERE thread_id = %s", key)
        await session.run("DELETE FROM {leases} WHERE thread_id = %s", key)
    return gone.rowcount > 0
