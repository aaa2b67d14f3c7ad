"""Untrusted text cannot steer a terminal, a log or a prompt."""

from __future__ import annotations

import json
import logging
import os
import runpy
import shutil
import subprocess
import sys
import traceback
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.main import get_command

from agentkit_py._core.untrusted import clean, escaped, get_logger
from agentkit_py.cli.app import app
from agentkit_py.cli.printing import call_line
from agentkit_py.errors import AgentKitError, ToolSourceError
from agentkit_py.mcp import MCPServer, Stdio
from agentkit_py.messages import ToolCall
from agentkit_py.stores.rows import title_of
from tests.cli.terminal import agentkit, environment, working_in

INVISIBLE = ("Cc", "Cf", "Cs")

EVIL = "\x1b[2J\x1b]0;t\x07\x9b31m\u202egnp.\u2066\u200b\u00ad\ufeff\U000e0041\x7f\x08\r"
"""Sequences of the screen, of its title, of one character; marks of direction, zero width, tags."""

MODULE = f"""
import logging, os, pathlib, sys
from agentkit_py import Agent, MemoryHistory, Network, SqliteHistory, TextMessage, tool
from agentkit_py.evals import Case, Suite, contains
from agentkit_py.memory import Memory
from agentkit_py.testing import ScriptedModel, tool_call

EVIL = {EVIL!r}

@tool
def look(order: str) -> dict:
    "Look {EVIL!r}."
    logging.getLogger("other").warning("a tool says %s", EVIL)
    if order == "fail":
        raise ValueError(EVIL)
    return {{EVIL: EVIL}}

@tool(needs_approval=True)
def pay(to: str) -> str:
    "Pay."
    return EVIL

def hidden(messages):
    "Hide."
    return messages[-1:]
hidden.__name__ = "hide" + EVIL

def replies():
    return ScriptedModel(
        tool_call("look", {{"order": EVIL}}), tool_call("look", {{"order": "fail"}}),
        tool_call("no" + EVIL, {{}}), tool_call("pay", {{"to": EVIL, EVIL: 1}}),
        tool_call("pay", {{"to": EVIL}}), EVIL + " done")

clerk = Agent(name="clerk" + EVIL, system="S", tools=[look, pay], model=replies(),
              processors=[hidden])
desk = Network(name="desk" + EVIL, agents=[clerk], history=SqliteHistory("desk.db"),
               router=lambda c: None if c.call_count else clerk)
payer = Agent(name="payer" + EVIL, system="S", tools=[pay],
              model=ScriptedModel(tool_call("pay", {{"to": EVIL}}), "Paid " + EVIL))
counter = Network(name="counter" + EVIL, agents=[payer], history=desk.history,
                  router=lambda c: None if c.call_count else payer)
broken = Network(name="b", agents=[clerk], router=lambda c: 1 / 0)
failing = Agent(name="f" + EVIL, system="S", model=ScriptedModel())
def refuse(): raise ValueError(EVIL)
plain = Agent(name="p", system="S", model=ScriptedModel("Hm."), history=MemoryHistory())
case = Case(name="case" + EVIL, input=EVIL, expected=EVIL)
suite = Suite(target=plain, cases=[case], evaluators=[contains()])
failures = Suite(target=failing, cases=[case], evaluators=[contains("x" + EVIL)])

if __name__ == "__main__":
    import asyncio
    from agentkit_py.history import StaffDesk
    from agentkit_py.results import AgentResult
    async def fill():
        store = desk.history
        await store.add_thread("t" + EVIL, user_id="u" + EVIL, title="title" + EVIL)
        await store.append("t" + EVIL, [
            AgentResult.from_user("Hi " + EVIL, id="1"),
            AgentResult(
                agent_name="who" + EVIL, output=[TextMessage("assistant", "words " + EVIL)])])
        await Memory(store).of(user="u" + EVIL, tenant="of" + EVIL).remember("a fact " + EVIL)
        await StaffDesk(store).ask("t" + EVIL, "why " + EVIL, agent="who" + EVIL)
        await StaffDesk(store).join("t" + EVIL, by=EVIL, name="M")
        run = await counter.run("Pay " + EVIL, thread_id="asked")
        pathlib.Path("question").write_text(run.pending[0].id)
        await store.close()
    asyncio.run(fill())
"""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a network of hostile names and words, a thread and a recording of the same."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "hostile.py").write_text(MODULE)
    with working_in(folder):
        runpy.run_path("hostile.py", run_name="__main__")
    messages = [
        {"role": "user", "content": EVIL},
        {"role": EVIL, "content": EVIL},
    ]
    lines = [{"id": EVIL, "messages": messages}, {EVIL: EVIL}]
    (folder / "recorded.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    (folder / "spoilt.jsonl").write_text(f'{{"id": "{EVIL}"\n{EVIL}\n')
    return folder


@pytest.fixture
def folder(filled: Path, tmp_path: Path) -> Path:
    """A copy for one test, as some commands delete what others show."""
    return Path(shutil.copytree(filled, tmp_path / "folder"))


THREAD = f"t{EVIL}"
QUESTION = "<question>"
"""Stands for the id of the question that waits in the folder's store."""

WHOSE = ["--db", "desk.db", "--user", f"u{EVIL}", "--tenant", f"of{EVIL}"]
COMMANDS: dict[str, tuple[list[str], str]] = {
    "chat": (["chat", "hostile:desk"], "Hi\ny\n/context\n/current\n/threads\n/thread\n/help\n"),
    "chat refused": (["chat", "hostile:desk"], f"Hi\nno {EVIL}\n/nothing{EVIL}\n/load {EVIL}\n"),
    "chat resumed": (["chat", "hostile:desk", "--thread", THREAD], "Hi\ny\n/clean\n"),
    "chat of a user": (["chat", "hostile:desk", "--user", EVIL], "Hi\ny\n/threads\n"),
    "chat that fails": (["chat", "hostile:failing"], f"Hi {EVIL}\n"),
    "chat with a bug": (["--debug", "chat", "hostile:failing"], f"Hi {EVIL}\n"),
    "chat without a module": (["chat", f"no{EVIL}:x"], ""),
    "chat without an object": (["chat", f"hostile:no{EVIL}"], ""),
    "chat of a failing factory": (["chat", "hostile:refuse"], ""),
    "threads list": (["threads", "list", "--db", "desk.db"], ""),
    "threads show": (["threads", "show", THREAD, "--db", "desk.db"], ""),
    "threads show nothing": (["threads", "show", f"no{EVIL}", "--db", "desk.db"], ""),
    "threads fork": (["threads", "fork", THREAD, "--db", "desk.db"], ""),
    "threads fork nowhere": (
        ["threads", "fork", THREAD, "--db", "desk.db", "--before", f"no{EVIL}"],
        "",
    ),
    "threads rewind nowhere": (
        ["threads", "rewind", THREAD, "--db", "desk.db", "--before", f"no{EVIL}", "-y"],
        "",
    ),
    "chat in time": (["chat", "hostile:desk"], "Hi\ny\n/why\n/agents\n/fork\n/undo\n/fork 0\n"),
    "threads search": (["threads", "search", "words", "--db", "desk.db"], ""),
    "threads index": (["threads", "index", "--db", "desk.db"], ""),
    "threads export": (["threads", "export", "--db", "desk.db"], ""),
    "threads export openai": (["threads", "export", "--db", "desk.db", "--format", "openai"], ""),
    "threads import": (["threads", "import", "recorded.jsonl", "--db", "in.db"], ""),
    "threads import what is none": (["threads", "import", "spoilt.jsonl", "--db", "in.db"], ""),
    "threads stats": (["threads", "stats", "--db", "desk.db", "--user", EVIL], ""),
    "threads without a file": (["threads", "stats", "--db", f"no{EVIL}"], ""),
    "threads clean": (["threads", "clean", "--db", "desk.db", "--older-than", EVIL], ""),
    "threads delete": (["threads", "delete", "--db", "desk.db", f"no{EVIL}", "-y"], ""),
    "staff queue": (["staff", "queue", "--db", "desk.db"], ""),
    "staff join": (["staff", "join", THREAD, "--db", "desk.db", "--by", EVIL, "--name", "M"], ""),
    "staff join as nobody": (["staff", "join", THREAD, "--db", "desk.db", "--by", EVIL], ""),
    "staff say": (["staff", "say", THREAD, EVIL, "--db", "desk.db", "--by", EVIL], ""),
    "staff hand-back": (["staff", "hand-back", THREAD, "--db", "desk.db", "--by", EVIL], ""),
    "explain": (["explain", "hostile:desk", "--thread", THREAD, "--diff"], ""),
    "explain as JSON": (["explain", "hostile:desk", "--thread", THREAD, "--diff", "--json"], ""),
    "explain an agent": (["explain", "hostile:desk", "--agent", f"no{EVIL}"], ""),
    "fit": (["fit", "recorded.jsonl"], ""),
    "fit what is none": (["fit", "spoilt.jsonl"], ""),
    "replay": (["replay", "recorded.jsonl"], ""),
    "replay as JSON": (["replay", "recorded.jsonl", "--json"], ""),
    "replay what is none": (["replay", "spoilt.jsonl"], ""),
    "replay a network": (["replay", "recorded.jsonl", "--network", "hostile:desk"], ""),
    "eval": (["eval", "hostile:suite"], ""),
    "eval of a failing run": (["eval", "run", "hostile:failures", "--json"], ""),
    "eval what is none": (["eval", f"hostile:no{EVIL}"], ""),
    "eval from a thread": (["eval", "from-thread", "desk.db", THREAD], ""),
    "approvals list": (["approvals", "list", "--db", "desk.db"], ""),
    "approvals answer": (
        ["approvals", "answer", "hostile:counter", QUESTION, "--approve", "--by", EVIL],
        "",
    ),
    "approvals answer nothing": (
        ["approvals", "answer", "hostile:counter", f"no{EVIL}", "--deny", "--reason", EVIL],
        "",
    ),
    "approvals of all": (["approvals", "list", "--db", "desk.db", "--all"], ""),
    "memory list": (["memory", "list", *WHOSE], ""),
    "memory correct": (["memory", "correct", f"no{EVIL}", EVIL, *WHOSE], ""),
    "memory forget": (["memory", "forget", f"no{EVIL}", *WHOSE], ""),
    "memory forget all": (["memory", "forget", *WHOSE], "y\n"),
    "doctor": (["doctor", "hostile:desk", "--approve"], ""),
    "doctor as JSON": (["doctor", "hostile:desk", "--json"], ""),
    "doctor of a broken router": (["doctor", "hostile:broken"], ""),
    "serve": (["serve", f"hostile:no{EVIL}"], ""),
    "api": (["api", f"hostile:no{EVIL}"], ""),
    "a2a": (["a2a", f"hostile:no{EVIL}"], ""),
    "mcp": (["mcp", f"hostile:no{EVIL}"], ""),
    "dev": (["dev", f"hostile{EVIL}"], ""),
    "demo": (["demo", "--db", f"no{EVIL}/x", "--no-delay"], ""),
}


def unclean(shown: str) -> set[str]:
    """Return what must not be in an output."""
    return {c for c in shown if c not in "\n\t" and unicodedata.category(c) in INVISIBLE}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_shows_raw_controls_or_format_characters(folder: Path, name: str) -> None:
    """Names, titles, texts, calls, results, errors and reasons are hostile."""
    arguments, lines = COMMANDS[name]
    asked = (folder / "question").read_text()
    arguments = [asked if word == QUESTION else word for word in arguments]
    done = agentkit("--no-color", *arguments, folder=folder, lines=lines)
    assert not unclean(done.output), done.output
    assert f"There is no thread {THREAD!r}" not in done.output
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        assert name == "chat with a bug"  # Python prints its traceback
        assert not unclean("".join(traceback.format_exception(done.exception)))


def test_each_command_of_the_program_is_among_them() -> None:
    """A command that is added later needs a line above."""
    tried = {" ".join(arguments[:2]) for arguments, _ in COMMANDS.values()}
    for path in commands(get_command(app)):
        assert any(one == path or one.startswith(f"{path} ") for one in tried), path


def commands(group: Any, before: str = "") -> Iterator[str]:
    """Return the words that call each command, as ``threads list``."""
    context = group.make_context("agentkit", ["--help"], resilient_parsing=True)
    for name in group.list_commands(context):
        _, found, _ = group.resolve_command(context, [name])
        if hasattr(found, "commands"):
            yield from commands(found, f"{before}{name} ")
        else:
            yield f"{before}{name}"


def test_logs_of_a_command_in_its_own_process_are_clean(folder: Path) -> None:
    """Records that no handler takes go to standard error, those of other libraries, too."""
    done = subprocess.run(
        [sys.executable, "-m", "agentkit_py.cli", "chat", "hostile:desk"],
        cwd=folder,
        env=environment(PYTHONWARNINGS="default"),
        input=b"Hi\ny\n",
        capture_output=True,
        check=False,
    )
    assert b"a tool says" in done.stderr
    assert not unclean(done.stdout.decode() + done.stderr.decode())


def test_a_prompt_shows_invisible_characters() -> None:
    """A person approves exactly the arguments that the tool gets: nothing may be missing."""
    call = ToolCall("1", "pay", {"to": "evil\u202e\u200b\x9b", "n\x00": "\U000e0041"})
    line = call_line(call)
    assert not unclean(line)
    assert json.loads(line.partition("to=")[2].partition(", ")[0]) == "evil\u202e\u200b\x9b"
    assert "\\u0000" in line
    assert "\\udb40\\udc41" in line


@given(st.text(st.characters()))
def test_cleaned_text_holds_nothing_invisible_and_all_else(text: str) -> None:
    """Cleaning again changes nothing; what is visible stays in its order."""
    cleaned = clean(text)
    assert not unclean(cleaned)
    assert clean(cleaned) == cleaned
    whole = text.encode("utf-8", "replace").decode().replace("?", "\ufffd")  # of half a pair
    visible = [c for c in whole if unicodedata.category(c) not in (*INVISIBLE, "Zl", "Zp")]
    cleaned = cleaned.replace("?", "\ufffd")
    assert [c for c in cleaned if not c.isspace()] == [c for c in visible if not c.isspace()]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_escaped_json_is_the_same_json(text: str) -> None:
    """A program that reads it gets each character."""
    written = escaped(json.dumps(text, ensure_ascii=False))
    assert not unclean(written)
    assert "\n" not in written
    assert json.loads(written) == text


def test_messages_of_errors_are_clean() -> None:
    """The facts stay as they are."""
    error = ToolSourceError("s", f"it said {EVIL}")
    assert not unclean(str(error))
    assert not unclean(str(AgentKitError(EVIL)))
    assert error.reason == f"it said {EVIL}"


def test_titles_made_of_messages_are_clean() -> None:
    """Lists of threads show them."""
    assert title_of(f"{EVIL} Where is\u2028my order?") == "[2J]0;t31mgnp. Where is my order?"


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Lines that our loggers write."""
    with caplog.at_level(logging.DEBUG, "agentkit_py"):
        yield caplog


def test_log_records_are_clean_and_one_line_for_each_value(
    records: pytest.LogCaptureFixture,
) -> None:
    """A value cannot look like another record."""
    logger = get_logger("agentkit_py.test")
    forged = f"x{EVIL}\n2026-11-22 INFO all is well"
    error = ValueError(forged)
    logger.error("%s and %s and %r", forged, error, forged, exc_info=error)
    logger.warning("%(who)s", {"who": forged})
    assert not unclean(records.text)
    assert [record.getMessage().count("\n") for record in records.records] == [0, 0]


@pytest.mark.skipif(os.name == "nt", reason="the server is started by a shell")
async def test_standard_error_of_an_mcp_server_is_clean(capfd: pytest.CaptureFixture[str]) -> None:
    """A child process that writes to our terminal could steer it."""
    words = EVIL.encode().hex()
    script = f"import sys; sys.stderr.buffer.write(bytes.fromhex('{words}') + b'I cannot\\n')"
    with pytest.raises(ToolSourceError):
        await MCPServer("s", Stdio(sys.executable, ["-c", script])).open()
    shown = ""
    while "I cannot" not in shown:
        shown += capfd.readouterr().err
    assert not unclean(shown)
