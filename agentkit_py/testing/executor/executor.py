"""ReplayExecutor: a strict Inngest server in memory and in virtual time."""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Literal, TypeAlias

import httpx
import inngest

from agentkit_py._core.json import as_object
from agentkit_py._core.validation import wrong_word
from agentkit_py.errors import ConfigurationError, ScriptError
from agentkit_py.inngest import AgentKitMiddleware
from agentkit_py.runtime.direct import providers
from agentkit_py.testing.executor.runs import (
    JournalEntry,
    KillAt,
    Moment,
    Run,
    StepRecord,
    Wait,
    matches,
)
from agentkit_py.testing.executor.server_api import (
    Published,
    ServerTransport,
    ask_provider,
    read_json,
)
from agentkit_py.testing.executor.worker import ClientTransport, Config, Worker, WorkerAnswer

MAX_STEPS = 1000
"""The maximum number of steps of a run."""

MAX_OUTPUT = 4 * 1024 * 1024
"""The maximum size of a step's output, in bytes."""

MAX_STATE = 32 * 1024 * 1024
"""The maximum size of all outputs of a run, in bytes."""

MAX_REQUEST = 4 * 1024 * 1024
"""The maximum size of a request, in bytes; the worker fetches the rest."""

RETRY_AFTER = 30.0
"""Virtual seconds between two attempts."""

Functions: TypeAlias = Sequence[inngest.Function[Any]]

Answerer: TypeAlias = Callable[[Wait], Mapping[str, Any] | None]
"""Gives the data of the event that a run waits for; None: nothing comes."""

Action: TypeAlias = Callable[[], Awaitable[None]]

_STEPS, _DONE = 206, 200
_LOST = {"name": "Error", "message": "The worker could not be reached"}
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


@dataclass(order=True, slots=True)
class _QueueItem:
    at: float
    tie: float
    number: int
    action: Action = field(compare=False)
    is_timeout: bool = field(compare=False)


class VirtualQueue:
    """A queue in virtual time; the seed orders entries that are due at the same time."""

    def __init__(self, seed: int | None) -> None:
        """Begin now; without a seed, entries keep their order of arrival."""
        self.now: float = datetime.now(UTC).timestamp()
        self._items: list[_QueueItem] = []
        self._random = None if seed is None else random.Random(seed)  # noqa: S311 - an order
        self._count = 0

    def add(self, action: Action, *, after: float = 0.0, is_timeout: bool = False) -> None:
        """Do ``action`` after so many seconds; a time-out is not waited for itself."""
        self._count += 1
        tie = 0.0 if self._random is None else self._random.random()
        item = _QueueItem(self.now + max(0.0, after), tie, self._count, action, is_timeout)
        heapq.heappush(self._items, item)

    def until(self, time: str) -> float:
        """Return the seconds from now to a time of the worker's real clock."""
        parsed = datetime.fromisoformat(time.replace("Z", "+00:00"))
        return max(0.0, (parsed - datetime.now(UTC)) / timedelta(seconds=1))

    def pop(self, *, timeouts: bool, limit: float | None = None) -> Action | None:
        """Return the next entry up to ``limit``, and advance the time to it."""
        items = self._items if timeouts else [one for one in self._items if not one.is_timeout]
        if not items:
            return None
        item = min(items)
        if limit is not None and item.at > limit:
            return None
        self._items.remove(item)
        heapq.heapify(self._items)
        self.now = max(self.now, item.at)
        return item.action


def _seconds(duration: str) -> float:
    """Return the seconds of a duration as the SDK writes it: ``"90s"``, ``"4h"``."""
    return float(duration[:-1]) * _UNITS[duration[-1]]


@dataclass(frozen=True, slots=True)
class _WorkerRequest:
    """A request to the worker: for the next steps, or for a planned step."""

    run: Run
    target: str | None = None
    attempt: int = 0

    @property
    def step_name(self) -> str | None:
        """Name of the planned step."""
        return self.run.recorded[self.target].name if self.target in self.run.recorded else None


class ReplayExecutor:
    """Runs Inngest functions as the server does, and more strictly than any server.

    Each request goes through the SDK's own handler; each output through JSON. A function is called
    from its top for each step. Time is virtual: sleeps, retries and time-outs happen at once.

    Example:
        ::

            executor = ReplayExecutor(client, functions, transport=fake.transport)
            run = await executor.run("app/network-support", {"input": "Where is my order?"})
            assert run.status == "completed"

    Attributes:
        runs: All runs, invoked ones too, in the order in which they began.
        journal: Every request to the worker.
        events: Every event that was sent.
        published: Every realtime message.
    """

    def __init__(
        self,
        client: inngest.Inngest,
        functions: Functions | Callable[[], Functions],
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        seed: int | None = 0,
        kill: KillAt | Sequence[KillAt] = (),
        check: bool = False,
        discovery: Literal["joined", "eager"] = "joined",
    ) -> None:
        """Register the functions.

        Args:
            client: The functions' client, in development mode.
            functions: The functions, or a factory that is called again after each kill.
            transport: Where requests to models go, those of the AI gateway (``step.ai.infer``)
                included, unless a model or a runtime has a transport of its own.
            seed: Chooses between the possible orders of events; None: order of arrival.
            kill: When the worker dies.
            check: Send each request twice, the first time without running a step, and compare.
            discovery: When the steps after parallel steps are planned: once all are done, or (as
                with ``ParallelMode.RACE``, and on older servers) after each.

        Raises:
            ConfigurationError: ``discovery`` has an unknown value.
        """
        wrong = wrong_word("discovery", discovery, ("joined", "eager"))
        if wrong:
            raise ConfigurationError(f"ReplayExecutor: {wrong}")
        self._make = functions if callable(functions) else lambda: functions
        self.client: inngest.Inngest = client
        self.worker: Worker = Worker(client, self._make())
        self.transport: httpx.AsyncBaseTransport | None = transport
        self.schedule: VirtualQueue = VirtualQueue(seed)
        self.eager: bool = discovery == "eager"
        self.check: bool = check
        self.kills: list[KillAt] = [kill] if isinstance(kill, KillAt) else list(kill)
        self.runs: list[Run] = []
        self.journal: list[JournalEntry] = []
        self.events: list[dict[str, Any]] = []
        self.published: list[Published] = []
        server = ServerTransport(self.receive, self.stored, self.published)
        self.connection: ClientTransport = ClientTransport(client, server)

    async def run(
        self,
        target: str | inngest.Function[Any],
        data: Mapping[str, Any] | None = None,
        *,
        answer: Answerer | None = None,
    ) -> Run:
        """Start a function and let time pass until it has ended.

        Args:
            target: The name of an event that starts it, or the function itself.
            data: The event's data.
            answer: Called for each event that the run waits for; unanswered waits time out.

        Raises:
            ScriptError: The event starts no function.
        """
        return await self.finish(await self.start(target, data), answer=answer)

    async def start(
        self, target: str | inngest.Function[Any], data: Mapping[str, Any] | None = None
    ) -> Run:
        """Start a function, and let time pass until it has ended or waits for an event."""
        before = len(self.runs)
        if isinstance(target, str):
            self.receive({"name": target, "data": dict(data or {})})
        else:
            name = next(iter(self.configs[target.id].triggers), ("inngest/invoked", None))[0]
            self.begin(target.id, self.filled({"name": name, "data": dict(data or {})}))
        if len(self.runs) == before:
            raise ScriptError(f"The event {target!r} starts none of {', '.join(self.configs)}")
        run = self.runs[before]
        await self._drive(run)
        return run

    async def finish(self, run: Run, *, answer: Answerer | None = None) -> Run:
        """Let time pass until ``run`` has ended."""
        asked: set[Wait] = set()
        while run.status == "running":
            await self._drive(run)
            wait = next((one for one in self.waits() if one not in asked), None)
            if answer is not None and wait is not None:
                asked.add(wait)
                given = answer(wait)
                if given is not None:
                    self.receive({"name": wait.event, "data": dict(given)})
            elif run.status == "running" and not await self.do_next(timeouts=True):
                raise ScriptError(f"The run {run.id} has not ended, and nothing is left to do")
        return run

    async def send_event(self, name: str, data: Mapping[str, Any] | None = None) -> list[Run]:
        """Send an event and run its consequences; returns the runs that it started."""
        before = len(self.runs)
        self.receive({"name": name, "data": dict(data or {})})
        await self._drive(None)
        return self.runs[before:]

    async def advance(self, seconds: float) -> None:
        """Let so much time pass, time-outs included."""
        limit = self.schedule.now + seconds
        while await self.do_next(timeouts=True, limit=limit):
            pass
        self.schedule.now = limit

    async def _drive(self, run: Run | None) -> None:
        """Run due work until a run has ended or only time-outs are left."""
        while (run is None or run.status == "running") and await self.do_next(timeouts=False):
            pass

    @property
    def configs(self) -> dict[str, Config]:
        """The functions that are registered, by id."""
        return self.worker.configs

    def restart(self) -> None:
        """Go on with a new worker process."""
        self.worker = Worker(self.client, self._make())

    # Events and runs.

    def receive(self, event: dict[str, Any]) -> str:
        """Receive an event: resume waiting runs and start the functions that it triggers."""
        event = self.filled(event)
        if any(known["id"] == event["id"] for known in self.events):
            return event["id"]
        self.events.append(event)
        for run in [run for run in self.runs if run.status == "running"]:
            self._deliver(run, event)
        for config in list(self.configs.values()):
            if any(_is_about(event, *trigger) for trigger in config.triggers):
                self.begin(config.id, event)
        return event["id"]

    def filled(self, event: dict[str, Any]) -> dict[str, Any]:
        """Return the event through JSON, with an id and a time."""
        number = len(self.events) + len(self.runs)
        made = {"id": f"01EVENT{number:019d}", "ts": int(self.schedule.now * 1000)}
        return read_json(json.dumps({**made, **{k: v for k, v in event.items() if v}}))

    def stored(self, run_id: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Return a run's events and remembered steps."""
        run = next(run for run in self.runs if run.id == run_id)
        return run.events, run.memos

    def begin(
        self, function: str, event: dict[str, Any], invoked_by: tuple[Run, str] | None = None
    ) -> Run:
        """Begin a run of a function."""
        run = Run(
            id=f"01RUN{len(self.runs):021d}",
            function=function,
            events=[read_json(json.dumps(event))],
            max_attempts=self.configs[function].max_attempts,
            invoked_by=invoked_by,
        )
        self.runs.append(run)
        self._schedule_call(_WorkerRequest(run))
        return run

    def waits(self) -> list[Wait]:
        """Return the waits of running runs."""
        running = (run for run in self.runs if run.status == "running")
        return [wait for run in running for wait in run.waits.values()]

    async def do_next(self, *, timeouts: bool, limit: float | None = None) -> bool:
        """Run the next due entry; returns False if there was none."""
        action = self.schedule.pop(timeouts=timeouts, limit=limit)
        if action is None:
            return False
        with self.connection.use():
            await action()
        return True

    def _deliver(self, run: Run, event: dict[str, Any]) -> None:
        for cancel in self.configs[run.function].cancels:
            if _is_about(event, *cancel, run.events[0]):
                self.cancel(run)
                return
        for wait in list(run.waits.values()):
            if _is_about(event, wait.event, wait.expression, run.events[0]):
                del run.waits[wait.step.id]
                self._finish_step(run, wait.step, event)

    def cancel(self, run: Run) -> None:
        """Cancel a run, as the API and the dashboard do; listening functions are triggered."""
        if run.status != "running":
            return
        run.status = "cancelled"
        run.waits.clear()
        error = {"name": "Error", "message": "function cancelled"}
        self._announce("inngest/function.cancelled", run, error)

    def _announce(self, name: str, run: Run, error: dict[str, Any]) -> None:
        """Begin the functions that listen for the end of others."""
        cause = run.events[0]
        data = {
            "function_id": run.function,
            "run_id": run.id,
            "event": cause,
            "events": run.events,
            "error": error,
        }
        event = self.filled({"name": name, "data": data, "id": f"{run.id}-{name}"})
        for config in list(self.configs.values()):
            if any(_is_about(event, *trigger) for trigger in config.triggers):
                self.begin(config.id, event)

    def _end(self, run: Run, *, output: Any = None, error: dict[str, Any] | None = None) -> None:
        """End a run; resume its caller, and trigger functions that listen for failures."""
        run.output, run.error = output, error
        run.status = "completed" if error is None else "failed"
        run.waits.clear()
        if run.invoked_by is not None:
            caller, hashed = run.invoked_by
            found = {"data": output} if error is None else {"error": error}
            self._finish_pending(caller, caller.recorded[hashed], found)
        if error is not None:
            self._announce("inngest/function.failed", run, error)

    # Requests to the worker: sent, killed, checked, answered.

    def _schedule_call(self, call: _WorkerRequest, *, after: float = 0.0) -> None:
        self.schedule.add(partial(self._send, call), after=after)

    async def _send(self, call: _WorkerRequest) -> None:
        run, target = call.run, call.target
        if run.status != "running" or (target is not None and target in run.memos):
            return
        if target is None:
            run.discovering = False
        run.requests += 1
        number = len(self.journal) + 1
        if self._dies(number, call, "before"):
            self._note(call, "killed before")
            self._try_again(call, _LOST)
            return
        if self.check and target is None:
            await self._compare_plans(call)
        answer = await self._post(call)
        if run.status != "running":  # cancelled meanwhile: the answer is obsolete
            self._note(call, "ignored")
            return
        content = read_json(answer.body)
        reported: list[dict[str, Any]] = content if answer.status == _STEPS else []
        names = [str(op.get("displayName")) for op in reported]
        if self._dies(number, call, "inside", names):
            self._note(call, "killed inside", reported)
            self._try_again(call, _LOST)
            return
        self._note(call, {_STEPS: "steps", _DONE: "output"}.get(answer.status, "error"), reported)
        self._handle(call, answer, content)
        self._dies(number, call, "after", names)

    def _handle(self, call: _WorkerRequest, answer: WorkerAnswer, content: Any) -> None:
        if answer.status == _STEPS:
            self._handle_steps(call, answer, content)
        elif answer.status == _DONE:
            self._check_leftovers(call.run)
            self._end(call.run, output=content)
        else:
            error = as_object(content) or {"message": str(content)}
            if answer.no_retry:
                self._end(call.run, error=error)
            else:
                self._try_again(call, error, answer.retry_after)

    def _try_again(
        self, call: _WorkerRequest, error: dict[str, Any], retry_after: str | None = None
    ) -> None:
        """Schedule another attempt, or end the run where there is none left."""
        run, attempt = call.run, call.attempt + 1
        if attempt >= run.max_attempts:
            self._end(run, error=error)
            return
        wait = RETRY_AFTER if retry_after is None else self.schedule.until(retry_after)
        if call.target is None:
            run.discovering = True
        self._schedule_call(_WorkerRequest(run, call.target, attempt), after=wait)

    async def _post(self, call: _WorkerRequest, *, plan: bool = False) -> WorkerAnswer:
        run = call.run
        kills_before = any(kill.step and kill.when == "before" for kill in self.kills)
        context = {
            "attempt": call.attempt,
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
        token = providers.set(self.transport)
        try:
            return await self.worker.post(run.function, call.target or "step", content, headers)
        finally:
            providers.reset(token)

    def _dies(
        self, number: int, call: _WorkerRequest, when: Moment, names: Sequence[str] = ()
    ) -> bool:
        """Return whether the worker dies now; a new worker replaces it."""
        here = [call.step_name, *names]
        for kill in self.kills:
            at_step = kill.step is not None and kill.step in here
            if kill.when == when and (kill.request == number or at_step):
                self.kills.remove(kill)
                self.restart()
                return True
        return False

    async def _compare_plans(self, call: _WorkerRequest) -> None:
        """Send the request twice without running a step, and note where the answers differ."""
        first = _plan_of(await self._post(call, plan=True))
        second = _plan_of(await self._post(call, plan=True))
        if first != second:
            run = call.run
            shown, then = json.dumps(first)[:600], json.dumps(second)[:600]
            run.differences.append(
                f"request {run.requests} of {run.function}: first it asked for {shown}, then for "
                f"{then}"
            )

    def _check_leftovers(self, run: Run) -> None:
        left = self.connection.left_over
        if left:
            run.differences.append(
                f"{run.function} ended without asking again for {left} of its {len(run.memos)} "
                "steps"
            )

    def _note(
        self, call: _WorkerRequest, outcome: str, reported: Sequence[dict[str, Any]] = ()
    ) -> None:
        self.journal.append(
            JournalEntry(
                request=len(self.journal) + 1,
                run_id=call.run.id,
                function=call.run.function,
                attempt=call.attempt,
                target=call.step_name,
                outcome=outcome,
                steps=tuple(f"{op['op']} {op['displayName']}" for op in reported),
            )
        )

    # The steps that a worker reports.

    def _handle_steps(
        self, call: _WorkerRequest, answer: WorkerAnswer, reported: Sequence[dict[str, Any]]
    ) -> None:
        run = call.run
        if any(len(json.dumps(op.get("data"))) > MAX_OUTPUT for op in reported):
            too_large = {"name": "Error", "message": "step output size is greater than the limit"}
            self._try_again(call, too_large)
            return
        if len(run.memos) + len(reported) > MAX_STEPS:
            message = f"The function run exceeded the step limit of {MAX_STEPS} steps."
            error = {"name": "InngestErrFunctionOverflowed", "message": message}
            self._end(run, error=error)
            return
        run.planning = run.planning or len(reported) > 1
        new = [op for op in reported if _is_new(run, op)]
        for op in new:
            step = _record(run, op)
            step.attempts = call.attempt + 1 if op["op"] != "StepPlanned" else 1
            run.pending.add(step.id)
            run.retrying.discard(step.id)
        for op in new:
            self.schedule.add(partial(self._do_step, call, answer, op))
        if not new and not run.pending:
            self._discover(run)

    async def _do_step(
        self, call: _WorkerRequest, answer: WorkerAnswer, op: dict[str, Any]
    ) -> None:
        run = call.run
        if run.status != "running" or op["id"] in run.memos:
            return
        step = run.recorded[op["id"]]
        match op["op"]:
            case "StepRun":
                self._finish_step(run, step, {"data": op.get("data")})
            case "StepError" | "StepFailed":
                self._fail_step(call, step, answer, op)
            case "StepPlanned":
                self._schedule_call(_WorkerRequest(run, step.id))
            case "AIGateway":
                memo = await ask_provider(self.transport, step.opts)
                if "error" in memo and call.attempt + 1 < run.max_attempts:
                    run.retrying.add(step.id)
                    self._try_again(call, memo["error"])
                else:
                    self._finish_step(run, step, memo)
            case "Sleep":
                after = self.schedule.until(op["name"])
                self._finish_later(run, step, None, after, is_timeout=False)
            case "WaitForEvent":
                expression = step.opts.get("if")
                wait = Wait(run=run, step=step, event=op["name"], expression=expression)
                run.waits[step.id] = wait
                self._finish_later(run, step, None, _seconds(step.opts["timeout"]))
            case "InvokeFunction":
                self._invoke(run, step)
            case unknown:
                raise ScriptError(f"ReplayExecutor does not know the step {unknown!r}")

    def _fail_step(
        self, call: _WorkerRequest, step: StepRecord, answer: WorkerAnswer, op: dict[str, Any]
    ) -> None:
        run = call.run
        final = answer.no_retry or op["op"] == "StepFailed"
        if final or call.attempt + 1 >= run.max_attempts:
            self._finish_step(run, step, {"error": op["error"]})
            return
        run.retrying.add(step.id)
        self._try_again(call, op["error"], answer.retry_after)

    def _finish_step(self, run: Run, step: StepRecord, memo: Any) -> None:
        """Store a step's output and plan the next steps."""
        wrapped = as_object(memo) if step.op != "WaitForEvent" else None
        found = wrapped if wrapped is not None else {"data": memo}
        step.done, step.output, step.error = True, found.get("data"), found.get("error")
        run.memos[step.id] = memo
        run.pending.discard(step.id)
        run.size += len(json.dumps(memo))
        if run.size > MAX_STATE:
            message = f"The function run exceeded the state size limit of {MAX_STATE} bytes."
            self._end(run, error={"name": "InngestErrStateOverflowed", "message": message})
        elif self.eager or not run.pending:
            self._discover(run)

    def _finish_pending(self, run: Run, step: StepRecord, memo: Any) -> None:
        if run.status == "running" and step.id in run.pending:
            run.waits.pop(step.id, None)
            self._finish_step(run, step, memo)

    def _finish_later(
        self, run: Run, step: StepRecord, memo: Any, after: float, *, is_timeout: bool = True
    ) -> None:
        self.schedule.add(
            partial(self._finish_in_time, run, step, memo), after=after, is_timeout=is_timeout
        )

    async def _finish_in_time(self, run: Run, step: StepRecord, memo: Any) -> None:
        self._finish_pending(run, step, memo)

    def _discover(self, run: Run) -> None:
        """Ask the worker for the next steps."""
        if not run.pending:
            run.planning = False
        if not run.discovering:
            run.discovering = True
            self._schedule_call(_WorkerRequest(run))

    def _invoke(self, run: Run, step: StepRecord) -> None:
        function, payload = step.opts["function_id"], step.opts["payload"]
        if function not in self.configs:
            message = f"Could not find function with ID: {function}"
            error = {"name": "InngestInvokeError", "message": message}
            self._finish_step(run, step, {"error": error})
            return
        event: dict[str, Any] = {
            "name": "inngest/function.invoked",
            "data": payload.get("data") or {},
            "id": f"{run.id}-{step.id}",
            "ts": int(self.schedule.now * 1000),
        }
        self.begin(function, event, (run, step.id))
        if step.opts.get("timeout"):
            message = "Timed out waiting for invoked function to complete"
            memo = {"error": {"name": "InngestInvokeTimeoutError", "message": message}}
            self._finish_later(run, step, memo, _seconds(step.opts["timeout"]))


def _is_about(
    event: dict[str, Any],
    name: str,
    expression: str | None,
    cause: dict[str, Any] | None = None,
) -> bool:
    """Return whether a run waits for ``event``; triggers name it ``event``, waits ``async``."""
    if event["name"] != name:
        return False
    return matches(
        expression, {"event": event} if cause is None else {"event": cause, "async": event}
    )


def _is_new(run: Run, op: dict[str, Any]) -> bool:
    hashed = op["id"]
    if hashed in run.memos:
        return False
    waiting = hashed in run.pending and hashed not in run.retrying
    return not waiting or op["op"] in ("StepRun", "StepError", "StepFailed")


def _record(run: Run, op: dict[str, Any]) -> StepRecord:
    kind = "StepRun" if op["op"] in ("StepPlanned", "StepError", "StepFailed") else op["op"]
    name = op.get("displayName") or op["id"]
    step = run.recorded.setdefault(op["id"], StepRecord(id=op["id"], name=name, op=kind))
    step.op, step.opts = kind, op.get("opts") or {}
    return step


def _plan_of(answer: WorkerAnswer) -> Any:
    """Return the parts of an answer that must be the same each time."""
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


async def replay_programs(programs: Sequence[Callable[[], Awaitable[Any]]]) -> list[Run]:
    """Run programs in turn, each as an Inngest function that is replayed for each step."""
    event = "agentkit/program"
    middleware = AgentKitMiddleware.configured(inference="local")
    client = inngest.Inngest(app_id="programs", is_production=False, middleware=[middleware])

    @client.create_function(fn_id="program", trigger=inngest.TriggerEvent(event=event), retries=0)
    async def function(ctx: inngest.Context) -> None:
        await programs[int(str(ctx.event.data["number"]))]()

    executor = ReplayExecutor(client, [function], check=True)
    return [await executor.run(event, {"number": number}) for number in range(len(programs))]
