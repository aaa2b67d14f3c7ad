"""What is kept beside a thread, as exports carry it: summaries, runs with their state, vectors."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentkit_py._core.json import JsonObject, as_list, as_object
from agentkit_py.errors import InvalidRecordError
from agentkit_py.history.runs import RunRecord, RunStore
from agentkit_py.processors.base import Summary, SummaryStore
from agentkit_py.processors.vectors import Vector, VectorIndex
from agentkit_py.stores.packing import of_bytes, to_bytes

_OWNER, _SECONDS = "import", 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """All that is kept beside one thread."""

    summaries: Mapping[str, Summary] = field(default_factory=dict[str, Summary])
    """By key."""

    runs: tuple[RunRecord, ...] = ()
    """In the order in which they began."""

    vectors: Mapping[str, Mapping[str, Vector]] = field(
        default_factory=dict[str, Mapping[str, Vector]]
    )
    """By key of the embedding model, by id."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON; what there is nothing of is left out."""
        found: dict[str, Any] = {
            "summaries": {key: one.to_dict() for key, one in self.summaries.items()},
            "runs": [{"id": run.id, **run.to_dict()} for run in self.runs],
            "vectors": {
                key: {one: b64encode(to_bytes(vector)).decode() for one, vector in known.items()}
                for key, known in self.vectors.items()
            },
        }
        return {name: value for name, value in found.items() if value}

    @classmethod
    def from_dict(cls, record: JsonObject, where: str) -> Beside:
        """What `to_dict` gave; other keys are no business of this.

        Raises:
            InvalidRecordError: Something in it cannot be read; ``where`` and the field are named.
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
                    one: of_bytes(b64decode(packed, validate=True))
                    for one, packed in (as_object(known) or {}).items()
                }
                for key, known in (as_object(record.get(reading)) or {}).items()
            }
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidRecordError(
                f"cannot be read: {error!r:.200}", where=where, field=reading
            ) from error
        runs = [as_object(one) or {} for one in as_list(record.get("runs")) or ()]
        return cls(
            summaries=summaries,
            vectors=vectors,
            runs=tuple(RunRecord.from_dict(str(run.get("id")), run, where=where) for run in runs),
        )


async def restore(store: object, thread_id: str, beside: Beside) -> None:
    """Put what was exported beside a thread, as far as the store keeps such things.

    What is there already stays as it is.
    """
    if isinstance(store, SummaryStore):
        await _restore_summaries(store, thread_id, beside.summaries)
    if isinstance(store, RunStore):
        for run in beside.runs:
            if await store.load_run(thread_id, run.id) is None:
                await store.save_run(thread_id, run)
    if isinstance(store, VectorIndex):
        for key, vectors in beside.vectors.items():
            await store.add_vectors(thread_id, key, vectors)


async def _restore_summaries(
    store: SummaryStore, thread_id: str, summaries: Mapping[str, Summary]
) -> None:
    for key, summary in summaries.items():
        if await store.load_summary(thread_id, key) is None:
            await store.lock_summary(thread_id, key, _OWNER, _SECONDS)
            await store.save_summary(thread_id, key, summary, _OWNER)
