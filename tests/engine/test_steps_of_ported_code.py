"""Steps as code ported from TypeScript has them: in history adapters, and errors in tools."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentkit_py import (
    Agent,
    AgentResult,
    HistoryConfig,
    ToolContext,
    create_tool,
)
from agentkit_py.history import HistoryContext
from agentkit_py.testing import ScriptedModel, tool_call

from .runner import Runner


@pytest.mark.parametrize("hook", ["create_thread", "get", "append_user_message", "append_results"])
async def test_a_step_in_a_history_hook_is_part_of_the_hooks_own(runner: Runner, hook: str) -> None:
    """`step ? step.run("save", save) : save()`, as adapters for TypeScript have it."""
    asked: list[str] = []
    gives: dict[str, Any] = {"create_thread": "t", "get": list[AgentResult]()}

    async def in_a_step(ctx: HistoryContext) -> Any:
        async def query() -> Any:
            asked.append(hook)
            return gives.get(hook)

        return await ctx.step.run("query", query) if ctx.step else await query()

    options: dict[str, Any] = {hook: in_a_step}
    model = ScriptedModel("Hello.")
    agent = Agent(name="a", system="S", model=model, history=HistoryConfig(**options))
    result = await runner.run(agent, "hi", thread_id="t")
    assert result.text == "Hello."
    assert set(asked) == {hook}


async def test_the_model_reads_the_name_of_an_error_that_a_step_remembers(runner: Runner) -> None:
    """Inngest gives it back as a StepError, which says nothing."""

    async def look(_: object, ctx: ToolContext[Any]) -> Any:
        def query() -> None:
            raise LookupError("no such order")

        return await ctx.step.run("query", query)

    tool = create_tool(name="look", description="Look.", handler=look, steps=True)
    model = ScriptedModel(tool_call("look"), "Not there.")
    await runner.run(Agent(name="a", system="S", model=model, tools=[tool]), "hi")
    read = model.bodies[-1]["messages"][-1]["content"]
    assert json.loads(read) == {"error": {"name": "LookupError", "message": "no such order"}}
