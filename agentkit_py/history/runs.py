"""The runs of a thread in a store: its lease, and a record of how each run ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

from agentkit_py._core.json import JsonObject
from agentkit_py.errors import InvalidRecordError


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """The record of one run of a thread."""

    id: str
    """The id of the user's message that began it."""

    status: str
    """``"running"``, ``"completed"`` or ``"failed"``."""

    state: JsonObject | None = None
    """The state's data when it ended."""

    stop_reason: str | None = None
    results: tuple[str, ...] = ()
    """Ids of its results, in order; they are in the thread."""

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON, without the id."""
        return {
            "status": self.status,
            "state": self.state,
            "stopReason": self.stop_reason,
            "results": list(self.results),
        }

    @classmethod
    def from_dict(cls, run_id: str, record: object, *, where: str) -> RunRecord:
        """Read the record that `to_dict` gave.

        Raises:
            InvalidRecordError: It holds none.
        """
        fields = cast("Mapping[str, Any]", record if isinstance(record, Mapping) else {})
        status, state = fields.get("status"), fields.get("state")
        if not isinstance(status, str):
            raise InvalidRecordError("expected a string", where=where, field="status")
        if state is not None and not isinstance(state, Mapping):
            raise InvalidRecordError("expected an object", where=where, field="state")
        return cls(
            id=run_id,
            status=status,
            state=cast("JsonObject | None", state),
            stop_reason=fields.get("stopReason"),
            results=tuple(fields.get("results") or ()),
        )


@runtime_checkable
class RunStore(Protocol):
    """Lets one run at a time work on a thread, and records how runs ended.

    A lease whose owner died ends by itself.
    """

    async def lock_thread(self, thread_id: str, owner: str, seconds: float) -> bool:
        """Take the thread's lease, or renew it, for so many seconds from now.

        Returns:
            Whether ``owner`` has it; False: somebody else does.
        """
        ...

    async def unlock_thread(self, thread_id: str, owner: str) -> None:
        """End the lease, if ``owner`` has it."""
        ...

    async def save_run(self, thread_id: str, run: RunRecord) -> None:
        """Save the record of a run, in place of an earlier one.

        Raises:
            ThreadNotFoundError: There is no such thread.
        """
        ...

    async def load_run(self, thread_id: str, run_id: str | None = None) -> RunRecord | None:
        """Return a run, or the newest one that has a state; None if there is none."""
        ...
