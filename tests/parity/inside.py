"""Playing a run inside an Inngest function, as `ReplayExecutor` drives it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import httpx
import inngest

from agentkit_py.inngest import AgentKitMiddleware, runtime_of
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.runtime.port import Runtime
from agentkit_py.testing.executor import ReplayExecutor, StepRecord

from .vectors import Json

Code: TypeAlias = Callable[[Runtime], Awaitable[None]]

_EVENT = "parity/run"


@dataclass(frozen=True, slots=True)
class Done:
    """The server's record of a run that has ended."""

    steps: list[dict[str, Json]]
    problems: list[str]


class Server:
    """An Inngest server with one function, whose code is given for each run.

    Args:
        local: What knows the keys.
        transport: Where the server sends the models' requests.
        note: Gets each step that the code asks the SDK for, in each execution.
    """

    def __init__(
        self,
        local: DirectRuntime,
        transport: httpx.AsyncBaseTransport,
        note: Callable[[str], None],
    ) -> None:
        middleware = AgentKitMiddleware.configured(inference="offload", local=local)
        client = inngest.Inngest(app_id="parity", is_production=False, middleware=[middleware])

        @client.create_function(fn_id="run", trigger=inngest.TriggerEvent(event=_EVENT), retries=0)
        async def function(ctx: inngest.Context) -> None:
            _watch(ctx.step, note)
            assert self._code is not None
            await self._code(runtime_of(ctx))

        self._code: Code | None = None
        self._executor = ReplayExecutor(client, [function], transport=transport)

    async def run(self, code: Code) -> Done:
        """Run ``code`` as the function's, from its top for each step."""
        self._code = code
        run = await self._executor.run(_EVENT)
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
