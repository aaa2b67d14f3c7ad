"""Records of all kinds in a table of an SQL database."""

from __future__ import annotations

from typing import Any

from agentkit_py.stores._sql_session import JsonText, Session
from agentkit_py.stores.records import Record, Records
from agentkit_py.stores.rows import at_most

# ruff: noqa: S608 - queries are put together from parts of our own

_RECORD = "SELECT key, {text:json}, thread_id, owner, status, until FROM {records}"


class TableRecords(Records):
    """The rows of the table within a transaction; transactions on a kind wait for each other."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._locked: set[str] = set()

    def get(self, kind: str, key: str) -> Record | None:
        self._lock(kind)
        query = f"{_RECORD} WHERE kind = ? AND key = ?"
        row = self._session.execute(query, kind, key).fetchone()
        return None if row is None else self._record(row)

    def put(self, kind: str, record: Record) -> None:
        self._lock(kind)
        self._session.execute(
            "INSERT INTO {records} (kind, key, json, thread_id, owner, status, until) "
            "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (kind, key) DO UPDATE "
            "SET json = excluded.json, thread_id = excluded.thread_id, owner = excluded.owner, "
            "status = excluded.status, until = excluded.until",
            *(kind, record.key, JsonText(record.json), record.thread),
            *(record.group, record.status, record.until),
        )

    def find(
        self,
        kind: str,
        *,
        thread: str | None = None,
        group: str | None = None,
        status: str | None = None,
        last: int | None = None,
    ) -> list[Record]:
        self._lock(kind)
        where, values = _where(kind=kind, thread_id=thread, owner=group, status=status)
        query = f"{_RECORD} WHERE {where} ORDER BY number DESC LIMIT ?"
        rows = self._session.execute(query, *values, at_most(last)).fetchall()
        return [self._record(row) for row in reversed(rows)]

    def delete(
        self,
        kind: str | None,
        *,
        key: str | None = None,
        thread: str | None = None,
        group: str | None = None,
    ) -> int:
        if kind is not None:
            self._lock(kind)
        where, values = _where(kind=kind, key=key, thread_id=thread, owner=group)
        return self._session.execute(f"DELETE FROM {{records}} WHERE {where}", *values).rowcount

    def _lock(self, kind: str) -> None:
        if kind not in self._locked:
            self._locked.add(kind)
            self._session.execute("{serialize}", f"records of {kind}").fetchone()

    def _record(self, row: Any) -> Record:
        key, thread, group, status = (
            None if text is None else self._session.given(text) for text in (row[0], *row[2:5])
        )
        return Record(
            key=key or "", json=row[1], thread=thread, group=group, status=status, until=row[5]
        )


def _where(**columns: str | None) -> tuple[str, list[str]]:
    """Return a condition on the columns that have a value, and these values."""
    sought = {name: value for name, value in columns.items() if value is not None}
    return " AND ".join(f"{name} = ?" for name in sought), list(sought.values())
