"""`agentkit chat` asks at the prompt what tools may do."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentkit_py import SqliteHistory
from agentkit_py.testing import FakeProvider, tool_call, tool_calls
from tests.cli.terminal import COMMAND, Screen, agentkit, environment, working_in

BANK = '''
import os
from agentkit_py import Agent, ToolContext, openai, tool

model = openai("gpt-4.1", api_key="sk-test", base_url=os.environ["BANK_MODEL"])

@tool(needs_approval=True)
def refund(amount: int) -> str:
    """Pay money back."""
    return f"paid {amount}"

@tool(steps=True)
async def seat(ctx: ToolContext) -> str:
    """Choose a seat."""
    answer = await ctx.approve("Which seat?")
    return f"{answer.approved} {answer.data.get('answer')}"

clerk = Agent(name="clerk", system="S", model=model, tools=[refund, seat], max_iter=3)
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a module, as a user has one."""
    (tmp_path / "bank.py").write_text(BANK)
    return tmp_path


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    """The model's provider, over HTTP."""
    with FakeProvider() as provider:
        yield provider


def chat(folder: Path, provider: FakeProvider, lines: str) -> str:
    """Talk to the clerk through a pipe; gives what was shown."""
    bank = {"BANK_MODEL": provider.base_url("openai")}
    done = agentkit("chat", "bank:clerk", folder=folder, lines=lines, variables=bank)
    assert (done.exit_code, done.stderr) == (0, "")
    assert provider.rejections == []
    return done.stdout


def test_each_call_is_asked_about_and_answered_by_a_line(
    folder: Path, provider: FakeProvider
) -> None:
    """Yes, no, and why not; what follows is the next question to the agent."""
    calls = [("refund", {"amount": amount}) for amount in (1, 2, 3)]
    provider.reply(tool_calls(*calls), "One of three.", "Bye.")
    shown = chat(folder, provider, "Refunds, please.\ny\nn\nTwo is enough.\nThanks.\n")
    assert "? clerk wants refund(amount=1)\n    [y/n, or why not] y\n" in shown
    assert "✓ refund: paid 1" in shown
    assert shown.count("✗ refund: ApprovalDeniedError: A person refused the call of refund.") == 2
    assert "Reason: Two is enough." in str(provider.requests[1].body)
    assert shown.index("One of three.") < shown.index("> Thanks.") < shown.index("Bye.")


def test_an_empty_answer_asks_again(folder: Path, provider: FakeProvider) -> None:
    """A key pressed too often is no decision."""
    provider.reply(tool_call("refund", {"amount": 5}), "Paid.")
    shown = chat(folder, provider, "Refund, please.\n\n\ny\n")
    assert shown.count("[y/n, or why not]") == 3
    assert "✓ refund: paid 5" in shown


def test_the_end_of_the_input_refuses(folder: Path, provider: FakeProvider) -> None:
    """At the end of the input there is nobody to approve."""
    provider.reply(tool_call("refund", {"amount": 5}), "Then not.")
    shown = chat(folder, provider, "Refund, please.\n")
    assert "ApprovalDeniedError" in shown
    assert "Then not." in shown


def test_a_tools_own_question_may_be_answered_in_words(
    folder: Path, provider: FakeProvider
) -> None:
    """The tool gets them as data; they are no yes."""
    provider.reply(tool_call("seat"), "Noted.")
    shown = chat(folder, provider, "A seat, please.\nby the window\n")
    assert "? clerk asks: Which seat?" in shown
    assert "✓ seat: False by the window" in shown


def test_calls_of_models_cannot_steer_the_terminal(folder: Path, provider: FakeProvider) -> None:
    """A call must not be able to hide what it is."""
    provider.reply(tool_call("refund\x1b[2K", {"amount": 5}), tool_call("seat"), "Noted.")
    shown = chat(folder, provider, "Hm.\n")
    assert "\x1b" not in shown


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")
def test_ctrl_c_at_the_question_stops_the_run_and_the_chat_goes_on(
    folder: Path, provider: FakeProvider
) -> None:
    """The chat does not wait for a line first."""
    ours, theirs = os.openpty()
    screen = Screen(ours)
    provider.reply(tool_call("refund", {"amount": 5}))
    with subprocess.Popen(
        [*COMMAND, "chat", "bank:clerk"],
        cwd=folder,
        env=environment(BANK_MODEL=provider.base_url("openai"), TERM="dumb"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        screen.wait_for(b"> ")
        os.write(ours, b"Refund, please.\n")
        screen.wait_for(b"or why not]")

        def interrupt() -> None:
            process.send_signal(signal.SIGINT)

        interrupt()
        screen.wait_for("■ stopped".encode(), interrupt)
        screen.wait_for(b"> ")
        os.write(ours, b"\x04")
        assert process.wait() == 0
    os.close(ours)


def test_a_question_of_another_run_is_shown_and_answered(
    folder: Path, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was asked over HTTP, or by a program that has ended."""
    monkeypatch.setenv("BANK_MODEL", provider.base_url("openai"))
    provider.reply(tool_call("refund", {"amount": 7}), "Paid.", "Bye.")
    db = folder / "bank.db"
    with working_in(folder):
        sys.path.insert(0, str(folder))
        clerk = importlib.import_module("bank").clerk
        clerk.history = SqliteHistory(db)
        clerk.run_sync("Refund, please.", thread_id="t1")
    bank = {"BANK_MODEL": provider.base_url("openai")}
    done = agentkit(
        *("chat", "bank:clerk", "--db", db, "--thread", "t1"),
        folder=folder,
        lines="/pending\ny\n/pending\nThanks.\n",
        variables=bank,
    )
    assert (done.exit_code, done.stderr) == (0, "")
    shown = done.stdout
    assert shown.index("? clerk waits: refund(amount=7)") < shown.index("> /pending")
    assert "? clerk wants refund(amount=7)\n    [y/n, or why not] y\n" in shown
    assert "✓ refund: paid 7" in shown
    assert shown.index("Paid.") < shown.index("No run of this thread waits") < shown.index("Bye.")
