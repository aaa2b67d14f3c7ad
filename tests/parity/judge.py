"""Judging one recording: the recording, what the model says of both sides, and what we did."""

from __future__ import annotations

from dataclasses import dataclass, field

from . import canon
from .compare import MISSING, Path, differences
from .play import play
from .reference.core import Unsupported
from .reference.play import Outcome, model_play
from .vectors import Json, Vector


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything about one recording that does not depend on what it says."""

    theirs: Outcome | None
    """The scenario on the model without divergences; None: the model does not know it."""

    ours: Outcome | None
    observed: dict[str, Json]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a comparison."""

    differences: list[tuple[Path, Json, Json]] = field(
        default_factory=list[tuple[Path, Json, Json]]
    )
    conflicts: list[tuple[Path, Json, Json]] = field(default_factory=list[tuple[Path, Json, Json]])
    """Where a divergence replaces something, and the recording does not say what it replaces."""

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not self.differences and not self.conflicts


def all_divergences() -> frozenset[str]:
    """The ids of the whole manifest."""
    from .divergences import DIVERGENCES

    return frozenset(each.id for each in DIVERGENCES if each.where == "model")


def evidence(vector: Vector) -> Evidence:
    """Play a recording's scenario on the model, without and with divergences, and on our library."""
    old = vector.old_branch
    try:
        theirs = model_play(vector.spec, frozenset(), old_branch=old)
        ours = model_play(vector.spec, all_divergences(), earlier=theirs, old_branch=old)
        replies = ours.replies
    except Unsupported:
        theirs = ours = None
        replies = _bound_as_recorded(vector)
    played = play(vector.spec, replies)
    document = canon.observed(played.observed)
    return Evidence(theirs, ours, document, tuple(played.problems))


def _bound_as_recorded(vector: Vector) -> list[list[Json]]:
    replies: list[list[Json]] = [[] for _ in vector.spec["runs"]]
    for request, reply in zip(vector.expected["requests"], vector.spec["llm"], strict=False):
        replies[request["run"]].append(reply)
    return replies


def judge(document: dict[str, Json], facts: Evidence) -> Verdict:
    """Compare a recording, in the common form, with what we did."""
    verdict = Verdict()
    expected = document
    if facts.theirs is not None and facts.ours is not None:
        base, other = facts.theirs.document, facts.ours.document
        expected = merged(document, base, other, (), verdict.conflicts)
        expected = canon.normalised(expected)
    seen = {**facts.observed, "runs": _errors_as(expected, facts.observed["runs"])}
    verdict.differences.extend(differences(expected, seen))
    return verdict


def _errors_as(expected: dict[str, Json], runs: list[Json]) -> list[Json]:
    wanted = expected["runs"]
    return [
        {
            **run,
            "error": canon.our_error(wanted[i]["error"] if i < len(wanted) else None, run["error"]),
        }
        for i, run in enumerate(runs)
    ]


def merged(
    recording: Json, base: Json, other: Json, path: Path, conflicts: list[tuple[Path, Json, Json]]
) -> Json:
    """The recording with what the divergences change, taken from ``other``.

    Where both model documents agree, the recording stands, whatever it says. Where they differ, the
    recording must say what the model without divergences says.
    """
    if not differences(base, other):
        return recording
    if isinstance(recording, dict) and isinstance(base, dict) and isinstance(other, dict):
        result: dict[str, Json] = {}
        for key in {**recording, **base, **other}:
            value = merged(
                recording.get(key, MISSING),
                base.get(key, MISSING),
                other.get(key, MISSING),
                (*path, key),
                conflicts,
            )
            if value != MISSING:
                result[key] = value
        return result
    if _same_length(recording, base, other):
        rows = zip(recording, base, other, strict=True)
        return [merged(*row, (*path, i), conflicts) for i, row in enumerate(rows)]
    found = differences(base, recording)
    conflicts.extend(((*path, *where), want, got) for where, want, got in found)
    return other


def _same_length(*values: Json) -> bool:
    return all(isinstance(value, list) for value in values) and len({len(v) for v in values}) == 1
