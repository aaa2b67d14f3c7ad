"""The queries for what a SqliteHistory keeps beside threads: summaries, vectors, leases, runs."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from agentkit_py.errors import ThreadNotFoundError
from agentkit_py.history.runs import RunRecord
from agentkit_py.processors.base import Summary
from agentkit_py.processors.vectors import Vector, nearest
from agentkit_py.stores.beside import Beside
from agentkit_py.stores.packing import of_bytes, to_bytes
from agentkit_py.stores.records import decode_run, encode_run

if TYPE_CHECKING:
    from sqlite3 import Connection


def load_summary(connection: Connection, thread_id: str, key: str) -> Summary | None:
    """The summary, if there is one."""
    query = (
        "SELECT text, covered, anchor, tokens, original_tokens, created_at, place FROM summaries "
        "WHERE thread_id = ? AND key = ? AND text IS NOT NULL"
    )
    row = connection.execute(query, (thread_id, key)).fetchone()
    if row is None:
        return None
    text, covered, anchor, tokens, original, created, place = row
    return Summary(
        text=text,
        covered=covered,
        anchor=anchor,
        tokens=tokens,
        original_tokens=original,
        created_at=datetime.fromisoformat(created),
        place=place,
    )


def lock_summary(
    connection: Connection, thread_id: str, key: str, owner: str, seconds: float
) -> bool:
    """Take the right to write, if nobody else has it."""
    now = time.time()
    connection.execute(
        "INSERT INTO summaries (thread_id, key) VALUES (?, ?) ON CONFLICT DO NOTHING",
        (thread_id, key),
    )
    statement = (
        "UPDATE summaries SET locked_by = ?, locked_until = ? WHERE thread_id = ? AND key = ? "
        "AND (locked_by IS NULL OR locked_by = ? OR locked_until <= ?)"
    )
    values = (owner, now + seconds, thread_id, key, owner, now)
    return connection.execute(statement, values).rowcount > 0


def save_summary(
    connection: Connection, thread_id: str, key: str, summary: Summary, owner: str
) -> bool:
    """Write, if ``owner`` has the right to, and give that back."""
    statement = (
        "UPDATE summaries SET text = ?, covered = ?, anchor = ?, tokens = ?, original_tokens = ?, "
        "created_at = ?, place = ?, locked_by = NULL, locked_until = NULL "
        "WHERE thread_id = ? AND key = ? AND locked_by = ?"
    )
    values = (
        summary.text.encode("utf-8", "replace").decode(),
        summary.covered,
        summary.anchor,
        summary.tokens,
        summary.original_tokens,
        summary.created_at.isoformat(),
        summary.place,
        thread_id,
        key,
        owner,
    )
    return connection.execute(statement, values).rowcount > 0


def unlock_summary(connection: Connection, thread_id: str, key: str, owner: str) -> None:
    """Give the right to write back."""
    connection.execute(
        "UPDATE summaries SET locked_by = NULL, locked_until = NULL "
        "WHERE thread_id = ? AND key = ? AND locked_by = ?",
        (thread_id, key, owner),
    )


def missing_vectors(
    connection: Connection, thread_id: str, key: str, ids: Sequence[str]
) -> list[str]:
    """Those of ``ids`` that there is no vector of."""
    query = "SELECT id FROM vectors WHERE thread_id = ? AND key = ?"
    known = {row[0] for row in connection.execute(query, (thread_id, key))}
    return [one for one in ids if one not in known]


def add_vectors(
    connection: Connection, thread_id: str, key: str, vectors: Mapping[str, Vector]
) -> None:
    """Add the vectors that are new."""
    connection.executemany(
        "INSERT INTO vectors VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        [(thread_id, key, one, to_bytes(vector)) for one, vector in vectors.items()],
    )


def nearest_vectors(
    connection: Connection,
    thread_id: str,
    key: str,
    vector: Vector,
    ids: Collection[str],
    k: int,
) -> list[tuple[str, float]]:
    """The nearest of ``ids``."""
    query = "SELECT id, vector FROM vectors WHERE thread_id = ? AND key = ?"
    wanted = set(ids)
    rows = connection.execute(query, (thread_id, key))
    return nearest(vector, {row[0]: of_bytes(row[1]) for row in rows if row[0] in wanted}, k)


def lock_thread(connection: Connection, thread_id: str, owner: str, seconds: float) -> bool:
    """Take or prolong the lease of a thread."""
    now = time.time()
    statement = (
        "INSERT INTO leases VALUES (?, ?, ?) ON CONFLICT (thread_id) DO UPDATE "
        "SET owner = excluded.owner, until = excluded.until "
        "WHERE owner = excluded.owner OR until <= ?"
    )
    return connection.execute(statement, (thread_id, owner, now + seconds, now)).rowcount > 0


def unlock_thread(connection: Connection, thread_id: str, owner: str) -> None:
    """Give the lease back."""
    connection.execute("DELETE FROM leases WHERE thread_id = ? AND owner = ?", (thread_id, owner))


def save_run(connection: Connection, thread_id: str, run: RunRecord) -> None:
    """Put a run in place of what was known of it."""
    statement = (
        "INSERT INTO runs (thread_id, id, json, has_state) SELECT id, ?, ?, ? FROM threads "
        "WHERE id = ? ON CONFLICT (thread_id, id) DO UPDATE "
        "SET json = excluded.json, has_state = excluded.has_state"
    )
    values = (run.id, encode_run(run, thread_id), run.state is not None, thread_id)
    if not connection.execute(statement, values).rowcount:
        raise ThreadNotFoundError(thread_id)


def load_run(connection: Connection, thread_id: str, run_id: str | None) -> RunRecord | None:
    """A run, or the newest one with a state."""
    if run_id is not None:
        query = "SELECT id, json FROM runs WHERE thread_id = ? AND id = ?"
        row = connection.execute(query, (thread_id, run_id)).fetchone()
    else:
        query = (
            "SELECT id, json FROM runs WHERE thread_id = ? "
            "AND has_state ORDER BY number DESC LIMIT 1"
        )
        row = connection.execute(query, (thread_id,)).fetchone()
    return None if row is None else decode_run(thread_id, *row)


def all_of(connection: Connection, thread_id: str) -> Beside:
    """All that is kept beside a thread."""
    query = "SELECT key FROM summaries WHERE thread_id = ? AND text IS NOT NULL ORDER BY key"
    keys = [key for (key,) in connection.execute(query, (thread_id,)).fetchall()]
    found = {key: load_summary(connection, thread_id, key) for key in keys}
    vectors: dict[str, dict[str, Vector]] = {}
    query = "SELECT key, id, vector FROM vectors WHERE thread_id = ? ORDER BY key, id"
    for key, one, packed in connection.execute(query, (thread_id,)):
        vectors.setdefault(key, {})[one] = of_bytes(packed)
    query = "SELECT id, json FROM runs WHERE thread_id = ? ORDER BY number"
    runs = connection.execute(query, (thread_id,)).fetchall()
    return Beside(
        summaries={key: summary for key, summary in found.items() if summary is not None},
        vectors=vectors,
        runs=tuple(decode_run(thread_id, *row) for row in runs),
    )


def forget(connection: Connection, thread_id: str) -> None:
    """Remove all that is kept beside a thread."""
    connection.execute("DELETE FROM summaries WHERE thread_id = ?", (thread_id,))
    connection.execute("DELETE FROM vectors WHERE thread_id = ?", (thread_id,))
    connection.execute("DELETE FROM leases WHERE thread_id = ?", (thread_id,))
