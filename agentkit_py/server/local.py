"""The in-process mode: runs are tasks of this process, and their chunks go through its hub."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from agentkit_py.events import Decision
from agentkit_py.server.answers import TokenAnswer
from agentkit_py.server.auth import is_same_host
from agentkit_py.server.config import Settings
from agentkit_py.server.hub import Hub
from agentkit_py.server.jobs import TOPIC, Job, channel_of
from agentkit_py.server.local_run import LocalRun
from agentkit_py.server.refusals import Refusal, too_many
from agentkit_py.server.tokens import Tokens
from agentkit_py.server.turns import ThreadLocks
from agentkit_py.stores.scoped import for_user

logger: logging.Logger = logging.getLogger("agentkit_py.server")

_CANCEL_SECONDS = 5.0
"""How long a cancel waits for its runs to end; a tool in a thread cannot be stopped."""


class LocalRuns:
    """Runs of this process, by user."""

    streams = True

    def __init__(self, settings: Settings, hub: Hub, tokens: Tokens) -> None:
        """Begin without runs."""
        self._settings = settings
        self._hub = hub
        self._tokens = tokens
        self._runs: dict[str, list[LocalRun]] = {}
        self._locks = self._new_locks()
        self._closing = False

    @property
    def count(self) -> int:
        """How many runs there are."""
        return sum(map(len, self._runs.values()))

    def _of(self, user_id: str, thread_id: str) -> list[LocalRun]:
        return [run for run in self._runs.get(user_id, ()) if run.job.thread_id == thread_id]

    async def start(self, job: Job) -> None:
        """Begin a run; a message that is being answered already is not answered twice.

        Raises:
            Refusal: Too many runs, or the server is stopping.
        """
        own = self._of(job.user_id, job.thread_id)
        if any(run.job.message.id == job.message.id for run in own):
            return
        self.check_room(job.user_id)
        channel = channel_of(job.user_id)
        run = LocalRun(
            job,
            lambda chunk: self._hub.publish(channel, chunk),
            await self._locks.turn(f"{job.user_id}\n{job.thread_id}"),  # at once: there is room
        )
        self._runs.setdefault(job.user_id, []).append(run)
        limits = self._settings.limits
        run.task = asyncio.create_task(
            run.execute(
                for_user(self._settings.store, job.user_id),
                self._settings.rules,
                seconds=limits.run_seconds,
                limits=self._settings.run_limits,
                extended=self._settings.extended,
            )
        )
        run.task.add_done_callback(lambda task: self._forget(run, task))

    def _new_locks(self) -> ThreadLocks:
        return ThreadLocks(asyncio.Semaphore(self._settings.limits.runs))

    def open(self) -> None:
        """Take messages, also after a `close`."""
        self._closing = False
        if not self._runs:
            self._locks = self._new_locks()  # those there are may belong to another event loop

    def check_room(self, user_id: str) -> None:
        """Refuse what could not be begun.

        Raises:
            Refusal: Too many runs, or the server is stopping.
        """
        limits = self._settings.limits
        # Runs that were answered and wait for a place lock it, too: they come before new ones.
        full = self._locks.places.locked()
        waiting = self.count - self._locks.working
        if self._closing or full or waiting >= limits.waiting_runs:
            raise Refusal(
                503, "unavailable", "The server is busy. Please try again.", {"Retry-After": "5"}
            )
        if len(self._runs.get(user_id, ())) >= limits.runs_per_user:
            raise too_many(f"At most {limits.runs_per_user} answers can be under way at once.")

    def _forget(self, run: LocalRun, task: asyncio.Task[None]) -> None:
        run.settle(task)
        mine = self._runs[run.job.user_id]
        mine.remove(run)
        if not mine:
            del self._runs[run.job.user_id]
        self._hub.trim()

    async def cancel(self, user_id: str, thread_id: str) -> int:
        """Cancel the user's runs in a thread, and wait until they have ended, if they soon do."""
        runs = self._of(user_id, thread_id)
        await _stop(runs, _CANCEL_SECONDS)
        return len(runs)

    async def answer(self, user_id: str, thread_id: str, call_id: str, decision: Decision) -> bool:
        """Answer the question that waits for this call.

        Raises:
            Refusal: It was answered before.
        """
        runs = self._of(user_id, thread_id)
        questions = [question for run in runs for question in run.questions.values()]
        if any(question.decide(call_id, decision, user_id) for question in questions):
            return True
        known = any(question.is_about(call_id) for question in questions)
        if known or any(call_id in run.answered for run in runs):
            raise Refusal(409, "already_answered", "This was answered already.")
        return False

    async def token(self, request: HTTPConnection, user_id: str) -> TokenAnswer:
        """A token for the hook, which connects to ``/v1/realtime/connect`` of ``apiBaseUrl``."""
        key, grant = self._tokens.make(user_id)
        return TokenAnswer(
            channel=channel_of(user_id),
            topics=[TOPIC],
            key=key,
            token=key,
            expires=grant.expires * 1000,
            app={"apiBaseUrl": self._settings.realtime_url or _base_url(request)},
        )

    def replayed(self, user_id: str, thread_id: str) -> list[str]:
        """Ids of the messages whose answers a new reader of the stream gets from their start."""
        channel = channel_of(user_id)
        return [
            run.job.message.id or ""
            for run in self._of(user_id, thread_id)
            if run.root is not None and self._hub.holds(channel, run.root)
        ]

    async def idle(self) -> None:
        """Wait until no run is left."""
        while self._runs:
            await asyncio.wait([r.task for mine in self._runs.values() for r in mine if r.task])

    async def close(self) -> None:
        """Let runs end for a while, but those that wait for a person; then cancel them."""
        self._closing = True
        runs = [run for mine in self._runs.values() for run in mine]
        working = [run.task for run in runs if run.task is not None and not run.questions]
        if working:
            await asyncio.wait(working, timeout=self._settings.limits.shutdown_seconds)
        await _stop([run for mine in self._runs.values() for run in mine], _CANCEL_SECONDS)


async def _stop(runs: Iterable[LocalRun], seconds: float) -> None:
    stopped = list(runs)
    for run in stopped:
        run.stop()
    tasks = [run.task for run in stopped if run.task is not None]
    if tasks:
        _, left = await asyncio.wait(tasks, timeout=seconds)
        if left:
            logger.warning("%d cancelled runs have not ended after %g s", len(left), seconds)


def _base_url(request: HTTPConnection) -> str:
    """Where the browser reaches this server: behind a proxy, its page knows better than we do."""
    origin = request.headers.get("origin")
    if origin is not None and is_same_host(origin, request):
        return origin
    scheme = {"ws": "http", "wss": "https"}.get(request.url.scheme, request.url.scheme)
    return f"{scheme}://{urlsplit(str(request.url)).netloc}"
