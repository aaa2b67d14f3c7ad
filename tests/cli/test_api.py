"""`agentkit api`: the HTTP API of a module's network."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.cli.terminal import COMMAND, agentkit, environment

SHOP = """
from agentkit_py import Agent, Network
from agentkit_py.testing import ScriptedModel

clerk = Agent(name="clerk", system="S", model=ScriptedModel("Good morning."))
shop = Network(name="shop", agents=[clerk], router=lambda c: clerk if not c.call_count else None)
"""


@pytest.mark.parametrize("name", ["shop", "clerk"])
def test_it_serves_on_this_machine_until_it_is_interrupted(tmp_path: Path, name: str) -> None:
    """A network or an agent; its threads in a file."""
    (tmp_path / "hats.py").write_text(SHOP)
    command = [*COMMAND, "api", f"hats:{name}"]
    process = subprocess.Popen(
        [*command, "--port", "0", "--db", "t.db"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stdout is not None
    found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
    assert found is not None
    with httpx.Client(base_url=found[0], trust_env=False, timeout=httpx.Timeout(None)) as client:
        body = {"userMessage": {"content": "Hi", "role": "user"}, "threadId": "t1"}
        assert client.post("/api/chat", json=body).status_code == 200
        messages: list[object] = []
        while len(messages) < 2:
            messages = client.get("/api/threads/t1").json()["messages"]
        elsewhere = client.get("/api/threads", headers={"host": "shop.example"})
        assert elsewhere.status_code == 403
    process.send_signal(signal.SIGINT)
    assert process.wait() == 0
    assert (tmp_path / "t.db").exists()
    process.stdout.close()


def test_a_target_of_the_wrong_type_is_named(tmp_path: Path) -> None:
    """The error is that of the other commands, which name the class they were given."""
    (tmp_path / "hats.py").write_text(SHOP)
    done = agentkit("api", "hats:Agent", folder=tmp_path)
    assert done.exit_code == 2
    assert "the class Agent" in done.stderr


def test_a_network_without_a_history_says_how_long_its_threads_live(tmp_path: Path) -> None:
    """The message does not mention a chat, since there is none."""
    (tmp_path / "hats.py").write_text(SHOP)
    process = subprocess.Popen(
        [*COMMAND, "api", "hats:shop", "--port", "0"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    process.terminate()
    assert process.wait() in (0, -signal.SIGTERM)
    process.stdout.close()
    assert "Threads live as long as this process; --db FILE keeps them." in first
