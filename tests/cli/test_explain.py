"""`agentkit explain`: what an agent would be sent, without asking a model or saving anything."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tests.cli.terminal import agentkit, working_in

MODULE = """
from agentkit_py import Agent, Network, SqliteHistory, TokenLimiter, ToolCallFilter
from agentkit_py.processors import CompressToolResults, Summarize
from agentkit_py.testing import ScriptedModel, tool_call

def track(parcel: int) -> str:
    "Track a parcel."
    return "it is in Linz " * 40

model = ScriptedModel(tool_call("track", {"parcel": 17}), "It is in Linz.", "Goodbye.")
clerk = Agent(
    name="clerk", system="Be brief.", tools=[track], max_iter=3,
    processors=[CompressToolResults(50, keep_recent=0)],
)
concierge = Agent(name="concierge", system="Say goodbye.", processors=[ToolCallFilter()])
network = Network(
    name="desk", agents=[clerk, concierge], default_model=model, processors=[TokenLimiter(1000)],
    router=lambda ctx: None if ctx.call_count else "clerk",
    history=SqliteHistory("desk.db"),
)
summarising = Network(
    name="desk", agents=[clerk], default_model=model, history=SqliteHistory("desk.db"),
    processors=[Summarize(model, 60, 40, min_messages=1, summary_tokens=5)],
)
alone = Agent(name="alone", system="S", model=model)
if __name__ == "__main__":
    network.run_sync("Where is parcel 17?", thread_id="t1")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a network and a thread."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / "desk.py").write_text(MODULE)
    with working_in(folder):
        runpy.run_path("desk.py", run_name="__main__")
    return folder


def explain(folder: Path, *arguments: str) -> Result:
    """The command on the folder's network."""
    return agentkit(
        "--no-color", "explain", *arguments, folder=folder, variables={"COLUMNS": "100"}
    )


def explained(folder: Path, *arguments: str) -> Any:
    """Return the command's JSON output."""
    done = explain(folder, *arguments, "--json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def test_the_table_has_a_line_for_each_level(folder: Path) -> None:
    """A line has the figures before and after, and those of what was sent."""
    done = explain(folder, "desk:network", "--thread", "t1", "--agent", "concierge")
    assert done.exit_code == 0, done.stderr
    assert "What the agent would be sent now" in done.stdout
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["concierge", "network", "TokenLimiter", "4", "→", "4"] in [line[:6] for line in lines]
    assert ["agent", "ToolCallFilter", "4", "→", "2"] in [line[:5] for line in lines]
    assert "concierge saw no call of track" in done.stdout


def test_the_diff_shows_each_message_and_who_took_it_out(folder: Path) -> None:
    """Sent ones, removed ones, rewritten ones."""
    done = explain(folder, "desk:network", "--thread", "t1", "--agent", "concierge", "--diff")
    lines = done.stdout.splitlines()
    (call,) = [line for line in lines if "calls track" in line]
    assert call.startswith("-")
    assert call.endswith("[agent ToolCallFilter]")
    assert any(line.startswith("  ") and "It is in Linz." in line for line in lines)
    found = explained(
        folder, "desk:network", "--thread", "t1", "--agent", "clerk", "--input", "Now?", "--diff"
    )
    changes = [(m["change"], m["type"]) for m in found["messages"]]
    assert changes == [
        ("kept", "text"), ("kept", "text"), ("kept", "tool_call"), ("rewritten", "tool_result"),
        ("kept", "text"), ("kept", "text"),
    ]  # fmt: skip
    assert found["messages"][3]["by"] == "agent CompressToolResults"
    assert found["messages"][-1]["text"] == "Now?"


def test_the_json_has_the_figures_of_the_report(folder: Path) -> None:
    """The command's figures equal those of a run."""
    found = explained(folder, "desk:network", "--thread", "t1", "--agent", "concierge")
    assert found["agent"] == "concierge"
    assert found["historyMessages"] == 4
    assert found["sentMessages"] == 3
    assert [p["name"] for p in found["processors"]] == ["TokenLimiter", "ToolCallFilter"]
    assert "messages" not in found


def test_nothing_is_asked_and_nothing_is_saved(folder: Path) -> None:
    """A summary that would be made is only named; the file stays as it is."""
    before = (folder / "desk.db").read_bytes()
    found = explained(folder, "desk:summarising", "--thread", "t1", "--input", "Again?")
    assert "would summarise" in found["processors"][0]["reason"]
    assert (folder / "desk.db").read_bytes() == before


def test_an_agent_by_itself_and_a_file_of_threads(folder: Path) -> None:
    """A single agent and ``--db`` are accepted, like in `agentkit chat`."""
    found = explained(folder, "desk:alone", "--thread", "t1", "--db", "desk.db")
    assert (found["agent"], found["historyMessages"]) == ("alone", 4)
    assert explained(folder, "desk:alone")["historyMessages"] == 0


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["desk:network", "--thread", "t1"], 2, "Which agent?"),
        (["desk:network", "--agent", "nobody"], 2, "no agent 'nobody'"),
        (["desk:alone", "--agent", "clerk"], 2, "The agent is 'alone'"),
        (["desk:network", "--agent", "clerk", "--thread", "no"], 1, "no thread 'no'"),
        (["desk:nothing"], 2, "has no 'nothing'"),
    ],
)
def test_an_error_is_one_line_with_an_exit_status(
    folder: Path, arguments: list[str], status: int, said: str
) -> None:
    """The exit status tells usage errors from others."""
    done = explain(folder, *arguments)
    assert done.exit_code == status
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_matrix_of_a_thread_is_a_page_and_json(folder: Path) -> None:
    """The page holds what the JSON says; nothing is asked."""
    arguments = ("desk:network", "--thread", "t1", "--matrix", "matrix.html")
    found = explained(folder, *arguments)
    assert [call["agent"] for call in found["calls"]] == ["clerk", "clerk"]
    assert [row["type"] for row in found["rows"]] == [
        *("text", "text", "tool_call", "tool_result", "text")
    ]
    page = (folder / "matrix.html").read_text(encoding="utf-8")
    (data,) = re.findall(r'<script id="data" type="application/json">(.*?)</script>', page)
    assert found.items() <= json.loads(data).items()
    done = explain(folder, *arguments)
    assert "5 messages in 2 model calls, written to matrix.html" in done.stdout
    assert (folder / "matrix.html").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("path", ["none/matrix.html", "."])
def test_a_matrix_that_cannot_be_written_is_one_clear_line(folder: Path, path: str) -> None:
    """It names the option and the file."""
    done = explain(folder, "desk:network", "--thread", "t1", "--matrix", path)
    assert done.exit_code == 2
    assert f"--matrix: {path} cannot be written" in " ".join(done.stderr.split())


@pytest.mark.parametrize("extra", [(), ("--thread", "t1", "--agent", "clerk")])
def test_a_matrix_is_of_a_whole_thread(folder: Path, extra: tuple[str, ...]) -> None:
    """Without a thread, or for an agent, it is refused before anything is written."""
    done = explain(folder, "desk:network", "--matrix", "none.html", *extra)
    assert done.exit_code == 2
    assert "--matrix takes a --thread" in " ".join(done.stderr.replace("│", " ").split())
    assert not (folder / "none.html").exists()
