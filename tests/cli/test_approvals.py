"""`agentkit approvals`: the queue in a terminal."""

from __future__ import annotations

import asyncio
import importlib
import sys
from pathlib import Path
from typing import Any

from agentkit_py import SqliteHistory
from agentkit_py.inngest import create_functions
from agentkit_py.testing.executor import ReplayExecutor
from tests.cli.terminal import agentkit, working_in

SHOP = '''
from agentkit_py import Agent, tool
from agentkit_py.testing import ScriptedModel, tool_call

@tool(needs_approval=True)
def refund(amount: int) -> str:
    """Pay money back."""
    print("PAID", amount)
    return "paid"

def first():
    return make(tool_call("refund", {"amount": 249}))

def later():
    return make("Your money is on its way.")

def both():
    return make(tool_call("refund", {"amount": 249}), "On its way.")

def make(*replies):
    return Agent(name="clerk", system="S", tools=[refund], model=ScriptedModel(*replies))
'''


def test_a_question_is_listed_and_answered_in_another_process(tmp_path: Path) -> None:
    """The run goes on there; who answered and why is kept."""
    (tmp_path / "hats.py").write_text(SHOP)
    db = tmp_path / "hats.db"

    async def ask(agent: Any) -> str:
        async with SqliteHistory(db) as store:
            agent.history = store
            await agent.run("Money back!", thread_id="t1")
            (question,) = await agent.pending("t1")
        return question.id

    with working_in(tmp_path):
        sys.path.insert(0, str(tmp_path))
        question = asyncio.run(ask(importlib.import_module("hats").first()))
    shown = agentkit("approvals", "list", "--db", str(db))
    first, asked, thread, *_ = shown.output.splitlines()
    assert first.startswith(f"{question}  open, expires in ")
    assert (asked, thread) == ('  clerk: refund {"amount":249}', "  thread t1")
    options = ["--approve", "--by", "mia", "--reason", "late train", "--db", str(db)]
    done = agentkit("approvals", "answer", "hats:later", question, *options, folder=tmp_path)
    assert (done.exit_code, done.output.split("\n")[:2]) == (
        0,
        ["PAID 249", "Your money is on its way."],
    )
    again = agentkit("approvals", "answer", "hats:later", question, *options, folder=tmp_path)
    assert (again.exit_code, "it is answered" in again.output) == (1, True)
    assert "0 questions" in agentkit("approvals", "list", "--db", str(db)).output
    told = agentkit("approvals", "list", "--all", "--db", str(db)).output
    assert "mia" in told


def test_a_question_of_an_inngest_function_is_answered_there(tmp_path: Path) -> None:
    """By the client beside the network; without one the command says what to name."""
    (tmp_path / "hats.py").write_text(SHOP)
    app = "import inngest\nfrom hats import later\n"
    (tmp_path / "hats_app.py").write_text(
        f"{app}client = inngest.Inngest(app_id='hats', is_production=False)\n"
    )
    db = tmp_path / "hats.db"

    with working_in(tmp_path):
        sys.path.insert(0, str(tmp_path))
        agent: Any = importlib.import_module("hats").both()
        agent.history = SqliteHistory(db)
        client: Any = importlib.import_module("hats_app").client
        executor = ReplayExecutor(client, create_functions(client, agents=[agent]))
        data = {"input": "Money back!", "threadId": "t1"}
        run = asyncio.run(executor.start("hats/agent-clerk", data))
        (asked,) = asyncio.run(agent.pending("t1"))
        command = ["approvals", "answer", "--approve", "--by", "mia", "--db", str(db)]
        alone = agentkit(*command, "hats:later", asked.id)
        assert (alone.exit_code, "name a module that has both" in alone.output) == (2, True)
        with executor.connection.use():
            done = agentkit(*command, "hats_app:later", asked.id)
        assert (done.exit_code, done.output) == (
            0,
            "Sent: the run goes on as its Inngest function.\n",
        )
        asyncio.run(executor.advance(1))
        assert (run.status, run.output["text"]) == ("completed", "On its way.")
    assert "mia" in agentkit("approvals", "list", "--all", "--db", str(db)).output
