"""`make soak`: a million random histories and chains on all cores; `ARGS="--count 1000"`.

``--signed`` tries providers that sign their reasoning instead: with ``networks`` random networks,
some eight a second on one core; with ``requests`` conversations of ten requests each that go
from the encoders straight to the stand-in's rules, some thousand requests a second.

With ``--log FILE`` each batch that is done is written down, and skipped by the next run with the
same file: so a million cases can be tried in parts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from tests.soak.cases import faults_in

BATCH = {None: 500, "networks": 50, "requests": 200}


def batch(seed: str, start: int, stop: int, *, signed: str | None = None) -> list[str]:
    """Run some cases; what is wrong, with the seed that shows it again."""
    return asyncio.run(_batch(seed, start, stop, signed=signed))


async def _batch(seed: str, start: int, stop: int, *, signed: str | None) -> list[str]:
    faults_of = faults_in
    if signed:
        from tests.soak import signed as kinds  # noqa: PLC0415 - loads hypothesis

        logging.getLogger("agentkit_py").setLevel(logging.CRITICAL)  # what they do is odd
        faults_of = kinds.faults_in if signed == "networks" else kinds.faults_in_requests
    found: list[str] = []
    for number in range(start, stop):
        case = f"{seed}:{number}"
        found += [f"{case}  {fault}" for fault in await faults_of(case)]
    return found


class Log:
    """The log of finished batches, one line of JSON for each."""

    def __init__(self, path: Path | None, seed: str) -> None:
        self._path = path
        self._seed = seed
        self.done: dict[tuple[int, int], list[str]] = {}
        for entry in self._entries():
            if entry["seed"] == seed:
                self.done[(entry["start"], entry["stop"])] = entry["faults"]

    def _entries(self) -> Iterator[dict[str, Any]]:
        if self._path is not None and self._path.exists():
            yield from map(json.loads, self._path.read_text().splitlines())

    def add(self, start: int, stop: int, faults: list[str]) -> None:
        """Write a batch down."""
        self.done[(start, stop)] = faults
        if self._path is not None:
            entry = {"seed": self._seed, "start": start, "stop": stop, "faults": faults}
            with self._path.open("a") as file:
                file.write(json.dumps(entry) + "\n")


def options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000, help="how many cases")
    parser.add_argument("--start", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", default="soak", help="the same seed gives the same cases")
    parser.add_argument("--workers", type=int, default=None, help="processes; one per core")
    parser.add_argument("--signed", choices=["networks", "requests"], help="signed reasoning")
    parser.add_argument("--log", type=Path, default=None, help="resume what this file has")
    return parser.parse_args()


def main() -> int:
    """Run all; 1 if anything is wrong."""
    given = options()
    console = Console(stderr=True)
    log = Log(given.log, given.seed)
    began = time.monotonic()
    end, size = given.start + given.count, BATCH[given.signed]
    wanted = [(s, min(s + size, end)) for s in range(given.start, end, size)]
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with (
        Progress(TextColumn("soaking"), *columns, console=console) as bar,
        ProcessPoolExecutor(given.workers) as pool,
    ):
        known = sum(stop - start for start, stop in wanted if (start, stop) in log.done)
        task = bar.add_task("", total=given.count, completed=known)
        run = partial(batch, given.seed, signed=given.signed)
        jobs = {one: pool.submit(run, *one) for one in wanted if one not in log.done}
        for (start, stop), job in jobs.items():
            log.add(start, stop, job.result())
            bar.advance(task, stop - start)
            for fault in log.done[(start, stop)][:5]:
                console.print(fault, markup=False, highlight=False)
    wrong = sum(len(log.done[one]) for one in wanted)
    seconds = time.monotonic() - began
    again = f" ({known:,} of them before)" if known else ""
    console.print(f"{given.count:,} cases{again} in {seconds:,.0f} s, {wrong:,} faults")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
