"""Judging one recording: what it says, what the model says of both sides, and what we did."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field

from . import canon, marks
from .compare import MISSING, Path, differences
from .divergences import ALL_IDS
from .evidence import Documents
from .known_keys import unknown_keys
from .modes import TYPESCRIPT, Mode
from .other_kinds import checksum_documents, misc_documents, tokenizer_documents
from .play import play
from .processor_kind import documents as processor_documents
from .reference.core import Unsupported
from .reference.play import Outcome, Play
from .vectors import Json, Vector, walk

Found = list[tuple[Path, Json, Json]]
Expected = Callable[[Vector, frozenset[str], Mode], tuple[Outcome, Outcome]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a comparison."""

    differences: Found = field(default_factory=list[tuple[Path, Json, Json]])
    conflicts: Found = field(default_factory=list[tuple[Path, Json, Json]])
    """Where a divergence replaces something, and the recording does not say what it replaces."""

    compared: int = 0
    """Leaves of the recording that were compared as they stand there."""

    @property
    def passed(self) -> bool:
        """True if there is no difference and no conflict."""
        return not self.differences and not self.conflicts and self.compared > 0


def documents(
    vector: Vector,
    on: frozenset[str] = ALL_IDS,
    mode: Mode = TYPESCRIPT,
    expected: Expected | None = None,
) -> Documents:
    """A recording in the form in which it is compared; plays its scenario on both sides.

    Args:
        vector: The recording.
        on: Our differences.
        mode: How agents and networks are made.
        expected: What is asked instead of `models`, such as what those said before.

    Raises:
        ValueError: The recording says something that nothing here reads.
    """
    if unknown := unknown_keys(vector):
        raise ValueError(f"{vector.name}: the harness does not read {', '.join(unknown)}")
    match vector.kind:
        case "run":
            return _run_documents(vector, on, mode, expected or models)
        case "processors":
            return processor_documents(vector, on)
        case "checksum":
            return checksum_documents(vector, on)
        case "tokenizer":
            return tokenizer_documents(vector)
        case _:
            return misc_documents(vector, on)


def _run_documents(vector: Vector, on: frozenset[str], mode: Mode, expected: Expected) -> Documents:
    recorded = canon.recorded(vector)
    try:
        theirs, ours = expected(vector, on, mode)
    except Unsupported:
        played = play(vector.spec, _bound_as_recorded(vector), mode)
        problems = tuple(played.problems)
        return Documents(recorded, None, None, canon.observed(played.observed), problems=problems)
    played = play(vector.spec, ours.replies, mode)
    seen = canon.observed(played.observed)
    wanted, seen, broken = marks.compared(ours.document, seen, played.observed)
    named = canon.tools_by_name if vector.data.get("unorderedTools") else _as_it_is
    return Documents(
        named(recorded),
        named(theirs.document),
        named(wanted),
        named(seen),
        ours.asked,
        (*played.problems, *broken),
    )


def _as_it_is(document: Json) -> Json:
    return document


def models(vector: Vector, on: frozenset[str], mode: Mode = TYPESCRIPT) -> tuple[Outcome, Outcome]:
    """The scenario on the model: as TypeScript plays it, and with these divergences."""
    facts: Json = {"old_branch": vector.old_branch, "shimmed": vector.shimmed}
    theirs = Play(vector.spec, frozenset(), **facts).play()
    return theirs, Play(vector.spec, on, theirs, mode=mode, **facts).play()


def applied(
    vector: Vector, found: Documents, among: frozenset[str] | set[str] = ALL_IDS
) -> list[str]:
    """The divergences without which the recording would be judged otherwise."""
    if found.other is None:
        return []
    asked = among.intersection(found.asked)
    return sorted(each for each in asked if _other_without(vector, each) != found.other)


def _other_without(vector: Vector, divergence: str) -> Json:
    on = ALL_IDS - {divergence}
    try:
        return (
            models(vector, on)[1].document if vector.kind == "run" else documents(vector, on).other
        )
    except Unsupported:
        return None  # without it the scenario has no end


def _bound_as_recorded(vector: Vector) -> list[list[Json]]:
    replies: list[list[Json]] = [[] for _ in vector.spec["runs"]]
    for request, reply in zip(vector.expected["requests"], vector.spec["llm"], strict=False):
        replies[request["run"]].append(reply)
    return replies


def judge(found: Documents, recorded: dict[str, Json] | None = None) -> Verdict:
    """Compare a recording with what we did.

    Args:
        found: What is known of it.
        recorded: What it says instead, for trying whether that would be noticed.
    """
    recording = found.recorded if recorded is None else recorded
    conflicts: Found = []
    expected: Json = recording
    compared = sum(1 for _ in walk(recording))
    if found.base is not None and found.other is not None:
        recording = _reconciled(recording, found.base)
        compared = _kept(recording, found.base, found.other)
        expected = merged(recording, found.base, found.other, (), conflicts)
    observed = found.observed
    if "runs" in observed:
        expected = canon.normalised(expected)
        observed = {**observed, "runs": _errors_as(expected, observed["runs"])}
    return Verdict(differences(expected, observed), conflicts, compared)


def _kept(recording: Json, base: Json, other: Json) -> int:
    """Return the number of the recording's leaves that are compared unchanged."""
    if not differences(base, other):
        return sum(1 for _ in walk(recording))
    if isinstance(recording, dict) and isinstance(base, dict) and isinstance(other, dict):
        rows = [(recording[k], base.get(k, MISSING), other.get(k, MISSING)) for k in recording]
        return sum(_kept(*row) for row in rows)
    if _same_length(recording, base, other):
        return sum(_kept(*row) for row in zip(recording, base, other, strict=True))
    return 0


def _reconciled(recording: Json, base: Json) -> Json:
    """The recording with messages that nobody has a digest of taken for what the model expects."""
    if "runs" not in recording:
        return recording
    made = {**recording, "runs": copy.copy(recording["runs"])}
    for index, run in enumerate(made["runs"]):
        said = (run.get("error") or {}).get("prose", "")
        meant = base["runs"][index].get("error") or {} if index < len(base["runs"]) else {}
        if said.startswith("<") and "prose" in meant:
            made["runs"][index] = {**run, "error": meant}
    return made


def _errors_as(expected: Json, runs: list[Json]) -> list[Json]:
    wanted = expected["runs"]
    found: list[Json] = []
    for index, run in enumerate(runs):
        want = wanted[index].get("error") if index < len(wanted) else None
        found.append({**run, "error": canon.our_error(want, run["error"])})
    return found


def merged(recording: Json, base: Json, other: Json, path: Path, conflicts: Found) -> Json:
    """The recording with what the divergences change, taken from ``other``.

    Where both model documents agree, the recording stands, whatever it says. Where they differ, the
    recording must say what the model without divergences says.
    """
    if not differences(base, other):
        return recording
    if isinstance(recording, dict) and isinstance(base, dict) and isinstance(other, dict):
        result: dict[str, Json] = {}
        for key in {**recording, **base, **other}:
            said, want = recording.get(key, MISSING), other.get(key, MISSING)
            value = merged(said, base.get(key, MISSING), want, (*path, key), conflicts)
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


def pointer_problems(vector: Vector) -> list[str]:
    """Return the faults of a recording's list of undefined members."""
    expected = vector.expected
    return [
        f"undefinedPaths: {pointer}"
        for pointer in expected.get("undefinedPaths", [])
        if not _is_undefined(expected, pointer)
    ]


_MAY_BE_UNDEFINED = frozenset(
    {
        "id", "prompt", "history", "raw", "input", "threadId", "stateThreadId", "userMessage",
        "newResults", "lastResult", "label", "role", "stateIsPassedState", "userId", "result",
        "error", "cause", "content", "description", "parentRunId", "agents", "toolName", "output",
    }
)  # fmt: skip


def _is_undefined(document: Json, pointer: str) -> bool:
    *parents, name = pointer.removeprefix("/").split("/")
    for part in parents:
        if isinstance(document, list) and part.isdecimal() and int(part) < len(document):
            document = document[int(part)]
        elif isinstance(document, dict) and part in document:
            document = document[part]
        else:
            return False
    if not isinstance(document, dict) or not pointer.startswith("/"):
        return False
    return name not in document and name in _MAY_BE_UNDEFINED
