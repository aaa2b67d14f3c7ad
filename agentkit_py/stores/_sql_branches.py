"""The queries of forks and rewinds; each function runs inside a transaction.

Results are stored under a row of ``threads``, which is called a branch here. A thread is its own
branch until it is rewound; then it continues in a hidden row. A branch may have a parent, whose
results before the branch's start are the branch's own, too, so that neither a fork nor a rewind
copies any.
"""

# ruff: noqa: S608 - queries are put together from parts of our own
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from agentkit_py.errors import (
    HistoryError,
    MessageNotFoundError,
    ThreadBusyError,
    ThreadNotFoundError,
)
from agentkit_py.processors.base import Extent
from agentkit_py.results import USER
from agentkit_py.stores import _sql_words as indexing
from agentkit_py.stores._sql_session import JsonText, Session
from agentkit_py.stores.rows import ALL, decode_row, first_title_of

BRANCH = "COALESCE((SELECT branch FROM {threads} WHERE id = ?), ?)"
"""The branch of a thread that two threads will share; its id if the thread does not exist."""

ROW = (
    "r.position, {bytes:r.json}, {bytes:r.metadata}, {bytes:r.tokens}, r.messages, r.size, r.system"
)
"""A result's place and content."""

_PLACE = "SELECT position, agent_name, messages, size, system FROM {results} WHERE thread_id = ?"
_SUMMARY = "text, covered, anchor, tokens, original_tokens, created_at, place"


@dataclass(frozen=True, slots=True)
class Branch:
    """One of the branches that a thread's results are stored under."""

    id: str
    start: int
    """Position of its first result; those before it are its parent's."""

    messages: int
    """Number of messages before its start."""


def chain(session: Session, thread_id: str) -> list[Branch]:
    """Return a thread's branch, its parent, and so on; a thread that is not there is its own."""
    query = (
        "WITH RECURSIVE chain (id, parent, start, start_messages, depth) AS ("
        f"SELECT id, parent, start, start_messages, 0 FROM {{threads}} WHERE id = {BRANCH} "
        "UNION ALL SELECT p.id, p.parent, p.start, p.start_messages, c.depth + 1 FROM chain c "
        "JOIN {threads} p ON p.id = c.parent) "
        "SELECT id, start, start_messages FROM chain ORDER BY depth"
    )
    rows = session.execute(query, thread_id, thread_id).fetchall()
    found = [Branch(session.given(key), start, messages) for key, start, messages in rows]
    return found or [Branch(thread_id, 0, 0)]


def pieces(branches: Sequence[Branch], first: int, end: int) -> Iterator[tuple[str, int, int]]:
    """Yield where the positions from ``first`` to ``end`` are stored, newest first."""
    for branch in branches:
        begin = max(first, branch.start)
        if begin < end:
            yield branch.id, begin, end
        end = min(end, branch.start)


def newest(session: Session, thread_id: str, limit: int) -> tuple[int, list[Any]]:
    """Return the number of results and the last rows, oldest first.

    Raises:
        ThreadNotFoundError: The thread does not exist.
    """
    # A single query, so that the count and the results are of the same moment.
    query = (
        f"SELECT t.results, t.branch, t.start, {ROW} FROM {{threads}} t LEFT JOIN {{results}} r "
        "ON r.thread_id = t.id AND r.position >= t.results - ? AND r.position < t.results "
        "WHERE t.id = ? AND NOT t.hidden ORDER BY r.position"
    )
    rows = session.execute(query, limit, thread_id).fetchall()
    if not rows:
        raise ThreadNotFoundError(thread_id)
    count, branch, start = rows[0][:3]
    if branch is not None:
        count = session.execute("SELECT results FROM {threads} WHERE id = ?", branch).fetchone()[0]
    elif count - limit >= start or not start:
        return count, [row[3:] for row in rows if row[3] is not None]
    return count, between(session, thread_id, max(0, count - limit), count)


def page(session: Session, thread_id: str, before: int, limit: int) -> list[Any]:
    """Return the last rows before a position, oldest first."""
    # A range, not LIMIT: positions have no gaps, and a planner without statistics might sort
    # the whole thread for LIMIT.
    query = (
        f"SELECT t.branch, t.start, {ROW} FROM {{threads}} t LEFT JOIN {{results}} r "
        "ON r.thread_id = t.id AND r.position >= ? AND r.position < ? "
        "WHERE t.id = ? AND NOT t.hidden ORDER BY r.position"
    )
    first = max(0, before - limit)
    rows = session.execute(query, first, before, thread_id).fetchall()
    if rows and (rows[0][0] is not None or first < rows[0][1]):
        return between(session, thread_id, first, before)
    return [row[2:] for row in rows if row[2] is not None]


def between(session: Session, thread_id: str, first: int, end: int) -> list[Any]:
    """Return the rows from a position to another, whichever branches they are in."""
    query = (
        f"SELECT {ROW} FROM {{results}} r WHERE r.thread_id = ? AND r.position >= ? "
        "AND r.position < ? ORDER BY r.position"
    )
    found: list[Any] = []
    for piece in reversed([*pieces(chain(session, thread_id), first, end)]):
        found += session.execute(query, *piece).fetchall()
    return found


def with_ids(session: Session, branches: Sequence[Branch], ids: Sequence[str]) -> list[Any]:
    """Return id and JSON of a thread's results with these ids."""
    # The plus sign keeps SQLite from choosing the index of positions, which has the whole thread.
    query = (
        "SELECT id, {bytes:json} FROM {results} WHERE thread_id = ? AND +position < ? AND id {ids}"
    )
    found: list[Any] = []
    for branch, _, end in pieces(branches, 0, ALL):
        found += session.select_ids(query, branch, end, ids=ids)
    return found


# Forking and rewinding.


@dataclass(frozen=True, slots=True)
class _LockedThread:
    """A thread to be forked or rewound, locked until the transaction ends."""

    user_id: str | None
    title: str
    metadata: str
    branches: Sequence[Branch]
    end: int
    extent: Extent


def _parent(session: Session, thread: _LockedThread, position: int, messages: int) -> str | None:
    """Return the branch to share results before a position with; None: there are none.

    A summary that begins later is left out, unless it covers shared messages.
    """
    query = (
        "SELECT 1 FROM {summaries} WHERE thread_id = ? AND text IS NOT NULL "
        "AND COALESCE(place, covered) <= ? LIMIT 1"
    )
    for branch in thread.branches if position else ():
        if branch.start < position:
            return branch.id
        if session.execute(query, branch.id, messages).fetchone() is not None:
            return branch.id
    return None


def fork(
    session: Session, thread_id: str, at: str | int | None, new_id: str, title: str | None
) -> None:
    """Add a thread that has the results of another before ``at``: a new row, and a changed row."""
    _one_by_one(session, thread_id)
    thread = _locked(session, thread_id)
    position, extent = _place(session, thread_id, thread, at)
    known = session.execute("SELECT origin, start FROM {threads} WHERE id = ?", new_id).fetchone()
    if known is not None:
        if known[0] is not None and session.given(known[0]) == thread_id and known[1] == position:
            return  # the same again
        raise HistoryError(f"There is a thread {new_id!r} already; give the fork another id.")
    name = thread.title if title is None else title.encode("utf-8", "replace").decode()
    made = (new_id, thread.user_id, name, JsonText(thread.metadata), thread_id, False)
    _insert(session, made, _parent(session, thread, position, extent.messages), position, extent)
    count(session, thread.user_id, 1)


def rewind(session: Session, thread_id: str, at: str | int) -> None:
    """Have a thread continue from ``at`` in its own branch: a new row, and a changed row."""
    _one_by_one(session, thread_id)
    thread = _locked(session, thread_id)
    query = "SELECT 1 FROM {leases} WHERE thread_id = ? AND until > {lease_clock}"
    asked = "SELECT 1 FROM {questions} WHERE thread_id = ? AND status = 'open'"
    if session.execute(query, thread_id).fetchone() or session.execute(asked, thread_id).fetchone():
        raise ThreadBusyError(thread_id)
    position, extent = _place(session, thread_id, thread, at)
    branch = uuid4().hex
    made = (branch, thread.user_id, "", JsonText("{}"), thread_id, True)
    _insert(session, made, _parent(session, thread, position, extent.messages), position, extent)
    title = thread.title
    if not position and title and title == _first_title(session, thread_id):
        title = ""  # it is made of a message that the thread has no more
    session.execute(
        "UPDATE {threads} SET branch = ?, title = ?, updated_at = clock_timestamp() WHERE id = ?",
        *(branch, title, thread_id),
    )


def _one_by_one(session: Session, thread_id: str) -> None:
    """Let processes that fork, rewind or delete threads of a user wait for each other.

    These may share results, and each of these changes asks who has a part in them.
    """
    found = session.execute("SELECT user_id FROM {threads} WHERE id = ?", thread_id).fetchone()
    user_id = None if found is None or found[0] is None else session.given(found[0])
    session.execute("{serialize}", f"forks of {user_id}")


def count(session: Session, user_id: str | None, more: int) -> None:
    """Count that a user has so many more threads; the last thing in a transaction."""
    if user_id is not None:
        session.execute(
            "INSERT INTO {owners} AS o (user_id, threads) VALUES (?, ?) "
            "ON CONFLICT (user_id) DO UPDATE SET threads = o.threads + excluded.threads",
            *(user_id, more),
        )
        session.execute("DELETE FROM {owners} WHERE user_id = ? AND threads = 0", user_id)


def _locked(session: Session, thread_id: str) -> _LockedThread:
    query = (
        "SELECT user_id, title, {text:metadata}, branch FROM {threads} "
        "WHERE id = ? AND NOT hidden {FOR_UPDATE}"
    )
    found = session.execute(query, thread_id).fetchone()
    if found is None:
        raise ThreadNotFoundError(thread_id)
    user_id, title, metadata, branch = found
    query = "SELECT results, messages, size, system FROM {threads} WHERE id = ?"
    own = thread_id if branch is None else session.given(branch)
    end, *extent = session.execute(query, own).fetchone()
    return _LockedThread(
        None if user_id is None else session.given(user_id),
        session.given(title),
        metadata,
        chain(session, thread_id),
        end,
        Extent(*extent),
    )


def _place(
    session: Session, thread_id: str, thread: _LockedThread, at: str | int | None
) -> tuple[int, Extent]:
    """Return the position of a user's message, or the end, with the thread's size before it."""
    if at is None or at == thread.end:
        return thread.end, thread.extent
    if isinstance(at, int) and not 0 <= at < thread.end:
        raise MessageNotFoundError(thread_id, at)
    column = "id" if isinstance(at, str) else "position"
    for branch, first, end in pieces(thread.branches, 0, thread.end):
        query = f"{_PLACE} AND {column} = ? AND position >= ? AND position < ?"
        row = session.execute(query, branch, at, first, end).fetchone()
        if row is not None and row[1] == USER:
            return row[0], Extent(*row[2:])
    raise MessageNotFoundError(thread_id, at)


def _insert(
    session: Session, made: tuple[Any, ...], parent: str | None, start: int, before: Extent
) -> None:
    session.execute(
        "INSERT INTO {threads} (id, user_id, title, metadata, origin, hidden, parent, start, "
        "start_messages, results, indexed, messages, size, system, created_at, "
        "updated_at{ITS_NUMBER}) VALUES "
        "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, now(), now(){NEXT_NUMBER})",
        *made,
        *(parent, start, before.messages, start, start),
        *(before.messages, before.size, before.system),
    )


def _first_title(session: Session, thread_id: str) -> str:
    first = between(session, thread_id, 0, 1)
    return first_title_of(decode_row(thread_id, 0, first[0][1], None).result) if first else ""


# Deleting.


def remove(session: Session, thread_id: str) -> bool:
    """Remove a thread, and all results that no other thread has a part in."""
    _one_by_one(session, thread_id)
    query = "SELECT parent, user_id FROM {threads} WHERE id = ? AND NOT hidden {FOR_UPDATE}"
    found = session.execute(query, thread_id).fetchone()
    if found is None:
        return False
    session.execute("UPDATE {threads} SET branch = NULL WHERE id = ?", thread_id)
    query = "SELECT id FROM {threads} WHERE origin = ? AND hidden ORDER BY start DESC"
    for (branch,) in session.execute(query, thread_id).fetchall():
        _collect(session, session.given(branch))
    keep = _needed(session, thread_id)
    if keep is None:
        _drop(session, thread_id)
    else:
        _move(session, thread_id, keep)
    session.execute("UPDATE {threads} SET origin = NULL WHERE origin = ?", thread_id)
    if found[0] is not None:
        _collect(session, session.given(found[0]))
    count(session, None if found[1] is None else session.given(found[1]), -1)
    return True


def _needed(session: Session, branch: str) -> int | None:
    """Return how far others share a branch's results; None: not at all."""
    query = (
        "SELECT CASE WHEN MAX(c.start) < b.start THEN b.start ELSE MAX(c.start) END "
        "FROM {threads} b JOIN {threads} c ON c.parent = b.id WHERE b.id = ? GROUP BY b.start"
    )
    found = session.execute(query, branch).fetchone()
    return None if found is None else found[0]


def _collect(session: Session, branch: str) -> None:
    """Remove results that no thread shares any more, of a hidden branch and its parents."""
    while True:
        query = "SELECT parent, origin, hidden, results FROM {threads} WHERE id = ? {FOR_UPDATE}"
        found = session.execute(query, branch).fetchone()
        if found is None or not found[2]:
            return
        parent, origin, _, count = found
        query = "SELECT 1 FROM {threads} WHERE id = ? AND branch = ?"
        if origin is not None:
            origin = session.given(origin)
            if session.execute(query, origin, branch).fetchone() is not None:
                return
        keep = _needed(session, branch)
        if keep is not None:
            if keep < count:
                _cut(session, branch, keep)
            return
        _drop(session, branch)
        if parent is None:
            return
        branch = session.given(parent)


def _drop(session: Session, branch: str) -> None:
    """Remove a branch with its results, runs, summaries and vectors."""
    indexing.remove(session, branch)
    session.execute("DELETE FROM {threads} WHERE id = ?", branch)
    for table in ("summaries", "vectors"):
        session.execute(f"DELETE FROM {{{table}}} WHERE thread_id = ?", branch)


def _cut(session: Session, branch: str, keep: int) -> None:
    """Remove a branch's results from a position on, and all that was made of them."""
    indexing.remove(session, branch, keep)
    query = "SELECT messages, size, system FROM {results} WHERE thread_id = ? AND position = ?"
    size = session.execute(query, branch, keep).fetchone()
    session.execute("DELETE FROM {results} WHERE thread_id = ? AND position >= ?", branch, keep)
    session.execute("DELETE FROM {runs} WHERE thread_id = ? AND position > ?", branch, keep)
    session.execute(
        "UPDATE {threads} SET results = ?, messages = ?, size = ?, system = ?, "
        "indexed = CASE WHEN indexed < ? THEN indexed ELSE ? END WHERE id = ?",
        *(keep, *size, keep, keep, branch),
    )
    pass_on(session, branch)
    # A vector does not say which text it was made of.
    for table in ("summaries", "vectors"):
        session.execute(f"DELETE FROM {{{table}}} WHERE thread_id = ?", branch)


def _move(session: Session, thread_id: str, keep: int) -> None:
    """Remove a thread, and leave the results that others have a part in to a hidden branch."""
    branch = uuid4().hex
    indexing.remove(session, thread_id)
    pass_on(session, thread_id)
    session.execute(
        "INSERT INTO {threads} (id, user_id, title, metadata, hidden, parent, start, "
        "start_messages, results, messages, size, system, indexed, created_at, "
        "updated_at{ITS_NUMBER}) "
        "SELECT ?, user_id, '', ?, ?, parent, start, start_messages, results, messages, size, "
        "system, start, now(), now(){NEXT_NUMBER} FROM {threads} WHERE id = ?",
        *(branch, JsonText("{}"), True, thread_id),
    )
    rows = "WHERE thread_id = ? AND position"
    session.execute(f"UPDATE {{results}} SET thread_id = ? {rows} < ?", branch, thread_id, keep)
    session.execute(
        f"UPDATE {{runs}} SET thread_id = ? {rows} <= ? AND has_state", branch, thread_id, keep
    )
    session.execute("UPDATE {threads} SET parent = ? WHERE parent = ?", branch, thread_id)
    count, *size = session.execute(
        "SELECT t.results, COALESCE(r.messages, t.messages), COALESCE(r.size, t.size), "
        "COALESCE(r.system, t.system) FROM {threads} t "
        "LEFT JOIN {results} r ON r.thread_id = t.id AND r.position = ? WHERE t.id = ?",
        *(keep, thread_id),
    ).fetchone()
    session.execute(
        "UPDATE {threads} SET results = ?, messages = ?, size = ?, system = ? WHERE id = ?",
        *(min(count, keep), *size, branch),
    )
    session.execute("UPDATE {threads} SET indexed = start WHERE id = ?", thread_id)
    _drop(session, thread_id)
    indexing.fill(session, branch)


# Summaries.


def pass_on(session: Session, branch: str, key: str | None = None, of: str | None = None) -> None:
    """Give a branch's children its summaries of shared messages, before these change.

    Args:
        session: The transaction.
        branch: The branch.
        key: The key of a summary; None: all.
        of: The branch that has them, from which this branch inherits them; None: itself.
    """
    which, keys = ("", ()) if key is None else (" AND s.key = ?", (key,))
    session.execute(
        f"INSERT INTO {{summaries}} AS mine (thread_id, key, {_SUMMARY}) "
        f"SELECT c.id, s.key, {', '.join('s.' + name for name in _SUMMARY.split(', '))} "
        "FROM {summaries} s JOIN {threads} c ON c.parent = ? "
        f"WHERE s.thread_id = ?{which} AND s.text IS NOT NULL "
        "AND COALESCE(s.place, s.covered) <= c.start_messages "
        "ON CONFLICT (thread_id, key) DO UPDATE SET "
        f"{', '.join(f'{name} = excluded.{name}' for name in _SUMMARY.split(', '))} "
        "WHERE mine.text IS NULL",
        *(branch, of or branch, *keys),
    )
