"""The queries of budgets; each function is one transaction."""

from __future__ import annotations

from collections.abc import Sequence

from agentkit_py.history.users import Refused, Spending
from agentkit_py.stores._sql_session import Session


class NoRoomError(Exception):
    """Ends the transaction, so that nothing of it is counted."""

    def __init__(self, refused: Refused) -> None:
        super().__init__()
        self.refused = refused


def spend(session: Session, *, spendings: Sequence[Spending]) -> None:
    """Add all amounts.

    Raises:
        NoRoomError: A counter has no room.
    """
    for one in spendings:
        key = (one.scope, one.kind, one.period)
        session.execute(
            "INSERT INTO {budgets} (scope, kind, period, used) VALUES (?, ?, ?, 0) "
            "ON CONFLICT DO NOTHING",
            *key,
        )
        # The row is locked from here on, and the condition holds for what others have committed.
        query = "UPDATE {budgets} SET used = used + ? WHERE scope = ? AND kind = ? AND period = ?"
        values = [one.amount, *key]
        if one.most is not None:
            query += " AND used + ? <= ?"
            values += [one.amount, one.most]
        if session.execute(query, *values).rowcount == 0:
            query = "SELECT used FROM {budgets} WHERE scope = ? AND kind = ? AND period = ?"
            raise NoRoomError(Refused(one, float(session.execute(query, *key).fetchone()[0])))


def spent(session: Session, *, scope: str) -> dict[tuple[str, str], float]:
    """Return a scope's counters."""
    query = "SELECT kind, period, used FROM {budgets} WHERE scope = ?"
    rows = session.execute(query, scope).fetchall()
    return {(session.given(row[0]), session.given(row[1])): float(row[2]) for row in rows}
