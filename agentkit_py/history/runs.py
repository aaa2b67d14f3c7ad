"""The runs of a thread in a store: its lease, and a record of how each run ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from typing_extensions import Protocol, runtime_checkable  # quicker checks than Python 3.11's

from agentkit_py._core.json import JsonObject, as_list, as_object, time_of
from agentkit_py.errors import InvalidRecordError
from agentkit_py.processors.base import Extent
from agentkit_py.results import AgentResult


class PagedResult(Protocol):
    """A result with the size of the thread before it."""

    @property
    def result(self) -> AgentResult:
        """The result."""
        ...

    @property
    def before(self) -> Extent | None:
        """Size of the thread before it; None: not counted."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWorker:
    """The process of a resumed run, with its sign of life."""

    name: str
    """A new name each time that a run is taken."""

    alive_until: datetime
    """The time after which the process counts as dead, unless it has set a later time by then."""

    def to_dict(self) -> JsonObject:
        """Return it as JSON."""
        return {"name": self.name, "aliveUntil": self.alive_until.isoformat()}

    @classmethod
    def from_dict(cls, record: object, where: str) -> RunWorker | None:
        """Read the output of `to_dict`; None: no process.

        Raises:
            InvalidRecordError: It cannot be read.
        """
        fields = as_object(record)
        if fields is None:
            return None
        try:
            return cls(name=str(fields["name"]), alive_until=time_of(fields["aliveUntil"]))
        except (KeyError, ValueError) as error:
            raise InvalidRecordError("cannot be read", where=where, field="worker") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """The record of a run of a thread."""

    id: str
    """The id of the user's message that began it."""

    status: str
    """``"running"``, ``"waiting"`` (it has begun as a function, or waits in a process without the
    lease), ``"paused"`` (it waits for a person, and is stored whole), ``"completed"``,
    ``"failed"`` or ``"stopped"``."""

    state: JsonObject | None = None
    """The state's data when it ended."""

    stop_reason: str | None = None
    results: tuple[str, ...] = ()
    """Ids of its results, in order; they are in the thread."""

    journal: JsonObject | None = None
    """Everything that a paused run needs to resume: its message, target, state and steps so far."""

    owner: str | None = None
    """The owner of the thread's lease that has the message, or had it last."""

    waits: Mapping[str, float] = field(default_factory=dict[str, float])
    """The waits of a running run, by step id, each with the time (seconds since 1970) until
    which it keeps the message for that run; the lease is free meanwhile."""

    worker: RunWorker | None = None
    """The process of a resumed run."""

    def is_waiting(self, now: float) -> bool:
        """Return whether a run waits that has the message, and answers it."""
        is_open = self.status in ("running", "waiting")
        return is_open and any(until > now for until in self.waits.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON, without the id."""
        return {
            "status": self.status,
            "state": self.state,
            "stopReason": self.stop_reason,
            "results": list(self.results),
            **({} if self.journal is None else {"journal": self.journal}),
            **({} if self.owner is None else {"owner": self.owner, "waits": dict(self.waits)}),
            **({} if self.worker is None else {"worker": self.worker.to_dict()}),
        }

    @property
    def is_paused(self) -> bool:
        """True if the run waits for a person."""
        return self.status == "paused"

    def is_lost(self, now: datetime) -> bool:
        """Return whether the run was resumed, and its process gives no sign of life."""
        return self.is_taken and (self.worker is None or self.worker.alive_until < now)

    @property
    def is_taken(self) -> bool:
        """True if the run was paused and has resumed."""
        return self.status == "running" and self.journal is not None

    @classmethod
    def from_dict(cls, run_id: str, record: object, *, where: str) -> RunRecord:
        """Read the record that `to_dict` gave.

        Raises:
            InvalidRecordError: It holds none.
        """
        fields = cast("Mapping[str, Any]", record if isinstance(record, Mapping) else {})
        status = fields.get("status")
        if not isinstance(status, str):
            raise InvalidRecordError("expected a string", where=where, field="status")
        for name in ("state", "journal", "waits"):
            if fields.get(name) is not None and not isinstance(fields[name], Mapping):
                raise InvalidRecordError("expected an object", where=where, field=name)
        stop_reason, results = fields.get("stopReason"), as_list(fields.get("results") or [])
        if stop_reason is not None and not isinstance(stop_reason, str):
            raise InvalidRecordError("expected a string", where=where, field="stopReason")
        if results is None or not all(isinstance(one, str) for one in results):
            raise InvalidRecordError("expected a list of strings", where=where, field="results")
        return cls(
            id=run_id,
            status=status,
            state=fields.get("state"),
            stop_reason=stop_reason,
            results=tuple(results),
            journal=fields.get("journal"),
            owner=fields.get("owner"),
            waits=fields.get("waits") or {},
            worker=RunWorker.from_dict(fields.get("worker"), where),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseClaim:
    """A lease to take or to renew: whose, and for how many seconds from then on."""

    owner: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedRun:
    """The thread's rows that a run finds when it takes the lease."""

    own: RunRecord | None
    """The record of an earlier run for the same message."""

    previous: RunRecord | None
    """The newest record with a state."""

    count: int
    """Number of results."""

    results: Sequence[AgentResult] | None
    """The last results, oldest first; None: a step kept the number only."""

    before: Extent | None = None
    """Size of the thread before these results; None: not counted."""

    @classmethod
    def of_page(
        cls,
        own: RunRecord | None,
        previous: RunRecord | None,
        count: int,
        page: Sequence[PagedResult],
    ) -> OpenedRun:
        """Return the rows with the results of a page that a store read."""
        results = [row.result for row in page]
        before = page[0].before if page else None
        return cls(own=own, previous=previous, count=count, results=results, before=before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A store's data at the time when a message is answered."""

    own: RunRecord | None
    """The record of an earlier run for the same message."""

    previous: RunRecord | None
    """The newest record with a state."""

    questions: int
    """Open questions of the user, as many as were counted."""


CLAIM_SECONDS = 30.0
"""Seconds that the first in line has to take a lease that was passed on to it."""

LINE_SECONDS = 90.0
"""Seconds after which a run that waits in line and does not ask again counts as dead."""


def execution_of(owner: str) -> str | None:
    """Return the execution in an owner's name, which is ``{execution}/{id}``; None: it has none."""
    execution, slash, _ = owner.partition("/")
    return execution if slash and execution else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """The work of a stopped execution on a thread."""

    thread_id: str
    owner: str
    notes: Mapping[str, JsonObject]
    """The notes that the run made of its calls, in order."""


@runtime_checkable
class RunStore(Protocol):
    """Lets a single run at a time work on a thread, and records how runs ended.

    A lease whose owner died ends by itself. Runs wait for a lease in line. The owner of a
    lease is named ``{execution}/{id}`` where an execution may be stopped from outside: after
    `stop_execution` it gets no lease any more.
    """

    async def lock_thread(self, thread_id: str, owner: str, seconds: float) -> bool:
        """Take the thread's lease, or renew it, for so many seconds from now.

        Returns:
            Whether ``owner`` has it; False: another owner has it or is first in line, or the owner
            was stopped.
        """
        ...

    async def wait_in_line(self, thread_id: str, owner: str, seconds: float) -> bool:
        """Take the lease as `lock_thread` does, or else a place at the end of the line.

        An owner in line keeps its place by calling this again within `LINE_SECONDS`.

        Returns:
            Whether ``owner`` has the lease.
        """
        ...

    async def unlock_thread(self, thread_id: str, owner: str) -> str | None:
        """End the lease, if ``owner`` has it, and its place in line.

        Returns:
            The first in line, which has the lease now for `CLAIM_SECONDS`; None: there is none.
        """
        ...

    async def note_calls(self, thread_id: str, owner: str, notes: Mapping[str, JsonObject]) -> bool:
        """Store notes of the work of ``owner``; each replaces the earlier note of its key.

        Returns:
            Whether the owner may continue; False: it was stopped, and nothing was stored.
        """
        ...

    async def drop_notes(self, thread_id: str, owner: str) -> None:
        """Remove the notes of an owner."""
        ...

    async def stop_execution(self, execution: str) -> list[Unfinished]:
        """Mark an execution as stopped; return its owners' leases and waits.

        From now on it gets no lease and keeps no notes. What it has stays until `unlock_thread`
        and `drop_notes`.
        """
        ...

    async def is_stopped(self, execution: str) -> bool:
        """Return whether the execution was stopped."""
        ...

    async def save_run(self, thread_id: str, run: RunRecord) -> None:
        """Save the record of a run, in place of the earlier record.

        Raises:
            ThreadNotFoundError: The thread does not exist.
        """
        ...

    async def load_run(self, thread_id: str, run_id: str | None = None) -> RunRecord | None:
        """Return a run, or the newest run with a state, or None."""
        ...


@runtime_checkable
class RunOpener(RunStore, Protocol):
    """Combines the reads and writes of a run with a lease, if possible in a transaction."""

    async def open_run(
        self, thread_id: str, claim: LeaseClaim, run_id: str, limit: int
    ) -> OpenedRun | None:
        """Take the lease, and read records of runs and the last ``limit`` results.

        Returns:
            None: another owner has the lease, and nothing was read.

        Raises:
            ThreadNotFoundError: The thread does not exist.
        """
        ...

    async def notes_of(self, thread_id: str, owner: str) -> Mapping[str, JsonObject]:
        """Return the notes of an owner, in order."""
        ...

    async def end_run(self, thread_id: str, owner: str, run: RunRecord) -> str | None:
        """Save the record of a run, drop its notes, and end its lease; as `unlock_thread` returns.

        Raises:
            ThreadNotFoundError: The thread does not exist.
        """
        ...


@runtime_checkable
class StateReader(Protocol):
    """Reads the initial data of a run without a lease at once."""

    async def open_unleased(self, thread_id: str, limit: int) -> OpenedRun:
        """Read the newest record with a state, and the last ``limit`` results.

        Raises:
            ThreadNotFoundError: The thread does not exist.
        """
        ...
