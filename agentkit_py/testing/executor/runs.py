"""Runs as the server knows them, and where the worker may be killed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Status: TypeAlias = Literal["running", "completed", "failed", "cancelled"]

Moment: TypeAlias = Literal["before", "inside", "after"]
"""``"before"``: the request is lost, nothing of it ran. ``"inside"``: everything ran, a step's
handler included, and the answer is lost. ``"after"``: the answer was recorded, then it died."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KillAt:
    """Kill the worker once: at a step, or at a request.

    A killed attempt counts as one of the function's attempts, as the server counts it. Where the
    executor was given a function that makes the functions, they are made anew: a new process.
    """

    step: str | None = None
    """Name of a step; its first time."""

    request: int | None = None
    """Number of a request to the worker, 1 the first."""

    when: Moment = "inside"


def kill_points(requests: int) -> Iterator[KillAt]:
    """Yield every point at which a run that made so many requests can be killed."""
    for number in range(1, requests + 1):
        for when in ("before", "inside", "after"):
            yield KillAt(request=number, when=when)


@dataclass(slots=True, kw_only=True)
class StepRecord:
    """One step of a run, as the server knows it."""

    id: str
    """The hashed id."""

    name: str
    op: str
    """Its kind: ``StepRun``, ``AIGateway``, ``Sleep``, ``WaitForEvent``, ``InvokeFunction``."""

    opts: dict[str, Any] = field(default_factory=dict[str, Any])
    attempts: int = 1
    done: bool = False
    output: Any = None
    error: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One request to the worker."""

    request: int
    run_id: str
    function: str
    attempt: int
    target: str | None
    """Name of the step that was to run, where several were planned."""

    outcome: str
    """``"killed before"``, ``"killed inside"``, ``"steps"``, ``"output"``, ``"error"``, or
    ``"ignored"``: the run was cancelled meanwhile."""

    steps: tuple[str, ...] = ()
    """The steps that the worker reported: op and name."""


@dataclass(slots=True, kw_only=True, eq=False)
class Wait:
    """An event that a run waits for."""

    run: Run
    step: StepRecord
    event: str
    expression: str | None


@dataclass(slots=True, kw_only=True, eq=False)
class Run:
    """One run of a function.

    Attributes:
        output: What the function returned.
        error: ``{"name", "message", "stack", …}`` of a run that failed.
        memos: What the server sends with each request, by hashed id.
        requests: How often the function was called.
        differences: (``check=True``) Where a request asked for something else the second time.
    """

    id: str
    function: str
    events: list[dict[str, Any]]
    max_attempts: int = 5
    status: Status = "running"
    output: Any = None
    error: dict[str, Any] | None = None
    memos: dict[str, Any] = field(default_factory=dict[str, Any])
    recorded: dict[str, StepRecord] = field(default_factory=dict[str, StepRecord])
    waits: dict[str, Wait] = field(default_factory=dict[str, Wait])
    pending: set[str] = field(default_factory=set[str])
    """Steps that were reported and are not done."""

    retrying: set[str] = field(default_factory=set[str])
    """Pending steps that failed and are to be reported again."""

    planning: bool = False
    """True while the worker must not run steps that it has not planned."""

    discovering: bool = False
    """True while a request for the next step is under way."""

    size: int = 0
    requests: int = 0
    differences: list[str] = field(default_factory=list[str])
    invoked_by: tuple[Run, str] | None = None

    @property
    def steps(self) -> list[StepRecord]:
        """The steps that are done, in the order in which they were."""
        return [self.recorded[hashed] for hashed in self.memos]

    @property
    def names(self) -> list[str]:
        """Names of the steps that are done, in the order in which they were."""
        return [step.name for step in self.steps]

    @property
    def waiting_for(self) -> list[str]:
        """Names of the events that the run waits for."""
        return [wait.event for wait in self.waits.values()]
