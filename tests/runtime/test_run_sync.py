"""`run_sync` where an event loop is running: notebooks, and plain functions of async programs."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import inngest
import pytest

from agentkit_py import Agent, Network, State
from agentkit_py.errors import MissingModelError
from agentkit_py.inngest import AgentKitMiddleware
from agentkit_py.routing import sequence
from agentkit_py.testing import ReplayExecutor, ScriptedModel, tool_call


async def test_run_sync_works_inside_a_running_loop_with_its_context_variables() -> None:
    """Cells of notebooks and handlers of async web servers have a loop; agents and networks."""
    request: ContextVar[str] = ContextVar("request", default="none")
    request.set("r1")
    threads: list[str] = []

    async def look() -> str:
        """Look."""
        threads.append(threading.current_thread().name)
        await asyncio.sleep(0)
        return request.get()

    def agent() -> Agent:
        model = ScriptedModel(tool_call("look"), "done")
        return Agent(name="a", system="S", tools=[look], model=model)

    state = State[Any]()
    assert agent().run_sync("q?", state=state).text == "done"
    assert state.results[0].tool_calls[0].content == {"data": "r1"}
    network = Network(name="n", agents=[one := agent()], router=sequence(one))
    assert network.run_sync("q?").results[-1].text == "done"
    assert threading.main_thread().name not in threads
    assert not [one for one in threading.enumerate() if one.name in threads]


async def test_run_sync_inside_a_running_loop_raises_the_error_of_the_run() -> None:
    """The caller's own except clause catches it."""
    with pytest.raises(MissingModelError):
        Agent(name="a", system="S").run_sync("q?")


async def test_run_sync_inside_a_durable_function_says_to_await() -> None:
    """Its steps would be remembered by nobody; the error reaches the function's author."""
    client = inngest.Inngest(app_id="shop", is_production=False, middleware=[AgentKitMiddleware])

    @client.create_function(fn_id="ask", trigger=inngest.TriggerEvent(event="ask"), retries=0)
    async def ask(ctx: inngest.Context) -> str:
        return Agent(name="a", system="S", model=ScriptedModel("x")).run_sync("q?").text

    run = await ReplayExecutor(client, [ask]).run("ask")

    assert run.status == "failed"
    assert "await run(…) instead" in str(run.error)


def test_ctrl_c_ends_run_sync_inside_a_running_loop(tmp_path: Path) -> None:
    """The run is cancelled, so that its clean-up is done, and the program ends by the signal."""
    program = tmp_path / "program.py"
    program.write_text(_INTERRUPTED)
    process = subprocess.Popen(
        [sys.executable, program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=600)
    assert out.splitlines() == ["cancelled", "interrupted"], error


_INTERRUPTED = """
import asyncio

from agentkit_py import Agent
from agentkit_py.testing import ScriptedModel, tool_call

async def wait():
    "Wait."
    print("waiting", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        print("cancelled", flush=True)

async def main():
    agent = Agent(name="a", system="S", tools=[wait], model=ScriptedModel(tool_call("wait")))
    agent.run_sync("q?")

try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
