"""Kinds of records that every store has.

A new kind is a class that gives its records their meaning (`agentkit_py.stores._record_ratings`)
and a base of `ThreadRecords`. Memory, SQLite, PostgreSQL, every `RecordStore`, `for_user` and
`redacted` have it then.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentkit_py.history.ratings import Rating
from agentkit_py.stores._record_ratings import RATING, RatingRecords, rating_of
from agentkit_py.stores.records import Records

UNMASKED: Mapping[str, frozenset[str]] = {RATING: frozenset({"score", "ratedAt"})}
"""Members of records that a masked store leaves as they are, by kind: numbers and times."""


class ThreadRecords(RatingRecords):
    """The kinds of records that every store has."""


def ratings_in(records: Records, thread_id: str) -> tuple[Rating, ...]:
    """Return the ratings of a thread, for exports."""
    return tuple(map(rating_of, records.find(RATING, thread=thread_id)))
