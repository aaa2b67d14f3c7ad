"""The queries of mailboxes; each function is one transaction."""

from __future__ import annotations

import json

from agentkit_py._core.json import JsonObject
from agentkit_py.history.mail import MAIL_SECONDS
from agentkit_py.stores._sql_session import JsonText, Session


def put(session: Session, *, box: str, mail_id: str, text: JsonText) -> None:
    """Add mail to a box, and remove what is too old."""
    session.execute("DELETE FROM {mail} WHERE until <= {lease_clock}")
    session.execute(
        "INSERT INTO {mail} (box, id, json, until) VALUES (?, ?, ?, {later}) "
        "ON CONFLICT (box, id) DO NOTHING",
        *(box, mail_id, text, MAIL_SECONDS),
    )


def take(session: Session, *, box: str, taker: str) -> JsonObject | None:
    """Return the taker's mail, or give it the oldest that is free."""
    session.execute("{serialize}", box)
    query = "SELECT {text:json} FROM {mail} WHERE box = ? AND taker = ?"
    row = session.execute(query, box, taker).fetchone()
    if row is None:
        query = (
            "SELECT {text:json}, number FROM {mail} WHERE box = ? AND taker IS NULL "
            "AND until > {lease_clock} ORDER BY number LIMIT 1"
        )
        row = session.execute(query, box).fetchone()
        if row is None:
            return None
        session.execute("UPDATE {mail} SET taker = ? WHERE number = ?", taker, row[1])
    return json.loads(row[0])


def take_all(session: Session, *, box: str, taker: str, at_work: bool) -> list[JsonObject] | None:
    """Return the taker's mail, or give it all that is free; None: some of it interrupts."""
    session.execute("{serialize}", box)
    query = "SELECT {text:json} FROM {mail} WHERE box = ? AND taker = ? ORDER BY number"
    found = [json.loads(row[0]) for row in session.execute(query, box, taker).fetchall()]
    if found:
        return found
    query = (
        "SELECT {text:json} FROM {mail} WHERE box = ? AND taker IS NULL "
        "AND until > {lease_clock} ORDER BY number"
    )
    found = [json.loads(row[0]) for row in session.execute(query, box).fetchall()]
    if at_work and any(one["interrupts"] for one in found):
        return None
    session.execute("UPDATE {mail} SET taker = ? WHERE box = ? AND taker IS NULL", taker, box)
    return found


def has_any(session: Session, *, box: str, taker: str) -> bool:
    """Return whether there is mail that the taker would get."""
    query = "SELECT 1 FROM {mail} WHERE box = ? AND (taker IS NULL OR taker = ?) LIMIT 1"
    return session.execute(query, box, taker).fetchone() is not None
