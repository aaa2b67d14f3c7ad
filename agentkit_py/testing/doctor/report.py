"""What the doctor found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

Severity: TypeAlias = Literal["error", "warning"]

FindingName: TypeAlias = Literal[
    "side-effect-on-replay",
    "colliding-ids",
    "not-json",
    "too-large",
    "too-many-steps",
    "differs-between-replays",
    "run-failed",
]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or soon will be."""

    name: FindingName
    severity: Severity
    where: str
    """The callback, step or run."""

    text: str
    """What is wrong, and what to do."""


@dataclass(frozen=True, slots=True)
class Callback:
    """How often a piece of your code ran; those that replays call again are no fault by that."""

    name: str
    calls: int
    """Outside of steps, so that each replay repeats them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """How large the run was."""

    requests: int = 0
    """How often Inngest called the function."""

    turns: int = 0
    """Turns of agents."""

    steps: int = 0
    largest_step: str = ""
    largest_output: int = 0
    """Bytes."""

    state: int = 0
    """Bytes of all steps' outputs."""

    @property
    def steps_per_turn(self) -> float:
        """Steps for each turn of an agent."""
        return self.steps / self.turns if self.turns else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The doctor's report."""

    target: str
    figures: Figures
    findings: Sequence[Finding] = ()
    callbacks: Sequence[Callback] = ()
    tools: dict[str, int] = field(default_factory=dict[str, int])
    """How often each tool was called by the model; 0: the run says nothing about it."""

    @property
    def healthy(self) -> bool:
        """Whether nothing was found that is an error."""
        return not any(finding.severity == "error" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON."""
        figures = {**asdict(self.figures), "steps_per_turn": self.figures.steps_per_turn}
        return {**asdict(self), "figures": figures, "healthy": self.healthy}
