"""Compare with other frameworks: ``python benchmarks/peers/run.py`` (`make bench-peers`).

Installs what is missing, measures, and writes docs/benchmarks.md with its pictures. Figures are
kept in docs/assets/benchmarks.json, so ``--only`` measures some rows again and ``--write`` only
writes the page.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

import charts
import page
from driving import Worker, WorkerFailed, measure, say
from environments import (
    CACHE,
    PEERS,
    ROOT,
    TYPESCRIPT,
    CannotInstall,
    environment,
    installed,
    ours,
    pin,
)
from measuring import Effort
from report import machine
from works import FLOOR, OURS, WORKS, Work, chosen

ASSETS = ROOT / "docs" / "assets"
FIGURES = ASSETS / "benchmarks.json"
THOROUGH = Effort(rounds=15, seconds=0.03, budget=20.0, least=3, sizes=())
QUICK = Effort(rounds=3, seconds=0.01, budget=5.0, least=1, sizes=())


def main() -> int:
    """Measure and write; 1 if something was not what it should be."""
    options = _parser().parse_args()
    if options.pin:
        for peer in PEERS:
            pin(peer)
        return 0
    works = chosen(options.only)
    if not works:
        print(f"No row fits {options.only!r}: {', '.join(w.key for w in WORKS)}", file=sys.stderr)
        return 2
    whole: dict[str, Any] = {"contenders": {}, "rows": {}}
    if options.json.is_file():
        whole = json.loads(options.json.read_text(encoding="utf-8"))
    failed = False
    if not options.write:
        effort = QUICK if options.quick else THOROUGH
        failed = _measure_all(works, options.peers, effort, whole, options.json)
    if options.json == FIGURES:
        for name, picture in charts.pictures(whole).items():
            (ASSETS / name).write_text(picture, encoding="utf-8")
        (ROOT / "docs" / "benchmarks.md").write_text(page.page(whole), encoding="utf-8")
    else:
        print(page.goals_table(whole))
    return int(failed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Compare with other frameworks.")
    parser.add_argument("--quick", action="store_true", help="few short rounds: rough figures")
    parser.add_argument(
        "--only", metavar="WORDS", default="", help="rows with one of a,b,c in them"
    )
    parser.add_argument(
        "--peers", metavar="NAMES", default="", help="only these, e.g. agno,autogen"
    )
    parser.add_argument(
        "--json", metavar="FILE", type=Path, default=FIGURES, help="keep figures here"
    )
    parser.add_argument("--write", action="store_true", help="measure nothing, write the page")
    parser.add_argument("--pin", action="store_true", help="pin the newest versions (needs uv)")
    return parser


def _measure_all(
    works: list[Work], only: str, effort: Effort, whole: dict[str, Any], file: Path
) -> bool:
    """Into ``whole`` and, row by row, into the file; whether something failed."""
    os.environ.update(environment())
    facts = machine()
    whole["machine"] = {**facts, "packages": {}, "effort": {"rounds": effort.rounds}}
    failed = False
    with ExitStack() as stack:
        workers = _workers(only, whole, stack)
        for number, work in enumerate(works, start=1):
            began = time.perf_counter()
            done = measure(work, workers, effort)
            spent = time.perf_counter() - began
            say(f"[{number}/{len(works)}] {work.name}: {done.rounds} rounds, {spent:.0f} s")
            for name, reason in done.missing.items():
                if reason.startswith(("failed", "took", "its process")):
                    say(f"    {name} {reason}")
                    failed = True
            before: dict[str, Any] = whole["rows"].get(work.key, {}) if only else {}
            whole["rows"][work.key] = {
                "when": datetime.now(UTC).isoformat(timespec="minutes"),
                "rounds": done.rounds,
                "load": round(os.getloadavg()[0], 1),
                "figures": {**before.get("figures", {}), **done.figures},
                "missing": {**before.get("missing", {}), **done.missing},
            }
            _keep(whole, file)
    return failed


def _keep(whole: dict[str, Any], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(whole, indent=1, ensure_ascii=False, sort_keys=True)
    file.write_text(text + "\n", encoding="utf-8")


def _workers(only: str, whole: dict[str, Any], stack: ExitStack) -> list[Worker]:
    """Ours and the floor, and each peer that can be had here."""
    CACHE.mkdir(parents=True, exist_ok=True)
    commands = {OURS: lambda: ours("ours"), FLOOR: lambda: ours("floor")}
    for peer in (*PEERS, TYPESCRIPT):
        commands[peer.name] = lambda peer=peer: installed(peer)
    wanted = {OURS, FLOOR, *only.split(",")} if only else set(commands)
    found: list[Worker] = []
    for name, command in commands.items():
        if name not in wanted:
            continue
        try:
            worker = Worker(name, command(), CACHE / f"{name}.log")
            worker.start()
        except (CannotInstall, WorkerFailed) as reason:
            say(f"without {name}: {reason}")
            whole["contenders"][name] = {"left_out": str(reason)}
            continue
        stack.callback(worker.stop)
        about = {key: worker.about[key] for key in ("runtime", "versions", "notes", "absent")}
        whole["contenders"][name] = about
        found.append(worker)
    return found


if __name__ == "__main__":
    sys.exit(main())
