"""Sync tools run in threads of their event loop."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from contextvars import ContextVar

import pytest

from agentkit_py import Agent, tool
from agentkit_py.testing import ScriptedModel, tool_calls

CALL = tool_calls(("look", {"what": "gate"}))
MOST = 40
"""Threads of a loop."""

SHARED: ContextVar[str] = ContextVar("SHARED", default="nothing")


@tool
def look(what: str) -> str:
    """Look something up."""
    return what


def asking(runs: int = 1) -> Agent:
    """An agent that looks something up and answers, so many times."""
    replies = [CALL, "done"] * runs
    return Agent(name="a", system="S", tools=[look], model=ScriptedModel(*replies), max_iter=2)


def test_loops_one_after_another_leave_no_threads() -> None:
    """A script may call `run_sync` a thousand times."""
    agent, before = asking(100), threading.active_count()
    for _ in range(100):
        assert agent.run_sync("q?").text == "done"
    assert threading.active_count() <= before + 5  # those that are about to end


def test_tools_that_run_agents_do_not_wait_for_each_other() -> None:
    """All threads of a loop are at it; each runs a loop and a sync tool of its own."""
    together = threading.Barrier(MOST, timeout=60)

    @tool(name="look")
    def nested(what: str) -> str:
        """Look something up, with an agent."""
        together.wait()
        return asking().run_sync(what).text

    many = [
        Agent(name="a", system="S", tools=[nested], model=ScriptedModel(CALL, "done"), max_iter=2)
        for _ in range(MOST)
    ]

    async def run() -> set[str]:
        return {result.text for result in await asyncio.gather(*(each.run("q?") for each in many))}

    assert asyncio.run(run()) == {"done"}


async def test_a_tool_has_the_context_of_its_run() -> None:
    """Traces and request ids of users are in context variables."""
    found: list[str] = []

    @tool(name="look")
    def noted(what: str) -> None:
        """Look something up."""
        found.append(f"{what}, {SHARED.get()}")

    SHARED.set("from the caller")
    model = ScriptedModel(CALL, "done")
    await Agent(name="a", system="S", tools=[noted], model=model, max_iter=2).run("q?")
    assert found == ["gate, from the caller"]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own() -> None:
    """Servers load the program once and fork."""
    assert asking().run_sync("q?").text == "done"
    child = os.fork()
    if child == 0:
        os._exit(0 if asking().run_sync("q?").text == "done" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
