"""Upkeep of a server's questions: those that expire, whose run has died, or was not resumed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Protocol

from agentkit_py._core.json import as_object
from agentkit_py._core.untrusted import get_logger
from agentkit_py.history.questions import Question, QuestionStore, stop_question
from agentkit_py.server.config import ServerSettings
from agentkit_py.server.notices import Notifier

logger: logging.Logger = get_logger("agentkit_py.server")

_LOOK_SECONDS = 20.0
"""Seconds between two checks for other processes' questions and queued messages."""

PAUSE_TIME: timedelta = timedelta(seconds=10)
"""The time that a run has from its question to the moment when it is stored."""

_LOST_SECONDS = 3600.0
"""Seconds after which the run of a question is stored as paused, or has died."""


class _Runs(Protocol):
    """The runs of this process."""

    async def go_on(self, question: Question) -> None: ...
    async def is_lost(self, question: Question) -> bool: ...
    async def answer_line(self) -> None: ...
    async def let_go(self, store: QuestionStore, asked: Sequence[Question]) -> None: ...


class Upkeep:
    """Looks after questions and queued messages, now and then and when a question expires."""

    def __init__(self, settings: ServerSettings, notifier: Notifier, runs: _Runs) -> None:
        self._settings = settings
        self._notifier = notifier
        self._runs = runs
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._not_lost = set[str]()
        """Open questions of long ago whose runs are stored."""

    def look(self) -> None:
        """Look now, and from now on."""
        self._news.set()
        if self._task is None or self._task.done():  # it ends where a store has no questions
            self._news = asyncio.Event()  # the previous one may belong to another event loop
            self._task = asyncio.create_task(self._keep_looking())

    def stop(self) -> None:
        """Look no more, until the next `look`."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _keep_looking(self) -> None:
        store = self._settings.store.abilities.questions
        while store is not None:
            self._news.clear()
            try:
                await self._runs.answer_line()
                for question in await store.list_questions(status="due", limit=None):
                    await self._close_due(store, question)
                await self._go_on_answered(store)
                asked = await store.list_questions(limit=None)
                await self._stop_lost(store, asked)
                await self._runs.let_go(store, asked)
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
            await self._runs.go_on(closed)

    async def _go_on_answered(self, store: QuestionStore) -> None:
        """Resume the paused runs whose answers were stored by a process that died."""
        for question in await store.list_questions(status="undelivered", limit=None):
            at, run_id = question.answered_at, question.run_id
            if at is None or datetime.now(UTC) - at < PAUSE_TIME or run_id is None:
                continue  # the process that stored it takes the run
            if question.execution is not None:
                continue
            run = await store.load_run(question.thread_id, run_id)
            target = as_object(((run and run.journal) or {}).get("target")) or {}
            if (target.get("kind"), target.get("name")) in self._settings.targets:
                await self._runs.go_on(question)

    async def _stop_lost(self, store: QuestionStore, asked: Sequence[Question]) -> None:
        """Close the open questions of runs that died so long ago that none can be active."""
        begun = datetime.now(UTC) - timedelta(
            seconds=max(_LOST_SECONDS, self._settings.limits.run_seconds)
        )
        self._not_lost &= {one.id for one in asked}
        for one in asked:
            if one.asked_at < begun and one.id not in self._not_lost:
                if await self._runs.is_lost(one):
                    await stop_question(store, one.id)
                self._not_lost.add(one.id)
