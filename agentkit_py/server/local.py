"""Runs as tasks of this process; their chunks go through its hub."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import uuid4
from weakref import WeakValueDictionary

import anyio
from starlette.requests import HTTPConnection

from agentkit_py._core.untrusted import get_logger
from agentkit_py._engine.pausing import (
    Resumption,
    end_lost,
    stop_paused,
    stop_unasked,
    take,
    waited_for,
)
from agentkit_py._engine.transcript import INTERRUPTED
from agentkit_py.errors import (
    MessageConflictError,
    ThreadNotFoundError,
)
from agentkit_py.events.replies import (
    QUEUED,
    STATUS,
    WORKING,
    ReplyEnd,
    ReplyStatus,
)
from agentkit_py.history.questions import Question, QuestionStore, stop_question
from agentkit_py.history.runs import RunRecord
from agentkit_py.messages import UserMessage, text_of_parts
from agentkit_py.results import AgentResult
from agentkit_py.server.auth import StreamTokens
from agentkit_py.server.config import ServerSettings
from agentkit_py.server.endings import HAS_DIED, end_of, record_of, waiting_for
from agentkit_py.server.errors import ApiError, too_many
from agentkit_py.server.hub import Hub, LostRun
from agentkit_py.server.line import Line
from agentkit_py.server.local_run import LocalRun, stop_all
from agentkit_py.server.notices import Notifier
from agentkit_py.server.responses import TokenResponse
from agentkit_py.server.runs import (
    APPROVALS,
    Backend,
    Job,
    channel_of,
    user_of,
)
from agentkit_py.server.slots import RunSlot, RunSlots
from agentkit_py.server.streams import own_token
from agentkit_py.server.turns import turn_of
from agentkit_py.server.upkeep import PAUSE_TIME, Upkeep
from agentkit_py.server.workers import Workers
from agentkit_py.stores.wrappers import for_user

logger: logging.Logger = get_logger("agentkit_py.server")

_MOST_PAUSED = 10_000
"""Paused runs whose place in the stream is remembered."""

_TO_STORE = 5.0
"""Seconds that a message waits to be stored before it is kept in line: another process may have the
thread."""

_DEATH_SECONDS = 2.0
"""Seconds between two looks for the end of a run whose process has died."""


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

        self._upkeep = Upkeep(settings, notifier, self)
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
        self._upkeep.look()

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
            await stop_all([run for run in runs if run.is_at_work], INTERRUPTED)
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

    async def answer_line(self) -> None:
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
        self._upkeep.look()

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

    async def is_lost(self, question: Question) -> bool:
        """Return whether the run that asked has died before it was stored as paused.

        All workers know of the runs that are open in any of them; a run elsewhere has some seconds.
        """
        store = self._settings.store.abilities.questions
        run_id, user_id = question.run_id, question.user_id or ""
        if run_id is None or question.execution is not None or store is None:
            return False
        if datetime.now(UTC) - question.asked_at < PAUSE_TIME:
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

    async def let_go(self, store: QuestionStore, asked: Sequence[Question]) -> None:
        """Let go of the paused runs that another process has taken, and may have died with."""
        waiting = {(one.thread_id, one.run_id or "") for one in asked}
        for key in self._paused.keys() - waiting:
            known = await store.load_run(*key)
            if key in self._going_on or (known is not None and known.status == "paused"):
                continue  # its answer was stored just now
            run = self._paused.pop(key, None)
            if run is not None and run.root is not None:
                self._hub.end_own_run(channel_of(run.job.user_id), run.root)

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
        self._upkeep.stop()
        working = [run.task for run in self._all if run.task is not None]
        if working:
            await asyncio.wait(working, timeout=self._settings.limits.shutdown_seconds)
        await self._stop(self._all, "shutdown")
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _stop(self, runs: Iterable[LocalRun], reason: str) -> None:
        """Cancel runs, and keep the messages of those that had not begun."""
        stopped = list(runs)
        await stop_all(stopped, reason)
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
