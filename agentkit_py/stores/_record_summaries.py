"""Summaries of threads and vectors of their messages, as records."""

from __future__ import annotations

import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from agentkit_py.processors.base import Summary
from agentkit_py.search.vectors import Vector, nearest
from agentkit_py.stores.records import Record, Records, RecordViews, key
from agentkit_py.stores.rows import encode_json
from agentkit_py.stores.thread_data import pack_vector, unpack_vector

SUMMARY, VECTOR = "summary", "vector"
"""Kinds of records."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """A summary, and who may write the next."""

    summary: Summary | None = None
    owner: str | None = None
    until: float = 0.0


class SummaryRecords(RecordViews):
    """Implements `SummaryStore`."""

    async def load_summary(self, thread_id: str, key: str) -> Summary | None:
        place = _place(thread_id, key)
        record = await self.transact(lambda records: records.get(SUMMARY, place))
        return None if record is None else _stored(record).summary

    async def lock_summary(self, thread_id: str, key: str, owner: str, seconds: float) -> bool:
        now = time.time()

        def lock(known: _Stored) -> _Stored | None:
            if known.owner not in (None, owner) and known.until > now:
                return None
            return _Stored(known.summary, owner, now + seconds)

        return await self._change_summary(thread_id, key, lock)

    async def save_summary(self, thread_id: str, key: str, summary: Summary, owner: str) -> bool:
        return await self._change_summary(
            thread_id, key, lambda known: _Stored(summary) if known.owner == owner else None
        )

    async def unlock_summary(self, thread_id: str, key: str, owner: str) -> None:
        await self._change_summary(
            thread_id, key, lambda known: _Stored(known.summary) if known.owner == owner else None
        )

    async def _change_summary(
        self, thread_id: str, name: str, change: Callable[[_Stored], _Stored | None]
    ) -> bool:
        """Change a stored summary; return False if ``change`` returned None."""

        def work(records: Records) -> bool:
            record = records.get(SUMMARY, _place(thread_id, name))
            changed = change(_Stored() if record is None else _stored(record))
            if changed is not None:
                records.put(SUMMARY, _summary_record(thread_id, name, changed))
            return changed is not None

        return await self.transact(work)


def summaries_of(records: Sequence[Record]) -> dict[str, Summary]:
    """Return the summaries that records hold, by key."""
    known = {record.data["name"]: _stored(record).summary for record in records}
    return {name: summary for name, summary in known.items() if summary is not None}


def _place(thread_id: str, name: str) -> str:
    return key(thread_id, name)


def _stored(record: Record) -> _Stored:
    fields = record.data
    summary = None if fields["summary"] is None else Summary.from_dict(fields["summary"])
    return _Stored(summary, fields["owner"], fields["until"])


def _summary_record(thread_id: str, name: str, stored: _Stored) -> Record:
    fields = {
        "name": name,
        "summary": None if stored.summary is None else stored.summary.to_dict(),
        "owner": stored.owner,
        "until": stored.until,
    }
    text = encode_json(fields, f"Thread {thread_id!r}: its summary {name!r} cannot be saved")
    return Record(key=_place(thread_id, name), thread=thread_id, json=text)


class VectorRecords(RecordViews):
    """Implements `VectorIndex`."""

    async def missing_vectors(self, thread_id: str, key: str, ids: Sequence[str]) -> list[str]:
        known = await self._vectors(thread_id, key, ids)
        return [one for one in ids if one not in known]

    async def add_vectors(self, thread_id: str, key: str, vectors: Mapping[str, Vector]) -> None:
        made = [_vector_record(thread_id, key, one, vector) for one, vector in vectors.items()]

        def work(records: Records) -> None:
            for record in made:
                if records.get(VECTOR, record.key) is None:
                    records.put(VECTOR, record)

        await self.transact(work)

    async def nearest_vectors(
        self, thread_id: str, key: str, vector: Vector, ids: Collection[str], k: int
    ) -> list[tuple[str, float]]:
        return nearest(vector, await self._vectors(thread_id, key, ids), k)

    async def _vectors(self, thread_id: str, name: str, ids: Collection[str]) -> dict[str, Vector]:
        def work(records: Records) -> dict[str, Record | None]:
            return {one: records.get(VECTOR, key(thread_id, name, one)) for one in ids}

        found = await self.transact(work)
        return {one: _vector(record) for one, record in found.items() if record is not None}


def vectors_of(records: Sequence[Record]) -> dict[str, dict[str, Vector]]:
    """Return the vectors that records hold, by key of the embedding model, then by id."""
    known = dict[str, dict[str, Vector]]()
    for record in records:
        fields = record.data
        known.setdefault(fields["name"], {})[fields["id"]] = _vector(record)
    return known


def _vector(record: Record) -> Vector:
    return unpack_vector(b64decode(record.data["vector"]))


def _vector_record(thread_id: str, name: str, vector_id: str, vector: Vector) -> Record:
    packed = b64encode(pack_vector(vector)).decode()
    fields = {"name": name, "id": vector_id, "vector": packed}
    return Record(
        key=key(thread_id, name, vector_id),
        thread=thread_id,
        json=encode_json(fields, f"The vector {vector_id!r}"),
    )
