"""What the server does with the steps that a worker reports."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from agentkit_py._core.json import as_object
from agentkit_py.errors import ScriptError
from agentkit_py.testing.executor import gateway
from agentkit_py.testing.executor.records import Run, StepRecord, Wait
from agentkit_py.testing.executor.schedule import seconds_of
from agentkit_py.testing.executor.sdk import Answer

if TYPE_CHECKING:
    from agentkit_py.testing.executor.executor import ReplayExecutor
    from agentkit_py.testing.executor.requests import Requests

MAX_STEPS = 1000
"""Steps of one run at the most."""

MAX_OUTPUT = 4 * 1024 * 1024
"""Bytes of one step's output at the most."""

MAX_STATE = 32 * 1024 * 1024
"""Bytes of all outputs of one run at the most."""


class Opcodes:
    """Keeps what steps gave, and starts what they ask for."""

    requests: Requests

    def __init__(self, server: ReplayExecutor) -> None:
        """Work for ``server``."""
        self._server = server

    def handle(
        self,
        run: Run,
        target: str | None,
        attempt: int,
        answer: Answer,
        reported: list[dict[str, Any]],
    ) -> None:
        """Handle all steps of one answer."""
        if any(len(json.dumps(op.get("data"))) > MAX_OUTPUT for op in reported):
            too_large = {"name": "Error", "message": "step output size is greater than the limit"}
            self.requests.try_again(run, target, attempt, too_large)
            return
        if len(run.memos) + len(reported) > MAX_STEPS:
            message = f"The function run exceeded the step limit of {MAX_STEPS} steps."
            self.requests.end(
                run, error={"name": "InngestErrFunctionOverflowed", "message": message}
            )
            return
        run.planning = run.planning or len(reported) > 1
        new = [op for op in reported if self._is_new(run, op)]
        for op in new:
            step = self._record(run, op)
            step.attempts = attempt + 1 if op["op"] != "StepPlanned" else 1
            run.pending.add(step.id)
            run.retrying.discard(step.id)
        for op in new:
            work = partial(self._one, run, target, attempt, answer, op)
            self._server.schedule.add(work)
        if not new and not run.pending:
            self._discover(run)

    def _is_new(self, run: Run, op: dict[str, Any]) -> bool:
        hashed = op["id"]
        if hashed in run.memos:
            return False
        waiting = hashed in run.pending and hashed not in run.retrying
        return not waiting or op["op"] in ("StepRun", "StepError", "StepFailed")

    def _record(self, run: Run, op: dict[str, Any]) -> StepRecord:
        kind = "StepRun" if op["op"] in ("StepPlanned", "StepError", "StepFailed") else op["op"]
        opts: dict[str, Any] = op.get("opts") or {}
        known = run.recorded.get(op["id"])
        if known is not None:
            known.op, known.opts = kind, opts
            return known
        name = op.get("displayName") or op["id"]
        run.recorded[op["id"]] = StepRecord(id=op["id"], name=name, op=kind, opts=opts)
        return run.recorded[op["id"]]

    async def _one(
        self, run: Run, target: str | None, attempt: int, answer: Answer, op: dict[str, Any]
    ) -> None:
        if run.status != "running" or op["id"] in run.memos:
            return
        step = run.recorded[op["id"]]
        server = self._server
        match op["op"]:
            case "StepRun":
                self.done(run, step, {"data": op.get("data")})
            case "StepError" | "StepFailed":
                self._failed(run, target, attempt, answer, op)
            case "StepPlanned":
                server.schedule.add(partial(self.requests.send, run, step.id))
            case "AIGateway":
                await self._infer(run, step, target, attempt)
            case _:
                self._pause(run, step, op)

    def _pause(self, run: Run, step: StepRecord, op: dict[str, Any]) -> None:
        """Steps that wait for something, without the worker."""
        schedule = self._server.schedule
        match op["op"]:
            case "Sleep":
                wake = partial(self._later, run, step, None)
                schedule.add(wake, after=schedule.until(op["name"]))
            case "WaitForEvent":
                self._wait(run, step, op)
            case "InvokeFunction":
                self._invoke(run, step)
            case unknown:
                raise ScriptError(f"ReplayExecutor does not know the step {unknown!r}")

    def done(self, run: Run, step: StepRecord, memo: Any) -> None:
        """A step is done: keep what it gave and look for what follows."""
        wrapped = as_object(memo) if step.op != "WaitForEvent" else None
        found = wrapped if wrapped is not None else {"data": memo}
        step.done, step.output, step.error = True, found.get("data"), found.get("error")
        run.memos[step.id] = memo
        run.pending.discard(step.id)
        run.size += len(json.dumps(memo))
        if run.size > MAX_STATE:
            message = f"The function run exceeded the state size limit of {MAX_STATE} bytes."
            self.requests.end(run, error={"name": "InngestErrStateOverflowed", "message": message})
            return
        if self._server.eager or not run.pending:
            self._discover(run)

    def _discover(self, run: Run) -> None:
        if not run.pending:
            run.planning = False
        if not run.discovering:
            run.discovering = True
            self._server.schedule.add(partial(self.requests.send, run))

    def _failed(
        self, run: Run, target: str | None, attempt: int, answer: Answer, op: dict[str, Any]
    ) -> None:
        step = run.recorded[op["id"]]
        last = answer.no_retry or op["op"] == "StepFailed" or attempt + 1 >= run.max_attempts
        if last:
            self.done(run, step, {"error": op["error"]})
            return
        run.retrying.add(step.id)
        self.requests.try_again(run, target, attempt, op["error"], answer.retry_after)

    def _wait(self, run: Run, step: StepRecord, op: dict[str, Any]) -> None:
        opts = step.opts
        run.waits[step.id] = Wait(run=run, step=step, event=op["name"], expression=opts.get("if"))
        timeout = partial(self._timed_out, run, step)
        self._server.schedule.add(timeout, after=seconds_of(opts["timeout"]), patient=True)

    async def _timed_out(self, run: Run, step: StepRecord) -> None:
        if run.status == "running" and run.waits.pop(step.id, None) is not None:
            self.done(run, step, None)

    async def _later(self, run: Run, step: StepRecord, memo: Any) -> None:
        if run.status == "running" and step.id in run.pending:
            self.done(run, step, memo)

    def _invoke(self, run: Run, step: StepRecord) -> None:
        function, payload = step.opts["function_id"], step.opts["payload"]
        if function not in self._server.configs:
            message = f"Could not find function with ID: {function}"
            self.done(run, step, {"error": {"name": "InngestInvokeError", "message": message}})
            return
        event: dict[str, Any] = {
            "name": "inngest/function.invoked",
            "data": payload.get("data") or {},
            "id": f"{run.id}-{step.id}",
            "ts": int(self._server.schedule.now * 1000),
        }
        self._server.begin(function, event, (run, step.id))
        if step.opts.get("timeout"):
            message = "Timed out waiting for invoked function to complete"
            memo = {"error": {"name": "InngestInvokeTimeoutError", "message": message}}
            late = partial(self._later, run, step, memo)
            self._server.schedule.add(late, after=seconds_of(step.opts["timeout"]), patient=True)

    async def _infer(self, run: Run, step: StepRecord, target: str | None, attempt: int) -> None:
        memo = await gateway.ask(self._server.transport, step.opts)
        if "error" in memo and attempt + 1 < run.max_attempts:
            run.retrying.add(step.id)
            self.requests.try_again(run, target, attempt, memo["error"])
            return
        self.done(run, step, memo)
