"""The benchmarks run and measure what they say. How long things take decides no test."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SECONDS = 280
SIZES = ("1,000", "10,000")
"""Of a quick run; a thorough one has another."""
PROCESSORS = (
    "validity",
    "ToolCallFilter()",
    "ToolCallFilter(include)",
    "TokenLimiter(2000), approximate",
    "TokenLimiter(all), approximate, first",
    "TokenLimiter(all), approximate, again",
    "TokenLimiter(all), tiktoken, first",
    "TokenLimiter(all), tiktoken, again",
)
POLICIES = (
    "RecentToolCalls(100)",
    "MessageWindow(40)",
    "DropUnanswered()",
    "CompressToolResults(100)",
    "TruncateToolResults(30)",
    "ClearToolResults(1000)",
    "ByAuthor(drop)",
    "HandoffView()",
    "Deduplicate()",
    "Pin(users)",
    "StripImages()",
    "KeepImages(1)",
    "Redact(email, card)",
    "Threshold(MessageWindow)",
    "Chain(MessageWindow)",
    "Budget(8000)",
    "Summarize(8000, 4000), no summary",
    "Recall(3)",
)
ROWS = [
    "import agentkit_py",
    "create an agent, prebuilt tool",
    "create an agent, bare function it knows",
    "create an agent, new bare function",
    "memory of an agent, prebuilt tool",
    "run, text reply",
    "run, one async tool call",
    "run, ten async tool calls",
    "run, one sync tool call",
    "run, ten sync tool calls",
    "run, two agents in a network",
    "run, one async tool call, observed",
    "run, one async tool call, streamed",
    "run, one async tool call, reports read",
    "run, one async tool call, and validity",
    "1,000 runs at once, model of 50 ms",
    *(
        f"request body of 10,000 messages, {name}"
        for name in ("OpenAI", "Responses", "Anthropic", "Anthropic without tools", "Gemini")
    ),
    "memory of a network with five agents",
    *(f"{name}, {size} messages" for name in PROCESSORS for size in SIZES),
    *(f"{name}, 10,000 messages" for name in POLICIES),
    "stored turn, SQLite, new thread",
    "stored turn, SQLite, 100 messages",
    "search 500 pieces, SQLite",
    "search 500 pieces, PostgreSQL",
]
HAS_NO_FLOOR = {"run, model answers nonsense"}


def run(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the benchmarks as a user would."""
    return subprocess.run(
        [sys.executable, "benchmarks/run.py", *options],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.fixture(scope="module")
def measured(root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """What one quick run printed, and what it wrote."""
    file = tmp_path_factory.mktemp("benchmarks") / "figures.json"
    done = run(root, "--quick", "--json", str(file))
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(file.read_text(encoding="utf-8"))


def test_every_row_is_in_the_table_with_a_figure_and_a_ratio(
    measured: tuple[str, dict[str, Any]],
) -> None:
    """Whether each was what it says is asserted while it is measured: exit status 0."""
    printed, written = measured
    rows = {row["name"]: row for row in written["rows"]}
    assert [name for name in ROWS if name not in rows] == []
    assert [name for name in rows if f"\n{name} " not in printed] == []
    for name, row in rows.items():
        if row["missing"] is not None:
            assert "tiktoken" in name, row["missing"]
            continue
        ours, *others = row["contenders"]
        assert 0 < ours["value"]["low"] <= ours["value"]["median"] <= ours["value"]["high"]
        assert bool(others) == (name not in HAS_NO_FLOOR)
        assert all(other["ratio"]["median"] > 0 for other in others)


def test_it_says_where_it_was_measured(measured: tuple[str, dict[str, Any]]) -> None:
    """A figure without its machine says nothing."""
    printed, written = measured
    machine = written["machine"]
    assert {"processor", "cores", "system", "python", "packages"} <= machine.keys()
    assert machine["processor"] in printed
    assert f"pydantic {machine['packages']['pydantic']}" in printed


def test_real_tiktoken_is_measured_where_it_is_there(
    measured: tuple[str, dict[str, Any]], real_tiktoken: Path
) -> None:
    """On CI it is."""
    missing = [row["name"] for row in measured[1]["rows"] if row["missing"]]
    assert missing == []


def test_a_thorough_run_has_longer_lists_too(root: Path) -> None:
    """They take longer than a test may."""
    listed = run(root, "--list").stdout.splitlines()
    assert [name for name in ROWS if name not in listed and "search" not in name] == []
    assert [
        f"{name}, 100,000 messages"
        for name in PROCESSORS
        if f"{name}, 100,000 messages" not in listed
    ] == []


def test_only_some_rows_can_be_measured(root: Path) -> None:
    """``--only`` takes part of a name, in any case; what fits nothing is an error."""
    some = run(root, "--list", "--only", "RUN, * SYNC")
    assert some.stdout.splitlines() == ["run, one sync tool call", "run, ten sync tool calls"]
    none = run(root, "--only", "no such row")
    assert none.returncode == 2
    assert "no such row" in none.stderr
