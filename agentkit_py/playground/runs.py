"""Runs of the playground: started, followed, cancelled, and kept while the process lives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, TypeAlias
from uuid import uuid4

from agentkit_py._engine.instrumentation import instrumented
from agentkit_py.budgets import Prices
from agentkit_py.errors import ConfigurationError
from agentkit_py.events.approvals import ApprovalAnswer, ApprovalRequest, resolution_of
from agentkit_py.events.types import RunStarted
from agentkit_py.history.abilities import abilities_of
from agentkit_py.history.questions import Question
from agentkit_py.network import Target
from agentkit_py.playground.recorder import Recorder, RecordingRuntime
from agentkit_py.processors.redaction import Redactor
from agentkit_py.stores.base import HistoryStore, thread_store

Status: TypeAlias = Literal["running", "completed", "waiting", "failed", "cancelled"]
"""``"waiting"``: the run is stored and waits for a person; its answer begins another recorded run,
which continues it."""

MAX_RUNS = 50
"""Number of runs whose details are kept; the threads of older ones stay in the store."""

MAX_CHARACTERS = 100_000_000
"""Characters of requests, replies and events that are kept of all runs but the last."""


class BusyError(ConfigurationError):
    """The thread has a run that is not over; the next message has to wait for its end."""


@dataclass(slots=True, kw_only=True)
class RecordedRun:
    """One run, as it was recorded."""

    id: str
    input: str
    recorder: Recorder
    thread_id: str | None
    first: int | None
    """Number of results that the thread had before; None: the store does not say."""

    last: int | None = None
    """Number of results that it had after."""

    began_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    status: Status = "running"
    events: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    """Events by their number in the log."""

    approvals: dict[str, asyncio.Future[ApprovalAnswer]] = field(
        default_factory=dict[str, asyncio.Future[ApprovalAnswer]]
    )
    asked: set[str] = field(default_factory=set[str])
    """Ids of stored questions that it asks."""

    ready: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the thread is known, or the run is over."""

    task: asyncio.Task[None] | None = None
    size: int = 0
    """Characters of its requests, replies and events, once it is over."""

    def measure(self) -> None:
        """Measure the size of its records."""
        calls = self.recorder.calls.values()
        bodies = sum(len(call.request or "") + len(call.reply or "") for call in calls)
        self.size = bodies + sum(len(str(event)) for event in self.events.values())

    def to_dict(self, *, events: bool = True) -> dict[str, Any]:
        """Return the run as JSON, with all its events or with none."""
        kept = self.events.items() if events else ()
        return {
            "id": self.id,
            "thread": self.thread_id,
            "input": self.input,
            "status": self.status,
            "first": self.first,
            "last": self.last,
            "beganAt": self.began_at.isoformat(),
            "events": [event | {"seq": seq} for seq, event in kept],
        }


class Playground:
    """A network or agent to play with.

    Attributes:
        examples: Messages that the page suggests.
        boot: Names this process, so that the page notices when another process answers.
        runs: The runs that are kept, oldest first.
        seq: Number of the last event.
    """

    def __init__(
        self,
        target: Target,
        prices: Prices | None = None,
        examples: Sequence[str] = (),
        *,
        max_characters: int = MAX_CHARACTERS,
    ) -> None:
        self._max_characters = max_characters
        self.target: Target = target
        self.examples: tuple[str, ...] = tuple(examples)
        self.prices: Prices = prices or Prices()
        self.boot: str = uuid4().hex[:12]
        self.runs: dict[str, RecordedRun] = {}
        self.seq: int = 0
        self._log: dict[int, tuple[RecordedRun, dict[str, Any]]] = {}
        self._news = asyncio.Event()
        self._closed = False

    @property
    def store(self) -> HistoryStore | None:
        """The target's store, if its history is a store."""
        return thread_store(self.target.history)

    @property
    def redactor(self) -> Redactor | None:
        """The redactor of the store, for the page too."""
        return None if self.store is None else self.store.redactor

    async def start(self, text: str, thread_id: str | None) -> RecordedRun:
        """Begin a run; return once its thread is known."""
        if thread_id and any(r.thread_id == thread_id and r.task for r in self.runs.values()):
            raise BusyError("This thread has a run in progress; wait for its end, or cancel it.")
        if thread_id is None and self.store is not None:
            thread_id = str(uuid4())
        run = self._record(text, thread_id)
        run.task = asyncio.create_task(self._run(run, partial(self._execute, run)))
        await run.ready.wait()
        return run

    def _record(self, text: str, thread_id: str | None) -> RecordedRun:
        """Return a new run that is recorded."""
        run = RecordedRun(
            id=uuid4().hex[:12],
            input=text,
            recorder=Recorder(lambda event: self._emit(run, event), self.prices),
            thread_id=thread_id,
            first=0,
        )
        self.runs[run.id] = run
        self._forget()
        return run

    async def _run(self, run: RecordedRun, execute: Callable[[], Awaitable[None]]) -> None:
        status: Status = "completed"
        failure: Exception | None = None
        try:
            run.first = await self._count(run)
            self._emit(run, {"kind": "run", "at": 0.0, "input": run.input, "thread": run.thread_id})
            await execute()
            status = "waiting" if await self._note_questions(run) else "completed"
        except asyncio.CancelledError:
            status = "cancelled"
        except Exception as error:  # noqa: BLE001 - shown on the page
            status, failure = "failed", error
        run.task = None
        run.last = await self._count_after(run)
        run.status = status
        run.recorder.close(status, failure)
        run.measure()
        self._forget()
        run.ready.set()

    async def _execute(self, run: RecordedRun) -> None:
        recorder = run.recorder
        runtime = RecordingRuntime(recorder)

        async def approve(request: ApprovalRequest) -> ApprovalAnswer:
            return await self._ask(run, request)

        try:
            with instrumented(recorder):
                stream = self.target.stream(
                    run.input,
                    thread_id=run.thread_id,
                    runtime=runtime,
                    # A stored question outlives this process, e.g. when a file is saved.
                    approver=None if abilities_of(self.store).questions else approve,
                )
                async with stream:
                    async for event in stream:
                        if isinstance(event, RunStarted) and not run.ready.is_set():
                            run.thread_id = event.thread_id or run.thread_id
                            run.ready.set()
        finally:
            await runtime.aclose()

    async def _count(self, run: RecordedRun) -> int | None:
        store, thread = self.store, run.thread_id
        if store is None or thread is None:
            return None
        return await store.count_results(thread) if await store.thread_exists(thread) else 0

    async def _count_after(self, run: RecordedRun) -> int | None:
        try:
            return await self._count(run)
        except Exception:  # noqa: BLE001 - the run has failed with it already, or soon another will
            return None

    async def _ask(self, run: RecordedRun, request: ApprovalRequest) -> ApprovalAnswer:
        waiting: asyncio.Future[ApprovalAnswer] = asyncio.get_running_loop().create_future()
        run.approvals[request.id] = waiting
        run.recorder.record("asked", request=request.to_dict())
        answer: ApprovalAnswer | None = None
        try:
            answer = await waiting
            return answer
        finally:  # nothing durable runs here
            run.approvals.pop(request.id, None)
            resolution = resolution_of(request, answer)
            reason = "" if answer is None else answer.reason
            run.recorder.record("decided", request=request.id, resolution=resolution, reason=reason)

    async def questions(self, thread_id: str) -> list[Question]:
        """Return a thread's open questions that can be answered here, of any process's runs."""
        found = await self.target.pending(thread_id)
        return [question for question in found if question.execution is None]

    async def _note_questions(self, run: RecordedRun) -> bool:
        """Record the questions of a paused run; return whether there are any."""
        if self.store is None or run.thread_id is None:
            return False
        shown = {question for one in self.runs.values() for question in one.asked}
        asked = [one for one in await self.questions(run.thread_id) if one.id not in shown]
        for question in asked:
            run.asked.add(question.id)
            run.recorder.record("asked", request=question.request.to_dict())
        return bool(asked)

    async def answer(self, request_id: str, answer: ApprovalAnswer, thread: str | None) -> bool:
        """Answer a question; False if it is not open.

        Args:
            request_id: The question.
            answer: The answer.
            thread: Its thread, where it is stored: its run continues here.
        """
        for run in self.runs.values():
            waiting = run.approvals.get(request_id)
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)
                return True
        if thread is None:  # a page may show the question before it knows the new thread
            asking = (run for run in self.runs.values() if request_id in run.asked)
            thread = next((run.thread_id for run in asking), None)
        if thread is None:
            return False
        asked = [one for one in await self.questions(thread) if one.id == request_id]
        if not asked:
            return False
        resolution = resolution_of(asked[0].request, answer)
        facts = {"request": request_id, "resolution": resolution, "reason": answer.reason}
        for run in [run for run in self.runs.values() if request_id in run.asked]:
            run.recorder.record("decided", **facts)
        run = self._record("", thread)
        run.recorder.resumes_after = request_id
        run.ready.set()
        run.task = asyncio.create_task(
            self._run(run, partial(self._resume, run, thread, {request_id: answer}))
        )
        return True

    async def _resume(
        self, run: RecordedRun, thread: str, answers: Mapping[str, ApprovalAnswer]
    ) -> None:
        runtime = RecordingRuntime(run.recorder)
        try:
            with instrumented(run.recorder):
                await self.target.resume(thread, answers, runtime=runtime)
        finally:
            await runtime.aclose()

    async def cancel(self, run: RecordedRun) -> None:
        """Cancel a run, and wait until it is over."""
        if run.task is not None:
            task = run.task
            task.cancel()
            await asyncio.wait([task])

    def stop(self) -> None:
        """End `follow` for everybody."""
        self._closed = True
        self._wake()

    async def close(self) -> None:
        """Cancel all runs, and close the store."""
        self.stop()
        for run in list(self.runs.values()):
            await self.cancel(run)
        if self.store is not None:
            await self.store.close()

    # Events.

    def _emit(self, run: RecordedRun, event: dict[str, Any]) -> None:
        self.seq += 1
        run.events[self.seq] = event
        self._log[self.seq] = (run, event)
        if event["kind"] == "replied":
            self._drop_pieces(run, event["runId"])
        self._wake()

    def _drop_pieces(self, run: RecordedRun, agent_run: str) -> None:
        """Drop the pieces of a reply that is recorded as a whole now."""
        pieces = [
            seq
            for seq, event in run.events.items()
            if event["kind"] == "delta" and event["runId"] == agent_run
        ]
        for seq in pieces:
            del run.events[seq], self._log[seq]

    def _forget(self) -> None:
        """Drop the oldest runs, but never the last, nor a run that is not over."""
        size = sum(run.size for run in self.runs.values())
        for run in list(self.runs.values())[:-1]:
            if len(self.runs) <= MAX_RUNS and size <= self._max_characters:
                return
            if run.task is None:
                size -= run.size
                for seq in run.events:
                    del self._log[seq]
                del self.runs[run.id]

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def follow(self, thread_id: str, after: int) -> AsyncGenerator[tuple[int, str, Any]]:
        """Yield events of a thread's runs after a number, as they happen: number, run and event.

        A slow reader reads from the log at its own pace; nothing is kept for it.
        """
        while not self._closed:
            news, end = self._news, self.seq
            for seq in range(after + 1, end + 1):
                found = self._log.get(seq)
                if found is not None and found[0].thread_id == thread_id:
                    yield seq, found[0].id, found[1]
            after = end
            if self.seq == end:
                await news.wait()
