"""A thread continues in another process, and whatever stops a run leaves it in good order."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentkit_py import (
    Agent,
    AgentResult,
    Network,
    RouterContext,
    SqliteHistory,
    State,
    TextMessage,
    openai,
)
from agentkit_py.messages import ToolCallMessage
from agentkit_py.testing import FakeProvider, ReceivedRequest, ScriptedModel, tool_call

COMMON = """
import asyncio, os, sys, time
from agentkit_py import Agent, Network, SqliteHistory, openai

def look(what: str) -> str:
    "Look something up."
    return "found " + what

def block() -> None:
    "Tell the test that the tool has begun, and block."
    print("began", flush=True)
    while True:
        time.sleep(60)

async def wait() -> None:
    "Tell the test that the tool has begun, and wait."
    print("began", flush=True)
    await asyncio.Event().wait()

path, url, *rest = sys.argv[1:]
agent = Agent(
    name="clerk", system="Be brief.", tools=[look, block, wait], max_iter=4,
    model=openai("gpt-4o", api_key="sk-test", base_url=url, timeout=600),
)
network = Network(
    name="desk", agents=[agent], history=SqliteHistory(path),
    router=lambda context: None if context.call_count else "clerk",
)
"""

TURN = """
text, *thread = rest
run = network.run_sync(text, thread_id=thread[0] if thread else None)
print(run.thread_id)
print(run.text)
"""


@contextmanager
def started(script: str, *arguments: str) -> Generator[subprocess.Popen[str]]:
    """A script in a process of its own, which does not outlive the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", COMMON + script, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def finish(script: str, *arguments: str) -> list[str]:
    """Run a script to its end and give the lines that it printed."""
    with started(script, *arguments) as process:
        out, err = process.communicate(timeout=600)
        assert process.returncode == 0, err
        return out.splitlines()


def interrupt(process: subprocess.Popen[str]) -> None:
    """Send SIGINT once its tool has begun."""
    assert process.stdout is not None
    assert process.stdout.readline() == "began\n"
    process.send_signal(signal.SIGINT)
    expect_interrupted(process)


def expect_interrupted(process: subprocess.Popen[str]) -> None:
    """It ended by Ctrl-C, and by nothing else."""
    out, err = process.communicate(timeout=600)
    assert (out, process.returncode) == ("interrupted\n", 3), err


def said(request: ReceivedRequest) -> list[tuple[str, Any]]:
    """Role and content of each message."""
    return [(m["role"], m.get("content")) for m in request.body["messages"]]


def shape(results: Sequence[AgentResult]) -> list[str]:
    """Each stored message in a word."""
    return [m.text if isinstance(m, TextMessage) else m.type for r in results for m in r.messages]


def is_whole(results: Sequence[AgentResult]) -> bool:
    """Return whether each stored call has its result."""
    return all(
        len(r.tool_calls) == sum(len(m.tools) for m in r.output if isinstance(m, ToolCallMessage))
        for r in results
    )


def test_a_second_turn_in_a_new_process_answers_from_the_first(tmp_path: Path) -> None:
    """The provider gets the first turn in order, and each user message once."""
    path = str(tmp_path / "threads.db")
    replies = [tool_call("look", {"what": "gate"}), "Gate 7.", "I said gate 7."]
    with FakeProvider(replies) as fake:
        url = fake.base_url("openai")
        thread, first = finish(TURN, path, url, "Which gate?")
        again, second = finish(TURN, path, url, "What did you say?", thread)
    assert (again, first, second) == (thread, "Gate 7.", "I said gate 7.")
    assert not fake.rejections
    assert said(fake.requests[2]) == [
        ("system", "Be brief."),
        ("user", "Which gate?"),
        ("assistant", None),
        ("tool", '{"data":"found gate"}'),
        ("assistant", "Gate 7."),
        ("user", "What did you say?"),
    ]
    results = asyncio.run(SqliteHistory(path).load(thread))
    assert shape(results) == [
        "Which gate?", "tool_call", "tool_result", "Gate 7.", "What did you say?",
        "I said gate 7.",
    ]  # fmt: skip


def test_many_processes_take_turns_in_one_thread(tmp_path: Path) -> None:
    """Each sees all turns before it."""
    path = str(tmp_path / "threads.db")
    with FakeProvider([f"answer {n}" for n in range(4)]) as fake:
        url = fake.base_url("openai")
        thread = "the-thread"
        for number in range(4):
            finish(TURN, path, url, f"question {number}", thread)
    texts = [content for _, content in said(fake.requests[3])[1:]]
    assert texts == [
        "question 0", "answer 0", "question 1", "answer 1", "question 2", "answer 2", "question 3",
    ]  # fmt: skip


INTERRUPTED = """
try:
    network.run_sync(rest[0], thread_id=rest[1])
except KeyboardInterrupt:
    print("interrupted", flush=True)
    os._exit(3)
"""


@pytest.mark.parametrize("tool", ["wait", "block"])
def test_ctrl_c_in_the_middle_of_a_tool_leaves_a_thread_that_can_continue(
    tmp_path: Path, tool: str
) -> None:
    """Complete parts are stored, and the call that began; the next turn is accepted."""
    path, thread = str(tmp_path / "threads.db"), "t1"
    replies = [tool_call("look", {"what": "gate"}), tool_call(tool), "Gate 7."]
    with FakeProvider(replies) as fake:
        url = fake.base_url("openai")
        with started(INTERRUPTED, path, url, "Which gate?", thread) as process:
            interrupt(process)
        results = asyncio.run(SqliteHistory(path).load(thread))
        assert shape(results) == ["Which gate?", *["tool_call", "tool_result"] * 2]
        assert is_whole(results)
        finish(TURN, path, url, "Hello?", thread)
    assert not fake.rejections
    assert [role for role, _ in said(fake.requests[2])] == [
        "system", "user", *["assistant", "tool"] * 2, "user",
    ]  # fmt: skip


ELSEWHERE = """
import signal, threading

def press() -> None:
    "Have this thread get the signal, as the system may do, and block."
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    while True:
        time.sleep(60)

agent = Agent(name="clerk", system="Be brief.", tools=[press], model=agent.model)
try:
    agent.run_sync(rest[0])
except KeyboardInterrupt:
    print("interrupted", flush=True)
    os._exit(3)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no thread gets signals of its own there")
def test_ctrl_c_that_another_thread_gets_ends_the_run(tmp_path: Path) -> None:
    """The event loop waits for the tool, and nothing else would wake it."""
    with FakeProvider([tool_call("press")]) as fake:
        url = fake.base_url("openai")
        with started(ELSEWHERE, str(tmp_path / "unused.db"), url, "Which gate?") as process:
            expect_interrupted(process)


def test_ctrl_c_while_the_model_thinks_leaves_a_thread_that_can_continue(tmp_path: Path) -> None:
    """The question is there, its answer is not."""
    path, thread = str(tmp_path / "threads.db"), "t1"
    asked = asyncio.Event()
    processes: list[subprocess.Popen[str]] = []

    async def reply(request: ReceivedRequest) -> str:
        if asked.is_set():
            return "Here I am."
        asked.set()
        processes[0].send_signal(signal.SIGINT)
        await asyncio.Event().wait()
        return ""

    with FakeProvider(reply) as fake:
        url = fake.base_url("openai")
        with started(INTERRUPTED, path, url, "Which gate?", thread) as process:
            processes.append(process)
            expect_interrupted(process)
        assert shape(asyncio.run(SqliteHistory(path).load(thread))) == ["Which gate?"]
        finish(TURN, path, url, "Hello?", thread)
    texts = [content for _, content in said(fake.requests[1])]
    assert texts == ["Be brief.", "Which gate?", "Hello?"]


def test_a_killed_process_leaves_a_thread_that_can_continue(tmp_path: Path) -> None:
    """Nothing had a chance to tidy up."""
    path, thread = str(tmp_path / "threads.db"), "t1"
    replies = [tool_call("look", {"what": "gate"}), tool_call("block"), "Gate 7."]
    with FakeProvider(replies) as fake:
        url = fake.base_url("openai")
        with started(INTERRUPTED, path, url, "Which gate?", thread) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "began\n"
        results = asyncio.run(SqliteHistory(path).load(thread))
        assert shape(results) == ["Which gate?", "tool_call", "tool_result"]
        finish(TURN, path, url, "Hello?", thread)
    assert not fake.rejections


class Desk:
    """A network of two agents that stops at one place until it may continue."""

    def __init__(self, at: str, history: SqliteHistory) -> None:
        self.at: str | None = at
        self.reached = asyncio.Event()
        self.fake = FakeProvider(self._reply)
        model = replace(openai("gpt-4o", api_key="sk-test"), transport=self.fake.transport)
        agents = [
            Agent(
                name=name, system=self._system, tools=[self.one, self.two], max_iter=4, model=model
            )
            for name in "ab"
        ]
        self.network = Network(name="n", agents=agents, history=history, router=self._router)

    async def _halt(self, place: str) -> None:
        if place == self.at:
            self.reached.set()
            await asyncio.Event().wait()

    async def one(self) -> str:
        """First."""
        await self._halt("first tool")
        return "one"

    async def two(self) -> str:
        """Second."""
        await self._halt("second tool")
        return "two"

    async def _system(self) -> str:
        await self._halt("model")
        return "S"

    async def _router(self, context: RouterContext) -> str | None:
        if context.call_count == 1:
            await self._halt("second agent")
        return "ab"[context.call_count] if context.call_count < 2 else None

    def _reply(self, request: ReceivedRequest) -> Any:
        last = request.body["messages"][-1]
        if last["role"] == "tool":
            return tool_call("two") if "one" in last["content"] else "done"
        return tool_call("one") if last["content"] == "q?" else "done"


@pytest.mark.parametrize(
    ("at", "left"),
    [
        ("model", ["q?"]),
        ("first tool", ["q?", "tool_call", "tool_result"]),
        ("second tool", ["q?", *["tool_call", "tool_result"] * 2]),
        ("second agent", ["q?", *["tool_call", "tool_result"] * 2, "done"]),
    ],
)
async def test_cancelling_a_run_leaves_a_thread_that_can_continue(
    tmp_path: Path, at: str, left: list[str]
) -> None:
    """The run is cancelled anywhere; complete parts are stored, and a call that began."""
    async with SqliteHistory(tmp_path / "threads.db") as history:
        desk = Desk(at, history)
        running = asyncio.create_task(desk.network.run("q?", thread_id="t1"))
        await desk.reached.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        stored = await history.load("t1")
        assert shape(stored) == left
        assert is_whole(stored)
        desk.at = None
        await desk.network.run("again", thread_id="t1")
        assert shape(await history.load("t1"))[: len(left) + 1] == [*left, "again"]
        assert not desk.fake.rejections


async def test_a_cancelled_run_keeps_its_results_in_the_state(tmp_path: Path) -> None:
    """The caller may continue with the state it holds."""
    reached = asyncio.Event()

    async def wait() -> None:
        """Wait for ever."""
        reached.set()
        await asyncio.Event().wait()

    model = ScriptedModel(tool_call("gone"), tool_call("wait"), "done")
    agent = Agent(name="a", system="S", tools=[wait], model=model, max_iter=5)
    state = State[Any]()
    running = asyncio.create_task(agent.run("q?", state=state))
    await reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert is_whole(state.transcript)
    assert len(state.transcript) == 2
    assert json.dumps(state.to_dict())
    assert (await agent.run("again?", state=state)).text == "done"
    model.assert_finished()
