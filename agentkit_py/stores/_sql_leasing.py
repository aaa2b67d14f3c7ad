"""The queries of leases: who has a thread, who is in line for it, and who was stopped.

Each function is one transaction. Those of one execution, and those of one thread, come one after
another: the execution is locked before the thread, so that nobody waits for each other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agentkit_py.history.runs import CLAIM_SECONDS, LINE_SECONDS, Unfinished, execution_of

if TYPE_CHECKING:
    from agentkit_py.stores._sql_session import Session

_WEEK = 7 * 24 * 3600.0
"""Seconds for which it is remembered that an execution was stopped."""


def lock(session: Session, *, thread_id: str, owner: str, seconds: float) -> bool:
    """Take or renew the lease if nobody has it, or is to have it before ``owner``."""
    execution = execution_of(owner)
    if execution is not None:
        session.execute("{serialize}", execution)
        if is_stopped(session, execution=execution):
            return False
    session.execute("{serialize}", thread_id)
    query = "SELECT owner FROM {leases} WHERE thread_id = ? AND until > {lease_clock}"
    holder = session.execute(query, thread_id).fetchone()
    if holder is not None and session.given(holder[0]) != owner:
        return False
    if holder is None and _first_in_line(session, thread_id) not in (None, owner):
        return False
    _give(session, thread_id, owner, seconds)
    return True


def wait(session: Session, *, thread_id: str, owner: str, seconds: float) -> bool:
    """Take the lease, or a place in line."""
    if lock(session, thread_id=thread_id, owner=owner, seconds=seconds):
        return True
    execution = execution_of(owner)
    if execution is None or not is_stopped(session, execution=execution):
        session.execute(
            "INSERT INTO {line} AS l (thread_id, owner, execution, until) "
            "VALUES (?, ?, ?, {later}) ON CONFLICT (thread_id, owner) DO UPDATE "
            "SET until = excluded.until",
            *(thread_id, owner, execution, LINE_SECONDS),
        )
    return False


def unlock(session: Session, *, thread_id: str, owner: str) -> str | None:
    """End the owner's lease or place in line, and pass a free lease on."""
    session.execute("{serialize}", thread_id)
    for table in ("leases", "line"):
        query = f"DELETE FROM {{{table}}} WHERE thread_id = ? AND owner = ?"  # noqa: S608 - a name of ours
        session.execute(query, thread_id, owner)
    query = "SELECT 1 FROM {leases} WHERE thread_id = ? AND until > {lease_clock}"
    if session.execute(query, thread_id).fetchone() is not None:
        return None
    first = _first_in_line(session, thread_id)
    if first is not None:
        _give(session, thread_id, first, CLAIM_SECONDS)
    return first


def note(session: Session, *, thread_id: str, owner: str, texts: Mapping[str, Any]) -> bool:
    """Keep notes, unless the owner was stopped."""
    execution = execution_of(owner)
    if execution is not None:
        session.execute("{serialize}", execution)
        if is_stopped(session, execution=execution):
            return False
    session.execute_many(
        "INSERT INTO {notes} (thread_id, owner, execution, key, json) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (thread_id, owner, key) DO UPDATE SET json = excluded.json",
        [(thread_id, owner, execution, key, text) for key, text in texts.items()],
    )
    return True


def stop(session: Session, *, execution: str) -> list[Unfinished]:
    """Mark an execution as stopped, and find what it has."""
    session.execute("{serialize}", execution)
    session.execute("DELETE FROM {stopped} WHERE until <= {lease_clock}")
    session.execute(
        "INSERT INTO {stopped} (execution, until) VALUES (?, {later}) ON CONFLICT DO NOTHING",
        *(execution, _WEEK),
    )
    session.execute(
        "UPDATE {questions} SET status = 'stopped' WHERE execution = ? AND status = 'open'",
        execution,
    )
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for table in ("leases", "line"):
        query = f"SELECT thread_id, owner FROM {{{table}}} WHERE execution = ?"  # noqa: S608 - a name of ours
        for row in session.execute(query, execution).fetchall():
            found[session.given(row[0]), session.given(row[1])] = {}
    query = (
        "SELECT thread_id, owner, key, {text:json} FROM {notes} WHERE execution = ? ORDER BY number"
    )
    for thread_id, owner, key, text in session.execute(query, execution).fetchall():
        notes = found.setdefault((session.given(thread_id), session.given(owner)), {})
        notes[session.given(key)] = json.loads(text)
    return [
        Unfinished(thread_id=thread_id, owner=owner, notes=notes)
        for (thread_id, owner), notes in found.items()
    ]


def is_stopped(session: Session, *, execution: str) -> bool:
    """Return whether an execution was stopped."""
    query = "SELECT 1 FROM {stopped} WHERE execution = ?"
    return session.execute(query, execution).fetchone() is not None


def _first_in_line(session: Session, thread_id: str) -> str | None:
    query = (
        "SELECT owner FROM {line} WHERE thread_id = ? AND until > {lease_clock} "
        "ORDER BY number LIMIT 1"
    )
    row = session.execute(query, thread_id).fetchone()
    return None if row is None else session.given(row[0])


def _give(session: Session, thread_id: str, owner: str, seconds: float) -> None:
    session.execute(
        "INSERT INTO {leases} AS l (thread_id, owner, execution, until) VALUES (?, ?, ?, {later}) "
        "ON CONFLICT (thread_id) DO UPDATE SET owner = excluded.owner, "
        "execution = excluded.execution, until = excluded.until",
        *(thread_id, owner, execution_of(owner), seconds),
    )
    session.execute("DELETE FROM {line} WHERE thread_id = ? AND owner = ?", thread_id, owner)
