"""Questions that wait for a person: records that are stored with their thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from math import inf
from typing import Any, Literal, TypeAlias, cast, get_args

from typing_extensions import Protocol, runtime_checkable  # quicker checks than Python 3.11's

from agentkit_py._core.json import as_list, as_object, record_of, time_of, time_or_none
from agentkit_py.errors import ConfigurationError, InvalidRecordError, NotPendingError
from agentkit_py.events.approvals import (
    Answered,
    ApprovalAnswer,
    ApprovalRequest,
    Decision,
    calls_to_json,
)
from agentkit_py.history.runs import RunRecord
from agentkit_py.messages import ToolCall

QuestionStatus: TypeAlias = Literal["open", "answered", "expired", "stopped"]
"""``"stopped"``: the run that asked was stopped, or died before it was stored as paused, so that
the answer is obsolete."""

QuestionFilter: TypeAlias = QuestionStatus | Literal["due", "undelivered"]
"""``"due"``: open, and its time is over. ``"undelivered"``: answered, and the run does not have the
answer yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question to a person, as it was asked and as it was answered."""

    request: ApprovalRequest
    """The question as it was asked."""

    thread_id: str
    run_id: str | None = None
    """The id of the user's message that began the run that asks."""

    execution: str | None = None
    """The execution of that run, where it can be stopped from outside."""

    user_id: str | None = None
    """The owner of the thread; stores fill it in."""

    parts: tuple[str, ...] = ()
    """Ids of the calls in the stream of the run, if it streams."""

    status: QuestionStatus = "open"
    answer: ApprovalAnswer | None = None
    """The decision, also on single calls, with everything that came along; while the question is
    open, the decisions on single calls so far."""

    answered_by: str | None = None
    reason: str = ""
    """The answer's reason."""

    answered_at: datetime | None = None
    received_at: datetime | None = None
    """The time at which the run had the answer."""

    def __post_init__(self) -> None:
        """Check that the time of the question is known.

        Raises:
            ConfigurationError: It is not.
        """
        if self.request.asked_at is None:
            raise ConfigurationError(
                f"Question {self.id!r} has no time: give its ApprovalRequest asked_at=…"
            )

    def __hash__(self) -> int:
        """Hash the id, so that a question may be a key: its calls' arguments have no hash."""
        return hash(self.request.id)

    @property
    def id(self) -> str:
        """The question's id; the answer carries it as ``approvalId``."""
        return self.request.id

    @property
    def agent(self) -> str:
        """The name of the agent that asks."""
        return self.request.agent

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls that wait; none where a tool asks by itself."""
        return self.request.calls

    @property
    def message(self) -> str:
        """The reason why a person is asked, or the question."""
        return self.request.message

    @property
    def asked_at(self) -> datetime:
        """The time at which it was asked."""
        return cast("datetime", self.request.asked_at)

    @property
    def expires_at(self) -> datetime | None:
        """The time at which it expires; None: it does not."""
        return self.request.expires_at

    @property
    def approvers(self) -> tuple[str, ...]:
        """The people who may answer: see `ApprovalRequest.approvers`."""
        return self.request.approvers

    @property
    def escalates_at(self) -> datetime | None:
        """The time from which `escalate_to` may answer as well."""
        return self.request.escalates_at

    @property
    def escalate_to(self) -> tuple[str, ...]:
        """The people who may answer from `escalates_at` on."""
        return self.request.escalate_to

    def as_request(self) -> ApprovalRequest:
        """Return the question as approvers in a process get it: `request`."""
        return self.request

    def is_due(self, now: datetime) -> bool:
        """Return whether the question is open and its time is over."""
        return self.status == "open" and self.expires_at is not None and self.expires_at <= now

    @property
    def is_undelivered(self) -> bool:
        """True if the question is answered, and the run does not have the answer yet."""
        return self.status == "answered" and self.received_at is None

    def received(self, answer: ApprovalAnswer | None, at: datetime) -> Question | None:
        """Return the question as a run has it that got an answer; None: nothing changes.

        The first answer counts: that of the row, if it is answered.
        """
        if self.status == "open":
            closed = self.closed(answer, at)
            return closed if answer is None else replace(closed, received_at=at)
        return replace(self, received_at=at) if self.is_undelivered else None

    def approvers_at(self, now: datetime) -> tuple[str, ...]:
        """Return who may answer now, those included to whom the question has escalated."""
        if self.escalates_at is None or now < self.escalates_at:
            return self.approvers
        return (*self.approvers, *self.escalate_to)

    @property
    def decisions(self) -> Mapping[int, Decision]:
        """The decisions on single calls."""
        return self.answer.calls if self.answer is not None else dict[int, Decision]()

    def undecided(self, call_id: str) -> list[int]:
        """Return the undecided calls that an id means: the question's, a call's or a part's."""
        done = self.decisions
        if call_id in self.parts:
            return [i for i in [self.parts.index(call_id)] if i not in done]
        whole = call_id == self.id
        found = [
            index
            for index, call in enumerate(self.calls)
            if (whole or call.id == call_id) and index not in done
        ]
        # Providers repeat ids, so several calls may have the same id: it means the first open call.
        return found if whole else found[:1]

    def knows(self, call_id: str) -> bool:
        """Return whether the id is the question's, or that of any of its calls."""
        return call_id in {self.id, *self.parts, *(call.id for call in self.calls)}

    def decided(
        self, decisions: Mapping[int, Decision], at: datetime, *, by: str | None = None
    ) -> Question:
        """Return the question with decisions on single calls; with the last it is answered."""
        calls = {**decisions, **self.decisions}
        data = _signature(by, at)
        if by is not None and by == self.user_id:
            data["answeredBy"] = by
        answer = ApprovalAnswer(approved=False, calls=calls, data=data)
        if len(calls) < len(self.calls):
            return replace(self, answer=answer)
        return self.closed(answer, at)

    def closed(self, answer: ApprovalAnswer | None, at: datetime) -> Question:
        """Return the question with its answer; without an answer it has expired.

        Decisions on single calls that came before remain.
        """
        if answer is None:
            return replace(self, status="expired", answer=None, answered_at=at)
        return replace(
            self,
            status="answered",
            answer=replace(answer, calls={**answer.calls, **self.decisions}),
            answered_by=answer.by,
            reason=answer.reason,
            answered_at=at,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the question as JSON (camelCase)."""
        asked = self.request
        return {
            "id": asked.id,
            "threadId": self.thread_id,
            "runId": self.run_id,
            "execution": self.execution,
            "agent": asked.agent,
            "userId": self.user_id,
            "calls": calls_to_json(asked.calls),
            "message": asked.message,
            "askedAt": record_of(self.asked_at),
            "expiresAt": record_of(asked.expires_at),
            "approvers": list(asked.approvers),
            "escalatesAt": record_of(asked.escalates_at),
            "escalateTo": list(asked.escalate_to),
            "parts": list(self.parts),
            "status": self.status,
            "answer": self.answer and self.answer.to_dict(),
            "answeredBy": self.answered_by,
            "reason": self.reason,
            "answeredAt": record_of(self.answered_at),
            "receivedAt": record_of(self.received_at),
        }

    @classmethod
    def from_dict(cls, record: object, *, where: str) -> Question:
        """Read the question that `to_dict` gave.

        Raises:
            InvalidRecordError: It holds none.
        """
        fields = as_object(record) or {}
        reading = "(whole)"
        try:
            reading = "calls"
            calls = [as_object(one) or {} for one in as_list(fields.get("calls")) or ()]
            answer = as_object(fields.get("answer"))
            reading = "status"
            status = _STATUSES[str(fields["status"])]
            reading = "id, threadId, agent or a time"
            asked_at, expires_at = time_of(fields["askedAt"]), time_or_none(fields.get("expiresAt"))
            request = ApprovalRequest(
                id=str(fields["id"]),
                agent=str(fields["agent"]),
                calls=tuple(
                    ToolCall(str(one["toolCallId"]), str(one["toolName"]), one.get("toolInput"))
                    for one in calls
                ),
                message=_text(fields, "message") or "",
                timeout=inf if expires_at is None else (expires_at - asked_at).total_seconds(),
                asked_at=asked_at,
                approvers=_texts(fields.get("approvers")),
                escalates_at=time_or_none(fields.get("escalatesAt")),
                escalate_to=_texts(fields.get("escalateTo")),
            )
            return cls(
                request=request,
                thread_id=str(fields["threadId"]),
                run_id=_text(fields, "runId"),
                execution=_text(fields, "execution"),
                user_id=_text(fields, "userId"),
                parts=_texts(fields.get("parts")),
                status=status,
                answer=None if answer is None else ApprovalAnswer.from_dict(answer),
                answered_by=_text(fields, "answeredBy"),
                reason=_text(fields, "reason") or "",
                answered_at=time_or_none(fields.get("answeredAt")),
                received_at=time_or_none(fields.get("receivedAt")),
            )
        except (KeyError, ValueError) as error:
            text = f"cannot be read: {error!r:.200}"
            raise InvalidRecordError(text, where=where, field=reading) from error


_STATUSES: dict[str, QuestionStatus] = {status: status for status in get_args(QuestionStatus)}


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    found = fields.get(name)
    return found if isinstance(found, str) else None


def _texts(given: object) -> tuple[str, ...]:
    return tuple(str(one) for one in as_list(given) or ())


def _signature(by: str | None, at: datetime) -> dict[str, Any]:
    return {} if by is None else {"resolvedBy": by, "resolvedAt": at.isoformat()}


@runtime_checkable
class QuestionStore(Protocol):
    """Keeps the questions of threads, and the runs that wait for their answers."""

    async def save_question(self, question: Question) -> None:
        """Add a question; a question with a stored id is unchanged.

        Raises:
            ThreadNotFoundError: The thread does not exist.
        """
        ...

    async def change_question(
        self, question_id: str, change: Callable[[Question], Question | None]
    ) -> Question | None:
        """Change a question in a transaction.

        Args:
            question_id: Its id.
            change: Returns the new version, or None for no change; it may be called again.

        Returns:
            The question as it is then; None if there is none.
        """
        ...

    async def change_run(
        self, thread_id: str, run_id: str, change: Callable[[RunRecord], RunRecord | None]
    ) -> RunRecord | None:
        """Change the record of a run as `change_question` does with questions."""
        ...

    async def save_run(self, thread_id: str, run: RunRecord) -> None:
        """Save the record of a run, as in `RunStore`."""
        ...

    async def load_run(self, thread_id: str, run_id: str | None = None) -> RunRecord | None:
        """Return the record of a run, as in `RunStore`."""
        ...

    async def load_question(self, question_id: str) -> Question | None:
        """Return a question; None if there is none."""
        ...

    async def list_questions(
        self,
        *,
        thread_id: str | None = None,
        user_id: str | None = None,
        status: QuestionFilter | None = "open",
        limit: int | None = 50,
    ) -> list[Question]:
        """Return questions, the oldest first.

        Args:
            thread_id: Only those of this thread.
            user_id: Only those of this user's threads.
            status: Only those; ``"open"``: and their time is not over; ``"due"``: their time is
                over, and they are not closed. None: all.
            limit: The most questions to return; None: all.
        """
        ...


async def stop_question(store: QuestionStore, question_id: str) -> None:
    """Close an open question whose answer is obsolete."""

    def stop(known: Question) -> Question | None:
        return replace(known, status="stopped") if known.status == "open" else None

    await store.change_question(question_id, stop)


async def record_answer(
    store: QuestionStore,
    question_id: str,
    given: Answered,
    by: str | None,
    *,
    thread_id: str | None = None,
    tell: Callable[[Question], Awaitable[None]] | None = None,
) -> Question:
    """Save an answer to a question, and who gave it; see `change_open`.

    Raises:
        ConfigurationError: It is not an answer.
    """
    if not isinstance(given, bool | ApprovalAnswer):
        raise ConfigurationError(
            f"The answer to question {question_id!r} must be True, False or an ApprovalAnswer(…), "
            f"got {given!r:.80}"
        )
    at = datetime.now(UTC)
    answer = ApprovalAnswer(approved=given) if isinstance(given, bool) else given
    answer = replace(answer, data={**answer.data, **_signature(by, at)})
    change = partial(Question.closed, answer=answer, at=at)
    return await change_open(store, question_id, change, thread_id=thread_id, tell=tell)


async def change_open(
    store: QuestionStore,
    question_id: str,
    change: Callable[[Question], Question | None],
    *,
    thread_id: str | None = None,
    tell: Callable[[Question], Awaitable[None]] | None = None,
) -> Question:
    """Change a question that is open; once it is answered, pass the answer on to its run.

    The row decides: it is changed first, so that of several answers the first counts, and an answer
    in it is not taken back. While the run does not have it, each further call passes it on again.

    Args:
        store: The store of the questions.
        question_id: The id of the question.
        change: Returns the changed question; None: there is nothing left to decide.
        thread_id: The thread that it must be of; None: any.
        tell: A function that delivers the answered question.

    Returns:
        The changed question.

    Raises:
        NotPendingError: The question does not exist, it is not open, or nothing was left to decide.
    """
    before: list[Question] = []
    made: list[Question] = []

    def change_it(known: Question) -> Question | None:
        before[:], made[:] = [known], []
        is_open = known.status == "open" and not known.is_due(datetime.now(UTC))
        found = change(known) if is_open and thread_id in (None, known.thread_id) else None
        made[:] = [] if found is None else [found]
        return found

    await store.change_question(question_id, change_it)
    if made:
        if made[0].status == "answered":
            await _pass_on(made[0], tell)
        return made[0]
    if before and before[0].is_undelivered and thread_id in (None, before[0].thread_id):
        await _pass_on(before[0], tell)
    raise _not_pending(thread_id, question_id, before)


async def _pass_on(question: Question, tell: Callable[[Question], Awaitable[None]] | None) -> None:
    if tell is None:
        return
    try:
        await tell(question)
    except Exception as error:
        error.add_note(
            f"The answer to question {question.id!r} is stored and valid, but its run may not "
            "have it yet: it is sent again when the question is answered again."
        )
        raise


def _not_pending(
    thread_id: str | None, question_id: str, found: Sequence[Question]
) -> NotPendingError:
    if not found or thread_id not in (None, found[0].thread_id):
        problem = "the question does not exist"
        return NotPendingError(thread_id or "", problem, question_id=question_id)
    known = found[0]
    status = "expired" if known.is_due(datetime.now(UTC)) else known.status
    problem = "it is decided" if status == "open" else f"it is {status}"
    if status == "answered" and known.answer is not None:
        by = "" if known.answered_by is None else f" by {known.answered_by!r}"
        at = "" if known.answered_at is None else f" at {known.answered_at.isoformat()}"
        problem = f"it is answered ({_decision(known)}{by}{at})"
    return NotPendingError(
        known.thread_id,
        problem,
        question_id=question_id,
        status=status,
        answered_by=known.answered_by,
    )


def _decision(question: Question) -> str:
    answer = question.answer
    if answer is None:
        return "no answer"
    decided = {answer.on(index).approved for index in range(len(question.calls) or 1)}
    return "approved in part" if len(decided) > 1 else "approved" if decided == {True} else "denied"
