"""ThreadData: summaries, questions, staff and other data of a thread, as exports carry it."""

from __future__ import annotations

import sys
from array import array
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agentkit_py._core.json import JsonObject, as_list, as_object
from agentkit_py.errors import InvalidRecordError
from agentkit_py.history.abilities import Abilities, abilities_of
from agentkit_py.history.questions import Question
from agentkit_py.history.ratings import Rating
from agentkit_py.history.runs import RunRecord
from agentkit_py.history.staff import Takeover
from agentkit_py.processors.base import Summary, SummaryStore
from agentkit_py.results import AgentResult
from agentkit_py.search.vectors import Vector, normalized

_OWNER, _SECONDS = "import", 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadData:
    """All data of a thread apart from its results.

    Leases are left out: they belong to runs of the moment.
    """

    summaries: Mapping[str, Summary] = field(default_factory=dict[str, Summary])
    """Summaries by key."""

    runs: tuple[RunRecord, ...] = ()
    """Run records in the order in which the runs began."""

    questions: tuple[Question, ...] = ()
    """Questions to people, in the order in which they were asked."""

    takeover: Takeover | None = None
    """The staff members who are on the thread, or wanted."""

    ratings: tuple[Rating, ...] = ()
    """Ratings of its answers, in the order in which the answers were rated."""

    vectors: Mapping[str, Mapping[str, Vector]] = field(
        default_factory=dict[str, Mapping[str, Vector]]
    )
    """Vectors by key of the embedding model, then by id."""

    def before(self, results: Sequence[AgentResult]) -> ThreadData:
        """Return the part for a fork that has these results, the first ones of the thread."""
        ids = {result.id for result in results}
        count = sum(len(result.messages) for result in results)
        kept = {
            key: one
            for key, one in self.summaries.items()
            if (one.covered if one.place is None else one.place) <= count
        }
        runs = [run for run in self.runs if run.state is not None and ids.issuperset(run.results)]
        return ThreadData(
            summaries=kept,
            vectors=self.vectors,
            runs=tuple(run for run in runs if run.id in ids),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the data as JSON, without empty parts."""
        found: dict[str, Any] = {
            "summaries": {key: one.to_dict() for key, one in self.summaries.items()},
            "runs": [{"id": run.id, **run.to_dict()} for run in self.runs],
            "questions": [question.to_dict() for question in self.questions],
            "ratings": [rating.to_dict() for rating in self.ratings],
            "takeover": self.takeover and self.takeover.to_dict(),
            "vectors": {
                key: {one: b64encode(pack_vector(v)).decode() for one, v in known.items()}
                for key, known in self.vectors.items()
            },
        }
        return {name: value for name, value in found.items() if value}

    @classmethod
    def from_dict(cls, record: JsonObject, where: str) -> ThreadData:
        """Return the data that `to_dict` encoded; other keys are ignored.

        Raises:
            InvalidRecordError: A part cannot be read; ``where`` and the field are named.
        """
        reading = "summaries"
        try:
            summaries = {
                key: Summary.from_dict(as_object(one) or {})
                for key, one in (as_object(record.get(reading)) or {}).items()
            }
            reading = "vectors"
            vectors = {
                key: {
                    one: unpack_vector(b64decode(packed, validate=True))
                    for one, packed in (as_object(known) or {}).items()
                }
                for key, known in (as_object(record.get(reading)) or {}).items()
            }
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidRecordError(
                f"cannot be read: {error!r:.200}", where=where, field=reading
            ) from error
        runs = [as_object(one) or {} for one in as_list(record.get("runs")) or ()]
        asked = as_list(record.get("questions")) or ()
        staff = record.get("takeover")
        rated = as_list(record.get("ratings")) or ()
        return cls(
            takeover=None if staff is None else Takeover.from_dict(staff, where=where),
            ratings=tuple(Rating.from_dict(one, thread_id="", where=where) for one in rated),
            questions=tuple(Question.from_dict(one, where=where) for one in asked),
            summaries=summaries,
            vectors=vectors,
            runs=tuple(RunRecord.from_dict(str(run.get("id")), run, where=where) for run in runs),
        )


async def restore(store: object, thread_id: str, data: ThreadData) -> None:
    """Add exported data to a thread, as far as the store keeps such data.

    Existing summaries, runs and vectors are not replaced.
    """
    able = abilities_of(store)
    if able.records is not None:
        for rating in data.ratings:
            await able.records.save_rating(replace(rating, thread_id=thread_id))
    if able.summaries is not None:
        for key, summary in data.summaries.items():
            await _restore_summary(able.summaries, thread_id, key, summary)
    if able.runs is not None:
        for run in data.runs:
            if await able.runs.load_run(thread_id, run.id) is None:
                await able.runs.save_run(thread_id, run)
    if able.vectors is not None:
        for key, vectors in data.vectors.items():
            await able.vectors.add_vectors(thread_id, key, vectors)
    await _restore_people(able, thread_id, data)


async def _restore_people(able: Abilities, thread_id: str, data: ThreadData) -> None:
    """Add questions to people, and who is on the thread."""
    if able.questions is not None:
        for question in data.questions:
            await able.questions.save_question(replace(question, thread_id=thread_id))
    if able.takeovers is not None and data.takeover is not None:
        there = replace(data.takeover, thread_id=thread_id)
        await able.takeovers.change_takeover(
            thread_id, lambda known: None if known.status else there
        )


async def _restore_summary(store: SummaryStore, thread_id: str, key: str, summary: Summary) -> None:
    if await store.load_summary(thread_id, key) is None:
        await store.lock_summary(thread_id, key, _OWNER, _SECONDS)
        await store.save_summary(thread_id, key, summary, _OWNER)


def pack_vector(vector: Vector) -> bytes:
    """Return the vector at length 1, as little-endian 4-byte floats."""
    return _little_endian(normalized(vector)).tobytes()


def unpack_vector(stored: bytes) -> array[float]:
    """Return the vector that `pack_vector` encoded."""
    return _little_endian(array("f", stored))


def _little_endian(numbers: array[float]) -> array[float]:
    """Convert between this machine's byte order and little-endian."""
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
