"""The rows of the benchmarks: key, name and unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Unit: TypeAlias = Literal["µs", "ms", "KiB", "MiB"]
SCALES: dict[str, float] = {"µs": 1e6, "ms": 1e3, "KiB": 2**-10, "MiB": 2**-20}
"""Factors from seconds or bytes."""

OURS, FLOOR = "ours", "floor"
"""Names of contenders."""


@dataclass(frozen=True, slots=True)
class Row:
    """One work."""

    key: str
    name: str
    unit: Unit
    count: int | None = None
    """Operations in a round, where their time must not decide."""

    rounds: int | None = None
    """Rounds at most, for slow works."""

    waits: bool = False
    """Judge by wall time, since waiting is part of the work."""


_10K = "10,000 messages"

PEER_ROWS: tuple[Row, ...] = (
    Row("import", "import", "ms", count=1),
    Row("create", "create an agent with a prebuilt tool", "µs"),
    Row("memory", "memory of such an agent", "KiB", count=200, rounds=2),
    Row("text", "run, text reply", "µs"),
    Row("tool1_async", "run, one async tool call and reply", "µs"),
    Row("tool1_sync", "run, one sync tool call and reply", "µs"),
    Row("tool10_async", "run, ten async tool calls", "µs"),
    Row("tool10_sync", "run, ten sync tool calls", "µs"),
    Row("two_agents", "two agents, one after the other", "µs"),
    Row(
        "concurrent",
        "1,000 runs at once, model taking 50 ms",
        "ms",
        count=1,
        rounds=5,
        waits=True,
    ),
    Row("thread_100", "run on a stored thread of 100 messages", "ms", count=10),
    Row("thread_10000", "run on a stored thread of 10,000", "ms", count=10),
    Row("thread_1000000", "run on a stored thread of 1,000,000", "ms", count=10, rounds=7),
    Row("body", f"request body of {_10K}", "ms", count=1),
    Row(
        "inngest",
        "Inngest function of 200 steps, CPU of all replays",
        "ms",
        count=1,
        rounds=3,
    ),
)
"""Compared with peers and on the page."""

WIRE_FORMATS = ("responses", "anthropic", "gemini")
PROCESSORS = (
    "ToolCallFilter()",
    "RecentToolCalls(100)",
    "MessageWindow(40)",
    "TokenLimiter(2000), estimated",
    "CompressToolResults(100)",
    "HandoffView()",
    "Redact(email, card)",
    "Budget(8000)",
    "Recall(3)",
    "validity",
)
PROCESSOR_ROWS = [Row(name, f"{name}, {_10K}", "µs") for name in PROCESSORS]
OWN_ROWS: tuple[Row, ...] = (
    *PROCESSOR_ROWS,
    Row("observed", "run, one async tool call, observed", "µs"),
    Row("streamed", "run, one async tool call, streamed as chunks", "µs"),
    Row("traced", "run, one async tool call, traced", "µs"),
    *(
        Row(f"body_{name}", f"request body of {_10K}, {name}", "ms", count=1)
        for name in WIRE_FORMATS
    ),
)
"""Ours and the floor only: `make bench` shows them after the others."""


def chosen(pattern: str, rows: Sequence[Row]) -> list[Row]:
    """Return the rows whose key or name has one of the comma-separated words; all without words."""
    words = [word.strip().lower() for word in pattern.split(",") if word.strip()]
    return [
        row
        for row in rows
        if not words or any(word in row.key.lower() or word in row.name.lower() for word in words)
    ]
