"""Playing a run inside an Inngest function, as `ReplayExecutor` drives it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx
import inngest

from agentkit_py.inngest import AgentKitMiddleware, runtime_of
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.runtime.port import Runtime
from agentkit_py.testing.executor import ReplayExecutor, StepRecord

from .vectors import Json

_EVENT = "parity/run"


@dataclass(frozen=True, slots=True)
class Done:
    """What the server knows of the run."""

    steps: list[dict[str, Json]]
    problems: list[str]


async def inside_inngest(
    execute: Callable[[Runtime], Awaitable[None]],
    transport: httpx.AsyncBaseTransport,
    note: Callable[[str], None],
) -> Done:
    """Run ``execute`` as a function's code, from its top for each step.

    Args:
        execute: The code.
        transport: Where the server sends the models' requests.
        note: Gets each step that the code asks for, in each execution.
    """
    local = DirectRuntime(environment={})
    middleware = AgentKitMiddleware.configured(inference="offload", local=local)
    client = inngest.Inngest(app_id="parity", is_production=False, middleware=[middleware])

    @client.create_function(fn_id="run", trigger=inngest.TriggerEvent(event=_EVENT), retries=0)
    async def function(ctx: inngest.Context) -> None:
        _watch(ctx.step, note)
        await execute(runtime_of(ctx))

    run = await ReplayExecutor(client, [function], transport=transport).run(_EVENT)
    await local.aclose()
    failed = [] if run.status == "completed" else [f"the function {run.status}: {run.error}"]
    return Done([_record(step) for step in run.steps], failed)


def _watch(step: Any, note: Callable[[str], None]) -> None:
    """Note what is asked of the SDK's steps."""
    run, infer = step.run, step.ai.infer

    async def noted_run(step_id: str, *args: Any, **options: Any) -> Any:
        note(f"step.run:{step_id}")
        return await run(step_id, *args, **options)

    async def noted_infer(step_id: str, **options: Any) -> Any:
        note(f"step.ai.infer:{step_id}")
        return await infer(step_id, **options)

    step.run, step.ai.infer = noted_run, noted_infer


def _record(step: StepRecord) -> dict[str, Json]:
    if step.op != "AIGateway":
        return {"op": {"StepRun": "run"}.get(step.op, step.op), "id": step.name}
    asked = {"modelFormat": step.opts["format"], "body": step.opts["body"]}
    return {"op": "ai.infer", "id": step.name, **asked}
