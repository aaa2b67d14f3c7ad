"""Recordings that nobody has seen: random scenarios, played by the npm package and by ours.

Needs Node. The package is installed in a folder of its own, which is kept.

Run:
    python -m tests.parity.fresh [--seed S] [--count N] [--keep DIR]
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

from .compare import shown
from .divergences import ALL_IDS
from .judge import documents, judge
from .modes import CLASSES, FUNCTIONS, TYPESCRIPT, Mode
from .scenarios import Pieces, Scenario
from .vectors import COMMITTED, Vector, load_folder

PROGRAM = Path(__file__).parent / "node"
INSTALLED = PROGRAM.parent.parent.parent / ".cache" / "parity-recorder"


class NodeMissingError(Exception):
    """Node, npm or the package cannot be had here."""


def recorder() -> Path:
    """The folder with the program that records and the npm package, installed the first time.

    Raises:
        NodeMissingError: It cannot be installed.
    """
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            raise NodeMissingError(f"{program} is not installed: TypeScript's package runs in Node")
    shutil.copytree(
        PROGRAM, INSTALLED, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules")
    )
    wanted = json.loads((PROGRAM / "package.json").read_text("utf-8"))["dependencies"]
    there = INSTALLED / "node_modules" / "@inngest" / "agent-kit" / "package.json"
    known = json.loads(there.read_text("utf-8"))["version"] if there.is_file() else None
    if known != wanted["@inngest/agent-kit"]:
        install = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"]
        done = subprocess.run(install, cwd=INSTALLED, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NodeMissingError(f"npm cannot install TypeScript's package: {done.stderr[-300:]}")
    return INSTALLED


def recorded(seed: str, count: int, folder: Path) -> list[Vector]:
    """What TypeScript does in random scenarios.

    Args:
        seed: Begins the names of the scenarios, and decides what is in them.
        count: How many.
        folder: Gets the scenarios and, below ``recordings``, the recordings.

    Raises:
        NodeMissingError: The npm package cannot be had here.
        RuntimeError: A scenario was not recorded.
    """
    program = recorder()
    pieces = Pieces.of(load_folder(COMMITTED))
    for number in range(count):
        name = f"fresh.{seed}.{number}"
        spec = Scenario(pieces, name).spec
        made = {"schemaVersion": 1, "name": name, "area": "fresh", "spec": spec}
        (folder / f"{name}.json").write_text(json.dumps(made), encoding="utf-8")
    there = folder / "recordings"
    play = ["node", "record.mjs", str(folder.resolve()), str(there.resolve())]
    done = subprocess.run(play, cwd=program, capture_output=True, text=True, check=False)
    found = load_folder(there) if there.is_dir() else []
    if len(found) != count:
        raise RuntimeError(
            f"{len(found)} of {count} scenarios were recorded: {done.stderr[-2000:]}"
        )
    return found


def problem_of(vector: Vector, mode: Mode = TYPESCRIPT) -> str:
    """Return how our run differs from what the reference model expects; empty: not at all."""
    found = documents(vector, ALL_IDS, mode)
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
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        failed = 0
        for vector in recorded(given.seed, given.count, folder):
            for mode in (TYPESCRIPT, FUNCTIONS, CLASSES):
                problem = said_of(vector, mode)
                failed += bool(problem)
                if problem:
                    sys.stdout.write(f"{vector.name} ({mode.name})\n{problem}\n\n")
    sys.stdout.write(f"{given.count} recorded anew, run in three modes; {failed} runs differ\n")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
