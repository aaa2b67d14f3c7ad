"""Requests to the worker: sent, killed, checked, answered."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from agentkit_py._core.json import as_list, as_object
from agentkit_py.testing.executor.records import JournalEntry, Moment, Run
from agentkit_py.testing.executor.sdk import Answer

if TYPE_CHECKING:
    from agentkit_py.testing.executor.executor import ReplayExecutor
    from agentkit_py.testing.executor.opcodes import Opcodes

MAX_REQUEST = 4 * 1024 * 1024
"""Bytes of a request at the most; what does not fit is fetched by the worker."""

RETRY_AFTER = 30.0
"""Virtual seconds between two attempts."""

_STEPS, _DONE = 206, 200


class Requests:
    """Calls functions of the worker, and does what its answers say."""

    def __init__(self, server: ReplayExecutor, opcodes: Opcodes) -> None:
        """Work for ``server``."""
        self._server = server
        self.opcodes = opcodes
        opcodes.requests = self

    async def send(self, run: Run, target: str | None = None, attempt: int = 0) -> None:
        """Call the run's function: for what is next, or for one planned step."""
        if run.status != "running" or (target is not None and target in run.memos):
            return
        if target is None:
            run.discovering = False
        run.requests += 1
        number = len(self._server.journal) + 1
        if self._dies(number, run, target, "before"):
            self._note(run, attempt, target, "killed before")
            self.try_again(run, target, attempt, _LOST)
            return
        if self._server.check and target is None:
            await self._look_ahead(run, attempt)
        answer = await self._post(run, target, attempt)
        content = _strict(answer)
        reported = as_list(content) if answer.status == _STEPS else None
        reported = reported or []
        names = [str(op.get("displayName")) for op in reported]
        if self._dies(number, run, target, "inside", names):
            self._note(run, attempt, target, "killed inside", reported)
            self.try_again(run, target, attempt, _LOST)
            return
        outcome = {_STEPS: "steps", _DONE: "output"}.get(answer.status, "error")
        self._note(run, attempt, target, outcome, reported)
        self._handle(run, target, attempt, answer, content)
        self._dies(number, run, target, "after", names)

    def _handle(
        self, run: Run, target: str | None, attempt: int, answer: Answer, content: Any
    ) -> None:
        if answer.status == _STEPS:
            self.opcodes.handle(run, target, attempt, answer, content)
        elif answer.status == _DONE:
            self._unused(run)
            self.end(run, output=content)
        else:
            error = as_object(content) or {"message": str(content)}
            if answer.no_retry:
                self.end(run, error=error)
            else:
                self.try_again(run, target, attempt, error, answer.retry_after)

    def try_again(
        self,
        run: Run,
        target: str | None,
        attempt: int,
        error: dict[str, Any],
        retry_after: str | None = None,
    ) -> None:
        """Another attempt, or the end of the run where there is none left."""
        if attempt + 1 >= run.max_attempts:
            self.end(run, error=error)
            return
        schedule = self._server.schedule
        wait = RETRY_AFTER if retry_after is None else schedule.until(retry_after)
        if target is None:
            run.discovering = True
        schedule.add(partial(self.send, run, target, attempt + 1), after=wait)

    def end(self, run: Run, *, output: Any = None, error: dict[str, Any] | None = None) -> None:
        """The run has ended; whoever invoked it goes on, and ``on_failure`` is called."""
        run.output, run.error = output, error
        run.status = "completed" if error is None else "failed"
        run.waits.clear()
        if run.invoked_by is not None:
            caller, hashed = run.invoked_by
            found = {"data": output} if error is None else {"error": error}
            if caller.status == "running" and hashed in caller.pending:
                self.opcodes.done(caller, caller.recorded[hashed], found)
        failure = self._server.configs[run.function].on_failure
        if error is not None and failure is not None:
            data = {
                "function_id": run.function,
                "run_id": run.id,
                "event": run.events[0],
                "error": error,
            }
            event = {"name": "inngest/function.failed", "data": data, "id": f"{run.id}-failed"}
            self._server.begin(failure, {**event, "ts": run.events[0]["ts"]})

    async def _post(
        self, run: Run, target: str | None, attempt: int, *, plan: bool = False
    ) -> Answer:
        kills_before = any(kill.step and kill.when == "before" for kill in self._server.kills)
        context = {
            "attempt": attempt,
            "max_attempts": run.max_attempts,
            "disable_immediate_execution": plan or run.planning or kills_before,
            "run_id": run.id,
            "stack": {"stack": list(run.memos), "current": len(run.memos)},
        }
        body = {
            "ctx": context,
            "event": run.events[0],
            "events": run.events,
            "steps": run.memos,
            "use_api": False,
            "version": 2,
        }
        content = json.dumps(body).encode()
        if len(content) > MAX_REQUEST:
            content = json.dumps({**body, "events": None, "steps": {}, "use_api": True}).encode()
        headers = {"x-request-id": f"{run.id}-{run.requests}", "x-inngest-server-kind": "dev"}
        worker = self._server.worker
        return await worker.post(run.function, target or "step", content, headers)

    def _dies(
        self,
        number: int,
        run: Run,
        target: str | None,
        when: Moment,
        names: list[str] | None = None,
    ) -> bool:
        """Whether the worker dies now; a new one takes its place."""
        planned = [run.recorded[target].name] if target in run.recorded else []
        here = [*planned, *(names or ())]
        for kill in self._server.kills:
            if kill.when == when and (kill.request == number or kill.step in here):
                self._server.kills.remove(kill)
                self._server.restart()
                return True
        return False

    async def _look_ahead(self, run: Run, attempt: int) -> None:
        """Send the request without running a step, and what comes of it to compare."""
        first = _plan_of(await self._post(run, None, attempt, plan=True))
        second = _plan_of(await self._post(run, None, attempt, plan=True))
        if first != second:
            run.differences.append(
                f"request {run.requests} of {run.function}: first it asked for {_short(first)}, "
                f"then for {_short(second)}"
            )

    def _unused(self, run: Run) -> None:
        left = self._server.connection.left_over
        if left:
            run.differences.append(
                f"{run.function} ended without asking again for {left} of its {len(run.memos)} "
                "steps"
            )

    def _note(
        self,
        run: Run,
        attempt: int,
        target: str | None,
        outcome: str,
        reported: list[dict[str, Any]] | None = None,
    ) -> None:
        name = run.recorded[target].name if target in run.recorded else None
        steps = tuple(f"{op['op']} {op['displayName']}" for op in reported or ())
        journal = self._server.journal
        journal.append(
            JournalEntry(
                request=len(journal) + 1,
                run_id=run.id,
                function=run.function,
                attempt=attempt,
                target=name,
                outcome=outcome,
                steps=steps,
            )
        )


_LOST = {"name": "Error", "message": "The worker could not be reached"}


def _strict(answer: Answer) -> Any:
    """The answer's JSON, as Go reads it: NaN and the infinities are none."""
    return json.loads(answer.body, parse_constant=_no_constant)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _plan_of(answer: Answer) -> Any:
    content: Any = json.loads(answer.body)
    if answer.status != _STEPS:
        fields = as_object(content)
        if fields is not None:
            fields.pop("stack", None)
        return answer.status, content
    return [
        {
            "op": op["op"],
            "step": op["displayName"],
            "id": op["id"],
            "opts": op.get("opts"),
            "name": None if op["op"] == "Sleep" else op.get("name"),
        }
        for op in content
    ]


def _short(plan: Any) -> str:
    return json.dumps(plan)[:600]
