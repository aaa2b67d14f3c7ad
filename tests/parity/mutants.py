"""Measures whether the suite notices mutants: expectations with one changed leaf.

Our side of each recording is played once; each mutant is only compared again.

Run:
    python -m tests.parity.mutants [--vectors DIR] [--per-vector N] [--all]
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import canon
from .compare import Path as LeafPath
from .evidence import Documents
from .judge import documents, judge, pointer_problems
from .processor_kind import countable, neutral_case
from .vectors import COMMITTED, Json, Vector, load_folder, walk

NEEDED = 0.95
"""The share of mutants that has to be noticed."""

_META = {
    "schemaVersion",
    "kind",
    "name",
    "area",
    "description",
    "notes",
    "messages",
    "inputs",
    "spec",
}
_FLAGS = {"engineSpecificErrorMessage", "unorderedTools"}


_WHY = {
    "/description": "the routing agent's words are each side's own",
    "error/message": "TypeScript's words are compared by their digest, and any unknown ones pass",
    "cases/N/error": "a text that TypeScript cannot count: we count it",
    "error/cause": "our cause is httpx's",
    "warnings": "TypeScript's words; event and number are compared",
    "exportJson": "1e21 and the like: one more is the same number",
}


@dataclass(slots=True)
class Tally:
    """The numbers of mutants of one recording that were tried and that escaped."""

    tried: int = 0
    escaped: Counter[str] = field(default_factory=Counter[str])

    def add(self, other: Tally) -> None:
        """Count those of another recording, too."""
        self.tried += other.tried
        self.escaped.update(other.escaped)

    @property
    def noticed(self) -> float:
        """The share that was noticed."""
        return 1 - self.escaped.total() / self.tried if self.tried else 1.0


def leaves(vector: Vector) -> list[LeafPath]:
    """Every leaf of what the recording expects."""
    if vector.kind == "run":
        return [("expected", *path) for path, _ in walk(vector.expected)]
    shown = {key: value for key, value in vector.data.items() if key not in _META | _FLAGS}
    return [path for path, _ in walk(shown)]


def changed(value: Json) -> Json:
    """Another value than this one."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return f"{value}~"
        case list():
            return ["~"]
        case dict():
            return {"~": 0}
        case _:
            return "~"


def mutants(vector: Vector, limit: int) -> Iterator[tuple[LeafPath, Vector]]:
    """The recording with one leaf changed, for leaves evenly spread over it."""
    paths = leaves(vector)
    step = max(1, len(paths) / limit)
    for number in range(min(limit, len(paths))):
        path = paths[int(number * step)]
        yield path, _with_change(vector, path)


def _with_change(vector: Vector, path: LeafPath) -> Vector:
    data: Any = copy.copy(vector.data)
    place = data
    for part in path[:-1]:
        place[part] = copy.copy(place[part])
        place = place[part]
    place[path[-1]] = changed(place[path[-1]])
    return dataclasses.replace(vector, data=data)


def try_all(job: tuple[Vector, int]) -> Tally:
    """All mutants of one recording."""
    logging.disable(logging.CRITICAL)
    vector, limit = job
    found = documents(vector)
    tally = Tally()
    for path, mutant in mutants(vector, limit):
        try:
            noticed = is_noticed(vector, found, path, mutant)
        except (AttributeError, IndexError, KeyError, StopIteration, TypeError, ValueError):
            noticed = True  # no longer a recording: its test fails
        if noticed is None:
            continue
        tally.tried += 1
        if not noticed:
            tally.escaped["/".join("N" if isinstance(p, int) else p for p in path)] += 1
    return tally


def is_noticed(vector: Vector, found: Documents, path: LeafPath, mutant: Vector) -> bool | None:
    """Return whether the suite fails on the mutant; None: the change cannot be compared here."""
    if vector.kind == "run":
        if path[1] == "undefinedPaths":
            return bool(pointer_problems(mutant))
        return not judge(found, canon.recorded(mutant)).passed
    if vector.kind == "processors":
        return _processors_notice(vector, found, path, mutant)
    recorded = copy.copy(found.recorded)
    if path[0] not in recorded:
        return None
    recorded[str(path[0])] = mutant.data[str(path[0])]
    return not judge(found, recorded).passed


def _processors_notice(
    vector: Vector, found: Documents, path: LeafPath, mutant: Vector
) -> bool | None:
    """Only the part that was changed is compared again: recordings have many cases."""
    section, which = path[0], path[1]
    if section != "cases":
        recorded = {**found.recorded, "cases": []}
        if section == "tokenCounts" and which not in recorded["tokenCounts"]:
            return None
        recorded[str(section)] = {
            "tokenCounts": {n: mutant.data["tokenCounts"][n] for n in recorded["tokenCounts"]},
            "countedText": mutant.data.get("countedText"),
        }[str(section)]
        return not judge(_with_cases(found, []), recorded).passed
    assert isinstance(which, int)
    cases = vector.data["cases"]
    if not countable(cases[which], vector):
        return None
    place = sum(1 for case in cases[:which] if countable(case, vector))
    part = _with_cases(found, [place])
    recorded = {**part.recorded, "cases": [neutral_case(mutant.data["cases"][which])]}
    return not judge(part, recorded).passed


def _with_cases(found: Documents, places: list[int]) -> Documents:
    def cut(document: Any) -> Any:
        return document and {**document, "cases": [document["cases"][i] for i in places]}

    return dataclasses.replace(
        found,
        recorded=cut(found.recorded),
        base=cut(found.base),
        other=cut(found.other),
        observed=cut(found.observed),
    )


def main() -> int:
    """Try, and say how many were noticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vectors", type=Path, default=COMMITTED)
    parser.add_argument("--per-vector", type=int, default=250, help="mutants of each recording")
    parser.add_argument("--all", action="store_true", help="every leaf of every recording")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    begun = time.monotonic()
    limit = sys.maxsize if arguments.all else arguments.per_vector
    chosen = [
        (vector, limit) for vector in load_folder(arguments.vectors) if not vector.not_applicable()
    ]
    total = Tally()
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for tally in pool.map(try_all, chosen, chunksize=4):
            total.add(tally)
    sys.stdout.write(report(total, len(chosen), time.monotonic() - begun) + "\n")
    return 0 if total.noticed >= NEEDED else 1


def report(total: Tally, recordings: int, seconds: float) -> str:
    """The figures in words."""
    first = (
        f"{total.noticed:.2%} of {total.tried} mutants of {recordings} recordings were noticed "
        f"({total.escaped.total()} escaped, {seconds:.0f} s)"
    )
    lines = [first]
    for kind, count in total.escaped.most_common(25):
        why = next((reason for part, reason in _WHY.items() if part in kind), "to be looked into")
        lines.append(f"  {count:5}  {kind}: {why}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
