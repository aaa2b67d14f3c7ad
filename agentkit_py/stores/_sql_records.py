"""The queries of thread data: leases, questions, staff, mail, facts, spending.

Each function is a transaction. Those of the same execution, and those of the same thread, wait for
each other: the execution is locked before the thread, which prevents deadlocks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from agentkit_py._core.json import JsonObject
from agentkit_py.errors import ThreadNotFoundError
from agentkit_py.history.mail import MAIL_SECONDS
from agentkit_py.history.questions import Question, QuestionFilter
from agentkit_py.history.runs import (
    CLAIM_SECONDS,
    LINE_SECONDS,
    RunRecord,
    Unfinished,
    execution_of,
)
from agentkit_py.history.staff import Takeover, TakeoverStatus
from agentkit_py.history.users import Fact, RefusedSpending, Spending
from agentkit_py.stores._sql_branches import BRANCH
from agentkit_py.stores._sql_session import JsonText, Session
from agentkit_py.stores.rows import (
    at_most,
    decode_run,
    encode_json,
    encode_run,
    encode_takeover,
    from_json,
)

if TYPE_CHECKING:
    from agentkit_py.stores._sql_session import Session

# ruff: noqa: S608 - queries are put together from parts of our own


_QUESTION = (
    "SELECT {text:q.json}, q.status, t.user_id FROM {questions} q "
    "JOIN {threads} t ON t.id = q.thread_id"
)


def save_question(session: Session, *, question: Question) -> None:
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
        _status_of(question),
        question.asked_at,
        question.expires_at,
        encoded(question),
    )


def change_question(
    session: Session, *, question_id: str, make: Callable[[Question], Question | None]
) -> Question | None:
    """Change a question; return it as it is then."""
    session.execute("SELECT 1 FROM {questions} WHERE id = ? {FOR_UPDATE}", question_id).fetchone()
    known = load_question(session, question_id=question_id)
    made = None if known is None else make(known)
    if made is None:
        return known
    query = "UPDATE {questions} SET status = ?, json = ? WHERE id = ?"
    session.execute(query, _status_of(made), encoded(made), question_id)
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


def load_question(session: Session, *, question_id: str) -> Question | None:
    """Return a question."""
    row = session.execute(f"{_QUESTION} WHERE q.id = ?", question_id).fetchone()
    return None if row is None else _question(session, row)


def find_questions(
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
    if status == "answered":
        conditions.append("q.status IN ('answered', 'undelivered')")
    elif status is not None:
        conditions.append("q.status = ?")
        values.append("open" if status == "due" else status)
    if status == "due":
        conditions.append("q.expires_at <= clock_timestamp()")
    if status == "open":
        conditions.append("(q.expires_at IS NULL OR q.expires_at > clock_timestamp())")
    query = f"{_QUESTION} WHERE {' AND '.join(conditions)} ORDER BY q.number LIMIT ?"
    rows = session.execute(query, *values, at_most(limit)).fetchall()
    return [_question(session, row) for row in rows]


def encoded(question: Question) -> JsonText:
    """Return a question as stored JSON.

    Raises:
        HistoryError: It is not JSON.
    """
    what = f"Thread {question.thread_id!r}: the question {question.id!r} cannot be saved"
    return JsonText(encode_json(question.to_dict(), what))


def _question(session: Session, row: Any) -> Question:
    found = Question.from_dict(json.loads(row[0]), where="question")
    user = None if row[2] is None else session.given(row[2])
    status = "answered" if row[1] == _UNDELIVERED else row[1]
    return replace(found, status=status, user_id=user)


_UNDELIVERED = "undelivered"
"""The column's word for answered questions whose runs do not have the answer yet."""


def _status_of(question: Question) -> str:
    """Return a question's status as the column has it, which can be searched."""
    return _UNDELIVERED if question.is_undelivered else question.status


_TAKEOVER = (
    "SELECT s.thread_id, t.user_id, {text:s.json} FROM {takeovers} s "
    "JOIN {threads} t ON t.id = s.thread_id"
)


def load_takeover(session: Session, *, thread_id: str) -> Takeover | None:
    """Return who is on a thread or wanted."""
    row = session.execute(f"{_TAKEOVER} WHERE s.thread_id = ?", thread_id).fetchone()
    return None if row is None else _takeover(session, row)


def change_takeover(
    session: Session, *, thread_id: str, make: Callable[[Takeover], Takeover | None]
) -> Takeover:
    """Change who is on a thread; return it as it is then."""
    query = "SELECT user_id FROM {threads} WHERE id = ? {FOR_UPDATE}"
    row = session.execute(query, thread_id).fetchone()
    if row is None:
        raise ThreadNotFoundError(thread_id)
    owner = None if row[0] is None else session.given(row[0])
    empty = Takeover(thread_id=thread_id, user_id=owner)
    known = load_takeover(session, thread_id=thread_id) or empty
    made = make(known)
    if made is None:
        return known
    made = replace(made, thread_id=thread_id, user_id=owner)
    if made.status is None:
        session.execute("DELETE FROM {takeovers} WHERE thread_id = ?", thread_id)
        return made
    session.execute(
        "INSERT INTO {takeovers} AS s (thread_id, status, since, json) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (thread_id) DO UPDATE SET status = excluded.status, since = excluded.since, "
        "json = excluded.json",
        *(thread_id, made.status, made.since, JsonText(encode_takeover(made))),
    )
    return made


def staff_heard(session: Session, *, thread_id: str) -> bool:
    """Note that the user has written; return True if a person should answer."""
    known = load_takeover(session, thread_id=thread_id)
    if known is None or not known.people:
        return False
    change_takeover(
        session, thread_id=thread_id, make=partial(Takeover.heard, at=datetime.now(UTC))
    )
    return True


def find_takeovers(
    session: Session, *, status: TakeoverStatus | None, user_id: str | None, limit: int | None
) -> list[Takeover]:
    """Return threads that a person is on or wanted in, the oldest first."""
    conditions, values = ["true"], list[Any]()
    for column, value in (("s.status", status), ("t.user_id", user_id)):
        if value is not None:
            conditions.append(f"{column} = ?")
            values.append(value)
    query = f"{_TAKEOVER} WHERE {' AND '.join(conditions)} ORDER BY s.since, s.thread_id LIMIT ?"
    rows = session.execute(query, *values, at_most(limit)).fetchall()
    return [_takeover(session, row) for row in rows]


def _takeover(session: Session, row: Any) -> Takeover:
    thread_id = session.given(row[0])
    found = Takeover.from_dict(from_json(row[2], "takeover", "(whole)"), where="takeover")
    owner = None if row[1] is None else session.given(row[1])
    return replace(found, thread_id=thread_id, user_id=owner)


def put_mail(
    session: Session, *, box: str, mail_id: str, text: JsonText, thread_id: str | None
) -> None:
    """Add mail to a box, and remove mail that is too old."""
    # A time that changes in the statement would keep PostgreSQL from the index of times.
    session.execute("DELETE FROM {mail} WHERE until <= (SELECT {lease_clock})")
    session.execute(
        "INSERT INTO {mail} (box, id, json, thread_id, until) VALUES (?, ?, ?, ?, {later}) "
        "ON CONFLICT (box, id) DO NOTHING",
        *(box, mail_id, text, thread_id, MAIL_SECONDS),
    )


def take_mail(session: Session, *, box: str, taker: str) -> JsonObject | None:
    """Return the taker's mail, or give it the oldest that is free."""
    session.execute("{serialize}", box)
    query = "SELECT {text:json} FROM {mail} WHERE box = ? AND taker = ?"
    row = session.execute(query, box, taker).fetchone()
    if row is None:
        query = (
            "SELECT {text:json}, number FROM {mail} WHERE box = ? AND taker IS NULL "
            "AND until > {lease_clock} ORDER BY number LIMIT 1"
        )
        row = session.execute(query, box).fetchone()
        if row is None:
            return None
        session.execute("UPDATE {mail} SET taker = ? WHERE number = ?", taker, row[1])
    return json.loads(row[0])


def list_mail(session: Session, *, box: str) -> list[tuple[str, JsonObject]]:
    """Return ids and contents of the mail that is free, the oldest first."""
    query = (
        "SELECT id, {text:json} FROM {mail} WHERE box = ? AND taker IS NULL "
        "AND until > {lease_clock} ORDER BY number"
    )
    rows = session.execute(query, box).fetchall()
    return [(session.given(row[0]), json.loads(row[1])) for row in rows]


def take_all_mail(
    session: Session, *, box: str, taker: str, at_work: bool
) -> list[JsonObject] | None:
    """Return the taker's mail, or give it all that is free; None: some of it interrupts."""
    session.execute("{serialize}", box)
    query = "SELECT {text:json} FROM {mail} WHERE box = ? AND taker = ? ORDER BY number"
    found = [json.loads(row[0]) for row in session.execute(query, box, taker).fetchall()]
    if found:
        return found
    query = (
        "SELECT {text:json} FROM {mail} WHERE box = ? AND taker IS NULL "
        "AND until > {lease_clock} ORDER BY number"
    )
    found = [json.loads(row[0]) for row in session.execute(query, box).fetchall()]
    if at_work and any(one["interrupts"] for one in found):
        return None
    session.execute("UPDATE {mail} SET taker = ? WHERE box = ? AND taker IS NULL", taker, box)
    return found


def has_mail(session: Session, *, box: str, taker: str) -> bool:
    """Return whether there is mail that the taker would get."""
    query = "SELECT 1 FROM {mail} WHERE box = ? AND (taker IS NULL OR taker = ?) LIMIT 1"
    return session.execute(query, box, taker).fetchone() is not None


_MINE = "tenant = ? AND user_id = ?"


def add_fact(session: Session, *, fact: Fact, text: JsonText) -> bool:
    """Add a fact, replacing the fact that it corrects."""
    mine = (fact.tenant, fact.user_id)
    thread = fact.thread_id
    query = "SELECT 1 FROM {threads} WHERE id = ?"
    if thread is not None and session.execute(query, thread).fetchone() is None:
        raise ThreadNotFoundError(thread)
    session.execute("{serialize}", f"facts of {fact.user_id}")
    find = f"SELECT chain FROM {{facts}} WHERE {_MINE} AND id = ?"
    if session.execute(find, *mine, fact.id).fetchone() is not None:
        return True
    chain = fact.id
    if fact.replaces is not None:
        row = session.execute(find, *mine, fact.replaces).fetchone()
        if row is None:
            return False
        chain = session.given(row[0])
        session.execute(
            f"UPDATE {{facts}} SET replaced_by = ? WHERE {_MINE} AND chain = ? "
            "AND replaced_by IS NULL",
            *(fact.id, *mine, chain),
        )
    session.execute(
        "INSERT INTO {facts} (tenant, user_id, id, chain, thread_id, json) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        *(*mine, fact.id, chain, thread, text),
    )
    return True


def find_facts(
    session: Session, *, tenant: str, user_id: str, replaced: bool, limit: int | None
) -> list[Fact]:
    """Return a user's facts, newest first."""
    holding = "" if replaced else " AND replaced_by IS NULL"
    query = (
        f"SELECT id, thread_id, replaced_by, {{text:json}} FROM {{facts}} WHERE {_MINE}{holding} "
        "ORDER BY number DESC LIMIT ?"
    )
    rows = session.execute(query, tenant, user_id, at_most(limit)).fetchall()
    return [_fact(session, tenant, user_id, row) for row in rows]


def _fact(session: Session, tenant: str, user_id: str, row: Any) -> Fact:
    key, thread, later = (None if one is None else session.given(one) for one in row[:3])
    record = from_json(row[3], f"fact {key!r}", "(whole)")
    return Fact.from_dict(
        record, tenant=tenant, user_id=user_id, id=key, thread_id=thread, replaced_by=later
    )


def remove_facts(session: Session, *, user_id: str, tenant: str | None, fact_id: str | None) -> int:
    """Remove a user's facts, or a fact with all that it replaced."""
    query, values = "DELETE FROM {facts} WHERE user_id = ?", [user_id]
    if tenant is not None:
        query += " AND tenant = ?"
        values.append(tenant)
    if fact_id is not None:
        query += (
            " AND (tenant, user_id, chain) IN "
            "(SELECT tenant, user_id, chain FROM {facts} WHERE user_id = ? AND id = ?)"
        )
        values += [user_id, fact_id]
    return session.execute(query, *values).rowcount


class NoRoomError(Exception):
    """Ends the transaction, so that nothing of it is counted."""

    def __init__(self, refused: RefusedSpending) -> None:
        super().__init__()
        self.refused = refused


def spend(session: Session, *, spendings: Sequence[Spending]) -> None:
    """Add all amounts.

    Raises:
        NoRoomError: A counter has no room.
    """
    for one in spendings:
        key = (one.scope, one.kind, one.period)
        added = session.execute(
            "INSERT INTO {budgets} (scope, kind, period, used) VALUES (?, ?, ?, 0) "
            "ON CONFLICT DO NOTHING",
            *key,
        )
        if added.rowcount:  # a period has begun: those of its length that are over are not read
            query = "DELETE FROM {budgets} WHERE scope = ? AND kind = ? AND period < ? "
            session.execute(f"{query}AND length(period) = ?", *key, len(one.period))
        # The row is locked from here on, and the condition includes committed changes of others.
        query = "UPDATE {budgets} SET used = used + ? WHERE scope = ? AND kind = ? AND period = ?"
        values = [one.amount, *key]
        if one.most is not None:
            query += " AND used + ? <= ?"
            values += [one.amount, one.most]
        if session.execute(query, *values).rowcount == 0:
            query = "SELECT used FROM {budgets} WHERE scope = ? AND kind = ? AND period = ?"
            raise NoRoomError(
                RefusedSpending(one, float(session.execute(query, *key).fetchone()[0]))
            )


def spent(session: Session, *, scope: str) -> dict[tuple[str, str], float]:
    """Return a scope's counters."""
    query = "SELECT kind, period, used FROM {budgets} WHERE scope = ?"
    rows = session.execute(query, scope).fetchall()
    return {(session.given(row[0]), session.given(row[1])): float(row[2]) for row in rows}


def remove_spending(session: Session, *, scope: str) -> None:
    """Remove a scope's counters."""
    session.execute("DELETE FROM {budgets} WHERE scope = ?", scope)


_STOPS_KEPT = 7 * 24 * 3600.0
"""Seconds for which it is remembered that an execution was stopped."""


def lock_thread(session: Session, *, thread_id: str, owner: str, seconds: float) -> bool:
    """Take or renew the lease if it is free, and no other owner comes before ``owner``."""
    execution = execution_of(owner)
    if execution is not None:
        session.execute("{serialize}", execution)
        if is_execution_stopped(session, execution=execution):
            return False
    session.execute("{serialize}", thread_id)
    query = "SELECT owner FROM {leases} WHERE thread_id = ? AND until > {lease_clock}"
    holder = session.execute(query, thread_id).fetchone()
    if holder is not None and session.given(holder[0]) != owner:
        return False
    if holder is None and _first_in_line(session, thread_id) not in (None, owner):
        return False
    _give(session, thread_id, owner, seconds)
    return True


def wait_for_thread(session: Session, *, thread_id: str, owner: str, seconds: float) -> bool:
    """Take the lease, or a place in line."""
    if lock_thread(session, thread_id=thread_id, owner=owner, seconds=seconds):
        return True
    execution = execution_of(owner)
    if execution is None or not is_execution_stopped(session, execution=execution):
        session.execute(
            "INSERT INTO {line} AS l (thread_id, owner, execution, until) "
            "VALUES (?, ?, ?, {later}) ON CONFLICT (thread_id, owner) DO UPDATE "
            "SET until = excluded.until",
            *(thread_id, owner, execution, LINE_SECONDS),
        )
    return False


def unlock_thread(session: Session, *, thread_id: str, owner: str) -> str | None:
    """End the owner's lease or place in line, and pass a free lease on."""
    session.execute("{serialize}", thread_id)
    for table in ("leases", "line"):
        query = f"DELETE FROM {{{table}}} WHERE thread_id = ? AND owner = ?"
        session.execute(query, thread_id, owner)
    query = "SELECT 1 FROM {leases} WHERE thread_id = ? AND until > {lease_clock}"
    if session.execute(query, thread_id).fetchone() is not None:
        return None
    first = _first_in_line(session, thread_id)
    if first is not None:
        _give(session, thread_id, first, CLAIM_SECONDS)
    return first


def add_note(session: Session, *, thread_id: str, owner: str, texts: Mapping[str, Any]) -> bool:
    """Keep notes, unless the owner was stopped."""
    execution = execution_of(owner)
    if execution is not None:
        session.execute("{serialize}", execution)
        if is_execution_stopped(session, execution=execution):
            return False
    session.execute_many(
        "INSERT INTO {notes} (thread_id, owner, execution, key, json) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (thread_id, owner, key) DO UPDATE SET json = excluded.json",
        [(thread_id, owner, execution, key, text) for key, text in texts.items()],
    )
    return True


def find_notes(session: Session, *, thread_id: str, owner: str) -> dict[str, JsonObject]:
    """Return the notes of an owner, in order."""
    query = "SELECT key, {text:json} FROM {notes} WHERE thread_id = ? AND owner = ? ORDER BY number"
    rows = session.execute(query, thread_id, owner).fetchall()
    return {session.given(key): json.loads(text) for key, text in rows}


def stop_run(session: Session, *, execution: str) -> list[Unfinished]:
    """Mark an execution as stopped, and find its calls."""
    session.execute("{serialize}", execution)
    session.execute("DELETE FROM {stopped} WHERE until <= {lease_clock}")
    session.execute(
        "INSERT INTO {stopped} (execution, until) VALUES (?, {later}) ON CONFLICT DO NOTHING",
        *(execution, _STOPS_KEPT),
    )
    session.execute(
        "UPDATE {questions} "
        "SET status = CASE status WHEN 'open' THEN 'stopped' ELSE 'answered' END "
        "WHERE execution = ? AND status IN ('open', 'undelivered')",
        execution,
    )
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for table in ("leases", "line"):
        query = f"SELECT thread_id, owner FROM {{{table}}} WHERE execution = ?"
        for row in session.execute(query, execution).fetchall():
            found[session.given(row[0]), session.given(row[1])] = {}
    query = (
        "SELECT thread_id, owner, key, {text:json} FROM {notes} WHERE execution = ? ORDER BY number"
    )
    for thread_id, owner, key, text in session.execute(query, execution).fetchall():
        notes = found.setdefault((session.given(thread_id), session.given(owner)), {})
        notes[session.given(key)] = json.loads(text)
    return [
        Unfinished(thread_id=thread_id, owner=owner, notes=notes)
        for (thread_id, owner), notes in found.items()
    ]


def is_execution_stopped(session: Session, *, execution: str) -> bool:
    """Return whether an execution was stopped."""
    query = "SELECT 1 FROM {stopped} WHERE execution = ?"
    return session.execute(query, execution).fetchone() is not None


def _first_in_line(session: Session, thread_id: str) -> str | None:
    query = (
        "SELECT owner FROM {line} WHERE thread_id = ? AND until > {lease_clock} "
        "ORDER BY number LIMIT 1"
    )
    row = session.execute(query, thread_id).fetchone()
    return None if row is None else session.given(row[0])


def _give(session: Session, thread_id: str, owner: str, seconds: float) -> None:
    session.execute(
        "INSERT INTO {leases} AS l (thread_id, owner, execution, until) VALUES (?, ?, ?, {later}) "
        "ON CONFLICT (thread_id) DO UPDATE SET owner = excluded.owner, "
        "execution = excluded.execution, until = excluded.until",
        *(thread_id, owner, execution_of(owner), seconds),
    )
    session.execute("DELETE FROM {line} WHERE thread_id = ? AND owner = ?", thread_id, owner)
