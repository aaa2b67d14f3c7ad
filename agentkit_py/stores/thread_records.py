"""Kinds of records that every store has: ratings of answers.

A new kind is a class that gives its records their meaning, and a base of `ThreadRecords`. Memory,
SQLite, PostgreSQL, every `RecordStore`, `for_user` and `redacted` have it then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from agentkit_py.history.ratings import Rating
from agentkit_py.stores.records import Record, Records, RecordViews, key
from agentkit_py.stores.rows import at_most, encode_json

RATING = "rating"
"""The kind of the records of ratings."""


class RatingRecords(RecordViews):
    """Implements `RatingStore`."""

    async def save_rating(self, rating: Rating) -> None:
        """Save a rating in place of the answer's earlier rating."""
        owner = (await self.get_thread(rating.thread_id)).user_id
        record = _rating_record(replace(rating, user_id=owner))

        def work(records: Records) -> None:
            records.put(RATING, record)

        await self._about(rating.thread_id, work)

    async def list_ratings(
        self,
        *,
        thread_id: str | None = None,
        user_id: str | None = None,
        limit: int | None = 50,
    ) -> list[Rating]:
        """Return ratings; the answer that was rated first comes last."""
        last, group = at_most(limit), None if user_id is None else key(user_id)
        found = await self.transact(
            lambda records: records.find(RATING, thread=thread_id, group=group, last=last)
        )
        return [_rating_of(record) for record in reversed(found)]


def _rating_of(record: Record) -> Rating:
    """Return the rating that a record holds."""
    thread_id, answer_id = json.loads(record.key)
    stored = {**record.data, "answerId": answer_id}
    user_id = None if record.group is None else json.loads(record.group)[0]
    return Rating.from_dict(stored, thread_id=thread_id, user_id=user_id, where="rating")


def ratings_in(records: Records, thread_id: str) -> tuple[Rating, ...]:
    """Return the ratings of a thread, for exports."""
    return tuple(map(_rating_of, records.find(RATING, thread=thread_id)))


def _rating_record(rating: Rating) -> Record:
    what = f"Thread {rating.thread_id!r}: the rating of {rating.answer_id!r} cannot be saved"
    return Record(
        key=key(rating.thread_id, rating.answer_id),
        thread=rating.thread_id,
        group=None if rating.user_id is None else key(rating.user_id),
        json=encode_json({**rating.to_dict(), "answerId": None}, what),
    )


class ThreadRecords(RatingRecords):
    """The kinds of records that every store has."""


UNMASKED: Mapping[str, frozenset[str]] = {RATING: frozenset({"score", "ratedAt"})}
"""Members of records that a masked store leaves as they are, by kind: numbers and times."""
