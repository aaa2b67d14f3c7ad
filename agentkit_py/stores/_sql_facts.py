"""The queries of facts; each function is one transaction."""

# ruff: noqa: S608 - queries are put together from parts of our own
from __future__ import annotations

from typing import Any

from agentkit_py.errors import ThreadNotFoundError
from agentkit_py.history.users import Fact
from agentkit_py.stores._sql_session import JsonText, Session
from agentkit_py.stores.rows import at_most, from_json

_MINE = "tenant = ? AND user_id = ?"


def add(session: Session, *, fact: Fact, text: JsonText) -> bool:
    """Add a fact in place of the one that it replaces."""
    mine = (fact.tenant, fact.user_id)
    thread = fact.thread_id
    query = "SELECT 1 FROM {threads} WHERE id = ?"
    if thread is not None and session.execute(query, thread).fetchone() is None:
        raise ThreadNotFoundError(thread)
    session.execute("{serialize}", f"facts of {fact.user_id}")
    find = f"SELECT chain FROM {{facts}} WHERE {_MINE} AND id = ?"
    if session.execute(find, *mine, fact.id).fetchone() is not None:
        return True
    chain = fact.id
    if fact.replaces is not None:
        row = session.execute(find, *mine, fact.replaces).fetchone()
        if row is None:
            return False
        chain = session.given(row[0])
        session.execute(
            f"UPDATE {{facts}} SET replaced_by = ? WHERE {_MINE} AND chain = ? "
            "AND replaced_by IS NULL",
            *(fact.id, *mine, chain),
        )
    session.execute(
        "INSERT INTO {facts} (tenant, user_id, id, chain, thread_id, json) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        *(*mine, fact.id, chain, thread, text),
    )
    return True


def find(
    session: Session, *, tenant: str, user_id: str, replaced: bool, limit: int | None
) -> list[Fact]:
    """Return a user's facts, newest first."""
    holding = "" if replaced else " AND replaced_by IS NULL"
    query = (
        f"SELECT id, thread_id, replaced_by, {{text:json}} FROM {{facts}} WHERE {_MINE}{holding} "
        "ORDER BY number DESC LIMIT ?"
    )
    rows = session.execute(query, tenant, user_id, at_most(limit)).fetchall()
    return [_fact(session, tenant, user_id, row) for row in rows]


def _fact(session: Session, tenant: str, user_id: str, row: Any) -> Fact:
    key, thread, later = (None if one is None else session.given(one) for one in row[:3])
    record = from_json(row[3], f"fact {key!r}", "(whole)")
    return Fact.from_dict(
        record, tenant=tenant, user_id=user_id, id=key, thread_id=thread, replaced_by=later
    )


def remove(session: Session, *, user_id: str, tenant: str | None, fact_id: str | None) -> int:
    """Remove a user's facts, or one with all that stood in its place."""
    query, values = "DELETE FROM {facts} WHERE user_id = ?", [user_id]
    if tenant is not None:
        query += " AND tenant = ?"
        values.append(tenant)
    if fact_id is not None:
        query += (
            " AND (tenant, user_id, chain) IN "
            "(SELECT tenant, user_id, chain FROM {facts} WHERE user_id = ? AND id = ?)"
        )
        values += [user_id, fact_id]
    return session.execute(query, *values).rowcount
