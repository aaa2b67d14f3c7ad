"""The queries of a SqliteHistory, each a plain function of a connection inside a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from agentkit_py.errors import ThreadNotFoundError
from agentkit_py.processors.base import Extent
from agentkit_py.results import USER
from agentkit_py.stores._sqlite_beside import forget
from agentkit_py.stores.keeping import Decode
from agentkit_py.stores.records import (
    Match,
    Row,
    StoredResult,
    StoreStats,
    ThreadInfo,
    as_text,
    check_same,
    decode_row,
    find_words,
    load_metadata,
    now,
    prefilter,
)
from agentkit_py.stores.titles import title_in

if TYPE_CHECKING:
    from sqlite3 import Connection


# As bytes: the driver would refuse the whole query over one damaged text, without saying which.
_RESULTS = (
    "SELECT position, CAST(json AS BLOB), CAST(metadata AS BLOB), tokens, messages, size, system "
    "FROM results"
)
_THREADS = (
    "SELECT id, user_id, title, metadata, created_at, updated_at, results, messages FROM threads"
)


def nothing(connection: Connection) -> None:
    """Ask nothing: opening the file has done what is to be done."""


def add_thread(
    connection: Connection, thread_id: str, user_id: str | None, title: str, metadata: str
) -> None:
    """Add a thread unless it is there."""
    time = now()
    connection.execute(
        "INSERT INTO threads (id, user_id, title, metadata, created_at, updated_at) "
        "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
        (thread_id, user_id, title, metadata, time, time),
    )


def append_rows(connection: Connection, thread_id: str, rows: Sequence[Row]) -> None:
    """Add the rows that are new at the end of a thread."""
    query = "SELECT results, title, messages, size, system FROM threads WHERE id = ?"
    found = connection.execute(query, (thread_id,)).fetchone()
    if found is None:
        raise ThreadNotFoundError(thread_id)
    first, title = found[:2]
    position = first
    if not title and (said := title_in(rows)) and not _has_user(connection, thread_id):
        title = said
    total = Extent(*found[2:])
    for row in rows:
        if row.id is not None and _is_stored(connection, thread_id, row):
            continue
        connection.execute(
            "INSERT INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                thread_id,
                position,
                row.id,
                row.agent_name,
                row.created_at,
                row.json,
                row.metadata,
                row.tokens,
                total.messages,
                total.size,
                total.system,
            ),
        )
        position += 1
        total += row.extent
    if position > first:
        connection.execute(
            "UPDATE threads SET title = ?, updated_at = ?, "
            "results = ?, messages = ?, size = ?, system = ? WHERE id = ?",
            (title, now(), position, total.messages, total.size, total.system, thread_id),
        )


def _has_user(connection: Connection, thread_id: str) -> bool:
    """Whether a user has said something in a thread."""
    query = "SELECT 1 FROM results WHERE thread_id = ? AND agent_name = ? LIMIT 1"
    return connection.execute(query, (thread_id, USER)).fetchone() is not None


def _is_stored(connection: Connection, thread_id: str, row: Row) -> bool:
    query = "SELECT json FROM results WHERE thread_id = ? AND id = ?"
    found = connection.execute(query, (thread_id, row.id)).fetchone()
    if found is not None:
        check_same(thread_id, row, found[0])
    return found is not None


def thread_exists(connection: Connection, thread_id: str) -> bool:
    """Whether there is such a thread."""
    query = "SELECT 1 FROM threads WHERE id = ?"
    return connection.execute(query, (thread_id,)).fetchone() is not None


def count_results(connection: Connection, thread_id: str) -> int:
    """How many results a thread has: the next position, since there are no gaps."""
    query = "SELECT results FROM threads WHERE id = ?"
    found = connection.execute(query, (thread_id,)).fetchone()
    if found is None:
        raise ThreadNotFoundError(thread_id)
    return found[0]


def records(connection: Connection, thread_id: str, decode: Decode) -> list[StoredResult]:
    """A thread's results, oldest first."""
    query = f"{_RESULTS} WHERE thread_id = ? ORDER BY position"
    rows = connection.execute(query, (thread_id,)).fetchall()
    if not rows and not thread_exists(connection, thread_id):
        raise ThreadNotFoundError(thread_id)
    return decode(thread_id, rows)


def page(
    connection: Connection, thread_id: str, before: int, limit: int, decode: Decode
) -> list[StoredResult]:
    """The last results before a position, oldest first."""
    # Positions have no gaps, so that a range is a number of rows.
    query = f"{_RESULTS} WHERE thread_id = ? AND position >= ? AND position < ? ORDER BY position"
    rows = connection.execute(query, (thread_id, before - limit, before)).fetchall()
    return decode(thread_id, rows)


def newest(
    connection: Connection, thread_id: str, limit: int, decode: Decode
) -> tuple[int, list[StoredResult]]:
    """How many results a thread has, and the last ones."""
    count = count_results(connection, thread_id)
    return count, page(connection, thread_id, count, limit, decode)


def get_thread(connection: Connection, thread_id: str) -> ThreadInfo:
    """One thread."""
    query = f"{_THREADS} WHERE id = ?"
    row = connection.execute(query, (thread_id,)).fetchone()
    if row is None:
        raise ThreadNotFoundError(thread_id)
    return _info(row)


def select_threads(
    connection: Connection, limit: int | None, user_id: str | None
) -> list[ThreadInfo]:
    """Threads, those changed last first."""
    most = -1 if limit is None else min(limit, 2**63 - 1)
    if user_id is None:
        query = f"{_THREADS} ORDER BY updated_at DESC, rowid DESC LIMIT ?"
        return [_info(row) for row in connection.execute(query, (most,))]
    query = f"{_THREADS} WHERE user_id = ? ORDER BY updated_at DESC, rowid DESC LIMIT ?"
    return [_info(row) for row in connection.execute(query, (user_id, most))]


def search(connection: Connection, words: str, user_id: str | None, limit: int) -> list[Match]:
    """The first place in each thread where something was said."""
    query = (
        "SELECT r.thread_id, r.position, CAST(r.json AS BLOB) FROM threads t "
        "JOIN results r ON r.thread_id = t.id WHERE (?1 IS NULL OR t.user_id = ?1) "
        "AND instr(lower(r.json), ?2) > 0 ORDER BY t.updated_at DESC, t.rowid DESC, r.position"
    )
    found: dict[str, Match] = {}
    for thread_id, position, json in connection.execute(query, (user_id, prefilter(words))):
        if len(found) >= limit:
            break
        if thread_id not in found:
            match = find_words(decode_row(thread_id, position, json, None), thread_id, words)
            found.update({} if match is None else {thread_id: match})
    return list(found.values())


def stats(connection: Connection, user_id: str | None) -> StoreStats:
    """How much there is."""
    query = (
        "SELECT COUNT(*), COUNT(DISTINCT user_id), COALESCE(SUM(results), 0), "
        "COALESCE(SUM(messages), 0) FROM threads WHERE ?1 IS NULL OR user_id = ?1"
    )
    return StoreStats(*connection.execute(query, (user_id,)).fetchone())


def _info(row: tuple[str, str | None, str, str, str, str, int, int]) -> ThreadInfo:
    thread_id, user_id, title, metadata, created, updated, results, messages = row
    return ThreadInfo(
        id=thread_id,
        user_id=user_id,
        title=title,
        metadata=load_metadata(metadata, thread_id),
        created_at=datetime.fromisoformat(created),
        updated_at=datetime.fromisoformat(updated),
        results=results,
        messages=messages,
    )


def set_times(
    connection: Connection, thread_id: str, created_at: datetime, updated_at: datetime
) -> None:
    """Say when a thread was made and changed."""
    statement = "UPDATE threads SET created_at = ?, updated_at = ? WHERE id = ?"
    values = (as_text(created_at), as_text(updated_at), thread_id)
    if not connection.execute(statement, values).rowcount:
        raise ThreadNotFoundError(thread_id)


def delete_thread(connection: Connection, thread_id: str) -> bool:
    """Remove a thread; its results and what is kept beside it go with it."""
    forget(connection, thread_id)
    return connection.execute("DELETE FROM threads WHERE id = ?", (thread_id,)).rowcount > 0
