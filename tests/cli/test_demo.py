"""`agentkit demo`: what a newcomer sees, and what the models of its agents were sent."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import re
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pydantic
import pytest
from rich.console import Console

from agentkit_py.cli.demo.play import DemoOptions, ask, open_desk, second_process
from agentkit_py.cli.demo.script import LATER, QUESTIONS, RequestView, scripted_model
from agentkit_py.errors import BadRequestError
from agentkit_py.runtime.current import close_shared_runtime
from agentkit_py.stores import SqliteHistory
from agentkit_py.testing import FakeProvider, ReceivedRequest, error
from tests.cli.terminal import COMMAND, agentkit, environment

OWN_TOOLS = {
    "triage": {"find_customer", "hand_over"},
    "billing": {"list_invoices", "list_payments", "refund_payment"},
    "bookings": {"find_bookings", "find_departures", "change_booking", "cancel_booking"},
    "handoff": {"create_ticket"},
}


def process(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own: it starts another one."""
    return subprocess.run(
        [*COMMAND, *arguments],
        env=environment(**variables),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@dataclass(frozen=True)
class Played:
    """A whole demo: what it printed, and what it left."""

    output: str
    code: int
    db: Path


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """The demo as `make demo` runs it, its files kept."""
    db = tmp_path_factory.mktemp("demo") / "threads.db"
    done = process("demo", "--db", str(db))
    assert done.stderr == ""
    return Played(done.stdout, done.returncode, db)


@pytest.fixture(scope="module")
def requests(tmp_path_factory: pytest.TempPathFactory) -> list[ReceivedRequest]:
    """The requests of the whole demo, the second process's at the end."""
    db = tmp_path_factory.mktemp("in-process") / "threads.db"
    quiet = Console(file=io.StringIO())
    options = DemoOptions(report=False)
    with open_desk(options, db, "demo-test") as desk:

        async def first_process() -> None:
            for question in QUESTIONS:
                await ask(desk, quiet, "demo-test", question, options)
            await close_shared_runtime()

        asyncio.run(first_process())
        assert second_process(desk, db, "demo-test", options) == 0
        assert desk.provider is not None
        assert desk.provider.rejections == []
        return desk.provider.requests


def agent_of(request: ReceivedRequest) -> str:
    """Return the name of the agent that made the request."""
    return RequestView.of(request.body).agent


def called(request: ReceivedRequest) -> set[str]:
    """The tools whose calls a request shows."""
    return {call.name for call in RequestView.of(request.body).calls}


def questions_in(request: ReceivedRequest) -> list[str]:
    """Return the customer's messages in a request."""
    return [m["content"] for m in request.body["messages"] if m["role"] == "user"]


def test_the_demo_answers_every_question_and_nothing_is_rejected(played: Played) -> None:
    """One command, no key, no network."""
    assert played.code == 0
    assert "5 turns, 19 model requests, 0 rejected." in played.output
    facts = ["RF-8802", "only 1 of the 2 berths", "Saturday 14 September at 20:35", "€15.00"]
    for fact in [*facts, "refund RF-8802 of €318.00", "T-501"]:
        assert fact in played.output


def test_a_pipe_gets_no_escape_codes_and_80_columns(played: Played) -> None:
    """The output can go to a file; the command to continue is one line to copy."""
    assert "\x1b" not in played.output
    lines = [line for line in played.output.splitlines() if str(played.db.parent) not in line]
    assert max(map(len, lines)) <= 80


def test_the_report_shows_what_each_agent_saw_by_level(played: Played) -> None:
    """Messages and tokens before and after, for each processor."""
    second_turn = played.output.split("Turn 2")[1].split("Turn 3")[0]
    rows = re.findall(r"(history|network|agent) +(\w+) +(\d+) → (\d+) +(\d+) → (\d+)", second_turn)
    assert [row[:2] for row in rows] == [
        ("history", "TokenLimiter"),
        ("network", "HideContacts"),
        ("agent", "ToolCallFilter"),
    ] * 2
    assert "triage saw no call of list_invoices, list_payments, refund_payment" in second_turn
    # Each level starts from what the one before left.
    for above, below in itertools.pairwise(rows):
        if below[0] != "history":
            assert (above[3], above[5]) == (below[2], below[4])


def test_tools_write_to_the_data_and_later_turns_read_it(played: Played) -> None:
    """The demo's SQL is real: a refund, a changed booking, its fee and a ticket are in the file."""
    data = next(played.db.parent.glob("threads.db.travel-*"))
    with sqlite3.connect(data) as db:
        refunds = db.execute("SELECT id, refund FROM payments WHERE refund IS NOT NULL").fetchall()
        departure = db.execute("SELECT departure_id FROM bookings WHERE id = 'WL-2041'").fetchone()
        fee = db.execute("SELECT cents FROM invoices WHERE id = 'INV-3323'").fetchone()
        berths = db.execute("SELECT id, berths_left FROM departures").fetchall()
        tickets = db.execute("SELECT customer_id, priority FROM tickets").fetchall()
    db.close()
    assert refunds == [("P-8802", "RF-8802")]
    assert departure == ("D-413",)
    assert fee == (1500,)
    assert {"D-411": 6, "D-412": 1, "D-413": 4}.items() <= dict(berths).items()
    assert tickets == [("C-1042", "high")]


async def test_the_thread_holds_the_whole_conversation(played: Played) -> None:
    """Both processes wrote to it, and no message is there twice."""
    async with SqliteHistory(played.db) as history:
        (thread,) = await history.list_threads()
        results = await history.load(thread.id)
    said = [r.output[0] for r in results if r.agent_name == "user"]
    assert [m.text for m in said if m.type == "text"] == [*QUESTIONS, LATER]
    texts = [r.agent_name for r in results if r.text and r.agent_name != "user"]
    assert texts == ["billing", "bookings", "billing", "handoff", "bookings"]


def test_the_second_process_answers_from_the_thread_of_the_first(played: Played) -> None:
    """It says how much it loaded, and calls no tool for the booking number."""
    last = played.output.split("in a second process")[1]
    assert re.search(r"Process \d+ loads 36 messages of the thread", last)
    assert "Your booking number is WL-2041" in last
    assert "find_bookings(" not in last


def test_the_second_process_sends_the_old_conversation_first(
    requests: list[ReceivedRequest],
) -> None:
    """Chronological, the new question last and once."""
    last = requests[-1]
    assert agent_of(last) == "bookings"
    asked = questions_in(last)
    assert asked[-1] == LATER
    assert asked == [question for question in [*QUESTIONS, LATER] if question in asked]
    assert len(asked) > 2
    # Nothing stands after the question: it is answered from what was there before.
    assert last.body["messages"][-1] == {"role": "user", "content": LATER}


def test_no_agent_is_sent_calls_of_another_agents_tools(requests: list[ReceivedRequest]) -> None:
    """Triage never sees billing's calls, and so on; and what each has itself it does see."""
    assert {agent_of(request) for request in requests} == set(OWN_TOOLS)
    for request in requests:
        assert called(request) <= OWN_TOOLS[agent_of(request)]
    for agent, tools in OWN_TOOLS.items():
        seen = [called(request) for request in requests if agent_of(request) == agent]
        assert set().union(*seen) >= tools - {"cancel_booking"}


def test_contact_details_are_hidden_from_later_turns(requests: list[ReceivedRequest]) -> None:
    """The network's processor works on what was said before, for every agent."""
    first_turn = sum(QUESTIONS[0] in questions_in(request) for request in requests)
    later = [questions_in(request)[0] for request in requests[first_turn:]]
    assert first_turn > 0
    assert any("[hidden]" in question for question in later)
    assert not any("nora.lindqvist" in question for question in later)


def test_one_agent_calls_two_tools_at_once_and_recovers_from_an_error(
    requests: list[ReceivedRequest],
) -> None:
    """The demo's text promises parallel calls and recovery from a tool's error."""
    bookings = [request for request in requests if agent_of(request) == "bookings"]
    messages: list[dict[str, Any]] = bookings[-2].body["messages"]
    sizes = [len(m["tool_calls"]) for m in messages if m.get("tool_calls")]
    assert sizes == [2, 1, 1]
    results = [json.loads(m["content"]) for m in messages if m["role"] == "tool"]
    assert ["error" in result for result in results] == [False, False, True, False]


def copied(played: Played, folder: Path) -> tuple[Path, str]:
    """The demo's files, for a test that continues with its thread; and the thread's id."""
    shutil.copytree(played.db.parent, folder, dirs_exist_ok=True)
    found = re.search(r"agentkit demo --db (\S+) --resume (\S+)", played.output)
    assert found is not None
    assert Path(found[1]) == played.db
    return folder / played.db.name, found[2]


def test_a_kept_demo_says_how_to_go_on_and_one_can(played: Played, tmp_path: Path) -> None:
    """The command that it prints opens a chat with the same thread."""
    db, thread = copied(played, tmp_path)
    done = agentkit("demo", "--db", db, "--resume", thread, lines=f"{LATER}\n/thread\n")
    assert done.exit_code == 0
    assert "I have left ticket T-501" in done.stdout
    assert done.stdout.count("Your booking number is WL-2041") == 2


def test_temporary_files_are_removed_unless_they_are_to_be_kept(tmp_path: Path) -> None:
    """With --keep the output says where the files are."""
    gone = process("demo", "--no-report", TMPDIR=str(tmp_path))
    assert gone.returncode == 0
    assert list(tmp_path.iterdir()) == []
    assert "What each agent saw" not in gone.stdout
    kept = process("demo", "--no-report", "--keep", TMPDIR=str(tmp_path))
    (folder,) = tmp_path.iterdir()
    assert str(folder / "threads.db") in kept.stdout


def test_another_model_plays_the_demo_too() -> None:
    """--model takes any provider; here one that is behind --base-url, in both processes."""
    with FakeProvider(scripted_model) as provider:
        url = provider.base_url("openai")
        model = ["--model", "openai:gpt-4.1", "--base-url", url]
        done = process("demo", "--no-report", *model, OPENAI_API_KEY="sk-test")
    assert done.returncode == 0
    assert len(provider.requests) == 19
    assert {request.model for request in provider.requests} == {"gpt-4.1"}
    assert provider.rejections == []
    assert re.search(r"\d+ tokens in, \d+ out", done.stdout)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--model", "openai:gpt-4.1"], "environment variable OPENAI_API_KEY"),
        (["--model", "gpt-4.1"], "is not PROVIDER:NAME"),
        (["--model", "nobody:gpt"], "Unknown provider 'nobody'; known are openai,"),
        (["--model", "azure_openai:gpt-4o"], "needs AZURE_OPENAI_ENDPOINT"),
        (["--db", "no/such/folder/x.db"], "folder"),
        (["--resume", "demo-1"], "--resume needs --db"),
        (["--resume", "demo-1", "--db", "nothing.db"], "--db: there is no file 'nothing.db'."),
        (["--base-url", "http://127.0.0.1:1"], "--base-url needs --model"),
    ],
)
def test_impossible_options_are_refused_in_one_line(arguments: list[str], sentence: str) -> None:
    """The error comes before any output or file, with status 2."""
    done = agentkit("demo", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_failing_model_ends_the_demo_with_one_line_or_a_traceback() -> None:
    """Status 1, and --debug lets the error through."""
    with FakeProvider(lambda _: error(400, "No such thing.")) as provider:
        model = ["--model", "openai:gpt-4.1", "--base-url", provider.base_url("openai")]
        key = {"OPENAI_API_KEY": "sk-test"}
        plain = agentkit("demo", *model, variables=key)
        debug = agentkit("--debug", "demo", *model, variables=key)
    assert plain.exit_code == 1
    last = plain.stderr.splitlines()[-1]
    assert last == "agentkit: openai model 'gpt-4.1': HTTP 400: No such thing."
    assert debug.exit_code == 1
    assert isinstance(plain.exception, SystemExit)
    assert isinstance(debug.exception, BadRequestError)


def test_resuming_a_thread_that_is_not_there_is_an_error(played: Played) -> None:
    """No file is created."""
    before = sorted(played.db.parent.iterdir())
    done = agentkit("demo", "--db", str(played.db), "--resume", "demo-none")
    assert (done.exit_code, done.stderr) == (1, "agentkit: There is no thread 'demo-none'.\n")
    assert sorted(played.db.parent.iterdir()) == before


def test_colours_come_and_go_with_the_usual_variables(played: Played, tmp_path: Path) -> None:
    """FORCE_COLOR stands for a terminal here; NO_COLOR and --no-color take them away."""
    db, thread = copied(played, tmp_path)
    later = ["demo", "--db", str(db), "--resume", thread, "--ask", LATER]
    shown = [
        agentkit(*later, variables={"FORCE_COLOR": "1"}),
        agentkit(*later, variables={"FORCE_COLOR": "1", "NO_COLOR": "1"}),
        agentkit("--no-color", *later, variables={"FORCE_COLOR": "1"}),
    ]
    assert [done.exit_code for done in shown] == [0, 0, 0]
    colours = [re.findall(r"\x1b\[[\d;]*3\d", done.stdout) != [] for done in shown]
    assert colours == [True, False, False]


def test_version_prints_the_installed_version() -> None:
    """The number is that of the installed distribution."""
    done = agentkit("--version")
    assert done.exit_code == 0
    assert re.fullmatch(r"agentkit (\d+\.\d+\S*|\(not installed\))\n", done.stdout)


def test_without_the_extra_the_command_says_what_to_install(root: Path, tmp_path: Path) -> None:
    """An environment that has everything but typer and rich."""
    for package in Path(pydantic.__file__).parent.parent.iterdir():
        if not package.name.startswith(("typer", "rich")):
            (tmp_path / package.name).symlink_to(package)
    path = [str(root), str(tmp_path)]
    script = f"import sys; sys.path[:0] = {path}; from agentkit_py.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-S", "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == (
        'The agentkit command needs typer and rich: pip install "pyagentkit[cli]"\n'
    )
