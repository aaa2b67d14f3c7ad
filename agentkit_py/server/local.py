"""Runs as tasks of this process; their chunks go through its hub."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4
from weakref import WeakValueDictionary

from starlette.requests import HTTPConnection

from agentkit_py._core.json import as_object
from agentkit_py.errors import (
    ContextOverflowError,
    ModelConnectionError,
    ModelError,
    ModelTimeoutError,
    ProviderUnavailableError,
    RateLimitError,
    ThreadBusyError,
)
from agentkit_py.events import ApprovalAnswer, ApprovalRequest, Decision, Event, RunFailed
from agentkit_py.events.chunks import FAILED, for_hook, without_details
from agentkit_py.events.types import ToolFinished
from agentkit_py.network import Network
from agentkit_py.runs import StreamingConfig
from agentkit_py.server.approvals import PendingApproval, parts_of
from agentkit_py.server.auth import StreamTokens, is_same_host
from agentkit_py.server.config import Settings
from agentkit_py.server.hub import Hub
from agentkit_py.server.runs import TOPIC, Backend, Job, begin_state, channel_of, previous_data
from agentkit_py.server.schemas import ApiError, TokenResponse, too_many
from agentkit_py.state import State
from agentkit_py.stores.wrappers import for_user

logger: logging.Logger = logging.getLogger("agentkit_py.server")

_CANCEL_SECONDS = 5.0
"""Seconds that a cancel waits for its runs to end; a tool in a thread cannot be stopped."""

_PUBLIC_MESSAGES: tuple[tuple[type[Exception], str, bool], ...] = (
    (ContextOverflowError, "The conversation has become too long for the model.", False),
    (RateLimitError, "The model is busy. Please try again in a moment.", True),
    (ModelTimeoutError, "The model did not answer in time. Please try again.", True),
    (ModelConnectionError, "The model could not be reached. Please try again.", True),
    (ProviderUnavailableError, "The model is not available. Please try again.", True),
    (ModelError, "The model could not answer.", False),
    (ThreadBusyError, "This conversation is busy. Please try again in a moment.", True),
    (TimeoutError, "The answer took too long, and was stopped.", True),
)


def public_message(error: BaseException | None) -> tuple[str, bool]:
    """Return what users read about a failed run, and whether trying again may help.

    It names no machine, provider or key.
    """
    for kind, words, recoverable in _PUBLIC_MESSAGES:
        if isinstance(error, kind):
            return words, recoverable
    return FAILED, False


class RunSlots:
    """Bounds the runs that work at the same time, and lets one run at a time work in a thread."""

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
        return RunSlot(self, self._locks.setdefault(key, asyncio.Lock()))

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
    """One run's permit and lock, given up while it waits for a person, which may take days.

    The time that the run may take counts only while it has the lock.
    """

    slots: RunSlots
    lock: asyncio.Lock
    permitted: bool = True
    locked: bool = False
    pending: set[str] = field(default_factory=set[str])
    """Ids of the approvals that the run waits for."""

    _timer: asyncio.Timeout | None = None
    _left: float = 0.0

    def limit(self, seconds: float) -> asyncio.Timeout:
        """Return the timer of the run, which starts now."""
        self._timer = asyncio.timeout(seconds)
        return self._timer

    @property
    def expired(self) -> bool:
        """True once the run has taken too long."""
        return self._timer is not None and self._timer.expired()

    async def take(self) -> None:
        """Wait for the thread."""
        await self.lock.acquire()
        self.locked = True
        if self._timer is not None:
            self._timer.reschedule(asyncio.get_running_loop().time() + self._left)

    def pause(self, approval: str) -> None:
        """Give up lock and permit while a person decides."""
        self.pending.add(approval)
        when = self._timer.when() if self.locked and self._timer is not None else None
        if self._timer is not None and when is not None:
            self._left = when - asyncio.get_running_loop().time()
            self._timer.reschedule(None)
        self._release()

    async def resume(self, approval: str) -> None:
        """Go on after the last pending approval, once there are a permit and the lock.

        The permit comes before the lock, as with a new run: a run with the lock has a permit, so
        that no two runs wait for each other.
        """
        self.pending.discard(approval)
        if self.pending or self.locked:
            return
        if not self.permitted:
            await self.slots.acquire()
            self.permitted = True
        await self.take()

    def end(self) -> None:
        """Give up lock and permit for good."""
        self._timer = None
        self._release()

    def _release(self) -> None:
        if self.locked:
            self.locked = False
            self.lock.release()
        if self.permitted:
            self.permitted = False
            self.slots.release()


@dataclass(slots=True)
class LocalRun:
    """A job that runs here: what it publishes, what it asks, and how its stream ends."""

    job: Job
    send: Callable[[dict[str, Any]], object]
    """Publishes a chunk to the user's channel."""

    slot: RunSlot
    task: asyncio.Task[None] | None = None
    root: str | None = None
    """Message id of the outermost run, once it has begun."""

    approvals: dict[str, PendingApproval] = field(default_factory=dict[str, PendingApproval])
    decided: set[str] = field(default_factory=set[str])
    """Ids of approvals that were decided, with those of their calls."""

    _parts: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    _stopped: bool = False
    _error: BaseException | None = None
    _sequence: int = -1
    _ended: bool = False

    async def execute(self, settings: Settings) -> None:
        """Answer the message. `finalize` must be called with the task when it is done."""
        await self.slot.take()
        async with self.slot.limit(settings.limits.run_seconds):
            job, store = self.job, for_user(settings.store, self.job.user_id)
            state = begin_state(job, settings, await previous_data(store, job.thread_id))
            if job.client_history is not None:
                state = State(state.data, messages=job.client_history)
            state.thread_id = job.thread_id
            options: dict[str, Any] = {
                "state": state,
                "limits": settings.run_limits,
                "approver": self._ask,
                "observer": self._observe,
                "streaming": StreamingConfig(publish=self._publish, extended=settings.extended),
            }
            target = copy(job.target)
            target.history = store  # the user's view of it; nothing else changes
            await target.run(job.message, **options)

    def stop(self) -> None:
        """Cancel it."""
        self._stopped = True
        if self.task is not None:
            self.task.cancel()

    def finalize(self, task: asyncio.Task[None]) -> None:
        """End the stream and free the thread, now that the task is done."""
        if task.cancelled():
            self._end("run.interrupted", reason="cancelled")
        elif (error := task.exception()) is not None:
            self._error = self._error or error
            logger.error("The run for message %s failed", self.job.message.id, exc_info=error)
            words, recoverable = public_message(error)
            self._end("error", error=words, recoverable=recoverable)
        else:
            self._end(None)
        self.slot.end()

    def _observe(self, event: Event) -> None:
        if isinstance(event, RunFailed):
            self._error = event.error
        elif isinstance(event, ToolFinished) and (self._stopped or self.slot.expired):
            # The tool swallowed the cancellation; what comes after it must not begin.
            raise asyncio.CancelledError

    async def _ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        approval = PendingApproval(request, self._parts.get(request.id, {}))
        self.approvals[request.id] = approval
        try:
            return await approval.answer
        finally:
            del self.approvals[request.id]
            self.decided |= approval.ids

    async def _publish(self, chunk: dict[str, Any]) -> None:
        event, data = chunk["event"], as_object(chunk["data"]) or {}
        approval = str(data.get("requestId"))
        if event == "hitl.requested":
            self._parts[approval] = parts_of(data)
        self._track_stream(event, chunk["sequenceNumber"], data)
        if event == "run.interrupted" and self.slot.expired:
            chunk = {**chunk, "data": {**data, "reason": "timeout"}}
        words, recoverable = public_message(self._error)
        self.send(for_hook(without_details(chunk, words, recoverable=recoverable)))
        if event == "hitl.requested" and approval not in self.decided:
            self.slot.pause(approval)
        elif event == "hitl.resolved":
            await self.slot.resume(approval)

    def _track_stream(self, event: str, sequence: int, data: dict[str, Any]) -> None:
        self._sequence = max(self._sequence, sequence)
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
            "messageId": self.root or str(uuid4()),
        }
        if event is not None:
            self._add(event, {**where, **facts})
        self._add("stream.ended", where)
        self._ended = True

    def _add(self, event: str, data: dict[str, Any]) -> None:
        self._sequence += 1
        self.send(
            {
                "event": event,
                "data": data,
                "timestamp": int(datetime.now(UTC).timestamp() * 1000),
                "sequenceNumber": self._sequence,
                "id": f"end-{uuid4()}:{event}",
            }
        )


class LocalRuns(Backend):
    """Runs of this process."""

    streams = True

    def __init__(self, settings: Settings, hub: Hub, tokens: StreamTokens) -> None:
        self._settings = settings
        self._hub = hub
        self._tokens = tokens
        self._runs: dict[str, list[LocalRun]] = {}
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

    def open(self) -> None:
        """Accept messages, also after a `close`."""
        self._closing = False
        if not self._runs:
            # The previous locks may belong to another event loop.
            self._slots = RunSlots(self._settings.limits.runs)

    def check_room(self, user_id: str) -> None:
        """Refuse a run where there are too many, or the server is stopping."""
        limits = self._settings.limits
        waiting = self.count - self._slots.working
        if self._closing or self._slots.full or waiting >= limits.waiting_runs:
            raise ApiError(
                503, "unavailable", "The server is busy. Please try again.", {"Retry-After": "5"}
            )
        if len(self._runs.get(user_id, ())) >= limits.runs_per_user:
            raise too_many(f"At most {limits.runs_per_user} answers can be under way at once.")

    async def start(self, job: Job) -> None:
        """Begin a run, unless the message is being answered already."""
        others = self._of(job.user_id, job.thread_id)
        if any(run.job.message.id == job.message.id for run in others):
            return
        self.check_room(job.user_id)
        channel = channel_of(job.user_id)
        run = LocalRun(
            job,
            lambda chunk: self._hub.publish(channel, chunk),
            await self._slots.new(f"{job.user_id}\n{job.thread_id}"),  # at once: there is room
        )
        self._runs.setdefault(job.user_id, []).append(run)
        run.task = asyncio.create_task(run.execute(self._settings))
        run.task.add_done_callback(lambda task: self._finalize(run, task))

    def _finalize(self, run: LocalRun, task: asyncio.Task[None]) -> None:
        run.finalize(task)
        runs = self._runs[run.job.user_id]
        runs.remove(run)
        if not runs:
            del self._runs[run.job.user_id]
        self._hub.trim()

    async def cancel(self, user_id: str, thread_id: str) -> int:
        """Cancel the user's runs in a thread, and wait a few seconds for their end."""
        runs = self._of(user_id, thread_id)
        await _stop(runs)
        return len(runs)

    async def answer(self, user_id: str, thread_id: str, call_id: str, decision: Decision) -> bool:
        """Decide the pending approval with this call; one that was decided is an error."""
        runs = self._of(user_id, thread_id)
        approvals = [approval for run in runs for approval in run.approvals.values()]
        if any(approval.decide(call_id, decision, user_id) for approval in approvals):
            return True
        known = any(call_id in approval.ids for approval in approvals)
        if known or any(call_id in run.decided for run in runs):
            raise ApiError(409, "already_answered", "This was answered already.")
        return False

    async def token(self, request: HTTPConnection, user_id: str) -> TokenResponse:
        """Return a token for ``/v1/realtime/connect`` of ``apiBaseUrl``."""
        key, grant = self._tokens.make(user_id)
        return {
            "channel": channel_of(user_id),
            "topics": [TOPIC],
            "key": key,
            "token": key,
            "expires": grant.expires * 1000,
            "app": {"apiBaseUrl": self._settings.realtime_url or _base_url(request)},
        }

    def replayed(self, user_id: str, thread_id: str) -> list[str]:
        """Return ids of the messages whose replies the hub still holds from their start."""
        channel = channel_of(user_id)
        return [
            run.job.message.id or ""
            for run in self._of(user_id, thread_id)
            if run.root is not None and self._hub.holds(channel, run.root)
        ]

    async def idle(self) -> None:
        """Wait until no run is left."""
        while self._runs:
            await asyncio.wait([run.task for run in self._all if run.task])

    async def close(self) -> None:
        """Wait for runs to end, except those that wait for a person; then cancel the rest."""
        self._closing = True
        working = [run.task for run in self._all if run.task is not None and not run.approvals]
        if working:
            await asyncio.wait(working, timeout=self._settings.limits.shutdown_seconds)
        await _stop(self._all)


async def _stop(runs: Iterable[LocalRun]) -> None:
    stopped = list(runs)
    for run in stopped:
        run.stop()
    tasks = [run.task for run in stopped if run.task is not None]
    if tasks:
        _, left = await asyncio.wait(tasks, timeout=_CANCEL_SECONDS)
        if left:
            logger.warning(
                "%d cancelled runs have not ended after %g s", len(left), _CANCEL_SECONDS
            )


def _base_url(request: HTTPConnection) -> str:
    """Return this server's address for the browser: behind a proxy, its page knows it best."""
    origin = request.headers.get("origin")
    if origin is not None and is_same_host(origin, request):
        return origin
    scheme = {"ws": "http", "wss": "https"}.get(request.url.scheme, request.url.scheme)
    return f"{scheme}://{urlsplit(str(request.url)).netloc}"
