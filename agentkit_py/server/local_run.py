"""One run in this process: what it publishes, what it asks, and how its stream ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from agentkit_py._core.json import as_object
from agentkit_py.events import ApprovalAnswer, ApprovalRequest, Event, RunFailed
from agentkit_py.events.public import for_hook, without_details
from agentkit_py.events.types import ToolFinished
from agentkit_py.network import Network
from agentkit_py.runs import RunLimits, StreamingConfig
from agentkit_py.server.config import ClientRules, with_store
from agentkit_py.server.failures import public_words
from agentkit_py.server.jobs import Job
from agentkit_py.server.questions import Question, parts_of
from agentkit_py.server.states import begin_state, previous_data
from agentkit_py.server.turns import ThreadTurn
from agentkit_py.state import State
from agentkit_py.stores import HistoryStore

logger: logging.Logger = logging.getLogger("agentkit_py.server")


@dataclass(slots=True)
class LocalRun:
    """A job that is carried out here."""

    job: Job
    send: Callable[[dict[str, Any]], object]
    """Publishes a chunk to the user's channel."""

    turn: ThreadTurn
    task: asyncio.Task[None] | None = None
    root: str | None = None
    """Message id of the outermost run, once it has begun."""

    questions: dict[str, Question] = field(default_factory=dict[str, Question])
    answered: set[str] = field(default_factory=set[str])
    """Ids of questions that were answered, with those of their calls."""

    _parts: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    _stopped: bool = False
    _error: BaseException | None = None
    _sequence: int = -1
    _ended: bool = False

    async def execute(
        self,
        store: HistoryStore,
        rules: ClientRules,
        *,
        seconds: float,
        limits: RunLimits | None,
        extended: bool,
    ) -> None:
        """Answer the message. `settle` must be called with the task when it is done."""
        await self.turn.take()
        async with self.turn.limit(seconds):
            await self._answer(store, rules, limits, extended=extended)

    def stop(self) -> None:
        """Cancel it."""
        self._stopped = True
        if self.task is not None:
            self.task.cancel()

    def settle(self, task: asyncio.Task[None]) -> None:
        """The task is done, however: the stream ends, and the thread is free."""
        if task.cancelled():
            self._end("run.interrupted", reason="cancelled")
        elif (error := task.exception()) is not None:
            self._error = self._error or error
            logger.error("The run for message %s failed", self.job.message.id, exc_info=error)
            words, recoverable = public_words(error)
            self._end("error", error=words, recoverable=recoverable)
        else:
            self._end(None)
        self.turn.end()

    async def _answer(
        self,
        store: HistoryStore,
        rules: ClientRules,
        limits: RunLimits | None,
        *,
        extended: bool,
    ) -> None:
        job = self.job
        previous = await previous_data(store, job.thread_id)
        state = begin_state(job.target, job.user_id, job.client_state, rules, previous)
        if job.client_history is not None:
            state = State(state.data, messages=job.client_history)
        state.thread_id = job.thread_id
        target = with_store(job.target, store)
        options: dict[str, Any] = {
            "state": state,
            "limits": limits,
            "approver": self._ask,
            "observer": self._observe,
            "streaming": StreamingConfig(publish=self._publish, extended=extended),
        }
        await target.run(job.message, **options)

    def _observe(self, event: Event) -> None:
        if isinstance(event, RunFailed):
            self._error = event.error
        elif isinstance(event, ToolFinished) and (self._stopped or self.turn.expired):
            # The tool kept the cancellation to itself; what comes after it must not begin.
            raise asyncio.CancelledError

    async def _ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        question = Question(request, self._parts.get(request.id, {}))
        self.questions[request.id] = question
        try:
            return await question.answer
        finally:
            del self.questions[request.id]
            names = [call.id for call in request.calls]
            self.answered.update([request.id, *self._parts.get(request.id, {}), *names])

    async def _publish(self, chunk: dict[str, Any]) -> None:
        event, data = chunk["event"], as_object(chunk["data"]) or {}
        question = str(data.get("requestId"))
        if event == "hitl.requested":
            self._parts[question] = parts_of(data)
        self._note(event, chunk["sequenceNumber"], data)
        if event == "run.interrupted" and self.turn.expired:
            chunk = {**chunk, "data": {**data, "reason": "timeout"}}
        words, recoverable = public_words(self._error)
        self.send(for_hook(without_details(chunk, words, recoverable=recoverable)))
        if event == "hitl.requested" and question not in self.answered:
            self.turn.asks(question)
        elif event == "hitl.resolved":
            await self.turn.answered(question)

    def _note(self, event: str, sequence: int, data: dict[str, Any]) -> None:
        self._sequence = max(self._sequence, sequence)
        if event == "run.started" and "parentRunId" not in data and self.root is None:
            self.root = data.get("messageId")
        elif event == "stream.ended":
            self._ended = True

    def _end(self, event: str | None, **facts: Any) -> None:
        """End the stream where the run did not: it had not begun, or was answered before."""
        if self._ended:
            return
        kind = "network" if isinstance(self.job.target, Network) else "agent"
        where: dict[str, Any] = {
            "threadId": self.job.thread_id,
            "userId": self.job.user_id,
            "scope": kind,
            "name": self.job.target.name,
            "messageId": self.root or str(uuid4()),
        }
        if event is not None:
            self._add(event, {**where, **facts})
        self._add("stream.ended", where)
        self._ended = True

    def _add(self, event: str, data: dict[str, Any]) -> None:
        self._sequence += 1
        now = int(datetime.now(UTC).timestamp() * 1000)
        self.send(
            {
                "event": event,
                "data": data,
                "timestamp": now,
                "sequenceNumber": self._sequence,
                "id": f"end-{uuid4()}:{event}",
            }
        )
