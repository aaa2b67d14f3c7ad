"""`make soak`: a million random histories and chains on all cores; `ARGS="--count 1000"`."""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

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

from tests.soak.cases import faults_of

BATCH = 500


def batch(seed: str, start: int, stop: int) -> tuple[int, list[str]]:
    """Run some cases; how many, and what is wrong, with the seed that shows it again."""
    found = [
        f"{seed}:{n}  {fault}" for n in range(start, stop) for fault in faults_of(f"{seed}:{n}")
    ]
    return stop - start, found


def main() -> int:
    """Run all; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000, help="how many cases")
    parser.add_argument("--seed", default="soak", help="the same seed gives the same cases")
    parser.add_argument("--workers", type=int, default=None, help="processes; one per core")
    options = parser.parse_args()
    console = Console(stderr=True)
    wrong: list[str] = []
    began = time.monotonic()
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with (
        Progress(TextColumn("soaking"), *columns, console=console) as bar,
        ProcessPoolExecutor(options.workers) as pool,
    ):
        task = bar.add_task("", total=options.count)
        starts = range(0, options.count, BATCH)
        jobs = [pool.submit(batch, options.seed, s, min(s + BATCH, options.count)) for s in starts]
        for job in jobs:
            done, found = job.result()
            wrong += found
            bar.advance(task, done)
            for fault in found[:5]:
                console.print(fault, markup=False, highlight=False)
    seconds = time.monotonic() - began
    console.print(f"{options.count:,} cases in {seconds:,.0f} s, {len(wrong):,} faults")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
