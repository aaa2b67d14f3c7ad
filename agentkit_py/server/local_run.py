"""A run as a task of this process: its chunks, its questions, and the end of its stream."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from agentkit_py._core.json import as_list, as_object
from agentkit_py._core.untrusted import get_logger
from agentkit_py._engine.agent_run import ENDS_IN_ORDER
from agentkit_py._engine.pausing import (
    PENDING,
    Resumption,
)
from agentkit_py.errors import (
    ContextOverflowError,
    MessageConflictError,
    ModelConnectionError,
    ModelError,
    ModelTimeoutError,
    OutputError,
    ProviderUnavailableError,
    RateLimitError,
    ThreadBusyError,
    ThreadNotFoundError,
)
from agentkit_py.events import Event, RunFailed, RunStarted
from agentkit_py.events.chunks import FAILED, for_hook, without_details
from agentkit_py.events.replies import (
    ReplyEnd,
    reply_id,
)
from agentkit_py.events.types import ToolFinished
from agentkit_py.history.abilities import abilities_of
from agentkit_py.history.questions import Question
from agentkit_py.history.runs import Known
from agentkit_py.history.stopping import STOPPED
from agentkit_py.network import Network, on_history
from agentkit_py.results import AgentResult
from agentkit_py.runs import RunOptions, StreamingConfig
from agentkit_py.server.config import ServerSettings
from agentkit_py.server.runs import (
    Job,
    state_of,
)
from agentkit_py.server.slots import RunSlot
from agentkit_py.state import State
from agentkit_py.stores import HistoryStore
from agentkit_py.stores.wrappers import for_user

logger: logging.Logger = get_logger("agentkit_py.server")

_CANCEL_SECONDS = 5.0
"""Seconds that a cancel waits for its runs to end; a tool in a thread cannot be stopped."""

_TURN_SECONDS = 1.0
"""Seconds after which a run that has begun, and does not have the thread, waits for its turn."""


_PUBLIC_MESSAGES: tuple[tuple[type[Exception], str, bool], ...] = (
    (ContextOverflowError, "The conversation has become too long for the model.", False),
    (RateLimitError, "The model is busy. Please try again in a moment.", True),
    (ModelTimeoutError, "The model did not answer in time. Please try again.", True),
    (ModelConnectionError, "The model could not be reached. Please try again.", True),
    (ProviderUnavailableError, "The model is not available. Please try again.", True),
    (ModelError, "The model could not answer.", False),
    (MessageConflictError, "Another message was sent under this id.", False),
    (ThreadNotFoundError, "This conversation does not exist any more.", False),
    (ThreadBusyError, "This conversation is busy. Please try again in a moment.", True),
    (TimeoutError, "The answer took too long, and was stopped.", True),
)


def public_message(error: BaseException | None) -> tuple[str, bool]:
    """Return the users' message on a failed run, and whether a retry may help.

    It names no machine, provider or key.
    """
    for kind, words, recoverable in _PUBLIC_MESSAGES:
        if isinstance(error, kind):
            return words, recoverable
    return FAILED, False


@dataclass(slots=True)
class LocalRun:
    """A job that runs here: its chunks, its questions, and the end of its stream."""

    job: Job
    send: Callable[[dict[str, Any]], object]
    """Publishes a chunk to the user's channel."""

    slot: RunSlot
    store: object
    work: asyncio.Task[None] | None = None
    """Answers the message."""

    task: asyncio.Task[None] | None = None
    """Waits for the end of the work, and completes it; it is not cancelled."""

    root: str | None = None
    """Message id of the outermost run, once it has begun."""

    sequence: int = -1
    """The highest number of its chunks."""

    known: Known | None = None
    """The store's data on the message; None: another run was working on the thread."""

    taken: Resumption | None = None
    """The paused run to resume; None: a new run."""

    is_again: bool = False
    """True if there is a record of an earlier run for the message."""

    is_at_work: bool = False
    """True once it has the thread, in which the message is stored then."""

    since: float = field(default_factory=time.monotonic)
    """When it was made."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once it works, or has ended before that."""

    repeat: bool = False
    """Send the chunks before the pause again: this process may have no copy."""

    pending: bool = False
    """True once it has ended waiting for a person."""

    is_plain: bool = True
    """False if it ended normally without a final text, which its thread cannot distinguish
    from the work of a run that died."""

    questions: list[Question] = field(default_factory=list[Question])
    """The questions that it waits for."""

    _stopped: str | None = None
    """Why it was stopped."""

    _error: BaseException | None = None
    _ended: bool = False

    async def execute(self, settings: ServerSettings) -> None:
        """Answer the message. `finalize` must be called with the task when it is done."""
        await self.slot.take()
        async with self.slot.limit(settings.limits.run_seconds):
            job, store = self.job, for_user(settings.store, self.job.user_id)
            options: RunOptions = {
                "limits": settings.limits_of(job.target),
                "observer": self._observe,
                "streaming": StreamingConfig(
                    publish=self._publish,
                    extended=settings.extended,
                    repeat=self.repeat,
                    error_texts=False,
                ),
            }
            target = on_history(job.target, store)  # the user's view of it
            if self.taken is None:
                options["state"] = await self._state(settings, store)
                options["on_busy"] = job.on_busy
                run = target.run(job.message, **options)
            else:
                run = target.go_on(self.taken, options)
            reason, self.is_plain = await _ended(run)
            self.pending = reason == PENDING
            if reason == STOPPED:
                self._stopped = self._stopped or "cancelled"
                raise asyncio.CancelledError
            if self.pending:
                self.questions = await target.pending(job.thread_id)

    async def _state(self, settings: ServerSettings, store: HistoryStore) -> State[Any]:
        job = self.job
        state = await state_of(job, settings, store, self.known)
        if job.client_history is not None:
            state = State(state.data, messages=job.client_history)
        state.thread_id = job.thread_id
        return state

    @property
    def is_queued(self) -> bool:
        """True if it waits for its turn: for a permit, or for the thread."""
        if self.begun.is_set():
            return False
        return self.slot.is_contended or time.monotonic() - self.since > _TURN_SECONDS

    def stop(self, reason: str) -> None:
        """Cancel it."""
        self._stopped = reason
        if self.work is not None:
            self.work.cancel()

    def status_of(self, work: asyncio.Task[None]) -> str | None:
        """Return how the work has ended, as records say it; None: it waits for a person."""
        if work.cancelled():  # a run stopped by a shutdown may be sent again
            return "failed" if self._stopped == "shutdown" else "stopped"
        if work.exception() is not None:
            return "failed"
        return None if self.pending else "completed"

    def finalize(self, task: asyncio.Task[None]) -> None:
        """End the stream and free the thread, now that the task is done."""
        self.begun.set()
        if task.cancelled():
            self._end("run.interrupted", reason=self._stopped or "cancelled")
        elif (error := task.exception()) is not None:
            self._error = self._error or error
            traced = None if isinstance(error, ThreadNotFoundError) else error  # deleted meanwhile
            about = ("The run for message %s failed: %s", self.job.message.id, error)
            logger.error(*about, exc_info=traced)
            words, recoverable = public_message(error)
            self._end("error", error=words, recoverable=recoverable)
        elif not self.pending:
            self._end(None)
        self.slot.end()

    def close(self, end: ReplyEnd) -> None:
        """End the stream of a run that no process works on."""
        if end.reason == "stopped":
            self._end("run.interrupted", reason="cancelled")
        elif end.reason == "failed":
            self._end("error", error=end.error, recoverable=end.recoverable)
        else:
            self._end(None)

    def _observe(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self.is_at_work = True
            self.begun.set()
        elif isinstance(event, RunFailed):
            self._error = event.error
        elif isinstance(event, ToolFinished) and (self._stopped or self.slot.expired):
            # The tool swallowed the cancellation; the next steps must not begin.
            raise asyncio.CancelledError

    async def _publish(self, chunk: dict[str, Any]) -> None:
        event, data = chunk["event"], as_object(chunk["data"]) or {}
        if event == "hitl.requested":
            await self._keep_parts(data)
        self._track_stream(event, chunk["sequenceNumber"], data)
        if event == "run.interrupted":
            reason = "timeout" if self.slot.expired else self._stopped or "cancelled"
            chunk = {**chunk, "data": {**data, "reason": reason}}
        if event in ("run.failed", "part.failed"):
            words, recoverable = public_message(self._error)
            chunk = without_details(chunk, words, recoverable=recoverable)
        self.send(for_hook(chunk) if "callPartId" in data else chunk)

    async def _keep_parts(self, data: dict[str, Any]) -> None:
        """Keep the ids that calls have in the stream, by which the hook answers."""
        calls = [as_object(call) or {} for call in as_list(data.get("toolCalls")) or ()]
        parts = tuple(str(call.get("partId")) for call in calls)
        questions = abilities_of(self.store).questions
        if questions is not None:
            await questions.change_question(
                str(data.get("requestId")), lambda known: replace(known, parts=parts)
            )

    def _track_stream(self, event: str, sequence: int, data: dict[str, Any]) -> None:
        self.sequence = max(self.sequence, sequence)
        if event == "run.started" and "parentRunId" not in data and self.root is None:
            self.root = data.get("messageId")
        elif event == "stream.ended":
            self._ended = True

    def _end(self, event: str | None, **facts: Any) -> None:
        """End the stream where the run did not, e.g. as it had not begun."""
        if self._ended:
            return
        where: dict[str, Any] = {
            "threadId": self.job.thread_id,
            "userId": self.job.user_id,
            "scope": "network" if isinstance(self.job.target, Network) else "agent",
            "name": self.job.target.name,
            # Of a run that did not begin: the id under which front ends show its reply.
            "messageId": self.root or reply_id(self.job.message.id or ""),
        }
        if event is not None:
            self._add(event, {**where, **facts})
        self._add("stream.ended", where)
        self._ended = True

    def _add(self, event: str, data: dict[str, Any]) -> None:
        self.sequence += 1
        self.send(
            {
                "event": event,
                "data": data,
                "timestamp": int(datetime.now(UTC).timestamp() * 1000),
                "sequenceNumber": self.sequence,
                "id": f"end-{uuid4()}:{event}",
            }
        )


async def _ended(run: Awaitable[Any]) -> tuple[str | None, bool]:
    """Return why a run ended, and whether its last word is a text.

    An agent whose output is still to come has ended, too.
    """
    try:
        found = await run
    except OutputError as error:
        if error.reason not in ENDS_IN_ORDER:
            raise
        return error.reason, False
    last: AgentResult | None = found if isinstance(found, AgentResult) else found.last_result
    if last is None or not last.output or last.tool_calls:
        return found.stop_reason, False
    return found.stop_reason, last.output[-1].type == "text"


async def stop_all(runs: Iterable[LocalRun], reason: str) -> None:
    """Cancel runs, and wait some seconds for their end."""
    stopped = list(runs)
    for run in stopped:
        run.stop(reason)
    tasks = [run.task for run in stopped if run.task is not None]
    if tasks:
        _, left = await asyncio.wait(tasks, timeout=_CANCEL_SECONDS)
        if left:
            logger.warning(
                "%d cancelled runs have not ended after %g s", len(left), _CANCEL_SECONDS
            )
