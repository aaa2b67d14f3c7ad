"""The figures as a plain table, and as JSON."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from measuring import Effort, Figure, Row

from agentkit_py.processors import default_tokenizer

PACKAGES = ("pyagentkit", "pydantic", "anyio", "tiktoken", "httpx")
HEADER = (
    *("what", "unit", "ours", "min..max", "cpu"),
    *("compared with", "its", "ratio", "min..max"),
)
LEFT = frozenset({0, 1, 5})
"""Columns that hold words."""


def machine() -> dict[str, Any]:
    """What the figures hold for."""
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": {name: version(name) for name in PACKAGES},
        "tokens": default_tokenizer().key,
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def introduction(facts: dict[str, Any], effort: Effort) -> str:
    """What was measured where and how, in words."""
    packages = ", ".join(f"{name} {number}" for name, number in facts["packages"].items())
    return (
        f"{facts['processor']}, {facts['cores']} cores, {facts['system']}\n"
        f"{facts['python']}, {packages}; tokens counted by {facts['tokens']}\n"
        f"Up to {effort.rounds} alternating rounds of about {effort.seconds * 1000:g} ms each; "
        "medians, and the least and most of the rounds.\n"
        "ours, its: wall time; cpu: this process's CPU time in ours.\n"
        "ratio: ours divided by what it is compared with, in the same round."
    )


def table(rows: Sequence[Row]) -> str:
    """The rows as text."""
    cells = [HEADER, *(line for row in rows for line in _cells(row))]
    widths = [max(len(line[i]) for line in cells) for i in range(len(HEADER))]
    lines = [_aligned(line, widths) for line in cells]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _aligned(line: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        cell.ljust(width) if index in LEFT else cell.rjust(width)
        for index, (cell, width) in enumerate(zip(line, widths, strict=True))
    ]
    return "  ".join(padded).rstrip()


def _cells(row: Row) -> list[tuple[str, ...]]:
    name, unit = row.case.name, row.case.unit
    if row.missing:
        return [(name, unit, "-", "", "", f"not measured: {row.missing}", "", "", "")]
    ours, others = row.lines[0], row.lines[1:]
    cpu = "" if ours.cpu is None else number(ours.cpu.median)
    own = (name, unit, number(ours.value.median), span(ours.value), cpu)
    if not others:
        return [(*own, "", "", "", "")]
    found: list[tuple[str, ...]] = []
    for index, line in enumerate(others):
        ratio = ("", "") if line.ratio is None else (number(line.ratio.median), span(line.ratio))
        head = own if index == 0 else ("",) * len(own)
        found.append((*head, line.name, number(line.value.median), *ratio))
    return found


def span(figure: Figure) -> str:
    """From the least to the most."""
    return f"{number(figure.low)}..{number(figure.high)}"


def number(value: float) -> str:
    """Three digits that count, with thousands apart."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def as_json(facts: dict[str, Any], effort: Effort, rows: Sequence[Row]) -> str:
    """Everything, for programs; times in the row's unit."""
    found = [
        {
            "name": row.case.name,
            "unit": row.case.unit,
            "missing": row.missing or None,
            "contenders": [dataclasses.asdict(line) for line in row.lines],
        }
        for row in rows
    ]
    whole = {"machine": facts, "effort": dataclasses.asdict(effort), "rows": found}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
