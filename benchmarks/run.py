"""Measure this machine: ``python benchmarks/run.py [--quick] [--only PATTERN] [--json FILE]``.

Everything runs in this process against a model that answers at once, so what is left is what the
library itself costs. Nothing here goes to the network.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import traceback
from contextlib import ExitStack
from fnmatch import fnmatchcase
from pathlib import Path

from cases import all_cases
from measuring import QUICK, THOROUGH, Case, Effort, Row, Session, measure
from report import as_json, introduction, machine, table

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Measure, and print; 1 if a row did not do what it says."""
    cache = ROOT / ".cache" / "tiktoken"
    if cache.is_dir():
        os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(cache))
    options = _parser().parse_args()
    effort: Effort = QUICK if options.quick else THOROUGH
    chosen = [case for case in all_cases(effort) if _fits(case, options.only)]
    if options.list:
        print("\n".join(case.name for case in chosen))
        return 0
    if not chosen:
        print(f"No row fits {options.only!r}; --list shows all.", file=sys.stderr)
        return 2
    facts = machine()
    print(introduction(facts, effort), end="\n\n", flush=True)
    rows = _measure(chosen, effort)
    print(table(rows))
    if options.json is not None:
        options.json.write_text(as_json(facts, effort, rows), encoding="utf-8")
    return int(any(row.failed for row in rows))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measure what the library costs on this machine.")
    parser.add_argument("--quick", action="store_true", help="short rounds: rough figures")
    parser.add_argument(
        "--only", metavar="PATTERN", default="", help="rows whose name has this (*)"
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="write all figures there too")
    parser.add_argument("--list", action="store_true", help="only list the rows")
    return parser


def _fits(case: Case, pattern: str) -> bool:
    return fnmatchcase(case.name.lower(), f"*{pattern.lower()}*")


def _measure(cases: list[Case], effort: Effort) -> list[Row]:
    rows: list[Row] = []
    with asyncio.Runner() as loop:
        for number, case in enumerate(cases, start=1):
            _progress(f"[{number}/{len(cases)}] {case.name}")
            with ExitStack() as stack:
                rows.append(_row(case, Session(effort, loop, stack)))
    _progress("")
    return rows


def _row(case: Case, session: Session) -> Row:
    """The row, or why it could not be measured: one that fails does not cost the others."""
    try:
        return measure(case, session)
    except Exception as error:  # noqa: BLE001 - shown, and in the exit status
        traceback.print_exc()
        return Row(case, missing=f"failed with {type(error).__name__}", failed=True)


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
