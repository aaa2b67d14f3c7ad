"""Two processes on one thread: one works, the other gets `ThreadBusyError` or waits."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from agentkit_py import Agent
from agentkit_py.errors import ThreadBusyError
from agentkit_py.history.leases import ThreadLease
from agentkit_py.stores import HistoryStore, PostgresHistory, SqliteHistory
from agentkit_py.testing import ScriptedModel

WORKER = """
import asyncio, sys
from agentkit_py import Agent, PostgresHistory, SqliteHistory, tool
from agentkit_py.stores import ThreadLease
from agentkit_py.testing import ScriptedModel, tool_call

@tool
async def work() -> str:
    "Say that it has begun, and wait until it may end."
    print("working", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    return "done"

async def main(place, schema):
    lease = ThreadLease()
    server = bool(schema)
    store = PostgresHistory(place, schema=schema, lease=lease) if server else SqliteHistory(
        place, lease=lease)
    model = ScriptedModel(tool_call("work", {}), "first")
    async with store:
        await Agent(
            name="worker", system="S", model=model, tools=[work], max_iter=2, history=store
        ).run("one", thread_id="t")
        print("over", flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_the_second_process_is_refused_at_once_or_comes_after_the_first(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Nothing of the refused message is stored; that of the one that waits comes last."""
    place, schema = str(tmp_path / "t.db"), ""
    if kind == "postgres":
        place = request.getfixturevalue("postgres_url")
        schema = request.getfixturevalue("postgres_schema")

    def store(lease: ThreadLease) -> HistoryStore:
        if schema:
            return PostgresHistory(place, schema=schema, lease=lease)
        return SqliteHistory(place, lease=lease)

    command = [sys.executable, "-c", WORKER, place, schema]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220 - nothing else runs here
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == "working\n"
        async with store(ThreadLease(on_busy="error")) as busy:
            with pytest.raises(ThreadBusyError):
                await agent(busy).run("two", thread_id="t")
        async with store(ThreadLease()) as waiting:
            third = asyncio.create_task(agent(waiting).run("three", thread_id="t"))
            await asyncio.to_thread(other.communicate, "\n", 60)
            assert (await third).text == "second"
            said = [m.text for m in await waiting.messages("t") if m.type == "text"]
    assert said == ["one", "first", "three", "second"]


def agent(store: HistoryStore) -> Agent:
    """An agent of this process."""
    return Agent(name="second", system="S", model=ScriptedModel("second"), history=store)
