"""Drive workers, one process for each contender: they take turns, and each round gives ratios."""

from __future__ import annotations

import json
import select
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from environments import environment
from harness import Effort
from rows import FLOOR, OURS, Row

OPEN_SECONDS = 900.0
"""Time to set a work up: threads of a million messages are written once."""

SAMPLE_SECONDS = 180.0
Pair: TypeAlias = tuple[float, float | None]
"""Wall seconds (or bytes) and CPU seconds of one operation, in one round."""


class WorkerFailed(Exception):  # noqa: N818 - no error: the page shows what happened
    """A worker refused, took too long, or ended."""


@dataclass(slots=True)
class Worker:
    """A process that does the works of one contender."""

    name: str
    command: Sequence[str]
    log: Path
    about: dict[str, Any] = field(default_factory=dict[str, Any])
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and ask what it can do."""
        with self.log.open("ab") as errors:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment(),
            )
        self.about = self.ask(OPEN_SECONDS, do="hello")

    def ask(self, seconds: float, **command: Any) -> dict[str, Any]:
        """Send a command and return the answer.

        Raises:
            WorkerFailed: There is none in time, or it reports a failure.
        """
        if self._process is None or self._process.poll() is not None:
            self.start()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(command).encode() + b"\n")
        process.stdin.flush()
        if not select.select([process.stdout], [], [], seconds)[0]:
            self.stop()
            raise WorkerFailed(f"took longer than {seconds:.0f} s")
        line = process.stdout.readline()
        if not line:
            self.stop()
            raise WorkerFailed("its process ended")
        found: dict[str, Any] = json.loads(line)
        if "error" in found or "missing" in found:
            raise WorkerFailed(str(found.get("missing") or f"failed: {found['error']}"))
        return found

    def stop(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


@dataclass(slots=True)
class Measured:
    """One row: each contender's figures, or the reason why it has none."""

    rounds: int = 0
    figures: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    missing: dict[str, str] = field(default_factory=dict[str, str])


def measure(row: Row, workers: Sequence[Worker], effort: Effort) -> Measured:
    """Set a row up everywhere, let the workers take turns, check the work."""
    found = Measured()
    counts: dict[str, int] = {}
    able: list[Worker] = []
    for worker in workers:
        if row.key not in worker.about["works"]:
            absent: dict[str, str] = worker.about["absent"]
            reasons = [why for key, why in absent.items() if row.key.startswith(key)]
            found.missing[worker.name] = reasons[0] if reasons else ""
            continue
        try:
            opened = worker.ask(
                OPEN_SECONDS, do="open", work=row.key, count=row.count, effort=asdict(effort)
            )
        except WorkerFailed as reason:
            found.missing[worker.name] = str(reason)
            _close(worker)
            continue
        counts[worker.name] = opened["count"]
        able.append(worker)
    samples = _take_turns(row, able, counts, effort, found)
    for worker in able:
        if (reason := _close(worker)) is not None:
            found.missing[worker.name] = reason
            samples.pop(worker.name, None)
    found.figures = figures(samples)
    return found


def _take_turns(
    row: Row, able: Sequence[Worker], counts: dict[str, int], effort: Effort, found: Measured
) -> dict[str, list[Pair]]:
    samples: dict[str, list[Pair]] = {worker.name: [] for worker in able}
    start, most = time.perf_counter(), min(row.rounds or effort.rounds, effort.rounds)
    for number in range(most):
        for worker in able if number % 2 == 0 else reversed(able):
            if worker.name not in samples:
                continue
            try:
                one = worker.ask(SAMPLE_SECONDS, do="sample", count=counts[worker.name])
            except WorkerFailed as reason:
                found.missing[worker.name] = str(reason)
                del samples[worker.name]
                continue
            samples[worker.name].append((one["value"], one["cpu"]))
        found.rounds = number + 1
        if found.rounds >= effort.least and time.perf_counter() - start > effort.budget:
            break
    return samples


def _close(worker: Worker) -> str | None:
    try:
        worker.ask(SAMPLE_SECONDS, do="close")
    except WorkerFailed as reason:
        return str(reason)
    return None


def figures(samples: dict[str, list[Pair]]) -> dict[str, dict[str, Any]]:
    """Return medians, least and most: of values, and of the ratios within each round."""
    ours, floor = samples.get(OURS, []), samples.get(FLOOR, [])
    found: dict[str, dict[str, Any]] = {}
    for name, own in samples.items():
        found[name] = {
            "value": _figure([value for value, _ in own]),
            "cpu": _figure([used for _, used in own if used is not None]),
            "ours": _figure([a[0] / b[0] for a, b in zip(ours, own, strict=False) if b[0]]),
            "ours_cpu": _figure(
                [a[1] / b[1] for a, b in zip(ours, own, strict=False) if a[1] and b[1]]
            ),
            "floor": _figure([a[0] / b[0] for a, b in zip(own, floor, strict=False) if b[0]]),
        }
    return found


def _figure(values: Sequence[float]) -> list[float] | None:
    """Return median, least and most, to five digits."""
    if not values:
        return None
    return [float(f"{x:.5g}") for x in (statistics.median(values), min(values), max(values))]
