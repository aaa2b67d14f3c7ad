"""Servers inside Inngest functions: what has happened is remembered, and not asked again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import inngest
import pytest

from agentkit_py import Agent, Network
from agentkit_py.inngest import create_functions
from agentkit_py.mcp import MCPServer
from agentkit_py.routing import together
from agentkit_py.testing import ScriptedModel, tool_call, tool_calls
from agentkit_py.testing.executor import KillAt, ReplayExecutor, Run

from .world import handwritten, modern, notes


async def durable(
    servers: list[MCPServer], *replies: Any, kill: Any = (), together_: bool = False
) -> tuple[Run, ScriptedModel]:
    """A network with one agent (or two at the same time) as a function."""
    model = ScriptedModel(*replies, strict=False)
    names = ("a", "b") if together_ else ("a",)
    agents = [
        Agent(name=n, system="S", mcp_servers=servers, model=model, max_iter=4) for n in names
    ]
    network = Network(
        name="n",
        agents=agents,
        router=lambda c: together(*agents) if c.call_count == 0 else None,
    )
    client = inngest.Inngest(app_id="t", is_production=False)
    functions = create_functions(client, networks=[network])
    executor = ReplayExecutor(client, functions, transport=model.transport, kill=kill, check=True)
    run = await executor.run("t/network-n", {"input": "hi"})
    for server in servers:
        await server.close()
    return run, model


def steps_of(run: Run) -> list[str]:
    """The steps' names, in order."""
    return [step.name for step in run.steps]


async def test_listing_is_one_step_and_each_call_is_one(tmp_path: Path) -> None:
    """Sessions stay open across the function's requests, and never around a step."""
    server = modern(tmp_path, include=["add"])
    calls = tool_calls(("m-add", {"a": 1, "b": 2}), ("m-add", {"a": 3, "b": 4}))
    run, _ = await durable([server], calls, "Done.")
    assert run.error is None
    assert run.output["text"] == "Done."
    assert run.differences == []
    counted = Counter(name.rpartition(".")[2] for name in steps_of(run))
    assert counted["m-add"] == 2
    assert notes(tmp_path) == ["add 1 2", "add 3 4"]


async def test_a_server_whose_list_never_changes_is_listed_once(tmp_path: Path) -> None:
    """Only one that says that it may change is asked again, after its tools were called."""
    del tmp_path
    never = handwritten(mode="fixed", include=["garbage"])
    run, _ = await durable([never], *[tool_call("h-garbage", {})] * 2, "Done.")
    assert run.error is None
    assert sum(name.endswith(".tools") for name in steps_of(run)) == 1
    changing = handwritten(include=["garbage"])
    run, _ = await durable([changing], *[tool_call("h-garbage", {})] * 2, "Done.")
    assert sum(name.endswith(".tools") for name in steps_of(run)) == 3


async def test_a_list_that_changes_between_replays_does_not_change_the_run() -> None:
    """Each inference has the tools that its own step recorded, also after a new start."""
    server = handwritten(include=["grow", "grown0", "grown1"])
    replies = (tool_call("h-grow", {}), tool_call("h-grown0", {}), tool_call("h-grow", {}), "Done.")
    run, model = await durable([server], *replies)
    assert run.error is None
    assert run.differences == []
    bodies: list[Any] = [request.body for request in model.requests]
    offered = [[t["function"]["name"] for t in body["tools"]] for body in bodies]
    assert offered[0] == ["h-grow"]
    assert offered[1] == offered[2] == ["h-grow", "h-grown0"]
    assert offered[3] == ["h-grow", "h-grown0", "h-grown1"]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", [2, 3, 4])
async def test_a_worker_that_is_killed_between_steps_repeats_no_call(
    tmp_path: Path, number: int, when: Any
) -> None:
    """Recorded steps stay as they are."""
    server = modern(tmp_path, include=["add"])
    replies = (tool_call("m-add", {"a": 1, "b": 2}), "Done.")
    run, _ = await durable([server], *replies, kill=KillAt(request=number, when=when))
    assert run.error is None
    assert run.output["text"] == "Done."
    assert notes(tmp_path).count("add 1 2") == 1


async def test_concurrent_agents_list_the_tools_each_for_itself(tmp_path: Path) -> None:
    """The order in which the agents begin must not matter."""
    server = modern(tmp_path, include=["pid"])
    run, _ = await durable([server], "One.", "Two.", together_=True)
    assert run.error is None
    assert run.differences == []
    assert sum(name.endswith(".tools") for name in steps_of(run)) == 2


async def test_an_unreachable_server_is_retried_by_inngest(tmp_path: Path) -> None:
    """Its step fails, and the run after the last attempt."""
    gone = MCPServer("gone", {"type": "stdio", "command": str(tmp_path / "none")})
    run, model = await durable([gone])
    assert run.status == "failed"
    assert run.error is not None
    assert "'gone'" in run.error["message"]
    assert model.requests == []
