"""The doctor's report: its parts, and how two runs give them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from agentkit_py.errors import ConfigurationError
from agentkit_py.history.abilities import mail_of
from agentkit_py.history.config import HistoryConfig
from agentkit_py.inngest.memory import MAX_STATE, MAX_STEPS
from agentkit_py.inngest.steps import MAX_OUTPUT
from agentkit_py.network import Network
from agentkit_py.stores.base import thread_store
from agentkit_py.testing.doctor.watching import CallbackWatch
from agentkit_py.testing.executor import Run

_NEAR = 0.5
"""The part of a limit from which on it is worth a warning: real threads are longer."""

_BEFORE, _WINDOW = 60, 120
"""Characters that are shown before the first difference, and in all."""

_MADE_UP = (
    ' Where the doctor made the answer up, give one that fits: --arguments {"final_result": {…}}, '
    "with the type's name where there are several."
)

_STEP = re.compile(r'"op": "(\w+)", "step": "([^"]*)"')
_FIRST_INFERENCE = re.compile(r".*\.0\.infer")

Severity: TypeAlias = Literal["error", "warning"]

FindingName: TypeAlias = Literal[
    "side-effect-on-replay",
    "colliding-ids",
    "not-json",
    "too-large",
    "too-many-steps",
    "differs-between-replays",
    "overlapping-steps",
    "rounded-number",
    "breaks-waiting-runs",
    "no-lease",
    "no-mailbox",
    "run-failed",
]


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault, or a limit that is near."""

    name: FindingName
    severity: Severity
    where: str
    """The callback, step or run."""

    text: str
    """The fault, and its cure."""


@dataclass(frozen=True, slots=True)
class Unexamined:
    """A tool, handoff or agent of which the runs say nothing."""

    kind: Literal["tool", "handoff", "agent"]
    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Callback:
    """Number of calls of a callback; repeated calls by replays are not a fault."""

    name: str
    calls: int
    """Outside of steps, so that each replay repeats them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    """The size of a run."""

    requests: int = 0
    """Inngest's calls of the function."""

    turns: int = 0
    """Turns of agents."""

    steps: int = 0
    largest_step: str = ""
    largest_output: int = 0
    """Bytes of the largest step's output."""

    state: int = 0
    """Bytes of all steps' outputs."""

    @property
    def steps_per_turn(self) -> float:
        """Steps for each turn of an agent."""
        return self.steps / self.turns if self.turns else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport:
    """The doctor's report."""

    target: str
    figures: RunFigures
    findings: Sequence[Finding] = ()
    callbacks: Sequence[Callback] = ()
    tools: dict[str, int] = field(default_factory=dict[str, int])
    """The calls of each tool that were carried out."""

    unexamined: Sequence[Unexamined] = ()
    """What the runs did not reach, or did not get through."""

    @property
    def healthy(self) -> bool:
        """True if no finding is an error; parts that were not examined may still have faults."""
        return not any(finding.severity == "error" for finding in self.findings)

    @property
    def passed(self) -> bool:
        """True if no finding is an error, and everything was examined."""
        return self.healthy and not self.unexamined

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON."""
        figures = {**asdict(self.figures), "steps_per_turn": self.figures.steps_per_turn}
        verdict = {"healthy": self.healthy, "passed": self.passed}
        return {**asdict(self), "figures": figures, **verdict}


def figures_of(run: Run) -> RunFigures:
    """Return the size of a run."""
    sizes = {step.name: len(json.dumps(step.output)) for step in run.steps}
    largest = max(sizes, key=lambda name: sizes[name], default="")
    return RunFigures(
        requests=run.requests,
        turns=sum(_FIRST_INFERENCE.fullmatch(name) is not None for name in run.names),
        steps=len(run.steps),
        largest_step=largest,
        largest_output=sizes.get(largest, 0),
        state=run.size,
    )


def distinct(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings of several pairs of runs, each once; of a limit the first."""
    found: dict[tuple[str, ...], Finding] = {}
    for one in findings:
        key = (one.name, one.where)
        found.setdefault(key if one.name.startswith("too-") else (*key, one.text), one)
    return list(found.values())


def findings_of(network: Network[Any, Any], runs: list[Run], watch: CallbackWatch) -> list[Finding]:
    """Return the findings of two runs and of the watch over the second, each once."""
    return list(dict.fromkeys(_findings(network, runs, watch)))


def _findings(
    network: Network[Any, Any], runs: list[Run], watch: CallbackWatch
) -> Iterator[Finding]:
    for (callback, effect), count in watch.side_effects.items():
        advice = "do it in a tool, which runs in a step of its own."
        if callback.startswith("tool "):
            advice = "do it in ctx.step.run(…), or leave out steps=True."
        text = f"{effect} outside of steps, {count} times in a run; {advice}"
        yield Finding("side-effect-on-replay", "error", callback, text)
    for run in runs:
        if run.status != "completed":
            yield _failure(run)
        for difference in run.differences:
            yield _difference(run, difference)
        yield from _collisions(run)
    if runs[0].status == runs[1].status and sorted(runs[0].names) != sorted(runs[1].names):
        other = sorted(set(runs[0].names) ^ set(runs[1].names))[:5]
        text = f"two runs had different steps ({', '.join(other)}); do tools remember the first?"
        yield Finding("differs-between-replays", "warning", runs[0].function, text)
    yield from _limits(network, runs[-1])


def _difference(run: Run, text: str) -> Finding:
    found = re.fullmatch(r"(?s).*?: first it asked for (.*), then for (.*)", text)
    if found is not None:
        first, second = found.groups()
        at = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)
        start = max(0, (at or 0) - _BEFORE)
        shown = [one if at is None else one[start : start + _WINDOW] for one in (first, second)]
        text = f"the same request asked for …{shown[0]}… and then for …{shown[1]}…"
    # The same steps with other contents: the first that was asked for counts, the rest is dropped.
    steps = [_STEP.findall(one) for one in (found.groups() if found is not None else ())]
    severity: Severity = "warning" if steps and steps[0] == steps[1] else "error"
    advice = "times, random values and data that others change belong in tools."
    return Finding("differs-between-replays", severity, run.function, f"{text}; {advice}")


def _failure(run: Run) -> Finding:
    error = run.error or {}
    message = str(error.get("message", "no error was given"))
    kinds: Sequence[tuple[str, FindingName]] = [
        (r"Two steps of this function are called", "colliding-ids"),
        (r"more than [\d,]+ steps|step limit", "too-many-steps"),
        (r"keeps at most|takes at most|size (limit|is greater)", "too-large"),
        (r"^OverlapError", "overlapping-steps"),
        (r"^ReplayError", "differs-between-replays"),
        (r"numbers as doubles", "rounded-number"),
        (r"StateError|JSON", "not-json"),
    ]
    name: FindingName = "run-failed"
    for pattern, kind in reversed(kinds):
        name = kind if re.search(pattern, message) else name
    if "OutputError" in message:
        message += _MADE_UP
    return Finding(name, "error", run.function, message)


def deploy_findings(runs: Mapping[int, Run]) -> Iterator[Finding]:
    """Yield why runs could not continue, each reason once, with the requests before the deploys."""
    places: dict[tuple[str, str], list[int]] = {}
    for number, run in runs.items():
        if run.status != "completed":
            message = str((run.error or {}).get("message", "no error was given"))
            places.setdefault((run.function, message), []).append(number)
    for (function, message), numbers in places.items():
        shown = ", ".join(map(str, numbers))
        text = f"deployed after request {shown} of a run, this cannot continue: {message}"
        yield Finding("breaks-waiting-runs", "error", function, text)


def store_findings(
    where: str, history: HistoryConfig | None, runs: Sequence[Run]
) -> Iterator[Finding]:
    """Yield features that runs need and their store lacks; the doctor uses its own store."""
    names = (name for run in runs for name in run.names)
    received = next((name for name in names if ".receive." in name), None)
    if received is not None:
        try:
            mail_of(history)
        except ConfigurationError as error:
            yield Finding("no-mailbox", "error", received, str(error))
    store = thread_store(history)
    if store is not None and store.lease is None:
        text = (
            "two messages on a thread run in parallel, and a stopped run does not store "
            f"its tools' work: {type(store).__name__}(…, lease=ThreadLease())."
        )
        yield Finding("no-lease", "warning", where, text)


def _collisions(run: Run) -> Iterator[Finding]:
    for name, count in Counter(run.names).items():
        if count > 1:
            text = f"{count} steps have this name; a replay may mix them up."
            yield Finding("colliding-ids", "error", name, text)


def _limits(network: Network[Any, Any], run: Run) -> Iterator[Finding]:
    figures = figures_of(run)
    measured: list[tuple[FindingName, str, int, int, str]] = [
        ("too-large", figures.largest_step, figures.largest_output, MAX_OUTPUT, "bytes of output"),
        ("too-large", run.function, figures.state, MAX_STATE, "bytes of outputs in all"),
        ("too-many-steps", run.function, figures.steps, MAX_STEPS, "steps"),
    ]
    for name, where, value, limit, what in measured:
        if value > limit * _NEAR:
            severity: Severity = "error" if value > limit else "warning"
            yield Finding(name, severity, where, f"{value:,} {what}; Inngest's limit is {limit:,}.")
    per_turn = figures.steps_per_turn
    if per_turn and not (network.max_iter and network.max_iter * per_turn <= MAX_STEPS):
        turns = int(MAX_STEPS / per_turn)
        text = (
            f"at {per_turn:.1f} steps a turn, {MAX_STEPS} steps are reached after {turns} turns, "
            f"and max_iter={network.max_iter} allows more."
        )
        yield Finding("too-many-steps", "warning", network.name, text)
