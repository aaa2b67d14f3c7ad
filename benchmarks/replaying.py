"""An Inngest function of two hundred steps: CPU time of its process over all replays."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import inngest
from harness import Sample, Steps
from problem import ANSWER, QUESTION, SYSTEM, call_reply, text_reply, track_async

from agentkit_py import Agent, tool
from agentkit_py.inngest import AgentKitMiddleware
from agentkit_py.models import Model
from agentkit_py.testing.executor import ReplayExecutor
from agentkit_py.testing.executor.worker import WorkerAnswer

CALLS = 100
"""Tool calls; each is a step of the model and one of the tool, and the answer is a step too."""

EVENT = "benchmark/run"
Made = Callable[[], "ReplayExecutor"]


@dataclass(frozen=True, slots=True)
class Replays:
    """CPU seconds in the SDK's handler, without those of the executor's server."""

    make: Made

    def sample(self, count: int) -> Sample:
        """Run ``count`` functions to their end; garbage is treated as in the other rows."""
        gc.collect()
        gc.freeze()
        used = sum(asyncio.run(_used(self.make())) for _ in range(count))
        gc.unfreeze()
        return Sample(used / count, used / count)

    def check(self) -> None:
        """Asserted with each run."""


async def _used(executor: ReplayExecutor) -> float:
    post = executor.worker.post
    used = 0.0

    async def timed(*asked: Any) -> WorkerAnswer:
        nonlocal used
        start = time.process_time()
        found = await post(*asked)
        used += time.process_time() - start
        return found

    setattr(executor.worker, "post", timed)  # noqa: B010 - a clock around its method
    run = await executor.run(EVENT)
    assert run.output == ANSWER, run.error
    assert len(run.memos) >= 2 * CALLS + 1, len(run.memos)
    return used


def ours(model: Callable[[Steps], Model]) -> Made:
    """An agent's run with as many tool calls."""
    track = tool(name="track")(track_async)

    def make() -> ReplayExecutor:
        agent = Agent(
            name="support",
            system=SYSTEM,
            model=model(Steps(CALLS)),
            tools=[track],
            max_iter=CALLS + 1,
        )

        async def function(ctx: inngest.Context) -> str:  # noqa: ARG001 - found by the middleware
            return (await agent.run(QUESTION)).text

        return _executor(function, AgentKitMiddleware.configured(inference="local"))

    return make


def bare() -> Made:
    """Write the steps with the SDK alone."""

    def make() -> ReplayExecutor:
        steps = Steps(CALLS)
        replies = [*(call_reply(number) for number in range(CALLS)), text_reply()]

        async def ask(messages: list[dict[str, Any]]) -> dict[str, Any]:
            assert messages
            number = steps.next()
            return replies[CALLS if number is None else number]

        async def function(ctx: inngest.Context) -> str:
            messages: list[dict[str, Any]] = [
                {"role": "system", "content": SYSTEM},
                {"role": "user", "content": QUESTION},
            ]
            while True:
                reply: Any = await ctx.step.run("model", ask, messages)
                message = reply["choices"][0]["message"]
                messages.append(message)
                if not message.get("tool_calls"):
                    return message["content"]
                for call in message["tool_calls"]:
                    given = json.loads(call["function"]["arguments"])
                    value = await ctx.step.run("track", track_async, given["parcel"])
                    content = json.dumps({"data": value})
                    result = {"role": "tool", "tool_call_id": call["id"], "content": content}
                    messages.append(result)

        return _executor(function)

    return make


def _executor(handler: Callable[[inngest.Context], Awaitable[str]], *middleware: Any) -> Any:
    client = inngest.Inngest(app_id="bench", is_production=False, middleware=list(middleware))
    make = client.create_function(fn_id="run", trigger=inngest.TriggerEvent(event=EVENT), retries=0)
    return ReplayExecutor(client, [make(handler)])
