"""The queries of who of the staff is on a thread; each function is one transaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from agentkit_py.errors import ThreadNotFoundError
from agentkit_py.history.staff import Takeover, TakeoverStatus
from agentkit_py.stores._sql_session import JsonText, Session
from agentkit_py.stores.rows import at_most, encode_takeover, from_json

_TAKEOVER = (
    "SELECT s.thread_id, t.user_id, {text:s.json} FROM {takeovers} s "
    "JOIN {threads} t ON t.id = s.thread_id"
)


def load(session: Session, *, thread_id: str) -> Takeover | None:
    """Return who is on a thread or wanted."""
    row = session.execute(f"{_TAKEOVER} WHERE s.thread_id = ?", thread_id).fetchone()
    return None if row is None else _decoded(session, row)


def change(
    session: Session, *, thread_id: str, make: Callable[[Takeover], Takeover | None]
) -> Takeover:
    """Change who is on a thread; return it as it is then."""
    query = "SELECT user_id FROM {threads} WHERE id = ? {FOR_UPDATE}"
    row = session.execute(query, thread_id).fetchone()
    if row is None:
        raise ThreadNotFoundError(thread_id)
    owner = None if row[0] is None else session.given(row[0])
    empty = Takeover(thread_id=thread_id, user_id=owner)
    known = load(session, thread_id=thread_id) or empty
    made = make(known)
    if made is None:
        return known
    made = replace(made, thread_id=thread_id, user_id=owner)
    if made.status is None:
        session.execute("DELETE FROM {takeovers} WHERE thread_id = ?", thread_id)
        return made
    session.execute(
        "INSERT INTO {takeovers} AS s (thread_id, status, since, json) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (thread_id) DO UPDATE SET status = excluded.status, since = excluded.since, "
        "json = excluded.json",
        *(thread_id, made.status, made.since, JsonText(encode_takeover(made))),
    )
    return made


def heard(session: Session, *, thread_id: str) -> bool:
    """Note that the user has written; return True if a person is to answer."""
    known = load(session, thread_id=thread_id)
    if known is None or not known.people:
        return False
    change(session, thread_id=thread_id, make=partial(Takeover.heard, at=datetime.now(UTC)))
    return True


def find(
    session: Session, *, status: TakeoverStatus | None, user_id: str | None, limit: int | None
) -> list[Takeover]:
    """Return threads that a person is on or wanted in, the oldest first."""
    conditions, values = ["true"], list[Any]()
    for column, value in (("s.status", status), ("t.user_id", user_id)):
        if value is not None:
            conditions.append(f"{column} = ?")
            values.append(value)
    query = f"{_TAKEOVER} WHERE {' AND '.join(conditions)} ORDER BY s.since, s.thread_id LIMIT ?"
    rows = session.execute(query, *values, at_most(limit)).fetchall()
    return [_decoded(session, row) for row in rows]


def _decoded(session: Session, row: Any) -> Takeover:
    thread_id = session.given(row[0])
    found = Takeover.from_dict(from_json(row[2], "takeover", "(whole)"), where="takeover")
    owner = None if row[1] is None else session.given(row[1])
    return replace(found, thread_id=thread_id, user_id=owner)
