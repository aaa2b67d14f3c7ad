"""A failover in a durable run that is killed anywhere, wherever the breaker stands meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import inngest

from agentkit_py import Agent, tool
from agentkit_py.models import FallbackModel, RetryPolicy, anthropic, openai
from agentkit_py.models.base import copy_model
from agentkit_py.runtime.guards import Breaker
from agentkit_py.testing import FakeProvider, ReceivedRequest, error, text, tool_call
from agentkit_py.testing.executor import KillAt, Run, kill_points

from .world import EVENT, executor_for


@tool
def look_up(order: str) -> str:
    """Look an order up."""
    return f"{order} is under way"


def answer(request: ReceivedRequest) -> Any:
    """Answer as the second of two providers; the first one fails in the middle."""
    looked_up = "under way" in str(request.body)
    if request.provider == "openai" and looked_up:
        return error(503, "overloaded")
    return text("Order 7 is under way.") if looked_up else tool_call("look_up", {"order": "7"})


async def failover(kill: Sequence[KillAt] = ()) -> Run:
    """Run an agent whose first model fails once the tool was called."""
    fake = FakeProvider(answer)
    breaker = Breaker(failures=1)

    async def handler(ctx: inngest.Context) -> Any:
        once = RetryPolicy(attempts=1)
        models = [
            copy_model(one, transport=fake.transport)
            for one in (
                openai("gpt-4o", api_key="k", retry=once),
                anthropic("claude-sonnet-4-5", api_key="k", retry=once),
            )
        ]
        model = FallbackModel(models, breaker=breaker)
        agent = Agent(name="desk", system="Help.", tools=[look_up], model=model)
        result = await agent.run("Where is 7?")
        return [result.text, [message.role for message in result.output]]

    run = await executor_for(handler, kill=list(kill)).run(EVENT)
    assert fake.rejections == []
    return run


async def test_failover_gives_the_same_after_a_kill_anywhere() -> None:
    """The breaker is asked inside a step, so a replay goes the way that the run went."""
    whole = await failover()
    assert whole.output == ["Order 7 is under way.", ["assistant"]]
    for point in kill_points(whole.requests):
        killed = await failover([point])
        assert killed.differences == []
        assert killed.output == whole.output, point
        assert killed.names == whole.names, point
