"""The queries of questions and of the runs that wait for them; each function is one transaction."""

# ruff: noqa: S608 - queries are put together from parts of our own
from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from agentkit_py.errors import ThreadNotFoundError
from agentkit_py.history.questions import Question, QuestionFilter
from agentkit_py.history.runs import RunRecord
from agentkit_py.stores._sql_branches import BRANCH
from agentkit_py.stores._sql_session import JsonText, Session
from agentkit_py.stores.rows import at_most, decode_run, encode_json, encode_run

_QUESTION = (
    "SELECT {text:q.json}, q.status, t.user_id FROM {questions} q "
    "JOIN {threads} t ON t.id = q.thread_id"
)


def save(session: Session, *, question: Question) -> None:
    """Add a question to its thread."""
    query = "SELECT 1 FROM {threads} WHERE id = ?"
    if session.execute(query, question.thread_id).fetchone() is None:
        raise ThreadNotFoundError(question.thread_id)
    session.execute(
        "INSERT INTO {questions} (id, thread_id, execution, status, asked_at, expires_at, json) "
        "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
        question.id,
        question.thread_id,
        question.execution,
        question.status,
        question.asked_at,
        question.expires_at,
        encoded(question),
    )


def change(
    session: Session, *, question_id: str, make: Callable[[Question], Question | None]
) -> Question | None:
    """Change a question; return it as it is then."""
    session.execute("SELECT 1 FROM {questions} WHERE id = ? {FOR_UPDATE}", question_id).fetchone()
    known = load(session, question_id=question_id)
    made = None if known is None else make(known)
    if made is None:
        return known
    query = "UPDATE {questions} SET status = ?, json = ? WHERE id = ?"
    session.execute(query, made.status, encoded(made), question_id)
    return made


def change_run(
    session: Session, *, thread_id: str, run_id: str, make: Callable[[RunRecord], RunRecord | None]
) -> RunRecord | None:
    """Change the record of a run; return it as it is then."""
    query = (
        f"SELECT {{text:json}} FROM {{runs}} WHERE thread_id = {BRANCH} AND id = ? {{FOR_UPDATE}}"
    )
    row = session.execute(query, thread_id, thread_id, run_id).fetchone()
    known = None if row is None else decode_run(thread_id, run_id, row[0])
    made = None if known is None else make(known)
    if made is None:
        return known
    session.execute(
        "UPDATE {runs} SET json = ?, has_state = ?, updated_at = clock_timestamp() "
        f"WHERE thread_id = {BRANCH} AND id = ?",
        JsonText(encode_run(made, thread_id)),
        made.state is not None,
        *(thread_id, thread_id, run_id),
    )
    return made


def load(session: Session, *, question_id: str) -> Question | None:
    """Return a question."""
    row = session.execute(f"{_QUESTION} WHERE q.id = ?", question_id).fetchone()
    return None if row is None else _decoded(session, row)


def find(
    session: Session,
    *,
    thread_id: str | None,
    user_id: str | None,
    status: QuestionFilter | None,
    limit: int | None,
) -> list[Question]:
    """Return questions, the oldest first."""
    conditions, values = ["1 = 1"], list[Any]()
    for column, value in (("q.thread_id", thread_id), ("t.user_id", user_id)):
        if value is not None:
            conditions.append(f"{column} = ?")
            values.append(value)
    if status is not None:
        conditions.append("q.status = ?")
        values.append("open" if status == "due" else status)
    if status == "due":
        conditions.append("q.expires_at <= clock_timestamp()")
    if status == "open":
        conditions.append("(q.expires_at IS NULL OR q.expires_at > clock_timestamp())")
    query = f"{_QUESTION} WHERE {' AND '.join(conditions)} ORDER BY q.number LIMIT ?"
    rows = session.execute(query, *values, at_most(limit)).fetchall()
    return [_decoded(session, row) for row in rows]


def encoded(question: Question) -> JsonText:
    """Return a question as stored JSON.

    Raises:
        HistoryError: It is not JSON.
    """
    what = f"Thread {question.thread_id!r}: the question {question.id!r} cannot be saved"
    return JsonText(encode_json(question.to_dict(), what))


def _decoded(session: Session, row: Any) -> Question:
    found = Question.from_dict(json.loads(row[0]), where="question")
    user = None if row[2] is None else session.given(row[2])
    return replace(found, status=row[1], user_id=user)
