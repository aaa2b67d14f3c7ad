"""Replaying programs without writing functions for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import inngest

from agentkit_py.inngest import AgentKitMiddleware
from agentkit_py.testing.executor.executor import ReplayExecutor
from agentkit_py.testing.executor.records import Run

_EVENT = "agentkit/program"


async def replay_programs(programs: Sequence[Callable[[], Awaitable[Any]]]) -> list[Run]:
    """Run programs one after another, each as an Inngest function that is replayed for each step.

    Args:
        programs: Functions that run agents; what they return is not looked at.

    Returns:
        The runs; those that failed say so.
    """
    middleware = AgentKitMiddleware.configured(inference="local")
    client = inngest.Inngest(app_id="programs", is_production=False, middleware=[middleware])
    trigger = inngest.TriggerEvent(event=_EVENT)

    @client.create_function(fn_id="program", trigger=trigger, retries=0)
    async def function(ctx: inngest.Context) -> None:
        await programs[int(str(ctx.event.data["number"]))]()

    executor = ReplayExecutor(client, [function], check=True)
    return [await executor.run(_EVENT, {"number": number}) for number in range(len(programs))]
