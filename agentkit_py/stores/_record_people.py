"""Questions to people, and the staff on threads, as records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from agentkit_py.history.questions import Question, QuestionFilter
from agentkit_py.history.staff import Takeover, TakeoverStatus
from agentkit_py.stores._record_leases import QUESTION
from agentkit_py.stores.records import Record, Records, RecordViews, key
from agentkit_py.stores.rows import at_most, encode_json

TAKEOVER = "takeover"
"""The kind of the record of a thread's staff."""

_UNDELIVERED = "undelivered"
"""The status of answered questions whose runs do not have the answer yet."""


class QuestionRecords(RecordViews):
    """Implements `QuestionStore`, with `LeaseRecords`."""

    async def save_question(self, question: Question) -> None:
        owner = (await self.get_thread(question.thread_id)).user_id
        record = _question_record(replace(question, user_id=owner))

        def work(records: Records) -> None:
            if records.get(QUESTION, record.key) is None:
                records.put(QUESTION, record)

        await self._about(question.thread_id, work)

    async def change_question(
        self, question_id: str, change: Callable[[Question], Question | None]
    ) -> Question | None:
        def work(records: Records) -> Question | None:
            record = records.get(QUESTION, key(question_id))
            known = None if record is None else question_of(record)
            changed = None if known is None else change(known)
            if changed is None:
                return known
            records.put(QUESTION, _question_record(changed))
            return changed

        return await self.transact(work)

    async def load_question(self, question_id: str) -> Question | None:
        record = await self.transact(lambda records: records.get(QUESTION, key(question_id)))
        return None if record is None else question_of(record)

    async def list_questions(
        self,
        *,
        thread_id: str | None = None,
        user_id: str | None = None,
        status: QuestionFilter | None = "open",
        limit: int | None = 50,
    ) -> list[Question]:
        most = at_most(limit)
        group = None if user_id is None else key(user_id)
        stored = {"due": "open", "answered": None}.get(status or "", status)
        found = await self.transact(
            lambda records: records.find(QUESTION, thread=thread_id, group=group, status=stored)
        )
        now = datetime.now(UTC)
        questions = (question_of(record) for record in found)
        return [question for question in questions if _fits(question, status, now)][:most]


def question_of(record: Record) -> Question:
    """Return the question that a record holds."""
    stored = record.data
    status = "answered" if record.status == _UNDELIVERED else record.status or "open"
    question = Question.from_dict({**stored["question"], "status": status}, where="question")
    return replace(question, user_id=stored["user"])


def _question_record(question: Question) -> Record:
    what = f"Thread {question.thread_id!r}: the question {question.id!r} cannot be saved"
    stored = {"user": question.user_id, "question": question.to_dict()}
    return Record(
        key=key(question.id),
        thread=question.thread_id,
        group=None if question.user_id is None else key(question.user_id),
        status=_UNDELIVERED if question.is_undelivered else question.status,
        json=encode_json(stored, what),
    )


def _fits(question: Question, status: QuestionFilter | None, now: datetime) -> bool:
    if status in ("open", "due"):
        return question.is_due(now) == (status == "due")
    return status != "answered" or question.status == "answered"


class TakeoverRecords(RecordViews):
    """Implements `TakeoverStore`."""

    async def load_takeover(self, thread_id: str) -> Takeover | None:
        record = await self.transact(lambda records: records.get(TAKEOVER, key(thread_id)))
        return None if record is None else takeover_of(record)

    async def change_takeover(
        self, thread_id: str, change: Callable[[Takeover], Takeover | None]
    ) -> Takeover:
        owner = (await self.get_thread(thread_id)).user_id
        empty = Takeover(thread_id=thread_id, user_id=owner)

        def work(records: Records) -> Takeover:
            record = records.get(TAKEOVER, key(thread_id))
            known = empty if record is None else takeover_of(record)
            changed = change(known)
            if changed is None:
                return known
            changed = replace(changed, thread_id=thread_id, user_id=owner)
            if changed.status is None:
                records.delete(TAKEOVER, key=key(thread_id))
            else:
                records.put(TAKEOVER, _takeover_record(changed))
            return changed

        return await self._about(thread_id, work)

    async def list_takeovers(
        self,
        *,
        status: TakeoverStatus | None = None,
        user_id: str | None = None,
        limit: int | None = 50,
    ) -> list[Takeover]:
        most = at_most(limit)
        group = None if user_id is None else key(user_id)
        found = await self.transact(
            lambda records: records.find(TAKEOVER, group=group, status=status)
        )
        return sorted(map(takeover_of, found), key=_age)[:most]


def takeover_of(record: Record) -> Takeover:
    """Return the staff that a record holds."""
    return Takeover.from_dict(record.data, where="takeover")


def _takeover_record(takeover: Takeover) -> Record:
    what = f"Thread {takeover.thread_id!r}: its staff cannot be saved"
    return Record(
        key=key(takeover.thread_id),
        thread=takeover.thread_id,
        group=None if takeover.user_id is None else key(takeover.user_id),
        status=takeover.status,
        json=encode_json(takeover.to_dict(), what),
    )


def _age(takeover: Takeover) -> tuple[datetime, str]:
    return (takeover.since or datetime.min.replace(tzinfo=UTC), takeover.thread_id)
