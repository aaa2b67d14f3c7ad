"""Code that runs once in a durable run, and code that each replay repeats (docs/decisions.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentkit_py import (
    Agent,
    HistoryConfig,
    Lifecycle,
    Network,
    RouterContext,
    RoutingAgent,
    ToolContext,
    tool,
)
from agentkit_py.history import HistoryContext
from agentkit_py.testing import tool_call

from .world import INFERENCES, Inference, Scenario, Stage

AGAIN = {"router", "system", "enabled", "on_start", "on_response", "on_finish", "on_route"}
ONCE = {"tool", "needs_approval", "check", "step"}
STORE = {"create_thread", "get", "append_user_message", "append_results"}
STEPS = [
    "history.create-thread",
    "history.get",
    "history.append-user-message",
    "clerk.0.0.infer",
    "clerk.0.0.before",
    "clerk.0.0.tool.0.act",
    "clerk.0.1.infer",
    "clerk.0.1.tool.0.steps.work",
    "clerk.0.2.infer",
    "route.0.0.infer",
    "history.append-results.clerk.0",
]
"""None for what runs again: a run has 1000 steps at the most."""


def counting(stage: Stage) -> Network:
    """A network whose every function counts its calls."""

    def seen(name: str, answer: Any = None) -> Callable[[Any], Any]:
        def function(_context: Any) -> Any:
            stage.effects.happen(name)
            return answer

        return function

    @tool(needs_approval=seen("needs_approval", answer=False), check=seen("check"))
    def act() -> str:
        """Act."""
        stage.effects.happen("tool")
        return "done"

    @tool(steps=True)
    async def steps(ctx: ToolContext) -> str:
        """Act in a step, and around it."""

        async def work() -> None:
            stage.effects.happen("step")

        stage.effects.happen("around the step")
        await ctx.step.run("work", work)
        return "done"

    def system(_context: Any) -> str:
        stage.effects.happen("system")
        return "clerk S"

    hooks = {name: seen(name) for name in ("on_start", "on_response", "on_finish")}
    lifecycle = Lifecycle(**hooks, enabled=seen("enabled", answer=True))
    clerk = Agent(name="clerk", system=system, tools=[act, steps], lifecycle=lifecycle, max_iter=4)
    leave = Lifecycle(on_route=seen("on_route"))
    usher = RoutingAgent(name="usher", system="usher S", lifecycle=leave)

    async def router(context: RouterContext) -> Any:
        stage.effects.happen("router")
        await context.network.available_agents()
        return clerk if context.call_count == 0 else usher

    return Network(name="desk", agents=[clerk], router=router, history=store_of(stage))


def store_of(stage: Stage) -> HistoryConfig:
    """Four callbacks that count."""

    def create(_context: HistoryContext) -> str:
        stage.effects.happen("create_thread")
        return "t1"

    def get(_context: HistoryContext) -> list[Any]:
        stage.effects.happen("get")
        return []

    return HistoryConfig(
        create_thread=create,
        get=get,
        append_user_message=lambda _: stage.effects.happen("append_user_message"),
        append_results=lambda _: stage.effects.happen("append_results"),
    )


@pytest.mark.parametrize("inference", INFERENCES)
async def test_tools_and_callbacks_run_once_and_routers_hooks_and_prompts_again(
    scenario: Callable[..., Scenario], inference: Inference
) -> None:
    """The result is that of a direct run nevertheless."""
    replies = {"clerk": [tool_call("act", {}), tool_call("steps", {}), "Done."], "usher": ["-"]}
    counted = scenario(counting, replies, store=lambda: None, options={"thread_id": "t1"})
    direct, durable = await counted.direct(), await counted.durable(inference)
    assert direct.error is durable.error is None
    assert set(durable.effects) == AGAIN | ONCE | STORE | {"around the step"}
    for name in ONCE | STORE:
        assert durable.effects[name] == direct.effects[name], name
    for name in AGAIN | {"around the step"}:
        assert durable.effects[name] > direct.effects[name], name
    assert durable.run is not None
    assert [name.removeprefix("desk.") for name in durable.run.names] == STEPS
    durable.effects = direct.effects
    assert durable == direct
