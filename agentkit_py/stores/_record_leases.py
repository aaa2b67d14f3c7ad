"""Leases of threads, the line of runs that wait for them, and the runs, as records."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from agentkit_py._core.json import JsonObject
from agentkit_py.history.runs import (
    CLAIM_SECONDS,
    LINE_SECONDS,
    RunRecord,
    Unfinished,
    execution_of,
)
from agentkit_py.stores.records import Record, Records, RecordViews, key
from agentkit_py.stores.rows import decode_run, encode_json, encode_run

LEASE, LINE, NOTE, STOPPED, RUN, QUESTION = "lease", "line", "note", "stopped", "run", "question"
"""Kinds of records."""

_STOPS_KEPT = 7 * 24 * 3600.0
"""Seconds for which a stopped execution is remembered."""

_WITH_STATE = "state"
"""The status of runs whose state a next run may begin with."""


class LeaseRecords(RecordViews):
    """Implements `RunStore`."""

    async def lock_thread(self, thread_id: str, owner: str, seconds: float) -> bool:
        return await self.transact(lambda records: _lock(records, thread_id, owner, seconds))

    async def wait_in_line(self, thread_id: str, owner: str, seconds: float) -> bool:
        def work(records: Records) -> bool:
            has_lease = _lock(records, thread_id, owner, seconds)
            if not has_lease and not _is_stopped(records, owner):
                records.put(LINE, _claim(key(thread_id, owner), thread_id, owner, LINE_SECONDS))
            return has_lease

        return await self.transact(work)

    async def unlock_thread(self, thread_id: str, owner: str) -> str | None:
        def work(records: Records) -> str | None:
            records.delete(LINE, key=key(thread_id, owner))
            lease = _valid(records.get(LEASE, key(thread_id)))
            if lease is not None and lease.data["owner"] != owner:
                return None
            records.delete(LEASE, key=key(thread_id))
            first = _first_in_line(records, thread_id)
            if first is not None:
                _give(records, thread_id, first, CLAIM_SECONDS)
            return first

        return await self.transact(work)

    async def note_calls(self, thread_id: str, owner: str, notes: Mapping[str, JsonObject]) -> bool:
        made = [
            Record(
                key=key(thread_id, owner, name),
                thread=thread_id,
                group=_execution(owner),
                status=key(owner),
                json=encode_json(
                    {"owner": owner, "name": name, "note": note}, f"The note {name!r} of a call"
                ),
            )
            for name, note in notes.items()
        ]

        def work(records: Records) -> bool:
            if _is_stopped(records, owner):
                return False
            for record in made:
                records.put(NOTE, record)
            return True

        return await self.transact(work)

    async def notes_of(self, thread_id: str, owner: str) -> dict[str, JsonObject]:
        found = await self.transact(
            lambda records: records.find(NOTE, thread=thread_id, status=key(owner))
        )
        stored = [record.data for record in found]
        return {note["name"]: note["note"] for note in stored}

    async def drop_notes(self, thread_id: str, owner: str) -> None:
        def work(records: Records) -> None:
            for record in records.find(NOTE, thread=thread_id, status=key(owner)):
                records.delete(NOTE, key=record.key)

        await self.transact(work)

    async def stop_execution(self, execution: str) -> list[Unfinished]:
        def work(records: Records) -> list[Unfinished]:
            now = time.time()
            for old in records.find(STOPPED):
                if old.until is not None and old.until <= now:
                    records.delete(STOPPED, key=old.key)
            if records.get(STOPPED, key(execution)) is None:
                until = now + _STOPS_KEPT
                records.put(STOPPED, Record(key=key(execution), json="{}", until=until))
            _close_questions(records, execution)
            return _unfinished(records, execution)

        return await self.transact(work)

    async def is_stopped(self, execution: str) -> bool:
        record = await self.transact(lambda records: records.get(STOPPED, key(execution)))
        return record is not None

    async def save_run(self, thread_id: str, run: RunRecord) -> None:
        record = _run_record(thread_id, run)
        await self._about(thread_id, lambda records: records.put(RUN, record))

    async def load_run(self, thread_id: str, run_id: str | None = None) -> RunRecord | None:
        def work(records: Records) -> list[Record]:
            if run_id is None:
                return records.find(RUN, thread=thread_id, status=_WITH_STATE, last=1)
            record = records.get(RUN, key(thread_id, run_id))
            return [] if record is None else [record]

        found = await self.transact(work)
        return run_of(thread_id, found[0]) if found else None

    async def change_run(
        self, thread_id: str, run_id: str, change: Callable[[RunRecord], RunRecord | None]
    ) -> RunRecord | None:
        def work(records: Records) -> RunRecord | None:
            record = records.get(RUN, key(thread_id, run_id))
            known = None if record is None else run_of(thread_id, record)
            changed = None if known is None else change(known)
            if changed is None:
                return known
            records.put(RUN, _run_record(thread_id, changed))
            return changed

        return await self.transact(work)


def run_of(thread_id: str, record: Record) -> RunRecord:
    """Return the run that a record holds."""
    stored = record.data
    return decode_run(thread_id, stored["id"], stored["run"])


def _run_record(thread_id: str, run: RunRecord) -> Record:
    stored = {"id": run.id, "run": encode_run(run, thread_id)}
    return Record(
        key=key(thread_id, run.id),
        thread=thread_id,
        status=None if run.state is None else _WITH_STATE,
        json=encode_json(stored, f"The run {run.id!r}"),
    )


def _execution(owner: str) -> str | None:
    execution = execution_of(owner)
    return None if execution is None else key(execution)


def _claim(place: str, thread_id: str, owner: str, seconds: float) -> Record:
    """Return a lease, or a place in line, which ends after ``seconds``."""
    return Record(
        key=place,
        thread=thread_id,
        group=_execution(owner),
        until=time.time() + seconds,
        json=encode_json({"owner": owner}, f"The lease of {owner!r}"),
    )


def _valid(claim: Record | None) -> Record | None:
    return claim if claim is not None and (claim.until or 0.0) > time.time() else None


def _lock(records: Records, thread_id: str, owner: str, seconds: float) -> bool:
    """Take or renew the lease if it is free, and no other owner comes before ``owner``."""
    if _is_stopped(records, owner):
        return False
    lease = _valid(records.get(LEASE, key(thread_id)))
    next_owner = _first_in_line(records, thread_id) if lease is None else lease.data["owner"]
    if next_owner not in (None, owner):
        return False
    _give(records, thread_id, owner, seconds)
    return True


def _give(records: Records, thread_id: str, owner: str, seconds: float) -> None:
    records.delete(LEASE, key=key(thread_id))
    records.put(LEASE, _claim(key(thread_id), thread_id, owner, seconds))
    records.delete(LINE, key=key(thread_id, owner))


def _first_in_line(records: Records, thread_id: str) -> str | None:
    places = (_valid(place) for place in records.find(LINE, thread=thread_id))
    return next((place.data["owner"] for place in places if place is not None), None)


def _is_stopped(records: Records, owner: str) -> bool:
    execution = _execution(owner)
    return execution is not None and records.get(STOPPED, execution) is not None


def _close_questions(records: Records, execution: str) -> None:
    """Mark the questions of a stopped execution whose answers are obsolete."""
    closed = {"open": "stopped", "undelivered": "answered"}
    for status, then in closed.items():
        for record in records.find(QUESTION, status=status):
            if record.data["question"].get("execution") == execution:
                records.put(QUESTION, replace(record, status=then))


def _unfinished(records: Records, execution: str) -> list[Unfinished]:
    notes_of = dict[tuple[str, str], dict[str, JsonObject]]()
    for kind in (LEASE, LINE, NOTE):
        for record in records.find(kind, group=key(execution)):
            stored = record.data
            notes = notes_of.setdefault((record.thread or "", stored["owner"]), {})
            if kind == NOTE:
                notes[stored["name"]] = stored["note"]
    return [
        Unfinished(thread_id=thread_id, owner=owner, notes=notes)
        for (thread_id, owner), notes in notes_of.items()
    ]
