"""Growth: what a durable run remembers is passed in few calls of this package's functions."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import inngest

import agentkit_py
from agentkit_py import Agent, openai, tool
from agentkit_py.inngest import AgentKitMiddleware
from agentkit_py.testing import FakeProvider, ReplayExecutor, tool_call

HOME = f"{Path(agentkit_py.__file__).parent}/"


@tool
async def track(parcel: int) -> str:
    """Track a parcel."""
    return f"Parcel {parcel} is in Linz."


async def _calls(tools: int) -> int:
    """Return the calls in the last request of a run of so many tool calls."""
    made, replies = 0, [tool_call("track", {"parcel": n}) for n in range(tools)]
    provider = FakeProvider([*replies, "Done."])
    model = replace(openai("gpt-4o", api_key="k"), transport=provider.transport)
    agent = Agent(name="clerk", system="s", model=model, tools=[track], max_iter=tools + 1)
    middleware: Any = AgentKitMiddleware.configured(inference="local")
    client = inngest.Inngest(app_id="shop", is_production=False, middleware=[middleware])

    def see(frame: FrameType, event: str, _: object) -> None:
        nonlocal made
        name = frame.f_code.co_filename
        own = name.startswith(HOME) and not name.startswith(f"{HOME}testing/")
        made += event == "call" and own

    @client.create_function(fn_id="run", trigger=inngest.TriggerEvent(event="run"), retries=0)
    async def function(ctx: inngest.Context) -> str:
        nonlocal made
        made, before = 0, sys.getprofile()
        sys.setprofile(see)
        try:
            return (await agent.run("Where are they?")).text
        finally:
            sys.setprofile(before)

    run = await ReplayExecutor(client, [function]).run("run")
    assert run.output == "Done.", run.error
    assert len(run.memos) == 2 * tools + 1
    return made


async def test_a_remembered_model_call_with_its_tool_is_passed_in_few_calls() -> None:
    """The last request remembers all model calls and tools but its answer."""
    few, more = await _calls(1), await _calls(3)
    assert more - few <= 2 * 350
