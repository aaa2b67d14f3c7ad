"""Two processes on one thread make one summary, whoever comes first."""

# ruff: noqa: ASYNC220 - nothing else runs in this loop
from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from agentkit_py import SqliteHistory
from agentkit_py.testing import FakeProvider

SCRIPT = """
import sys
from agentkit_py import Agent, SqliteHistory, State, TextMessage, openai
from agentkit_py.processors import ApproximateTokenizer, Summarize

path, url = sys.argv[1:]
model = openai("gpt-4o", api_key="sk-test", base_url=url)
agent = Agent(
    name="clerk", system="S", model=model, token_counter=ApproximateTokenizer(chars_per_token=1),
    processors=[Summarize(model, 3000, 2000, summary_tokens=300, store=SqliteHistory(path))],
)
roles = ["user", "assistant"]
past = [TextMessage(roles[n % 2], f"{n:04}".ljust(100, "x")) for n in range(40)]
print("ready", flush=True)
sys.stdin.readline()
agent.run_sync("Now?", state=State(messages=past, thread_id="t"))
"""


def reply(request: Any) -> str:
    """A summary where one is asked for, else an answer."""
    asked = request.body["messages"][0]["content"]
    return "They spoke." if asked.startswith("You summarise") else "Yes."


async def test_two_processes_make_one_summary(tmp_path: Path) -> None:
    """They begin at the same moment; the lock is in the file."""
    path = tmp_path / "t.db"
    with FakeProvider(reply) as fake:
        arguments = [sys.executable, "-c", SCRIPT, str(path), fake.base_url("openai")]
        pipe = subprocess.PIPE
        workers = [
            subprocess.Popen(arguments, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
            for _ in range(2)
        ]
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        for worker in workers:
            _, errors = worker.communicate(timeout=600)
            assert worker.returncode == 0, errors
    systems = [request.body["messages"][0]["content"] for request in fake.requests]
    assert sum(text.startswith("You summarise") for text in systems) == 1
    assert systems.count("S") == 2
    async with SqliteHistory(path) as store:
        summary = await store.load_summary("t", "agent:clerk")
    assert summary is not None
    assert summary.text == "They spoke."
