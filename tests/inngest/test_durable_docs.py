"""Statements of docs/guides/steps.md, and its example's app."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import inngest
import pytest

from agentkit_py import Agent, MemoryHistory, Network, RouterContext, tool
from agentkit_py.inngest import create_functions
from agentkit_py.testing import ScriptedModel, tool_call, tool_calls
from agentkit_py.testing.executor import ReplayExecutor


@tool
def look(place: str) -> str:
    """Look somewhere."""
    return f"nothing in {place}"


@tool(needs_approval=True)
def pay() -> str:
    """Pay."""
    return "paid"


@tool(needs_approval=lambda _: True, check=lambda _: None)
def pay_carefully() -> str:
    """Pay."""
    return "paid"


async def steps_of(*replies: Any, history: MemoryHistory | None = None) -> list[str]:
    """The steps of a run of one agent, without the network's name."""
    model = ScriptedModel(*replies)
    tools = [look, pay, pay_carefully]
    agent = Agent(name="a", system=lambda: "S", tools=tools, model=model, max_iter=9)

    def router(context: RouterContext) -> str | None:
        return "a" if context.call_count == 0 else None

    network = Network(name="n", agents=[agent], router=router, history=history)
    client = inngest.Inngest(app_id="t", is_production=False)
    functions = create_functions(client, networks=[network])
    executor = ReplayExecutor(client, functions, transport=model.fake.transport)
    thread = {"threadId": "t1"} if history is not None else {}
    run = await executor.run("t/network-n", {"input": "q?", **thread})
    model.assert_finished()
    return [name.removeprefix("n.") for name in run.names]


def documented(what: str) -> str:
    """The number that the table of the guide gives."""
    page = Path(__file__).resolve().parents[2] / "docs" / "guides" / "steps.md"
    found = re.search(
        rf"^\| {re.escape(what)} \| (.+?) \|$", page.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert found is not None, f"the table has no row {what!r}"
    return found[1]


@pytest.mark.parametrize(
    ("what", "replies", "steps"),
    [
        ("a model call", ["Hello."], []),
        ("a tool call", [tool_call("look", {"place": "x"}), "Hello."], ["a.0.0.tool.0.look"]),
        (
            "a question to a person",
            [tool_calls(("pay", {}), ("pay", {})), "Hello."],
            ["a.0.0.approve"],
        ),
        (
            "a `needs_approval` function, or a check before a question",
            [tool_calls(("pay_carefully", {}), ("pay_carefully", {})), "Hello."],
            ["a.0.0.before", "a.0.0.approve"],
        ),
    ],
)
async def test_a_turn_takes_the_steps_that_the_table_says(
    what: str, replies: list[Any], steps: list[str]
) -> None:
    """Model calls take one step each; ids, times, routers and prompts take none."""
    calls = [f"a.0.{number}.infer" for number in range(len(replies))]
    assert await steps_of(*replies) == [calls[0], *steps, *calls[1:]]
    assert documented(what).startswith("1")
    assert documented("ids, times, routers, hooks, processors") == "0"


async def test_a_thread_takes_the_steps_that_the_table_says() -> None:
    """Three at the beginning, and one after each model call."""
    steps = await steps_of(tool_call("look", {"place": "x"}), "Hello.", history=MemoryHistory())
    of_thread = [name for name in steps if name.startswith("history.")]
    first = len([name for name in steps[:3] if name.startswith("history.")])
    assert documented("a thread: at the beginning of a run").startswith(f"{first} ")
    calls = len([name for name in steps if name.endswith(".infer")])
    each = int(documented("a thread: after each model call"))
    assert len(of_thread) == first + each * calls


async def test_two_tools_and_an_answer_take_four_steps() -> None:
    """The example of the guide; with a thread two more."""
    replies = [tool_calls(("look", {"place": "x"}), ("look", {"place": "y"})), "Hello."]
    assert len(await steps_of(*replies)) == 4
    assert len(await steps_of(*replies, history=MemoryHistory())) == 4 + 2 + 3


def test_the_app_of_the_example_can_be_served(tmp_path: Path) -> None:
    """Its functions, with the options that the guide speaks of, and its own routes."""
    example = Path(__file__).resolve().parents[2] / "examples" / "durable_support"
    program = (
        "import app; config = app.functions[0].get_config('http://x').main; "
        "print(config.id, config.concurrency[0].key, config.cancel[0].event); "
        "print(*sorted({route.path for route in app.app.routes}))"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(example), "INNGEST_DEV": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "desk-network-support event.data.userId desk/customer.left"
    expected = {"/api/inngest", "/approvals/{request_id}", "/chat", "/token"}
    assert expected <= set(lines[1].split())


def test_the_doctor_finds_nothing_in_the_guides_first_program(tmp_path: Path) -> None:
    """Without a key, as the page says."""
    examples = Path(__file__).resolve().parents[2] / "examples"
    command = [
        sys.executable,
        "-B",
        "-m",
        "agentkit_py.cli",
        "doctor",
        "durable_start:network",
        "--approve",
    ]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(examples)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
