"""`agentkit doctor` and `agentkit replay` with networks whose tools are on servers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from agentkit_py import Agent, Network
from agentkit_py.cli.app import app
from agentkit_py.testing.doctor import examine

from .world import MODERN, handwritten, modern, notes

DESK = """
import sys
from agentkit_py import Agent
from agentkit_py.mcp import MCPServer, Stdio
server = MCPServer("m", Stdio(sys.executable, [{program!r}, "stdio", {folder!r}]))
clerk = Agent(name="clerk", system="S", mcp_servers=[server])
"""
CALL = {"id": "t1", "type": "function", "function": {"name": "m-add", "arguments": '{"a":1,"b":2}'}}
CONVERSATION = {
    "id": "c1",
    "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "t1", "name": "m-add", "content": "3 feet"},
        {"role": "assistant", "content": "Three feet."},
    ],
}


@pytest.fixture
def replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`agentkit replay` of one conversation by an agent whose tools are on a server."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    module = f"desk_{abs(hash(tmp_path))}"
    (tmp_path / f"{module}.py").write_text(DESK.format(program=MODERN, folder=str(tmp_path)))
    recording = tmp_path / "conversations.jsonl"
    recording.write_text("".join(f"{json.dumps({**CONVERSATION, 'id': f'c{n}'})}\n" for n in "ab"))

    def run(*arguments: str) -> Result:
        given = ["replay", str(recording), "--network", f"{module}:clerk", *arguments, "--json"]
        return CliRunner().invoke(app, given)

    return run


def test_a_replay_knows_the_tools_of_servers_and_calls_none(replay: Any, tmp_path: Path) -> None:
    """The recording answers for them, as for all others."""
    done = replay()
    found = json.loads(done.stdout)["passes"]["none"]
    assert notes(tmp_path) == []
    assert (done.exit_code, found["missingTools"], found["toolCalls"]) == (0, {}, 2)


def test_a_replay_with_live_tools_calls_them(replay: Any, tmp_path: Path) -> None:
    """The command reports results that differ from the recorded ones."""
    done = replay("--live-tools")
    assert notes(tmp_path) == ["add 1 2"] * 2
    assert json.loads(done.stdout)["passes"]["none"]["missingTools"] == {}
    assert "3 cm" in done.stderr


def network(agent: Agent) -> Network:
    """A network that asks it once."""
    return Network(name="n", agents=[agent], router=lambda c: None if c.call_count else agent)


async def test_the_doctor_examines_the_tools_of_servers(tmp_path: Path) -> None:
    """It calls them, and says of which ones it can say nothing."""
    server = modern(tmp_path, include=["add", "pid"])
    report = await examine(network(Agent(name="a", system="S", mcp_servers=[server], max_iter=1)))
    assert report.findings == []
    assert report.tools == {"m-add": 1, "m-pid": 1}
    assert len(notes(tmp_path)) == 2  # it runs everything twice


async def test_the_doctor_names_a_server_that_cannot_be_reached() -> None:
    """It is the reason why the run fails."""
    agent = Agent(
        name="a",
        system="S",
        mcp_servers=[handwritten(mode="silent", connect_timeout=0.3)],
        max_iter=1,
    )
    report = await examine(network(agent))
    (finding,) = [one for one in report.findings if one.name == "run-failed"]
    assert "Tool server 'h'" in finding.text
    assert not report.healthy
