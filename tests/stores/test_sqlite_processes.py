"""Several processes on one file, and processes that die."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentkit_py.stores import SqliteHistory

WRITER = """
import asyncio, sys
from agentkit_py.results import AgentResult
from agentkit_py.stores import SqliteHistory

async def main(path, name):
    async with SqliteHistory(path) as store:
        await store.add_thread("t")
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(50):
            result = AgentResult.from_user(f"{name} {number}", id=f"{name}-{number}")
            await store.append("t", [result])
            await store.append("t", [result])

asyncio.run(main(*sys.argv[1:]))
"""

CREATOR = """
import asyncio, sys
from agentkit_py.stores import SqliteHistory
import agentkit_py.stores._sqlite_file

async def main(path, name):
    print("ready", flush=True)
    sys.stdin.readline()
    async with SqliteHistory(path) as store:
        await store.add_thread(name)

asyncio.run(main(*sys.argv[1:]))
"""

TURN = """
import asyncio, itertools, sys
from datetime import UTC, datetime
from agentkit_py.results import AgentResult
from agentkit_py.state import State
from agentkit_py.history.thread import Thread
from agentkit_py.messages import TextMessage, ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.messages import UserMessage
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.stores import SqliteHistory

class NoChanges:
    def begin(self): return None
    def record(self, before): return None
    def replay(self, recorded): return None

async def main(path):
    state = State(thread_id="t")
    thread = Thread(SqliteHistory(path), state, "hi", DirectRuntime(), "run", NoChanges())
    await thread.open()
    message = UserMessage("hi", "m", client_timestamp=datetime.now(UTC))
    turn = AgentResult.from_user("hi", id="m", created_at=message.client_timestamp)
    state.append_result(turn)
    await thread.save_user_message(message, turn)
    print("saved", flush=True)
    for number in itertools.count():
        call = ToolCall("c", "look", {"n": number})
        output = [TextMessage("assistant", "x" * 20_000), ToolCallMessage((call,))]
        tools = [ToolResultMessage(call, {"data": number})]
        state.append_result(AgentResult("billing", output, tools, id=f"r{number}"))
        await thread.result_done()
        print("saved", flush=True)

asyncio.run(main(sys.argv[1]))
"""


def start(script: str, *arguments: str | Path) -> subprocess.Popen[str]:
    """A process that talks to us."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def run_together(processes: Sequence[subprocess.Popen[str]]) -> list[int]:
    """Let all continue at the same moment, when all are ready, and wait for their ends."""
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    codes: list[int] = []
    for process in processes:
        with process:
            process.communicate()
        codes.append(process.returncode)
    return codes


def expected_ids(count: int) -> list[str]:
    """The ids of a turn's user message and its first results."""
    return ["m", *(f"r{number}" for number in range(count - 1))]


async def test_four_processes_save_into_one_thread_at_once(path: Path) -> None:
    """Nothing is lost or doubled, and each process's results keep their order."""
    names = ["a", "b", "c", "d"]
    assert run_together([start(WRITER, path, name) for name in names]) == [0] * 4
    async with SqliteHistory(path) as store:
        records = await store.stored_results("t")
    assert [record.position for record in records] == list(range(200))
    found = [(record.result.id or "").split("-") for record in records]
    for name in names:
        assert [int(number) for who, number in found if who == name] == list(range(50))


async def test_eight_processes_create_one_file_at_once(path: Path) -> None:
    """All succeed."""
    names = [str(number) for number in range(8)]
    assert run_together([start(CREATOR, path, name) for name in names]) == [0] * 8
    async with SqliteHistory(path) as store:
        assert sorted(thread.id for thread in await store.list_threads()) == names


@pytest.mark.parametrize("saved", [1, 2, 7, 20])
async def test_a_killed_turn_leaves_its_finished_results(path: Path, saved: int) -> None:
    """Every acknowledged result is stored, whole and in order, and the thread can continue."""
    with start(TURN, path) as process:
        assert process.stdout is not None
        for _ in range(saved):
            assert process.stdout.readline() == "saved\n"
        process.kill()
    assert process.returncode == -signal.SIGKILL
    async with SqliteHistory(path) as store:
        results = await store.load("t")
        assert len(results) >= saved
        assert [result.id for result in results] == [
            "m",
            *(f"r{n}" for n in range(len(results) - 1)),
        ]
        assert all(result.tool_calls for result in results[1:])
        await store.append("t", [results[-1]])
        assert await store.count_results("t") == len(results)


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
async def test_ctrl_c_in_a_turn_leaves_its_finished_results(path: Path) -> None:
    """The running save is stored whole or not at all."""
    with start(TURN, path) as process:
        assert process.stdout is not None
        for _ in range(5):
            assert process.stdout.readline() == "saved\n"
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert process.returncode != 0
    async with SqliteHistory(path) as store:
        results = await store.load("t")
    assert [result.id for result in results] == expected_ids(len(results))
    assert len(results) >= 5
