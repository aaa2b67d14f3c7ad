"""Benchmarks do the work that they name and report it as measured. No peer runs here."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

QUICK = ("create", "text", "tool1_async", "tool1_sync", "two_agents", "validity", "streamed")


def run(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the command of `make bench`."""
    command = [sys.executable, "benchmarks/run.py", *options]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


def printed_json(root: Path, script: str, given: object = None) -> Any:
    """Run a script that imports the benchmarks' modules and read what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", f"import json, sys; sys.path.insert(0, 'benchmarks')\n{script}"],
        cwd=root,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_ours_and_the_floor_do_the_work_and_each_round_gives_ratios(
    root: Path, tmp_path: Path
) -> None:
    """The adapters assert the work: a failure would be listed under ``missing``."""
    file = tmp_path / "figures.json"
    done = run(root, "--ours", "--quick", "--only", ",".join(QUICK), "--json", str(file))
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
    for key in QUICK:
        assert rows[key]["missing"] == {}, key
        assert set(rows[key]["figures"]) == {"ours", "floor"}
        median, low, high = rows[key]["figures"]["ours"]["value"]
        assert 0 < low <= median <= high
        assert rows[key]["figures"]["ours"]["ours"] == [1.0, 1.0, 1.0]
    assert "| run, text reply | CPU |" in done.stdout


def test_a_row_that_does_not_exist_is_an_error_that_lists_all_rows(root: Path) -> None:
    """Nothing is measured then."""
    done = run(root, "--only", "no such row")
    assert done.returncode == 2
    assert "tool10_async" in done.stderr


SAMPLED = """
import asyncio, threading
import anyio.to_thread
from harness import Timed

called, timed = [], []

async def do(number):
    thread = await anyio.to_thread.run_sync(threading.get_ident)
    called.append([number, thread, id(asyncio.current_task())])

numbers = iter(range(100))
with asyncio.Runner() as loop:
    contender = Timed(do, loop, prepare=lambda: next(numbers))
    for _ in range(2):
        contender.sample(5)
        timed.append(contender.done)
print(json.dumps([called, timed]))
"""


def test_operations_of_a_sample_share_a_coroutine_and_its_worker_thread(root: Path) -> None:
    """Samples resemble runs in a server; the first operation starts the thread and is not timed."""
    called, done = printed_json(root, SAMPLED)
    assert done == [6, 12]
    for sample in (called[:6], called[6:]):
        assert len({thread for _, thread, _ in sample}) == 1
        assert len({task for _, _, task in sample}) == 1
    assert [number for number, _, _ in called] == list(range(12))


CONTINUED = """
from harness import Steps, checked
from problem import ANSWER
import asyncio

def verdict(*sizes):
    steps = Steps(0)
    verify = checked(steps, str)
    for size in sizes:
        asyncio.run(steps.later(range(size)))
    try:
        verify(ANSWER, len(sizes))
    except AssertionError as error:
        return str(error)

print(json.dumps([verdict(2, 2, 2), verdict(2, 4, 6)]))
"""


def test_a_conversation_that_continues_in_the_next_run_is_noticed(root: Path) -> None:
    """Agents that keep their conversation would be asked something else each time."""
    fresh, kept = printed_json(root, CONTINUED)
    assert fresh is None
    assert "{2, 4, 6}" in kept


def recorded() -> dict[str, Any]:
    """Figures as a run keeps them: ours 100 µs, agno 250, autogen 70, the floor 2."""

    def times(factor: float, floor: float) -> dict[str, Any]:
        ratio, value = [1 / factor] * 3, [factor * 1e-4] * 3
        keys = {"value": value, "cpu": value, "ours": ratio, "ours_cpu": ratio}
        return {**keys, "floor": [floor] * 3}

    figures = {
        "ours": times(1.0, 50.0),
        "agno": times(2.5, 125.0),
        "autogen": times(0.7, 35.0),
        "floor": times(0.02, 1.0),
    }
    row: dict[str, Any] = {"when": "2026-11-20T12:00+00:00", "rounds": 15, "load": 1.0}
    row |= {"missing": {}, "figures": figures}
    slower = {**figures, "ours": {**times(1.0, 50.0), "cpu": [1.4e-4] * 3}}
    about: dict[str, Any] = {
        "runtime": "CPython 3.11",
        "versions": {"agno": "3.1"},
        "notes": ["Made once."],
    }
    about["absent"] = {"thread": "it has no database"}
    return {
        "machine": {"processor": "EPYC", "cores": 2, "system": "Linux", "python": "CPython"},
        "contenders": {"agno": about, "langgraph": {"left_out": "uv could not install it"}},
        "rows": {
            "text": row,
            "thread_100": row,
            "thread_10000": {**row, "figures": slower, "missing": {"agno": "its process ended"}},
        },
    }


@pytest.fixture
def written(root: Path) -> tuple[str, str]:
    """The page and the picture of the recorded figures."""
    script = (
        "import page\nwhole = json.load(sys.stdin)\n"
        "print(json.dumps([page.page(whole), page.picture(whole)]))"
    )
    text, picture = printed_json(root, script, recorded())
    return text, picture


def test_the_page_shows_ours_next_to_the_fastest_peer(written: tuple[str, str]) -> None:
    """Also where ours takes more."""
    text = next(line for line in written[0].splitlines() if line.startswith("| run, text reply"))
    cells = [cell.strip() for cell in text.strip("|").split("|")]
    assert cells[:5] == ["run, text reply", "CPU", "100 µs", "autogen 70.0", "1.43"]


def test_the_page_names_versions_and_omissions(written: tuple[str, str]) -> None:
    """A figure without these says little."""
    page, picture = written
    assert "agno 3.1" in page
    assert "**langgraph**: left out, uv could not install it." in page
    assert "make bench-peers" in page
    assert "prefers-color-scheme:dark" in picture
    assert "autogen" in picture


def test_every_peer_has_pinned_versions_without_addresses_or_ranges(root: Path) -> None:
    """One file for each adapter."""
    files = sorted((root / "benchmarks" / "requirements").glob("*.txt"))
    adapters = sorted((root / "benchmarks" / "adapters").glob("peer_*.py"))
    names = [file.stem.removeprefix("peer_").replace("_", "-") for file in adapters]
    assert [file.stem for file in files] == names
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            assert re.fullmatch(r"[\w./-]+(\[[\w,]+\])?==[\w.+]+( ; .*)?", line), line
