"""The queries for what a PostgresHistory keeps beside threads: summaries, vectors, leases, runs."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC

from agentkit_py.errors import ThreadNotFoundError
from agentkit_py.history.runs import RunRecord
from agentkit_py.processors.base import Summary
from agentkit_py.processors.vectors import Vector, nearest
from agentkit_py.stores._pg_rows import given, kept, verbatim
from agentkit_py.stores._pg_server import Session
from agentkit_py.stores.beside import Beside
from agentkit_py.stores.packing import of_bytes, to_bytes
from agentkit_py.stores.records import decode_run, encode_json, encode_run


async def load_summary(session: Session, thread_id: str, key: str) -> Summary | None:
    """The summary, if there is one."""
    row = await session.one(
        "SELECT text::text, covered, anchor, tokens, original_tokens, created_at, place "
        "FROM {summaries} WHERE thread_id = %s AND key = %s AND text IS NOT NULL",
        kept(thread_id),
        kept(key),
    )
    if row is None:
        return None
    text, covered, anchor, tokens, original, created, place = row
    return Summary(
        text=json.loads(text),
        covered=covered,
        anchor=anchor,
        tokens=tokens,
        original_tokens=original,
        created_at=created.astimezone(UTC),
        place=place,
    )


async def lock_summary(
    session: Session, thread_id: str, key: str, owner: str, seconds: float
) -> bool:
    """Take the right to write, if nobody else has it."""
    done = await session.run(
        "INSERT INTO {summaries} AS s (thread_id, key, locked_by, locked_until) "
        "VALUES (%s, %s, %s, clock_timestamp() + make_interval(secs => %s)) "
        "ON CONFLICT (thread_id, key) DO UPDATE SET locked_by = excluded.locked_by, "
        "locked_until = excluded.locked_until WHERE s.locked_by IS NULL "
        "OR s.locked_by = excluded.locked_by OR s.locked_until <= clock_timestamp()",
        kept(thread_id),
        kept(key),
        kept(owner),
        seconds,
    )
    return done.rowcount > 0


async def save_summary(
    session: Session, thread_id: str, key: str, summary: Summary, owner: str
) -> bool:
    """Write, if ``owner`` has the right to, and give that back."""
    done = await session.run(
        "UPDATE {summaries} SET text = %s, covered = %s, anchor = %s, tokens = %s, "
        "original_tokens = %s, created_at = %s, place = %s, locked_by = NULL, "
        "locked_until = NULL WHERE thread_id = %s AND key = %s AND locked_by = %s",
        verbatim(encode_json(summary.text.encode("utf-8", "replace").decode(), "The summary")),
        summary.covered,
        summary.anchor,
        summary.tokens,
        summary.original_tokens,
        summary.created_at,
        summary.place,
        kept(thread_id),
        kept(key),
        kept(owner),
    )
    return done.rowcount > 0


async def unlock_summary(session: Session, thread_id: str, key: str, owner: str) -> None:
    """Give the right to write back."""
    await session.run(
        "UPDATE {summaries} SET locked_by = NULL, locked_until = NULL "
        "WHERE thread_id = %s AND key = %s AND locked_by = %s",
        kept(thread_id),
        kept(key),
        kept(owner),
    )


async def missing_vectors(
    session: Session, thread_id: str, key: str, ids: Sequence[str]
) -> list[str]:
    """Those of ``ids`` that there is no vector of."""
    rows = await session.all(
        "SELECT id FROM {vectors} WHERE thread_id = %s AND key = %s AND id = ANY(%s)",
        kept(thread_id),
        kept(key),
        [kept(one) for one in ids],
    )
    known = {given(row[0]) for row in rows}
    return [one for one in ids if one not in known]


async def add_vectors(
    session: Session, thread_id: str, key: str, vectors: Mapping[str, Vector]
) -> None:
    """Add the vectors that are new."""
    await session.many(
        "INSERT INTO {vectors} VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
        [
            (kept(thread_id), kept(key), kept(one), to_bytes(vector))
            for one, vector in sorted(vectors.items())
        ],
    )


async def nearest_vectors(
    session: Session,
    thread_id: str,
    key: str,
    vector: Vector,
    ids: Collection[str],
    k: int,
) -> list[tuple[str, float]]:
    """The nearest of ``ids``."""
    rows = await session.all(
        "SELECT id, vector FROM {vectors} WHERE thread_id = %s AND key = %s AND id = ANY(%s)",
        kept(thread_id),
        kept(key),
        [kept(one) for one in ids],
    )
    return nearest(vector, {given(one): of_bytes(stored) for one, stored in rows}, k)


async def lock_thread(session: Session, thread_id: str, owner: str, seconds: float) -> bool:
    """Take or prolong the lease of a thread."""
    done = await session.run(
        "INSERT INTO {leases} AS l VALUES (%s, %s, clock_timestamp() + make_interval(secs => %s)) "
        "ON CONFLICT (thread_id) DO UPDATE SET owner = excluded.owner, until = excluded.until "
        "WHERE l.owner = excluded.owner OR l.until <= clock_timestamp()",
        kept(thread_id),
        kept(owner),
        seconds,
    )
    return done.rowcount > 0


async def unlock_thread(session: Session, thread_id: str, owner: str) -> None:
    """Give the lease back."""
    await session.run(
        "DELETE FROM {leases} WHERE thread_id = %s AND owner = %s", kept(thread_id), kept(owner)
    )


async def save_run(session: Session, thread_id: str, run: RunRecord) -> None:
    """Put a run in place of what was known of it."""
    done = await session.run(
        "INSERT INTO {runs} (thread_id, id, json, has_state, updated_at) "
        "SELECT id, %s, %s, %s, clock_timestamp() FROM {threads} WHERE id = %s "
        "ON CONFLICT (thread_id, id) DO UPDATE SET json = excluded.json, "
        "has_state = excluded.has_state, updated_at = excluded.updated_at",
        kept(run.id),
        verbatim(encode_run(run, thread_id)),
        run.state is not None,
        kept(thread_id),
    )
    if not done.rowcount:
        raise ThreadNotFoundError(thread_id)


async def load_run(session: Session, thread_id: str, run_id: str | None) -> RunRecord | None:
    """A run, or the newest one with a state."""
    if run_id is not None:
        row = await session.one(
            "SELECT id, json::text FROM {runs} WHERE thread_id = %s AND id = %s",
            kept(thread_id),
            kept(run_id),
        )
    else:
        row = await session.one(
            "SELECT id, json::text FROM {runs} WHERE thread_id = %s "
            "AND has_state ORDER BY number DESC LIMIT 1",
            kept(thread_id),
        )
    return None if row is None else decode_run(thread_id, given(row[0]), row[1])


async def all_of(session: Session, thread_id: str) -> Beside:
    """All that is kept beside a thread."""
    key = kept(thread_id)
    rows = await session.all(
        "SELECT key FROM {summaries} WHERE thread_id = %s AND text IS NOT NULL ORDER BY key", key
    )
    found = {given(row[0]): await load_summary(session, thread_id, given(row[0])) for row in rows}
    vectors: dict[str, dict[str, Vector]] = {}
    query = "SELECT key, id, vector FROM {vectors} WHERE thread_id = %s ORDER BY key, id"
    for name, one, packed in await session.all(query, key):
        vectors.setdefault(given(name), {})[given(one)] = of_bytes(packed)
    runs = await session.all(
        "SELECT id, json::text FROM {runs} WHERE thread_id = %s ORDER BY number", key
    )
    return Beside(
        summaries={name: summary for name, summary in found.items() if summary is not None},
        vectors=vectors,
        runs=tuple(decode_run(thread_id, given(one), text) for one, text in runs),
    )
