"""Runs as tasks of this process; their chunks go through its hub."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4
from weakref import WeakValueDictionary

import anyio
from starlette.requests import HTTPConnection

from agentkit_py._core.json import as_list, as_object
from agentkit_py._core.untrusted import get_logger
from agentkit_py._engine.agent_run import ENDS_IN_ORDER
from agentkit_py._engine.pausing import (
    PENDING,
    Resumption,
    end_lost,
    stop_paused,
    stop_unasked,
    take,
    waited_for,
)
from agentkit_py._engine.transcript import INTERRUPTED
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
    QUEUED,
    STATUS,
    WORKING,
    ReplyEnd,
    ReplyStatus,
    reply_id,
)
from agentkit_py.events.types import ToolFinished
from agentkit_py.history.abilities import abilities_of
from agentkit_py.history.questions import Question, QuestionStore, stop_question
from agentkit_py.history.runs import Known, RunRecord
from agentkit_py.history.stopping import STOPPED
from agentkit_py.messages import UserMessage, text_of_parts
from agentkit_py.network import Network, on_history
from agentkit_py.results import AgentResult
from agentkit_py.runs import RunOptions, StreamingConfig
from agentkit_py.server.auth import StreamTokens, is_same_host
from agentkit_py.server.config import ServerSettings
from agentkit_py.server.endings import HAS_DIED, end_of, record_of, waiting_for
from agentkit_py.server.hub import Hub, LostRun
from agentkit_py.server.line import Line
from agentkit_py.server.notices import Notifier
from agentkit_py.server.runs import (
    APPROVALS,
    TOPIC,
    Backend,
    Job,
    channel_of,
    state_of,
    user_of,
)
from agentkit_py.server.schemas import ApiError, TokenResponse, too_many
from agentkit_py.server.turns import turn_of
from agentkit_py.server.workers import Workers
from agentkit_py.state import State
from agentkit_py.stores import HistoryStore
from agentkit_py.stores.wrappers import for_user

logger: logging.Logger = get_logger("agentkit_py.server")

_MOST_PAUSED = 10_000
"""Paused runs whose place in the stream is remembered."""

_LOOK_SECONDS = 20.0
"""Seconds between two checks for other processes' questions and queued messages."""

_PAUSE_TIME = timedelta(seconds=10)
"""The time that a run has from its question to the moment when it is stored."""

_LOST_SECONDS = 3600.0
"""Seconds after which the run of a question is stored as paused, or has died."""

_TO_STORE = 5.0
"""Seconds that a message waits to be stored before it is kept in line: another process may have the
thread."""

_CANCEL_SECONDS = 5.0
"""Seconds that a cancel waits for its runs to end; a tool in a thread cannot be stopped."""

_TURN_SECONDS = 1.0
"""Seconds after which a run that has begun, and does not have the thread, waits for its turn."""

_DEATH_SECONDS = 2.0
"""Seconds between two looks for the end of a run whose process has died."""

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


class RunSlots:
    """Bounds the simultaneous runs, and lets a single run at a time work in a thread."""

    def __init__(self, most: int) -> None:
        self._permits = asyncio.Semaphore(most)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.working: int = 0
        """Number of runs that have a permit."""

    @property
    def full(self) -> bool:
        """True if all permits are in use, or wanted by runs that were answered."""
        return self._permits.locked()

    async def new(self, key: str) -> RunSlot:
        """Return a slot with a permit; its thread is not locked yet."""
        await self.acquire()
        return self.later(key, permitted=True)

    def later(self, key: str, *, permitted: bool = False) -> RunSlot:
        """Return a slot that gets its permit when the run takes it."""
        return RunSlot(self, self._locks.setdefault(key, asyncio.Lock()), permitted)

    async def acquire(self) -> None:
        """Wait for a permit."""
        await self._permits.acquire()
        self.working += 1

    def release(self) -> None:
        """Give a permit back."""
        self._permits.release()
        self.working -= 1


@dataclass(slots=True)
class RunSlot:
    """One run's permit and lock of its thread.

    The permit comes before the lock: a run with the lock has a permit, so that no two runs wait for
    each other.
    """

    slots: RunSlots
    lock: asyncio.Lock
    permitted: bool = True
    locked: bool = False
    _timer: asyncio.Timeout | None = None

    def limit(self, seconds: float) -> asyncio.Timeout:
        """Return the timer of the run, which starts now."""
        self._timer = asyncio.timeout(seconds)
        return self._timer

    @property
    def expired(self) -> bool:
        """True once the run has taken too long."""
        return self._timer is not None and self._timer.expired()

    @property
    def is_contended(self) -> bool:
        """True if it waits for a permit or the thread, which others have."""
        if self.locked:
            return False
        return self.lock.locked() or (not self.permitted and self.slots.full)

    async def take(self) -> None:
        """Wait for a permit, if the run has none, and for the thread."""
        if not self.permitted:
            await self.slots.acquire()
            self.permitted = True
        await self.lock.acquire()
        self.locked = True

    def end(self) -> None:
        """Give up lock and permit."""
        if self.locked:
            self.locked = False
            self.lock.release()
        if self.permitted:
            self.permitted = False
            self.slots.release()


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


class LocalRuns(Backend):
    """Runs of this process."""

    streams = runs_here = True

    def __init__(
        self, settings: ServerSettings, hub: Hub, tokens: StreamTokens, notifier: Notifier
    ) -> None:
        self._settings = settings
        self._hub = hub
        self._notifier = notifier
        self._workers = Workers(hub)
        self._workers.on_cancel = self._cancel_for_others
        self._workers.on_death = self._end_after_death
        self._line = Line(settings, self._workers.name, self._workers.is_alive)
        self._workers.is_busy = lambda: len(self._line) > 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._tokens = tokens
        self._runs: dict[str, list[LocalRun]] = {}
        self._paused: OrderedDict[tuple[str, str], LocalRun] = OrderedDict()
        self._going_on: list[tuple[str, str]] = []
        """Thread and id of the runs that are being taken here."""

        self._deciding: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Held while a thread's run is taken, or its runs are stopped, to serialise the two."""

        self._expiring: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._not_lost = set[str]()
        """Open questions of long ago whose runs are stored."""

        self._draining: asyncio.Task[None] | None = None
        self._slots = RunSlots(settings.limits.runs)
        self._closing = False

    @property
    def count(self) -> int:
        """Number of runs."""
        return sum(map(len, self._runs.values()))

    @property
    def _all(self) -> list[LocalRun]:
        return [run for runs in self._runs.values() for run in runs]

    def _of(self, user_id: str, thread_id: str) -> list[LocalRun]:
        return [run for run in self._runs.get(user_id, ()) if run.job.thread_id == thread_id]

    def _same(self, job: Job) -> LocalRun | None:
        """Return the run that answers the message already; a paused run may not have ended yet."""
        runs = self._of(job.user_id, job.thread_id)
        return next((run for run in runs if run.job.message.id == job.message.id), None)

    async def join(self) -> None:
        """Share streams with other processes of the server."""
        await self._workers.join(self._settings.store)

    async def leave(self) -> None:
        """Stop sharing."""
        await self._workers.leave()

    def open(self) -> None:
        """Accept messages, also after a `close`."""
        self._closing, self._draining = False, None
        if not self._runs:
            # The previous locks may belong to another event loop.
            self._slots = RunSlots(self._settings.limits.runs)
            self._news = asyncio.Event()
        self._watch_expiry()

    def check_room(self, user_id: str) -> None:
        """Refuse a run where there are too many, or the server is stopping."""
        limits = self._settings.limits
        if self._closing or self._slots.full:
            raise ApiError(
                503, "unavailable", "The server is busy. Please try again.", {"Retry-After": "5"}
            )
        if len(self._runs.get(user_id, ())) >= limits.runs_per_user:
            raise too_many(f"At most {limits.runs_per_user} answers can be under way at once.")

    async def start(self, job: Job) -> None:
        """Begin a run, unless the message is being answered already.

        It returns once the message is stored, or kept in line where another run works on the
        thread, so that accepted messages outlive this process.
        """
        idle = not self._of(job.user_id, job.thread_id)
        most = self._settings.limits.runs_per_user
        run_id = job.message.id or ""
        known = await self._settings.store.look_up(job.thread_id, run_id, job.user_id, most)
        if known.own is not None and await self._is_taken_care_of(job, known.own):
            return
        if self._same(job) is None and known.questions >= most:
            raise too_many(f"At most {most} answers can be under way at once.")
        idle = idle and not self._of(job.user_id, job.thread_id)
        if job.on_busy == "interrupt":
            runs = self._of(job.user_id, job.thread_id)
            await _stop([run for run in runs if run.is_at_work], INTERRUPTED)
        run = self._same(job)
        if run is None:  # else it has begun meanwhile
            self.check_room(job.user_id)
            run = self._run(job, await self._slots.new(_key(job)))  # at once: there is room
            run.known, run.is_again = known if idle else None, known.own is not None
            self._begin(run)
        if idle:  # else it waits in line, perhaps for minutes
            with anyio.move_on_after(_TO_STORE):
                await run.begun.wait()
        if not run.begun.is_set():
            self._tell_queued(job)
            if await self._line.keep(job):
                self._do(self._leave_line(job, run))
        elif not run.is_at_work:
            await self._store_message(job)

    async def _is_taken_care_of(self, job: Job, own: RunRecord) -> bool:
        """Return whether a message waits for a person, is being answered, or was answered.

        With a lease, a message's run finds out itself that it was answered.
        """
        run: RunRecord | None = own
        if own.status in ("paused", "running"):
            run = await self.settle(job.user_id, job.thread_id, own.id)
        if run is None or run.status in ("paused", "running"):
            return run is not None
        store = for_user(self._settings.store, job.user_id)
        if run.status != "completed" or store.lease is not None:
            return False
        turn = await turn_of(store, job.thread_id, own.id)
        if turn is None or turn.text != text_of_parts(job.message.content):
            return False
        self._tell_end(job.user_id, job.thread_id, own.id, ReplyEnd(reason="completed"))
        return True

    async def _leave_line(self, job: Job, run: LocalRun | None) -> None:
        """Keep a message in line until it is stored."""
        if run is not None:
            await run.begun.wait()
            if not run.is_at_work:  # its time was over, or it was stopped
                await self._store_message(job)
        await self._line.drop(job)

    async def _answer_line(self) -> None:
        """Answer messages in line of processes that have died."""
        for job in await self._line.left_behind():
            self._do(self._take_over(job))

    async def _take_over(self, job: Job) -> None:
        store = for_user(self._settings.store, job.user_id)
        try:
            if await store.thread_exists(job.thread_id):
                await self.start(job)
            await self._leave_line(job, self._same(job))
        except ApiError:  # no capacity yet
            self._line.put_off(job)

    async def check_questions(self, user_id: str) -> None:
        """Refuse a run of a user for whom as many questions are open as runs may be under way."""
        store = self._settings.store.abilities.questions
        most = self._settings.limits.runs_per_user
        if store is None:
            return
        if len(await store.list_questions(user_id=user_id, limit=most)) >= most:
            raise too_many(f"At most {most} answers can be under way at once.")

    def _run(self, job: Job, slot: RunSlot, *, local: bool = False) -> LocalRun:
        channel = channel_of(job.user_id)
        publish = partial(self._hub.publish, channel, answers=job.message.id, local=local)
        return LocalRun(job, publish, slot, self._settings.store)

    def _find_place(self, run: LocalRun) -> None:
        """Let a run that paused, maybe in another process, end the stream that it began."""
        job = run.job
        answers = job.message.id or ""
        root, last = self._hub.place_of(channel_of(job.user_id), job.thread_id, answers)
        if root is not None:
            run.root, run.sequence = root, last

    def _begin(self, run: LocalRun) -> None:
        self._runs.setdefault(run.job.user_id, []).append(run)
        run.work = asyncio.create_task(run.execute(self._settings))
        run.task = asyncio.create_task(self._see_to_end(run, run.work))

    async def _see_to_end(self, run: LocalRun, work: asyncio.Task[None]) -> None:
        """Wait until the work has ended, however early it was cancelled, and record how."""
        await asyncio.wait([work])
        try:
            await self._record_end(run, run.status_of(work))
        except Exception:
            logger.exception("The end of the run for %s was not recorded", run.job.message.id)
        self._finalize(run, work)

    async def _record_end(self, run: LocalRun, status: str | None) -> None:
        """Record how a run ended, where the engine did not or could not know.

        A plain answer says by itself that it was given.
        """
        if run.taken is not None:
            await run.taken.end(status or "completed")
        store = self._settings.store.abilities.questions
        is_told = status == "completed" and run.is_plain and not run.is_again
        if status is None or is_told or store is None:
            return

        def change(known: RunRecord) -> RunRecord | None:
            kept = known.status in ("paused", "running", "completed", status)
            return None if kept else replace(known, status=status)

        thread_id, run_id = run.job.thread_id, run.job.message.id or ""
        if await store.change_run(thread_id, run_id, change) is None:
            with suppress(ThreadNotFoundError):
                await store.save_run(thread_id, RunRecord(id=run_id, status=status))

    def _finalize(self, run: LocalRun, work: asyncio.Task[None]) -> None:
        run.finalize(work)
        runs = self._runs[run.job.user_id]
        runs.remove(run)
        if not runs:
            del self._runs[run.job.user_id]
        if run.pending and self._same(run.job) is None:  # otherwise it was resumed already
            self._keep_paused(run)

    def _keep_paused(self, run: LocalRun) -> None:
        self._paused[run.job.thread_id, run.job.message.id or ""] = run
        if len(self._paused) > _MOST_PAUSED:
            self._paused.popitem(last=False)
        self._hub.publish(APPROVALS, {"event": "approval.changed", "data": {}})
        for question in run.questions:
            about = (run.job.user_id, "question_open", question.thread_id)
            self._notifier.tell(*about, text=question.message, question=question)
        self._watch_expiry()

    async def go_on(self, question: Question) -> None:
        """Resume a run whose question is answered, or has expired.

        A run that is still working finds the answer itself when it pauses.
        """
        store = self._settings.store.abilities.questions
        if store is None or question.run_id is None:
            return
        key = question.thread_id, question.run_id
        async with self._deciding.setdefault(question.thread_id, asyncio.Lock()):
            self._going_on.append(key)  # a look leaves it alone
            try:
                taken = await take(store, *key)
            finally:
                self._going_on.remove(key)
            if taken is not None:
                await self._begin_again(taken, question.user_id or "")

    async def _begin_again(self, taken: Resumption, user_id: str) -> None:
        key = taken.thread_id, taken.run_id
        kind, name = taken.target
        target = self._settings.targets.get((kind, name))
        if target is None:
            await taken.end("failed")
            logger.error("A paused run of %s %r cannot resume: it does not exist here", kind, name)
            raise ApiError(409, "unknown_target", "The agents of this run are not here any more.")
        job = Job(user_id=user_id, thread_id=taken.thread_id, target=target, message=taken.message)
        run = self._run(job, self._slots.later(_key(job)))
        before = self._paused.pop(key, None) or self._same(job)
        root = None if before is None else before.root
        run.repeat = root is None or not self._hub.holds(channel_of(job.user_id), root)
        run.taken = taken
        self._find_place(run)
        self._begin(run)
        if run.is_queued:
            self._tell_queued(job)

    def check_answerable(self, question: Question) -> None:
        """Refuse the questions of functions, whose answers are events."""
        if question.execution is not None:
            raise ApiError(502, "unavailable", "The run waits elsewhere. Please try again there.")

    async def _go_on_answered(self, store: QuestionStore) -> None:
        """Resume the paused runs whose answers were stored by a process that died."""
        for question in await store.list_questions(status="undelivered", limit=None):
            at, run_id = question.answered_at, question.run_id
            if at is None or datetime.now(UTC) - at < _PAUSE_TIME or run_id is None:
                continue  # the process that stored it takes the run
            if question.execution is not None:
                continue
            run = await store.load_run(question.thread_id, run_id)
            target = as_object(((run and run.journal) or {}).get("target")) or {}
            if (target.get("kind"), target.get("name")) in self._settings.targets:
                await self.go_on(question)

    async def is_lost(self, question: Question) -> bool:
        """Return whether the run that asked has died before it was stored as paused.

        All workers know of the runs that are open in any of them; a run elsewhere has some seconds.
        """
        store = self._settings.store.abilities.questions
        run_id, user_id = question.run_id, question.user_id or ""
        if run_id is None or question.execution is not None or store is None:
            return False
        if datetime.now(UTC) - question.asked_at < _PAUSE_TIME:
            return False
        if run_id in self.working(user_id, question.thread_id):
            return False
        if self._hub.works_on(channel_of(user_id), run_id):
            return False
        known = await store.load_run(question.thread_id, run_id)
        if known is None or known.status not in ("paused", "running"):
            return True
        return known.is_lost(datetime.now(UTC))

    async def settle(self, user_id: str, thread_id: str, message_id: str) -> RunRecord | None:
        """Return the record of a message's run, once a run without a living owner is seen to."""
        store = self._settings.store.abilities.questions
        if store is None:
            return None
        run = await store.load_run(thread_id, message_id)
        if run is None or run.status not in ("paused", "running"):
            return run
        if run.is_paused:
            asked = await waited_for(store, thread_id, run)
            if not asked:  # its process died while it paused, or its questions are gone
                await stop_unasked(store, thread_id, message_id)
                return await store.load_run(thread_id, message_id)
            for question in asked:
                if question.status != "open":  # the process that took the answer has died since
                    with suppress(ApiError):  # it is logged
                        await self.go_on(question)
                    break
        elif run.is_lost(datetime.now(UTC)):
            is_answered = await self._is_answered(store, user_id, thread_id, run)
            if await end_lost(store, thread_id, message_id, is_answered=is_answered):
                end = ReplyEnd(reason="completed") if is_answered else HAS_DIED
                self._tell_end(user_id, thread_id, message_id, end)
                return await store.load_run(thread_id, message_id)
        return run

    async def _is_answered(
        self, store: QuestionStore, user_id: str, thread_id: str, run: RunRecord
    ) -> bool:
        """Return whether a run had given its answer, of which its record says nothing yet."""
        asked = await waited_for(store, thread_id, run)
        times = [one.answered_at for one in asked if one.answered_at is not None]
        turn = await turn_of(for_user(self._settings.store, user_id), thread_id, run.id)
        if turn is None or not times or turn.changed_at <= max(times):
            return False  # the stored text is from an earlier attempt
        last = turn.parts[-1] if turn.parts else None
        return last is not None and last.type == "text" and not last.by_staff

    def _tell_queued(self, job: Job) -> None:
        """Publish that a message waits for its turn, outside of the chunks of runs."""
        where = {"threadId": job.thread_id, "userId": job.user_id, "messageId": job.message.id}
        chunk = {
            "event": STATUS,
            "data": {**where, **QUEUED.to_dict()},
            "timestamp": int(datetime.now(UTC).timestamp() * 1000),
            "sequenceNumber": -1,
            "id": f"status-{uuid4()}:{STATUS}",
        }
        self._hub.publish(channel_of(job.user_id), chunk)

    async def status_of(self, user_id: str, thread_id: str, message_id: str) -> ReplyStatus | None:
        """Return why the stream of a message's reply may stay open; None: it has to end."""
        if not thread_id:
            return None
        if here := self._status_here(user_id, thread_id, message_id):
            return here
        run = await self.settle(user_id, thread_id, message_id)
        if here := self._status_here(user_id, thread_id, message_id):
            return here  # it was resumed since
        store = self._settings.store.abilities.questions
        if run is not None and store is not None:
            if run.is_paused:
                return waiting_for(await waited_for(store, thread_id, run))
            if run.is_taken or run.is_waiting(time.time()):
                return WORKING
        if message_id in self.awaited(user_id, thread_id):
            return WORKING
        if asked := await self._asked_by(thread_id, message_id):
            return waiting_for(asked)
        is_kept = run is None and await self._line.holds(thread_id, message_id)
        return QUEUED if is_kept else None

    def _status_here(self, user_id: str, thread_id: str, message_id: str) -> ReplyStatus | None:
        """Return the status of a message that a run of this process answers."""
        for run in self._of(user_id, thread_id):
            if run.job.message.id == message_id:
                return QUEUED if run.is_queued else WORKING
        return None

    async def _asked_by(self, thread_id: str, message_id: str) -> list[Question]:
        """Return the open questions of a message's run, those of a run that died closed."""
        store = self._settings.store.abilities.questions
        if store is None:
            return []
        asked = await store.list_questions(thread_id=thread_id, limit=None)
        found: list[Question] = []
        for question in asked:
            if question.run_id != message_id:
                continue
            if not await self.is_lost(question):
                found.append(question)
                continue
            await stop_question(store, question.id)
        return found

    def _tell_end(self, user_id: str, thread_id: str, message_id: str, end: ReplyEnd) -> None:
        """End the stream of a run that no process works on."""
        run = self._paused.pop((thread_id, message_id), None)
        run = run or self._elsewhere(user_id, thread_id, message_id)
        self._find_place(run)
        run.close(end)

    def _elsewhere(
        self, user_id: str, thread_id: str, message_id: str, *, local: bool = False
    ) -> LocalRun:
        """Return the run of another process, to end the stream that it began.

        Args:
            user_id: The user.
            thread_id: The thread.
            message_id: The user's message.
            local: For the readers of this process only.
        """
        message = UserMessage("", message_id)
        target = next(iter(self._settings.targets.values()))
        job = Job(user_id=user_id, thread_id=thread_id, target=target, message=message)
        return self._run(job, self._slots.later(_key(job)), local=local)

    def _end_after_death(self, runs: Sequence[LostRun]) -> None:
        """End the streams of a process that has died; each of the others does."""
        for run in runs:
            self._do(self._end_lost_stream(run))

    async def _end_lost_stream(self, lost: LostRun) -> None:
        """End a stream whose process has died, unless its run waits or continues elsewhere.

        A run that was taken counts as dead a little later, by its own sign of life.
        """
        where = user_of(lost.channel), lost.thread_id, lost.answers
        run = self._elsewhere(*where, local=True)
        run.root, run.sequence = lost.message_id, lost.last
        self._paused.setdefault(where[1:], run)
        with suppress(ThreadNotFoundError):
            while (status := await self.status_of(*where)) == WORKING:
                if self._hub.works_on(lost.channel, lost.answers) or self._status_here(*where):
                    return
                await asyncio.sleep(_DEATH_SECONDS)
            if status is None and self._paused.get(where[1:]) is run:
                del self._paused[where[1:]]
                run.close(await self._end_of(*where))

    async def _end_of(self, user_id: str, thread_id: str, message_id: str) -> ReplyEnd:
        store = for_user(self._settings.store, user_id)
        record = await record_of(store, thread_id, message_id)
        turn = await turn_of(store, thread_id, message_id)
        return end_of(record, turn, runs_here=True)

    async def _stop_lost(self, store: QuestionStore, asked: Sequence[Question]) -> None:
        """Close the open questions of runs that died so long ago that none can be active."""
        begun = datetime.now(UTC) - timedelta(
            seconds=max(_LOST_SECONDS, self._settings.limits.run_seconds)
        )
        self._not_lost &= {one.id for one in asked}
        for one in asked:
            if one.asked_at < begun and one.id not in self._not_lost:
                if await self.is_lost(one):
                    await stop_question(store, one.id)
                self._not_lost.add(one.id)

    async def _let_go(self, store: QuestionStore, asked: Sequence[Question]) -> None:
        """Let go of the paused runs that another process has taken, and may have died with."""
        waiting = {(one.thread_id, one.run_id or "") for one in asked}
        for key in self._paused.keys() - waiting:
            known = await store.load_run(*key)
            if key in self._going_on or (known is not None and known.status == "paused"):
                continue  # its answer was stored just now
            run = self._paused.pop(key, None)
            if run is not None and run.root is not None:
                self._hub.end_own_run(channel_of(run.job.user_id), run.root)

    def _watch_expiry(self) -> None:
        """Look after questions that expire, from now on."""
        self._news.set()
        if self._expiring is None or self._expiring.done():
            self._expiring = asyncio.create_task(self._expire())

    async def _expire(self) -> None:
        store = self._settings.store.abilities.questions
        while store is not None:
            self._news.clear()
            try:
                await self._answer_line()
                for question in await store.list_questions(status="due", limit=None):
                    await self._close_due(store, question)
                await self._go_on_answered(store)
                asked = await store.list_questions(limit=None)
                await self._stop_lost(store, asked)
                await self._let_go(store, asked)
                times = [one.expires_at for one in asked]
            except Exception:
                logger.exception("Questions could not be looked after; it is tried again")
                times = []
            left = [(one - datetime.now(UTC)).total_seconds() for one in times if one is not None]
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min([_LOOK_SECONDS, *left]))):
                    await self._news.wait()

    async def _close_due(self, store: QuestionStore, question: Question) -> None:
        def expire(known: Question) -> Question | None:
            now = datetime.now(UTC)
            return known.closed(None, now) if known.is_due(now) else None

        if question.execution is not None:
            return  # its function knows the time itself
        closed = await store.change_question(question.id, expire)
        if closed is not None and closed.status == "expired":
            about = (closed.user_id, "question_expired", closed.thread_id)
            self._notifier.tell(*about, question=closed)
            await self.go_on(closed)

    async def cancel(self, user_id: str, thread_id: str) -> int:
        """Cancel the user's runs in a thread, and wait a few seconds for their end.

        Other worker processes are notified; their runs are not counted.
        """
        self._workers.cancel(user_id, thread_id)
        count = await self._cancel_here(user_id, thread_id)
        if not count:  # another process may have taken a run in between
            self._workers.cancel(user_id, thread_id)
        return count

    async def _cancel_here(self, user_id: str, thread_id: str) -> int:
        """Stop the runs of this process, and those that wait: an answer comes before, or after."""
        async with self._deciding.setdefault(thread_id, asyncio.Lock()):
            runs = self._of(user_id, thread_id)
            await self._stop(runs, "cancelled")
            working = self.working(user_id, thread_id)
            at_work = [*working, *self.awaited(user_id, thread_id)]
            store = for_user(self._settings.store, user_id)
            paused = await stop_paused(store, thread_id, at_work=at_work)
        for record in paused:
            self._tell_end(user_id, thread_id, record.id, ReplyEnd(reason="stopped"))
        return len({run.job.message.id for run in runs} | {record.id for record in paused})

    def _cancel_for_others(self, user_id: str, thread_id: str) -> None:
        self._do(self._stop_for_others(user_id, thread_id))

    async def _stop_for_others(self, user_id: str, thread_id: str) -> None:
        async with self._deciding.setdefault(thread_id, asyncio.Lock()):  # it may just be taken
            is_here = bool(self._of(user_id, thread_id))
        if is_here:
            await self._cancel_here(user_id, thread_id)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def token(self, request: HTTPConnection, user_id: str) -> TokenResponse:
        """Return a token for ``/v1/realtime/connect`` of ``apiBaseUrl``."""
        return own_token(self._settings, self._tokens, request, user_id)

    def accepts_runs(self) -> bool:
        """Return False from the moment the server stops."""
        return not self._closing

    def replayed(self, user_id: str, thread_id: str) -> list[str]:
        """Return ids of the messages whose replies the hub still holds from their start."""
        return self._hub.answered(channel_of(user_id), thread_id)

    def awaited(self, user_id: str, thread_id: str) -> list[str]:
        """Return ids of messages that other processes answer."""
        return self._hub.answered_elsewhere(channel_of(user_id), thread_id)

    def working(self, user_id: str, thread_id: str) -> dict[str, asyncio.Task[None]]:
        """Return the tasks that answer a thread's messages, by their ids."""
        runs = self._of(user_id, thread_id)
        return {run.job.message.id or "": run.task for run in runs if run.task is not None}

    async def idle(self) -> None:
        """Wait until no run is left."""
        while self._runs:
            await asyncio.wait([run.task for run in self._all if run.task])

    async def close(self) -> None:
        """Wait for runs to end, then cancel the rest; those that wait for a person are stored."""
        self.drain()
        if self._draining is not None:
            await self._draining

    def drain(self) -> None:
        """Begin no more runs; those that work get some time, and are then stopped."""
        self._closing = True
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain())

    def works_for(self, user_id: str) -> bool:
        """Return whether a run of the user works in this process."""
        return user_id in self._runs

    async def _drain(self) -> None:
        if self._expiring is not None:
            self._expiring.cancel()
        working = [run.task for run in self._all if run.task is not None]
        if working:
            await asyncio.wait(working, timeout=self._settings.limits.shutdown_seconds)
        await self._stop(self._all, "shutdown")
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _stop(self, runs: Iterable[LocalRun], reason: str) -> None:
        """Cancel runs, and keep the messages of those that had not begun."""
        stopped = list(runs)
        await _stop(stopped, reason)
        for run in stopped:
            if run.root is None and run.taken is None and run.job.message.content:
                await self._store_message(run.job)

    async def _store_message(self, job: Job) -> None:
        """Store a message that no run has stored."""
        store = for_user(self._settings.store, job.user_id)
        # It may be deleted meanwhile; and a message that was sent before is stored as it was.
        with suppress(ThreadNotFoundError, MessageConflictError):
            message = AgentResult.from_user(job.message.content, id=job.message.id)
            await store.append(job.thread_id, [message])


def _key(job: Job) -> str:
    return f"{job.user_id}\n{job.thread_id}"


async def _stop(runs: Iterable[LocalRun], reason: str) -> None:
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


def own_token(
    settings: ServerSettings, tokens: StreamTokens, request: HTTPConnection, user_id: str
) -> TokenResponse:
    """Return a token for ``/v1/realtime/connect`` of this server."""
    key, grant = tokens.make(user_id)
    return {
        "channel": channel_of(user_id),
        "topics": [TOPIC],
        "key": key,
        "token": key,
        "expires": grant.expires * 1000,
        "app": {"apiBaseUrl": settings.realtime_url or _base_url(request)},
    }


def _base_url(request: HTTPConnection) -> str:
    """Return this server's address for the browser: behind a proxy, its page knows it best."""
    origin = request.headers.get("origin")
    if origin is not None and is_same_host(origin, request):
        return origin
    scheme = {"ws": "http", "wss": "https"}.get(request.url.scheme, request.url.scheme)
    return f"{scheme}://{urlsplit(str(request.url)).netloc}"
