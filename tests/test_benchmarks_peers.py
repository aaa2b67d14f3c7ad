"""The comparison with other frameworks: our adapters, the turns, the page. No peer runs here."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

QUICK = (
    "create",
    "first_run",
    "text",
    "tool1_async",
    "tool1_sync",
    "text_wire",
    "tool1_wire",
    "two_agents",
)
"""Works that need no preparation."""

SECONDS = 120
TIMES = "\N{MULTIPLICATION SIGN}"


def command(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Compare ours with the floor, as ``make bench-peers`` compares with all."""
    return subprocess.run(
        [sys.executable, "benchmarks/peers/run.py", *options],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.fixture(scope="module")
def compared(root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """What a quick run of the two that need no installing printed and kept."""
    file = tmp_path_factory.mktemp("peers") / "figures.json"
    options = ("--quick", "--peers", "ours,floor", "--only", ",".join(QUICK), "--json", str(file))
    done = command(root, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("work", QUICK)
def test_ours_and_the_floor_do_the_work_and_each_round_gives_ratios(
    compared: tuple[str, dict[str, Any]], work: str
) -> None:
    """That the work was done is asserted by the adapters: a failure would be in ``missing``."""
    row = compared[1]["rows"][work]
    assert row["missing"] == {}
    assert set(row["figures"]) == {"ours", "floor"}
    for one in row["figures"].values():
        median, low, high = one["value"]
        assert 0 < low <= median <= high
    assert row["figures"]["ours"]["floor"][0] > 1, "plain Python does less"
    assert row["figures"]["ours"]["ours"] == [1.0, 1.0, 1.0]


def test_what_was_measured_is_in_the_printed_table(
    compared: tuple[str, dict[str, Any]],
) -> None:
    """And what was not says so."""
    printed, _ = compared
    lines = [line for line in printed.splitlines() if line.startswith("| ")]
    text = next(line for line in lines if "run, text reply" in line)
    assert "not measured" not in text.split("≤")[0]
    assert "not measured" in next(line for line in lines if "Inngest function" in line)


def test_a_row_that_nobody_knows_is_an_error(root: Path, tmp_path: Path) -> None:
    """It lists the rows that there are."""
    done = command(root, "--only", "no such row", "--json", str(tmp_path / "figures.json"))
    assert done.returncode == 2
    assert "tool10_async" in done.stderr


def recorded() -> dict[str, Any]:
    """Figures as a run keeps them: ours 100 µs, agno 250, autogen 180, the floor 2."""

    def times(factor: float, floor: float) -> dict[str, Any]:
        ratio = [1 / factor] * 3
        value = [factor * 1e-4] * 3
        return {
            "value": value,
            "cpu": value,
            "ours": ratio,
            "ours_cpu": ratio,
            "floor": [floor] * 3,
        }

    figures = {
        "ours": times(1.0, 50.0),
        "agno": times(2.5, 125.0),
        "autogen": times(1.8, 90.0),
        "typescript": times(0.2, 10.0),
        "floor": times(0.02, 1.0),
    }
    row = {"when": "2026-11-20T12:00+00:00", "rounds": 15, "figures": figures, "missing": {}}
    slower = {**figures, "ours": {**times(1.0, 50.0), "cpu": [1.4e-4] * 3}}
    about = {"runtime": "CPython 3.11", "versions": {"agno": "3.1"}, "notes": ["Made once."]}
    return {
        "machine": {"processor": "EPYC", "cores": 2, "system": "Linux", "python": "CPython"},
        "contenders": {"agno": about, "strands-agents": {"left_out": "uv could not install it"}},
        "rows": {
            "text": row,
            "thread_100": row,
            "thread_10000": {
                **row,
                "figures": slower,
                "missing": {"agno": "its process ended"},
            },
        },
    }


def told(root: Path, script: str) -> Any:
    """What a script that imports the benchmarks' own modules prints as JSON."""
    paths = "import json, sys; sys.path[:0] = ['benchmarks/peers', 'benchmarks']\n"
    done = subprocess.run(
        [sys.executable, "-c", paths + script],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


SAMPLED = """
import asyncio, threading
from contextlib import ExitStack
import anyio.to_thread
from measuring import QUICK, Session, Timed

seen, timed = [], []

async def do(number):
    thread = await anyio.to_thread.run_sync(threading.get_ident)
    seen.append([number, thread, id(asyncio.current_task())])

numbers = iter(range(100))
with asyncio.Runner() as loop:
    contender = Timed("threads", do, loop, prepare=lambda: next(numbers))
    for _ in range(2):
        contender.sample(5)
        timed.append(contender.done)
print(json.dumps([seen, timed]))
"""


def test_the_operations_of_a_sample_share_a_coroutine_and_its_worker_thread(root: Path) -> None:
    """As runs in a server do; the first of them, which starts the thread, is not timed."""
    seen, done = told(root, SAMPLED)
    assert done == [6, 12]
    for sample in (seen[:6], seen[6:]):
        assert len({thread for _, thread, _ in sample}) == 1
        assert len({task for _, _, task in sample}) == 1
    assert [number for number, _, _ in seen] == list(range(12))


COLD = """
import asyncio
from measuring import THOROUGH, Timed, calibrate

calls, spent = 0, 0.0

def do(_):
    global calls, spent
    calls += 1
    spent += 1.0 if calls == 1 else 1e-4

with asyncio.Runner() as loop:
    cold = Timed("cold", do, loop, clock=lambda: (spent, spent))
    print(json.dumps(calibrate(cold, None, THOROUGH)))
"""


def test_what_is_slow_only_once_does_not_decide_how_often_it_is_done(root: Path) -> None:
    """A cold first run took so long that rounds had two runs, and measured the start of threads."""
    assert told(root, COLD) == 200


PAST = """
from adapting import Steps, checked
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


def test_a_conversation_that_goes_on_in_the_next_run_is_noticed(root: Path) -> None:
    """Agents that keep their conversation would be asked something else each time."""
    anew, kept = told(root, PAST)
    assert anew is None
    assert "{2, 4, 6}" in kept


MADE = """
from adapters.ours import FRAMEWORK
from adapting import Steps
from problem import track_async

model = FRAMEWORK.model(Steps())
agents = [FRAMEWORK.agent(model, [FRAMEWORK.tool(track_async)]) for _ in range(2)]
print(json.dumps([agent.model is model for agent in agents]))
"""


def test_agents_that_are_made_share_one_model(root: Path) -> None:
    """Making a model is not part of making an agent."""
    assert told(root, MADE) == [True, True]


@pytest.fixture
def written(root: Path, tmp_path: Path) -> tuple[str, dict[str, str]]:
    """The page and the pictures of the recorded figures."""
    script = (
        "import json, sys; sys.path[:0] = ['benchmarks/peers', 'benchmarks']\n"
        "import charts, page\n"
        "whole = json.load(sys.stdin)\n"
        "print(json.dumps([page.page(whole), charts.pictures(whole)]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=root,
        input=json.dumps(recorded()),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    page, pictures = json.loads(done.stdout)
    return page, pictures


def test_the_page_says_by_how_much_a_goal_is_met_or_not(
    written: tuple[str, dict[str, str]],
) -> None:
    """The best peer is a Python framework; a goal against another row is a ratio of medians."""
    page, _ = written
    text = next(line for line in page.splitlines() if line.startswith("| run, text reply"))
    cells = [cell.strip() for cell in text.strip("|").split("|")]
    assert cells == [
        "run, text reply",
        "CPU",
        "100 µs",
        "autogen 180",
        "2.00",
        f"≤ 0.5 {TIMES} the fastest peer",
        f"0.56 {TIMES}",
        f"0.56 {TIMES}",
        f"no: 1.11 {TIMES} the goal",
    ]
    thread = next(line for line in page.splitlines() if "stored thread of 10,000" in line)
    assert f"1.40 {TIMES}" in thread
    assert f"no: 1.08 {TIMES} the goal" in thread
    assert "0 of 2 goals are met" in page


def test_the_page_names_versions_what_was_left_out_and_how_to_repeat_it(
    written: tuple[str, dict[str, str]],
) -> None:
    """A figure without these says little."""
    page, _ = written
    assert "agno 3.1" in page
    assert "**strands-agents**: left out, uv could not install it." in page
    assert "make bench-peers" in page
    assert "Generated by" in page


def test_pictures_are_whole_and_bring_colours_for_light_and_dark_pages(
    written: tuple[str, dict[str, str]],
) -> None:
    """Every bar and line that the figures have."""
    for picture in written[1].values():
        assert picture.startswith("<svg ")
        assert "prefers-color-scheme:dark" in picture
        assert "nan" not in picture
    threads = written[1]["benchmarks-threads.svg"]
    assert len(re.findall("<polyline", threads)) == len(recorded()["rows"]["text"]["figures"])


def test_every_peer_has_its_versions_pinned_by_name_and_number_only(root: Path) -> None:
    """No addresses, no ranges."""
    files = sorted((root / "benchmarks" / "peers" / "requirements").glob("*.txt"))
    assert len(files) == 9
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            assert re.fullmatch(r"@?[\w./-]+(\[[\w,]+\])?(==|@)[\w.+]+( ; .*)?", line), line
