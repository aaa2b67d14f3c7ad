"""A run that is cancelled: what it had finished is kept, and others may have its thread."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentkit_py import (
    Agent,
    AgentResult,
    HistoryConfig,
    MemoryHistory,
    Network,
    RouterContext,
    Tool,
    UserMessage,
    tool,
)
from agentkit_py.history import HistoryContext
from agentkit_py.history.leases import ThreadLease
from agentkit_py.testing import ScriptedModel, tool_call

pytestmark = pytest.mark.direct_only(
    "a task is cancelled in this process; what becomes of a function: tests/durable/test_kills.py"
)


def waiting() -> tuple[Tool, asyncio.Event]:
    """A tool that never ends, and an event that says that it was called."""
    begun = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait for ever."""
        begun.set()
        await asyncio.Event().wait()
        return "never"

    return wait, begun


def two(*replies: Any, wait: Tool, **options: Any) -> Network:
    """A network of two agents, of whom the second waits."""
    model = ScriptedModel(*replies)
    agents = [Agent(name=name, system="S", tools=[wait], max_iter=2) for name in ("a", "b")]

    def both(context: RouterContext) -> Agent | None:
        return agents[context.call_count] if context.call_count < 2 else None

    return Network(name="n", agents=agents, router=both, default_model=model, **options)


async def cancelled(run: asyncio.Task[Any], begun: asyncio.Event) -> None:
    """Cancel a run once it waits."""
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run


async def test_a_cancelled_run_gives_its_thread_back() -> None:
    """The next message does not wait until the lease is over."""
    wait, begun = waiting()
    store = MemoryHistory(lease=ThreadLease(on_busy="error", seconds=3600))
    network = two("one", tool_call("wait", {}), "again", "done", wait=wait, history=store)
    first = network.run(UserMessage("hi", "m1"), thread_id="t")
    await cancelled(asyncio.create_task(first), begun)
    again = await network.run(UserMessage("and now?", "m2"), thread_id="t")
    assert again.text == "done"
    run = await store.load_run("t", "m1")
    assert run is not None
    assert run.status == "stopped"


async def test_a_cancelled_agent_gives_its_thread_back() -> None:
    """An agent by itself, too."""
    wait, begun = waiting()
    store = MemoryHistory(lease=ThreadLease(on_busy="error", seconds=3600))
    model = ScriptedModel(tool_call("wait", {}), "done")
    agent = Agent(name="a", system="S", tools=[wait], max_iter=2, model=model, history=store)
    await cancelled(asyncio.create_task(agent.run("hi", thread_id="t")), begun)
    assert (await agent.run("and now?", thread_id="t")).text == "done"


async def test_the_finished_results_of_a_cancelled_run_are_saved() -> None:
    """This holds for histories that save results at the end, too."""
    wait, begun = waiting()
    saved: list[AgentResult] = []

    def append(context: HistoryContext) -> None:
        saved.extend(context.new_results)

    history = HistoryConfig(append_results=append)
    network = two("one", tool_call("wait", {}), wait=wait, history=history)
    await cancelled(asyncio.create_task(network.run("hi", thread_id="t")), begun)
    assert [result.text for result in saved] == ["one", ""]
    (stopped,) = saved[1].tool_calls
    assert "not known" in str(stopped.content)
