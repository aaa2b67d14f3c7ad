"""Measure ours against plain Python and against other frameworks.

``python benchmarks/run.py`` (`make bench-peers`) installs what is missing, measures, and writes
docs/benchmarks.md with its picture; figures are kept in docs/assets/benchmarks.json, so ``--only``
measures some rows again. ``--ours`` (`make bench`) measures ours and plain Python only, with rows
for our own parts, and prints the table.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import page
from driving import Worker, WorkerFailed, measure
from environments import (
    CACHE,
    PEERS,
    ROOT,
    CannotInstall,
    environment,
    own_command,
    peer_command,
    pin,
)
from harness import QUICK, THOROUGH, Effort
from rows import FLOOR, OURS, OWN_ROWS, PEER_ROWS, Row, chosen

ASSETS = ROOT / "docs" / "assets"
FIGURES = ASSETS / "benchmarks.json"


def main() -> int:
    """Measure, then print or write; 1 if a row did not do its work."""
    options = _parser().parse_args()
    if options.pin:
        for peer in PEERS:
            pin(peer)
        return 0
    all_rows = [*PEER_ROWS, *OWN_ROWS] if options.ours else list(PEER_ROWS)
    rows = chosen(options.only, all_rows)
    if not rows:
        known = ", ".join(row.key for row in all_rows)
        print(f"No row fits {options.only!r}. There are: {known}", file=sys.stderr)
        return 2
    file: Path = options.json or (CACHE / "ours.json" if options.ours else FIGURES)
    whole: dict[str, Any] = {"contenders": {}, "rows": {}}
    if file.is_file():
        whole = json.loads(file.read_text(encoding="utf-8"))
    failed = False
    if not options.write:
        names = () if options.ours else [p.name for p in PEERS]
        peers = options.peers.split(",") if options.peers else names
        effort = QUICK if options.quick else THOROUGH
        failed = _measure_all(rows, peers, effort, whole, file, part=bool(options.peers))
    if file == FIGURES:
        (ASSETS / "benchmarks-ratios.svg").write_text(page.picture(whole), encoding="utf-8")
        (ROOT / "docs" / "benchmarks.md").write_text(page.page(whole), encoding="utf-8")
    else:
        print(page.machine_line(whole))
        print(page.results_table(whole, rows))
    return int(failed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Compare with plain Python and other frameworks.")
    parser.add_argument("--ours", action="store_true", help="no other frameworks; more own rows")
    parser.add_argument("--quick", action="store_true", help="few short rounds: rough figures")
    parser.add_argument("--only", metavar="WORDS", default="", help="rows with one of a,b,c")
    parser.add_argument("--peers", metavar="NAMES", default="", help="e.g. agno,autogen")
    parser.add_argument("--json", metavar="FILE", type=Path, help="keep figures here")
    parser.add_argument("--write", action="store_true", help="measure nothing, write the page")
    parser.add_argument("--pin", action="store_true", help="pin the newest versions (needs uv)")
    return parser


def machine() -> dict[str, Any]:
    """Describe this machine."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor() or "unknown",
        "cores": len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def _measure_all(
    rows: list[Row],
    peers: list[str] | tuple[()],
    effort: Effort,
    whole: dict[str, Any],
    file: Path,
    *,
    part: bool,
) -> bool:
    """Measure into ``whole`` and, row by row, into the file; return whether something failed."""
    os.environ.update(environment())
    whole["machine"] = machine()
    failed = False
    with ExitStack() as stack:
        workers = _workers(peers, whole, stack)
        for index, row in enumerate(rows, start=1):
            began = time.perf_counter()
            done = measure(row, workers, effort)
            spent = time.perf_counter() - began
            _say(f"[{index}/{len(rows)}] {row.name}: {done.rounds} rounds, {spent:.0f} s")
            for name, reason in done.missing.items():
                if reason.startswith(("failed", "took", "its process")):
                    _say(f"    {name} {reason}")
                    failed = True
            before: dict[str, Any] = whole["rows"].get(row.key, {}) if part else {}
            whole["rows"][row.key] = {
                "when": datetime.now(UTC).isoformat(timespec="minutes"),
                "rounds": done.rounds,
                "load": round(os.getloadavg()[0], 1),
                "figures": {**before.get("figures", {}), **done.figures},
                "missing": {**before.get("missing", {}), **done.missing},
            }
            file.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps(whole, indent=1, ensure_ascii=False, sort_keys=True)
            file.write_text(text + "\n", encoding="utf-8")
    return failed


def _workers(peers: list[str] | tuple[()], whole: dict[str, Any], stack: ExitStack) -> list[Worker]:
    """Start ours, the floor, and each wanted peer that can be installed."""
    CACHE.mkdir(parents=True, exist_ok=True)
    commands: dict[str, Callable[[], list[str]]] = {
        OURS: lambda: own_command("ours"),
        FLOOR: lambda: own_command("floor"),
        **{p.name: lambda p=p: peer_command(p) for p in PEERS if p.name in peers},
    }
    found: list[Worker] = []
    for name, command in commands.items():
        try:
            worker = Worker(name, command(), CACHE / f"{name}.log")
            worker.start()
        except (CannotInstall, WorkerFailed) as reason:
            _say(f"without {name}: {reason}")
            whole["contenders"][name] = {"left_out": str(reason)}
            continue
        stack.callback(worker.stop)
        about = {key: worker.about[key] for key in ("runtime", "versions", "notes", "absent")}
        whole["contenders"][name] = about
        found.append(worker)
    return found


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
