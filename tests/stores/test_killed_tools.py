"""A process that dies while a tool reports: what was done stays done, and the thread continues."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from agentkit_py import Agent, SqliteHistory
from agentkit_py.testing import ScriptedModel

DYING = """
import os, sys
from agentkit_py import Agent, SqliteHistory, tool
from agentkit_py.events.types import ToolProgressed
from agentkit_py.testing import ScriptedModel, tool_call
from agentkit_py.tools import Progress

@tool
async def ship(order: str):
    "Ship."
    yield Progress("Packing")
    with open(sys.argv[2], "a") as log:
        log.write(f"packed {order}\\n")
    yield Progress("Sending")
    yield f"shipped {order}"

def die(event):
    if isinstance(event, ToolProgressed):
        print(event.progress.text, flush=True)
        if event.progress.text == "Sending":
            os._exit(9)

model = ScriptedModel(tool_call("ship", {"order": "A1"}), "Done.")
agent = Agent(name="a", system="S", tools=[ship], model=model, history=SqliteHistory(sys.argv[1]))
agent.run_sync("Ship A1", thread_id="t", observer=die)
"""


async def test_a_thread_continues_after_a_kill_between_two_reports(tmp_path: Path) -> None:
    """The call is not made again by itself, and the next request is one that providers take."""
    database, log = tmp_path / "threads.db", tmp_path / "log"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COV")}
    done = subprocess.run(  # noqa: ASYNC221 - nothing else runs
        [sys.executable, "-c", DYING, str(database), str(log)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.split()) == (9, ["Packing", "Sending"]), done.stderr

    model = ScriptedModel("It was packed.")
    async with SqliteHistory(database) as store:
        agent = Agent(name="a", system="S", model=model, history=store)
        result = await agent.run("Where is it?", thread_id="t")
    assert result.text == "It was packed."
    model.assert_saw("Ship A1", "Where is it?")
    assert log.read_text(encoding="utf-8") == "packed A1\n"
