"""Runs that pause for a person's answer, and resume in any process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import uuid4

from agentkit_py._core.awaiting import finished
from agentkit_py._core.json import JsonObject, as_list, as_object
from agentkit_py._core.untrusted import get_logger
from agentkit_py._engine.run_context import RunContext
from agentkit_py._engine.run_options import RunOptions
from agentkit_py.codec import user_message_from_dict, user_message_to_dict
from agentkit_py.errors import ConfigurationError, NotPendingError, StateError
from agentkit_py.events.approvals import Answered, ApprovalAnswer
from agentkit_py.history.abilities import abilities_of
from agentkit_py.history.questions import Question, QuestionStore, record_answer, stop_question
from agentkit_py.history.runs import RunRecord, RunWorker
from agentkit_py.messages import UserMessage
from agentkit_py.runtime.current import choose_runtime
from agentkit_py.runtime.journal import RunPaused
from agentkit_py.runtime.port import Runtime
from agentkit_py.state import State
from agentkit_py.tools.definition import Tool

D = TypeVar("D")
logger: logging.Logger = get_logger("agentkit_py")

PENDING = "pending"
"""The stop reason of a run that waits for a person."""


def may_pause(options: RunOptions, history: object, agents: Iterable[Any]) -> RunOptions:
    """Return the options of a run; where it may have to ask, with a runtime that lets it pause."""
    if history is None or options.get("approver") is not None or not any(map(_may_ask, agents)):
        return options
    if abilities_of(history).questions is None:
        return options
    runtime = choose_runtime(
        options.get("runtime"),
        context=options.get("ctx"),
        require_durable=options.get("require_durable", False),
    )
    return {**options, "runtime": runtime.recording(None, {})}


def _may_ask(agent: Any) -> bool:
    tools: Iterable[object] = agent.tools
    return bool(agent.mcp_servers) or any(
        isinstance(one, Tool) and (one.steps or one.needs_approval is not False) for one in tools
    )


@dataclass(frozen=True, slots=True)
class Beginning:
    """The beginning of a run, kept until it pauses."""

    target: tuple[str, str]
    """Kind and name of the target."""

    state: JsonObject | None
    """The state that was given; None: none was."""

    thread_id: str | None
    problem: str = ""
    """Why the run could not begin so again."""

    @classmethod
    def of(cls, context: RunContext, kind: str, name: str) -> Beginning:
        """Return the initial data of a run that may pause."""
        thread_id = context.state.thread_id
        if context.resumes:
            return cls((kind, name), None, thread_id)
        try:
            return cls((kind, name), context.state.to_dict(), thread_id)
        except StateError as error:
            return cls((kind, name), None, thread_id, str(error))

    async def pause(self, context: RunContext, paused: RunPaused) -> list[Question]:
        """Store the run, so that it can resume; return the questions that it waits for.

        Raises:
            ConfigurationError: Something of it is not JSON.
        """
        try:
            return await self._store(context, paused)
        finally:  # now that others find it paused, the thread is free
            await context.thread.pause_lease()

    async def _store(self, context: RunContext, paused: RunPaused) -> list[Question]:
        if self.problem:
            raise ConfigurationError(f"The run needs a person and cannot wait: {self.problem}")
        message, store = (
            context.messages.input.message,
            abilities_of(context.thread.config).questions,
        )
        thread_id = context.state.thread_id
        assert store is not None
        assert message.id is not None
        assert thread_id is not None
        kind, name = self.target
        steps = paused.journal()
        journal: JsonObject = {
            "target": {"kind": kind, "name": name},
            "message": user_message_to_dict(message),
            "state": self.state,
            "threadId": self.thread_id,
            "steps": steps,
        }
        run = RunRecord(id=message.id, status="paused", journal=journal)
        await store.save_run(thread_id, run)
        asked = await questions_of(store, thread_id, run.id)
        waiting = waited_for_by(run, asked)
        if not waiting:  # its questions were stopped meanwhile
            await stop_unasked(store, thread_id, run.id)
        await stop_open(store, [question for question in asked if question not in waiting])
        return waiting


async def stop_unasked(store: QuestionStore, thread_id: str, run_id: str) -> None:
    """Stop a paused run that waits for no question: no answer could resume it."""

    def stop(run: RunRecord) -> RunRecord | None:
        return replace(run, status="stopped", journal=None, worker=None) if run.is_paused else None

    await store.change_run(thread_id, run_id, stop)


async def questions_of(store: QuestionStore, thread_id: str, run_id: str) -> list[Question]:
    """Return the questions of a run, the oldest first."""
    found = await store.list_questions(thread_id=thread_id, status=None, limit=None)
    return [question for question in found if question.run_id == run_id]


async def stop_open(store: QuestionStore, questions: Iterable[Question]) -> None:
    """Stop those questions that are open: no attempt waits for them any more."""
    for question in questions:
        if question.status == "open":
            await stop_question(store, question.id)


async def waited_for(history: object, thread_id: str | None, run: RunRecord) -> list[Question]:
    """Return the questions that a paused run waits for; see `waited_for_by`."""
    store = abilities_of(history).questions
    if store is None or thread_id is None:
        return []
    return waited_for_by(run, await questions_of(store, thread_id, run.id))


def waited_for_by(run: RunRecord, questions: Iterable[Question]) -> list[Question]:
    """Return those questions that a paused run waits for, those answered meanwhile included.

    Those of parallel calls come in the order of the calls, whichever asked first.

    A question belongs to its attempt. Questions of earlier attempts at the same message do not
    count, whatever their outcome.
    """
    steps = as_object((run.journal or {}).get("steps")) or {}
    known, asked = as_object(steps.get("answers")) or {}, as_list(steps.get("asked"))
    by_id = {question.id: question for question in questions if question.status != "stopped"}
    if asked is None:  # an earlier version stored it
        return [question for question in by_id.values() if question.id not in known]
    return [by_id[question_id] for question_id in map(str, asked) if question_id in by_id]


@dataclass(frozen=True, slots=True)
class Resumption:
    """A paused run that resumes here, and nowhere else."""

    store: QuestionStore
    thread_id: str
    run_id: str
    journal: JsonObject
    answers: Mapping[str, ApprovalAnswer | None]
    worker: str
    """The name of this process in the run's record."""

    signs: asyncio.Task[None]
    """Gives signs of life until the run has ended."""

    @property
    def target(self) -> tuple[str, str]:
        """Kind and name of the agent or network that runs."""
        fields = as_object(self.journal.get("target")) or {}
        return str(fields.get("kind")), str(fields.get("name"))

    @property
    def message(self) -> UserMessage:
        """The user's message that began the run."""
        found = user_message_from_dict(self.journal.get("message"), where="a paused run")
        return replace(found, id=self.run_id)

    def options(self, given: RunOptions, default: State[Any] | None) -> RunOptions:
        """Return the options with which the run begins again, up to the answer."""
        runtime: Runtime = choose_runtime(given.get("runtime"))
        steps = as_object(self.journal.get("steps")) or {}
        found: RunOptions = {**given, "runtime": runtime.recording(steps, self.answers)}
        kept = as_object(self.journal.get("state"))
        thread_id = self.journal.get("threadId")
        found["thread_id"] = thread_id if isinstance(thread_id, str) else None
        if kept is None:
            found["state"] = None
            return found
        plain = State.from_dict(kept)
        own = given.get("state")
        state: State[Any] = own if isinstance(own, State) else (default or plain).clone()
        state = State(state.data, messages=plain.messages, results=plain.transcript)
        state.load(plain.dump())
        state.thread_id, state.not_loaded = plain.thread_id, plain.not_loaded
        found["state"] = state
        return found

    async def end(self, status: str) -> None:
        """Record how the run ended, unless it did so itself or waits again.

        A cancellation does not keep it from that.
        """
        self.signs.cancel()
        await finished(self._end(status))

    async def _end(self, status: str) -> None:
        def change(run: RunRecord) -> RunRecord | None:
            if not _works_on(run, self.worker):
                return None
            return replace(run, status=status, journal=None, worker=None)

        run = await self.store.change_run(self.thread_id, self.run_id, change)
        if run is None or run.status not in ("paused", "running"):
            await stop_open(self.store, await questions_of(self.store, self.thread_id, self.run_id))


async def resume_with(
    history: object, thread_id: str, answers: Mapping[str, Answered] | None, by: str | None
) -> Resumption:
    """Save answers, and claim their run for this process only.

    Raises:
        ConfigurationError: The store keeps no questions, or the run is an Inngest function.
        NotPendingError: The question does not exist, or is not open.
    """
    store = abilities_of(history).questions
    if store is None:
        raise ConfigurationError(
            f"resume() needs history=… with a store that keeps questions, such as SqliteHistory, "
            f"not {history!r:.80}"
        )
    asked = await store.list_questions(thread_id=thread_id, status=None, limit=None)
    remote = [one.id for one in asked if one.execution is not None and one.id in (answers or ())]
    if remote:
        raise ConfigurationError(
            f"Question {remote[0]!r} was asked by an Inngest function, which resumes when the "
            "answer is sent to it. Instead of resume(…) write: "
            f"await answer_question(client, store, {remote[0]!r}, True or False, by=…), from "
            "agentkit_py.inngest"
        )
    _say_who_was_asked(asked, answers or {}, by)
    for question_id, given in (answers or {}).items():
        await record_answer(store, question_id, given, by, thread_id=thread_id)
    wanted = [one.run_id for one in asked if not answers or one.id in answers]
    for run_id in dict.fromkeys(wanted):
        found = None if run_id is None else await take(store, thread_id, run_id)
        if found is not None:
            return found
    raise NotPendingError(thread_id, "no run of it is paused")


def _say_who_was_asked(asked: Sequence[Question], answers: Container[str], by: str | None) -> None:
    """Log that the answer of a person who was not asked counts, too: only servers check that."""
    for one in asked:
        names = one.approvers_at(datetime.now(UTC))
        if by is not None and one.id in answers and names and by not in names:
            logger.warning(
                "resume(by=%r) takes an answer to question %s, which asks %s: resume() does not "
                "check who may answer, as servers do; check it before you call it",
                *(by, one.id, ", ".join(names)),
            )


async def take_answered(history: object, questions: Sequence[Question]) -> Resumption | None:
    """Claim a run that has just paused, if it was answered meanwhile."""
    store = abilities_of(history).questions
    if store is None:
        return None
    for one in questions:
        if one.status != "open" and one.run_id is not None:
            return await take(store, one.thread_id, one.run_id)
    return None


async def take(store: QuestionStore, thread_id: str, run_id: str) -> Resumption | None:
    """Take a paused run; None: it does not wait, or another process has taken it.

    This process gives signs of life until the run ends; see `end_lost`.
    """
    mine: list[RunRecord] = []
    worker = uuid4().hex

    def claim(run: RunRecord) -> RunRecord | None:
        mine.clear()
        if run.status != "paused":
            return None
        mine.append(replace(run, status="running", worker=_sign_of(worker)))
        return mine[0]

    try:
        await store.change_run(thread_id, run_id, claim)
        if not mine:
            return None
        questions = await _expired(store, await questions_of(store, thread_id, run_id))
    except (Exception, asyncio.CancelledError):  # the next who looks may take it
        await finished(_give_back(store, thread_id, run_id, worker))
        raise
    signs = asyncio.create_task(_give_signs(store, thread_id, run_id, worker))
    closed = {q.id: q.answer for q in questions if q.status in ("answered", "expired")}
    journal = mine[0].journal or {}
    return Resumption(store, thread_id, run_id, journal, closed, worker, signs)


_ALIVE = timedelta(seconds=15)
"""The time for which a sign of life counts."""

_TO_END = timedelta(minutes=5)
"""The time that a run without any sign of life gets, counted from the first look at it."""

_SIGN_SECONDS = 4.0
"""Seconds between two signs of life."""

LOST = "lost"
"""The stop reason of a run whose process died."""


def _sign_of(worker: str) -> RunWorker:
    return RunWorker(name=worker, alive_until=datetime.now(UTC) + _ALIVE)


def _works_on(run: RunRecord, worker: str) -> bool:
    return run.status == "running" and run.worker is not None and run.worker.name == worker


async def _give_signs(store: QuestionStore, thread_id: str, run_id: str, worker: str) -> None:
    def sign(run: RunRecord) -> RunRecord | None:
        return replace(run, worker=_sign_of(worker)) if _works_on(run, worker) else None

    while True:
        await asyncio.sleep(_SIGN_SECONDS)
        try:
            run = await store.change_run(thread_id, run_id, sign)
        except Exception:
            logger.exception("A run could not give a sign of life")
            continue
        if run is None or not _works_on(run, worker):
            if run is not None and run.stop_reason == LOST:
                logger.error("The run %s gave no sign of life in time, and counts as dead", run_id)
            return


async def _give_back(store: QuestionStore, thread_id: str, run_id: str, worker: str) -> None:
    def change(run: RunRecord) -> RunRecord | None:
        return replace(run, status="paused", worker=None) if _works_on(run, worker) else None

    await store.change_run(thread_id, run_id, change)


async def end_lost(
    store: QuestionStore, thread_id: str, run_id: str, *, is_answered: bool = False
) -> bool:
    """End a run whose process has died; return whether it was dead.

    It is not taken again: the call that a person allowed may have been made. A run that an older
    version of this library took has no sign of life, and gets time to end.

    Args:
        store: The store.
        thread_id: The thread.
        run_id: The run.
        is_answered: Whether its answer is in the thread, so that only its record lacks the end.
    """
    now, lost = datetime.now(UTC), list[RunRecord]()

    def end(run: RunRecord) -> RunRecord | None:
        lost.clear()
        if run.is_taken and run.worker is None:
            return replace(run, worker=RunWorker(name="", alive_until=now + _TO_END))
        lost[:] = [run] if run.is_lost(now) else []
        ended = replace(run, journal=None, worker=None)
        if is_answered:
            ended = replace(ended, status="completed")
        else:
            ended = replace(ended, status="failed", stop_reason=LOST)
        return ended if lost else None

    await store.change_run(thread_id, run_id, end)
    if lost:
        await stop_open(store, await questions_of(store, thread_id, run_id))
    return bool(lost)


async def _expired(store: QuestionStore, questions: Sequence[Question]) -> list[Question]:
    """Close those questions whose time is over."""
    now = datetime.now(UTC)

    def expire(question: Question) -> Question | None:
        return question.closed(None, now) if question.is_due(now) else None

    found: list[Question] = []
    for one in questions:
        changed = await store.change_question(one.id, expire) if one.is_due(now) else one
        found.append(changed or one)
    return found


async def stop_paused(
    history: object, thread_id: str, *, at_work: Container[str] = ()
) -> list[RunRecord]:
    """Stop the paused runs of a thread, and those whose processes have died; return their records.

    Questions of active runs stay: the run closes them itself when it is stopped.

    Args:
        history: The store.
        thread_id: The thread.
        at_work: Ids of runs that are active, or may be.
    """
    store = abilities_of(history).questions
    if store is None:
        return []
    stopped: dict[str, RunRecord] = {}

    def stop(run: RunRecord) -> RunRecord | None:
        if not run.is_paused and not run.is_lost(datetime.now(UTC)):
            return None
        stopped[run.id] = run
        return replace(run, status="stopped", journal=None, worker=None)

    asked = await store.list_questions(thread_id=thread_id, status=None, limit=None)
    for run_id in dict.fromkeys(one.run_id for one in asked if one.execution is None):
        if run_id is None:
            continue
        run = await store.load_run(thread_id, run_id)
        if run is not None and run.status in ("paused", "running"):
            run = await store.change_run(thread_id, run_id, stop)
        if run_id not in at_work if run is None else run.status != "running":
            await stop_open(store, await questions_of(store, thread_id, run_id))
    return list(stopped.values())
