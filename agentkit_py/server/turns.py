"""A thread as front ends show it: turns of a user's message and the parts of its reply."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from agentkit_py.events.consume import PartApproval, StreamedPart
from agentkit_py.events.replies import approval_id, parts_of
from agentkit_py.history.questions import Question
from agentkit_py.results import USER, AgentResult
from agentkit_py.stores import HistoryStore
from agentkit_py.stores.rows import StoredResult

MOST = 1000
"""Rows of a thread that a front end gets at once."""


_NEWEST = 20
"""Rows of a thread that are read first, where a single turn is asked for."""


@dataclass(slots=True)
class ShownTurn:
    """A user's message, and the agents' reply."""

    message_id: str
    """The id of the user's message."""

    position: int
    """The position of its first row in the thread."""

    changed_at: datetime
    """The time of its last row."""

    text: str | None = None
    """The user's message; None: the thread begins with an agent's."""

    parts: list[StreamedPart] = field(default_factory=list[StreamedPart])


@dataclass(frozen=True, slots=True)
class ThreadView:
    """The last turns of a thread, or those before a position."""

    turns: list[ShownTurn]
    has_more: bool = False
    """True if the thread has turns before these."""

    questions: Sequence[Question] = ()
    """The questions of the thread, answered ones too, where they were asked for."""

    def of(self, message_id: str) -> ShownTurn | None:
        """Return the turn of a user's message."""
        return next((one for one in self.turns if one.message_id == message_id), None)


async def view_of(
    store: HistoryStore,
    thread_id: str,
    *,
    limit: int = MOST,
    before: int | None = None,
) -> ThreadView:
    """Return the last turns of a thread that begin in its last ``limit`` rows.

    Args:
        store: The store as the reader may see it.
        thread_id: The thread.
        limit: Rows to read.
        before: Only rows before this position; None: all.

    Raises:
        ThreadNotFoundError: The thread does not exist.
    """
    if before is None:
        _, records = await store.newest(thread_id, limit)
    else:
        end = min(before, await store.count_results(thread_id))
        records = await store.page(thread_id, end, limit)
    turns = turns_of(records)
    has_more = bool(records) and records[0].position > 0
    if has_more and len(turns) > 1 and turns[0].text is None:
        del turns[0]  # its beginning is on the page before
    return ThreadView(turns, has_more)


async def turn_of(store: HistoryStore, thread_id: str, message_id: str) -> ShownTurn | None:
    """Return the turn of a message, whole; None if it is not in the thread's last rows.

    Few rows are read first, since the message is one of the last in most cases.

    Raises:
        ThreadNotFoundError: The thread does not exist.
    """
    view = await view_of(store, thread_id, limit=_NEWEST)
    found = view.of(message_id)
    if found is None and view.has_more:
        found = (await view_of(store, thread_id)).of(message_id)
    return found


def turns_of(records: Iterable[StoredResult]) -> list[ShownTurn]:
    """Return the turns of a thread's rows: a reply is whole, in the place of its beginning.

    It may have continued after later messages, because its run waited.
    """
    found: list[ShownTurn] = []
    of_message: dict[str, ShownTurn] = {}
    for record in records:
        result = record.result
        known = result.id or f"position-{record.position}"
        if result.agent_name == USER:
            text = "".join(one.text for one in result.output if one.type == "text")
            found.append(ShownTurn(known, record.position, result.created_at, text))
            of_message[known] = found[-1]
            continue
        if is_note(result):
            continue
        if not found:
            found.append(ShownTurn(known, record.position, result.created_at))
        answers = record.metadata.get("answers")
        turn = of_message.get(answers, found[-1]) if isinstance(answers, str) else found[-1]
        turn.changed_at = result.created_at
        parts = list(parts_of(result.agent_name, result.output, result.tool_calls))
        for part in parts:
            part.by_staff = result.staff is not None
        if result.cut is not None:
            for part in [one for one in parts if one.type == "text"][-1:]:
                part.cut = result.cut.reason
        turn.parts += parts
    return found


def is_note(result: AgentResult) -> bool:
    """Return whether an entry is a note of staff, which users do not get."""
    return result.staff is not None and result.staff.to != "user"


def show_questions(turn: ShownTurn, questions: Sequence[Question]) -> None:
    """Add the questions of a turn to its calls; an open question brings calls of its own."""
    for question in questions:
        if question.run_id != turn.message_id:
            continue
        calls = [(call.name, call.arguments) for call in question.calls]
        if not calls and turn.parts:  # a tool asked while it ran
            last = [part for part in turn.parts if part.type == "tool-call"][-1:]
            for part in last if question.status == "open" else ():
                part.approval = _approval(question, 0)
        for index, (name, arguments) in enumerate(calls):
            part = _call_of(turn, question, name, arguments)
            if part is not None:
                part.approval = _approval(question, index)


def _call_of(
    turn: ShownTurn, question: Question, name: str, arguments: object
) -> StreamedPart | None:
    for part in turn.parts:
        same = (part.type, part.tool, part.input) == ("tool-call", name, arguments)
        if same and part.agent == question.agent and part.approval is None:
            return part
    if question.status != "open":
        return None  # its run was stopped, so that the call is not in the thread
    part = StreamedPart(
        id="", type="tool-call", run_id="", message_id="", agent=question.agent, tool=name
    )
    part.input, part.status = arguments, "completed"
    turn.parts.append(part)
    return part


def _approval(question: Question, index: int) -> PartApproval:
    until = question.expires_at
    found = PartApproval(
        id=approval_id(question.id, index, len(question.calls)),
        message=question.message,
        expires_at=None if until is None else until.isoformat(),
    )
    answer = question.answer
    if question.status == "open" and (answer is None or index not in answer.calls):
        return found
    decision = None if answer is None else answer.on(index)
    found.approved = decision is not None and decision.approved
    found.reason = "" if decision is None else decision.to_user
    return found


def open_ids(questions: Iterable[Question]) -> list[str]:
    """Return the ids under which questions wait for answers."""
    return [
        approval_id(one.id, index, len(one.calls))
        for one in questions
        for index in range(max(1, len(one.calls)))
        if one.answer is None or index not in one.answer.calls
    ]
