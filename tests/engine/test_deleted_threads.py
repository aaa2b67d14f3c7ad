"""A thread, or all of its user, that is deleted while a run is at work on it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from agentkit_py import Agent, MemoryHistory, Network, SqliteHistory, tool
from agentkit_py.errors import ThreadNotFoundError
from agentkit_py.history.leases import ThreadLease
from agentkit_py.routing import sequence
from agentkit_py.testing import ScriptedModel, tool_call

from .runner import Runner


@pytest.mark.parametrize("what", ["thread", "user"])
@pytest.mark.parametrize("lease", [None, ThreadLease(steering=True)])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_the_run_ends_with_one_clear_line(
    kind: str,
    lease: ThreadLease | None,
    what: str,
    tmp_path: Path,
    runner: Runner,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing of the thread comes back, and the tool is not called twice."""
    path = tmp_path / "threads.db"
    store: Any = MemoryHistory(lease=lease)
    if kind == "sqlite":
        store = SqliteHistory(path, lease=lease)
    called: list[str] = []

    @tool
    async def wipe() -> str:
        """Delete what there is."""
        called.append(what)
        await (store.delete_thread("t") if what == "thread" else store.delete_user("ada"))
        return "gone"

    model = ScriptedModel(tool_call("wipe", {}), "Done.")
    clerk = Agent(name="clerk", system="S", tools=[wipe], model=model, max_iter=3)
    network = Network(name="desk", agents=[clerk], router=sequence(clerk), history=store)
    async with store:
        await store.add_thread("t", user_id="ada")
        with pytest.raises(
            Exception, match=rf"no thread 't' in {type(store).__name__}\("
        ) as raised:
            await runner.run(network, "Wipe.", thread_id="t")
        assert "ThreadNotFoundError" in f"{type(raised.value).__name__} {raised.value}"
        assert not await store.thread_exists("t")
        with pytest.raises(ThreadNotFoundError):
            await store.get_thread("t")
    assert called == [what]
    said = [one for one in caplog.records if one.levelno >= logging.WARNING]
    said = [one for one in said if one.name == "agentkit_py"]
    assert [one.exc_info for one in said] == [None] * len(said)
    assert "was deleted during a run" in said[0].getMessage()


async def test_a_run_whose_thread_is_deleted_while_it_waits_names_the_store(runner: Runner) -> None:
    """The thread is looked for when the person has answered; nothing is paid."""
    store, paid = MemoryHistory(lease=ThreadLease()), list[str]()

    @tool(needs_approval=True)
    def refund() -> str:
        """Pay back."""
        paid.append("refund")
        return "paid"

    async def approve(_: object) -> bool:
        await store.delete_thread("t")
        return True

    model = ScriptedModel(tool_call("refund", {}), "Done.")
    clerk = Agent(name="clerk", system="S", tools=[refund], model=model, max_iter=3, history=store)
    with pytest.raises(Exception, match=r"no thread 't' in MemoryHistory\("):
        await runner.run(clerk, "Refund.", thread_id="t", approver=approve)
    assert paid == []
