"""Recordings that nobody has seen: random scenarios, played by the npm package and by ours.

Needs Node. The package is installed in a folder of its own, which is kept.

Run:
    python -m tests.parity.fresh [--seed S] [--count N] [--family F]… [--keep DIR]
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.typescript import folder_of

from .accents import FAMILIES
from .combined import COMBINED
from .compare import shown
from .corners import CORNERS
from .divergences import ALL_IDS
from .judge import documents, judge
from .met import MET
from .modes import CLASSES, FUNCTIONS, TYPESCRIPT, Mode
from .scenarios import Pieces, scenario
from .vectors import COMMITTED, Vector, load_folder

PROGRAM = Path(__file__).parent / "node"
SERVER = str(Path(__file__).with_name("mcp_oracle.py").resolve())
EVERY = (*FAMILIES, *CORNERS, *COMBINED, *MET, "varied", "varied")
"""The families: scenarios of their own, and recordings with something changed."""


ENDLESS = "without end in this mode"
"""What is said of a scenario that asks for more replies than there are, where loops go on."""


def recorder() -> Path:
    """The folder with the program that records and the npm package, installed the first time.

    Raises:
        NodeMissingError: It cannot be installed.
    """
    return folder_of("recorder", PROGRAM.iterdir())


def recorded(seed: str, count: int, folder: Path, families: Sequence[str] = EVERY) -> list[Vector]:
    """What TypeScript does in random scenarios.

    Args:
        seed: Begins the names of the scenarios, and decides what is in them.
        count: How many.
        folder: Gets the scenarios and, below ``recordings``, the recordings.
        families: They take turns.

    Raises:
        NodeMissingError: The npm package cannot be had here.
        RuntimeError: A scenario was not recorded.
    """
    program = recorder()
    pieces = Pieces.of(load_folder(COMMITTED))
    for number in range(count):
        family = families[number % len(families)]
        name = f"{family}.{seed}.{number}"
        made = scenario(pieces, name, family)
        (folder / f"{name}.json").write_text(json.dumps(made), encoding="utf-8")
    there = folder / "recordings"
    said = ""
    for shim in ([], ["--import", "./shim.mjs"]):
        play = ["node", *shim, "record.mjs", str(folder.resolve()), str(there.resolve()), SERVER]
        done = subprocess.run(play, cwd=program, capture_output=True, text=True, check=False)
        said += done.stderr[-2000:]
    found = load_folder(there) if there.is_dir() else []
    if len(found) < 0.95 * count:  # those without end are left out
        raise RuntimeError(f"{len(found)} of {count} scenarios were recorded: {said}")
    return found


def problem_of(vector: Vector, mode: Mode = TYPESCRIPT) -> str:
    """Return how our run differs from what the reference model expects; empty: not at all.

    `ENDLESS`: the model has no end to compare with.
    """
    found = documents(vector, ALL_IDS, mode)
    if found.other is None:
        return "\n".join(found.problems) or ENDLESS
    verdict = judge(found)
    if verdict.conflicts:
        return f"the model of TypeScript is wrong:\n{shown(verdict.conflicts)}"
    return "\n".join(filter(None, [shown(verdict.differences), *found.problems]))


def said_of(vector: Vector, mode: Mode) -> str:
    """Return the same; what crashes counts, and does not keep the others from being compared."""
    try:
        return problem_of(vector, mode)
    except Exception:  # noqa: BLE001 - whatever it is, it is shown
        return traceback.format_exc()


def main() -> None:
    """Record, compare, and print each difference and their number."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", default="0", help="another one gives other scenarios")
    parser.add_argument("--count", type=int, default=200, help="how many scenarios")
    parser.add_argument("--keep", type=Path, help="a folder for the recordings")
    parser.add_argument("--family", action="append", choices=sorted(set(EVERY)), default=[])
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    tried: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    endless = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for vector in recorded(given.seed, given.count, folder, given.family or EVERY):
            if vector.not_applicable():
                continue
            problems = {
                mode.name: said_of(vector, mode) for mode in (TYPESCRIPT, FUNCTIONS, CLASSES)
            }
            endless += ENDLESS in problems.values()
            problems = {mode: said for mode, said in problems.items() if said != ENDLESS}
            family = vector.name.partition(".")[0]
            tried[family] += 1
            failed[family] += any(problems.values())
            for mode, problem in problems.items():
                if problem:
                    sys.stdout.write(f"{vector.name} ({mode})\n{problem}\n\n")
    for family, count in sorted(tried.items()):
        sys.stdout.write(f"{family:10} {count - failed[family]:4} of {count:4} alike\n")
    share = 1 - failed.total() / max(1, tried.total())
    sys.stdout.write(
        f"{tried.total()} recorded anew, run in three modes; {share:.1%} alike in all; "
        f"{endless} without end in one of the modes, and not compared there\n"
    )
    sys.exit(bool(failed.total()))


if __name__ == "__main__":
    main()
