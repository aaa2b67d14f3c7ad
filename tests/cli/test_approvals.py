"""`agentkit approvals`: the queue in a terminal."""

from __future__ import annotations

import asyncio
import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from agentkit_py import SqliteHistory
from agentkit_py.inngest import create_functions
from agentkit_py.testing.executor import ReplayExecutor
from tests.cli.terminal import agentkit, working_in

SHOP = '''
from datetime import timedelta
from agentkit_py import Agent, tool
from agentkit_py.testing import ScriptedModel, tool_call, tool_calls

@tool(
    needs_approval=True,
    approvers=["mia", "sam"],
    escalate_after=timedelta(hours=2),
    escalate_to=["boss"],
)
def refund(amount: int) -> str:
    """Pay money back."""
    print("PAID", amount)
    return "paid"

def first():
    return make(tool_call("refund", {"amount": 249}))

def three():
    return make(tool_calls(*[("refund", {"amount": n}) for n in (1, 2, 3)]))

def later():
    return make("Your money is on its way.")

def both():
    return make(tool_call("refund", {"amount": 249}), "On its way.")

def make(*replies):
    return Agent(name="clerk", system="S", tools=[refund], model=ScriptedModel(*replies))
'''


def question_of(db: Path, agent: str) -> str:
    """Write the shop's file beside a database, run one of its agents; return its question's id."""

    async def ask(clerk: Any) -> str:
        async with SqliteHistory(db) as store:
            clerk.history = store
            await clerk.run("Money back!", thread_id="t1")
            (question,) = await clerk.pending("t1")
        return question.id

    (db.parent / "hats.py").write_text(SHOP)
    with working_in(db.parent):
        sys.path.insert(0, str(db.parent))
        return asyncio.run(ask(getattr(importlib.import_module("hats"), agent)()))


def test_a_question_is_listed_and_answered_in_another_process(tmp_path: Path) -> None:
    """The run continues there; who answered and why is kept."""
    db = tmp_path / "hats.db"
    question = question_of(db, "first")
    shown = agentkit("approvals", "list", "--db", str(db))
    first, asked, thread, *_ = shown.output.splitlines()
    assert first.startswith(f"{question}  open, expires in ")
    assert (asked, thread) == ('  clerk: refund {"amount":249}', "  thread t1")
    options = ["--approve", "--by", "mia", "--reason", "late train", "--db", str(db)]
    options += ["--to-user", "We are sorry."]
    done = agentkit("approvals", "answer", "hats:later", question, *options, folder=tmp_path)
    assert (done.exit_code, done.output.split("\n")[:2]) == (
        0,
        ["PAID 249", "Your money is on its way."],
    )
    again = agentkit("approvals", "answer", "hats:later", question, *options, folder=tmp_path)
    assert (again.exit_code, "it is answered" in again.output) == (1, True)
    assert "0 questions" in agentkit("approvals", "list", "--db", str(db)).output
    asked_then = asyncio.run(SqliteHistory(db).load_question(question))
    assert asked_then is not None
    assert asked_then.answer is not None
    assert (asked_then.answer.reason, asked_then.answer.to_user) == ("late train", "We are sorry.")
    told = agentkit("approvals", "list", "--all", "--db", str(db)).output
    assert "mia" in told


def test_several_people_decide_on_single_calls_and_change_what_a_tool_gets(tmp_path: Path) -> None:
    """The run goes on with the last decision; what cannot be done is refused, and changes none."""
    db = tmp_path / "hats.db"
    question = question_of(db, "three")
    rest = ["hats:later", question, "--db", str(db)]

    def answer(*options: str) -> tuple[int, str]:
        done = agentkit("approvals", "answer", *options, *rest, folder=tmp_path)
        return done.exit_code, done.output

    def listed(*options: str) -> list[str]:
        return agentkit("approvals", "list", "--db", str(db), *options).output.splitlines()[1:]

    asked = [
        '  clerk: 0. refund {"amount":1}',
        '  clerk: 1. refund {"amount":2}',
        '  clerk: 2. refund {"amount":3}',
        "  thread t1",
        "  for mia, sam; in 120 min also boss",
    ]
    assert listed("--tool", "refund", "--agent", "clerk")[:-1] == asked
    assert listed("--tool", "book") == listed("--agent", "none") == []
    refused = {
        "3": "none of the question's 3 calls",
        "0=[1]": "no JSON object",
        '0={"amount":"much"}': "valid integer",
        '0={"order":"A1"}': "amount",
    }
    for call, problem in refused.items():
        code, output = answer("--approve", "--call", call)
        assert code == 2
        assert problem in " ".join(output.replace("│", " ").split())
    assert listed()[:-1] == asked
    assert answer("--approve", "--by", "mia", "--call", '0={"amount":9}')[0] == 0
    assert "it is decided" in answer("--deny", "--call", "0")[1]
    assert answer("--deny", "--by", "sam", "--reason", "no", "--call", "2")[0] == 0
    asked[0] += '  approved by mia with {"amount":9}'
    asked[2] += "  denied by sam: no"
    assert listed()[:-1] == asked
    code, output = answer("--approve", "--by", "mia")
    assert (code, output.split("\n")[:3]) == (0, ["PAID 9", "PAID 2", "Your money is on its way."])
    assert listed() == []


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_question_of_an_inngest_function_is_answered_there(tmp_path: Path, is_lost: bool) -> None:
    """By the module's client, else by that of `agentkit serve`, which may not reach the server."""
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
        if is_lost:
            nowhere = {"INNGEST_BASE_URL": "127.0.0.1:1", "INNGEST_EVENT_KEY": "k"}
            lost = agentkit(*command, "hats:later", asked.id, variables=nowhere)
            words = " ".join(lost.output.split())
            assert lost.exit_code == 2
            # By https, as in production: the key is for no Dev Server.
            assert "https://127.0.0.1:1 did not take it" in words
            with executor.connection.use():
                other = agentkit(
                    "approvals", "answer", "--deny", "--db", db, "hats_app:later", asked.id
                )
            assert (other.exit_code, "approved by 'mia'" in other.output) == (1, True)
        with executor.connection.use():
            done = agentkit(*command, "hats_app:later", asked.id)
        assert (done.exit_code, done.output) == (
            0,
            "The question was answered before; that answer was sent again.\n"
            if is_lost
            else "Sent: the run continues as its Inngest function.\n",
        )
        asyncio.run(executor.advance(1))
        assert (run.status, run.output["text"]) == ("completed", "On its way.")
    assert "mia" in agentkit("approvals", "list", "--all", "--db", str(db)).output
