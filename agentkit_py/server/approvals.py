"""Approvals: questions that wait for a person, who may answer them, and the answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from agentkit_py.errors import NotPendingError
from agentkit_py.events import ApprovalAnswer, Decision
from agentkit_py.events.for_users import decision_for_user
from agentkit_py.history.abilities import abilities_of
from agentkit_py.history.questions import Question, QuestionStore, change_open, stop_question
from agentkit_py.network import problem_with_arguments
from agentkit_py.server.api import Api, ApiRequest, endpoint
from agentkit_py.server.config import ServerSettings
from agentkit_py.server.errors import ApiError, invalid, not_found
from agentkit_py.server.responses import ApprovalItem, ApprovalsPage, Done
from agentkit_py.server.runs import APPROVALS
from agentkit_py.server.schemas import AnswerBody, ApprovalRequestBody, ApprovalsQuery
from agentkit_py.server.streams import CountedEvents, event

_MOST_CLOSED = 1000
"""Closed questions that the streams of questions know of."""

CLOSED = {
    "already_answered": "This was answered already.",
    "expired": "This was not answered in time.",
    "run_stopped": "The run that asked this was stopped.",
}
"""Codes and words for answers that come too late."""


@dataclass(frozen=True, slots=True)
class OpenQuestions:
    """Questions by id, as of the last read."""

    asked: dict[str, Question]
    """The open ones."""

    closed: dict[str, Question]
    """Those that were open at an earlier look; the last ones."""


def question_store(api: Api) -> QuestionStore:
    """Return the store of questions, or refuse the request."""
    store = api.settings.store.abilities.questions
    if store is None:
        raise not_found("question")
    return store


async def open_questions(store: object, thread_id: str) -> list[Question]:
    """Return the open questions of a thread."""
    questions = abilities_of(store).questions
    if questions is None:
        return []
    return await questions.list_questions(thread_id=thread_id, limit=None)


async def for_staff(
    api: Api, user_id: str, thread_id: str, most: int, *, closed: bool = True
) -> list[ApprovalItem]:
    """Return the last questions of a thread that the user reads as staff, and all open ones.

    Args:
        api: The parts of the server.
        user_id: The member of staff.
        thread_id: The thread.
        most: The most closed questions to return.
        closed: Whether closed questions are wanted, for which all of the thread are read.
    """
    store = api.settings.store.abilities.questions
    if store is None:
        return []
    read = partial(store.list_questions, thread_id=thread_id, limit=None)
    if closed:
        found = await read(status=None)
        last = max(0, len(found) - most)
        found = [q for place, q in enumerate(found) if place >= last or q.status == "open"]
    else:
        found = [*await read(status="due"), *await read(status="open")]
    access = api.access_of(user_id)
    return [
        item_of(one, user_id, allowed=one.status == "open" and await access.may_answer(one))
        for one in found
    ]


async def visible(api: Api, user_id: str, questions: list[Question]) -> list[ApprovalItem]:
    """Return those questions that a user may answer, or whose thread is the user's."""
    found: list[ApprovalItem] = []
    access = api.access_of(user_id)
    for one in questions:
        allowed = await access.may_answer(one)
        if allowed or one.user_id == user_id:
            found.append(item_of(one, user_id, allowed=allowed))
    return found


def item_of(question: Question, reader: str, *, allowed: bool) -> ApprovalItem:
    """Return a question as this reader may see it: its thread's user, or staff."""
    fields: Any = question.to_dict()
    answer = question.answer
    fields["toUser"] = "" if answer is None else answer.to_user
    for name in ("execution", "parts", "answer", "escalateTo", "receivedAt"):
        del fields[name]
    for call, part in zip(fields["calls"], question.parts, strict=False):
        call["partId"] = part
    is_users = question.user_id == reader
    word = decision_for_user if is_users else Decision.to_dict
    decisions = {str(i): word(one) for i, one in question.decisions.items()}
    if is_users:
        by = question.answered_by if question.answered_by == reader else None
        fields |= {"approvers": list[str](), "escalatesAt": None, "answeredBy": by}
        fields["reason"] = fields["toUser"]
    approved = answer.approved if answer is not None and question.status == "answered" else None
    own = {"decisions": decisions, "approved": approved, "mayAnswer": allowed}
    found: Any = {**fields, **own}
    return found


@endpoint("GET", "/api/approvals", 404)
async def list_approvals(request: ApiRequest[ApprovalsQuery]) -> ApprovalsPage:
    """List the questions that the user may answer, and those in the user's threads."""
    query = request.params
    await request.api.backend.send_answers()
    # The user's own are among them, however many others have asked before.
    whose = [query.user_id] if query.user_id is not None else [None, request.user_id]
    asked: dict[str, Question] = {}
    for user_id in whose:
        found = await question_store(request.api).list_questions(
            thread_id=query.thread_id,
            user_id=user_id,
            status=None if query.status == "all" else query.status,
            limit=request.api.settings.most_listed,
        )
        asked.update({one.id: one for one in found})
    wanted = [
        one
        for one in asked.values()
        if query.agent in (None, one.agent)
        and (query.tool is None or query.tool in {call.name for call in one.calls})
    ]
    shown = await visible(request.api, request.user_id, wanted)
    return {"approvals": shown[: query.limit], "hasMore": len(shown) > query.limit}


@endpoint("POST", "/api/approvals/{questionId}", 404, 409, 502)
async def answer_approval(request: ApiRequest[AnswerBody]) -> Done:
    """Answer a question, or decide on single calls of it.

    ``calls`` decides on calls by their index, and may change their arguments; the others get
    ``action``. Without an ``action`` they stay open.
    """
    body, who = request.params, request.user_id
    question = await question_store(request.api).load_question(body.question_id)
    if question is None:
        raise not_found("question")
    count = len(question.calls)
    if any(one.index >= count for one in body.calls) or not (body.calls or body.action):
        raise invalid(f"calls, action: the question has {count} calls, and needs a decision")
    calls = {
        one.index: Decision(
            one.action == "approve", one.reason or "", who, one.arguments, one.to_user or ""
        )
        for one in body.calls
    }
    whole = None if body.action is None else _whole(body)
    decide = partial(decided, calls, whole, who)
    return await answer_question(request.api, who, question, decide, calls)


@endpoint("POST", "/api/approve-tool", 404, 409, 502)
async def approve_tool(request: ApiRequest[ApprovalRequestBody]) -> Done:
    """Approve or deny a tool call that waits for it."""
    body, who = request.params, request.user_id
    decision = _whole(body)
    store = question_store(request.api)
    asked = await store.list_questions(thread_id=body.thread_id, status=None, limit=None)
    known = [one for one in asked if one.knows(body.tool_call_id)]
    question = next((one for one in known if one.status == "open"), known[-1] if known else None)
    seen = await visible(request.api, who, [] if question is None else [question])
    if question is None or not seen:
        await request.threads.get_thread(body.thread_id)  # another's is none, whatever was asked
        raise not_found("question")
    whole = body.tool_call_id == question.id

    def change(known: Question) -> Question | None:
        calls = {} if whole else dict.fromkeys(known.undecided(body.tool_call_id), decision)
        return decided(calls, decision if whole else None, who, known)

    return await answer_question(request.api, who, question, change)


def _whole(body: AnswerBody | ApprovalRequestBody) -> Decision:
    approved, words = body.action == "approve", body.to_user or ""
    return Decision(approved, body.reason or "", to_user=words)


def decided(
    calls: Mapping[int, Decision], whole: Decision | None, who: str, question: Question
) -> Question | None:
    """Return a question with decisions on single calls, and on all others; None: unchanged.

    If users decide for themselves, their words are the reason and also the text to the user.
    """
    now = datetime.now(UTC)
    is_users = who == question.user_id
    if is_users:
        calls = {index: _to_oneself(one) for index, one in calls.items()}
        whole = None if whole is None else _to_oneself(whole)
    if whole is None:
        is_new = bool(calls.keys() - question.decisions.keys())
        return question.decided(calls, now, by=who) if is_new else None
    answer = ApprovalAnswer(
        approved=whole.approved,
        reason=whole.reason,
        calls=calls,
        data={
            "resolvedBy": who,
            "resolvedAt": now.isoformat(),
            **({"answeredBy": who} if is_users else {}),
        },
        to_user=whole.to_user,
    )
    return question.closed(answer, now)


def _to_oneself(decision: Decision) -> Decision:
    return replace(decision, to_user=decision.to_user or decision.reason)


async def answer_question(
    api: Api,
    user_id: str,
    question: Question,
    decide: Callable[[Question], Question | None],
    calls: Mapping[int, Decision] | None = None,
) -> Done:
    """Change a question if the user may, and resume its run once it is answered.

    Args:
        api: The parts of the server.
        user_id: The user who answers.
        question: The question.
        decide: Returns the changed question; None: nothing is left to decide.
        calls: The decisions on single calls, whose arguments are checked.
    """
    if not await api.access_of(user_id).may_answer(question):
        if question.user_id != user_id:
            raise not_found("question")
        raise ApiError(403, "not_allowed", "Somebody else has to decide this.")
    api.backend.check_answerable(question)
    problem = problem_with_arguments(api.settings.targets.values(), question, calls or {})
    if problem is not None:
        raise invalid(f"calls.{problem}")
    store = question_store(api)
    if question.status == "open" and await api.backend.is_lost(question):
        await stop_question(store, question.id)
        api.hub.publish(APPROVALS, {"event": "approval.changed", "data": {"id": question.id}})
        raise ApiError(409, "run_lost", "The run that asked has died. Send the message again.")
    await api.decisions.carry_out(_take_answer(api, store, user_id, question, decide))
    return {"success": True}


async def _take_answer(
    api: Api,
    store: QuestionStore,
    user_id: str,
    question: Question,
    decide: Callable[[Question], Question | None],
) -> None:
    """Change a question, resume its run, and notify its followers."""
    try:
        done = await change_open(store, question.id, decide, tell=api.backend.go_on)
    except NotPendingError as error:
        codes = {"expired": "expired", "stopped": "run_stopped"}
        code = codes.get(error.status or "", "already_answered")
        first = error.answered_by
        is_hidden = question.user_id == user_id != first  # ids of staff stay with staff
        by = "" if first is None or is_hidden else f" {first} was first."
        raise ApiError(409, code, f"{CLOSED[code]}{by}") from None
    api.hub.publish(APPROVALS, {"event": "approval.changed", "data": {"id": question.id}})
    if done.status == "answered" and done.user_id != user_id:
        about = (done.user_id, "question_answered", done.thread_id)
        api.notifier.tell(
            *about, text="" if done.answer is None else done.answer.to_user, question=done
        )


async def approvals_stream(api: Api, request: Request) -> Response:
    """`GET /api/approvals/stream`: the questions that the user sees, each when it changes."""
    user_id = await api.reader_of(request)
    question_store(api)
    return CountedEvents(api, user_id, _changes(api, user_id))


async def read_asked(settings: ServerSettings, before: OpenQuestions | None) -> OpenQuestions:
    """Read the open questions, and those that have been closed since the last look."""
    store = settings.store.abilities.questions
    if store is None:
        return OpenQuestions({}, {})
    found = await store.list_questions(limit=settings.most_listed)
    asked = {one.id: one for one in found}
    closed = {} if before is None else {**before.closed}
    for gone in () if before is None else before.asked.keys() - asked.keys():
        known = await store.load_question(gone)
        closed.update({} if known is None else {gone: known})
    return OpenQuestions(asked, dict([*closed.items()][-_MOST_CLOSED:]))


async def _changes(api: Api, user_id: str) -> AsyncGenerator[bytes]:
    """Yield each question that is open, and again when it changes or is closed."""
    known: dict[str, bytes] = {}
    seen: OpenQuestions | None = None
    with api.asked.followed():
        yield event("ready", {})
        while True:
            found: OpenQuestions = await api.asked.after(seen)
            seen = found
            asked = list(found.asked.values())
            items = {one["id"]: one for one in await visible(api, user_id, asked)}
            for gone in known.keys() - items.keys():
                del known[gone]
                closed = found.asked.get(gone) or found.closed.get(gone)
                if closed is not None:
                    yield event("approval", item_of(closed, user_id, allowed=False))
            for key, item in items.items():
                text = event("approval", item)
                if known.get(key) != text:
                    known[key] = text
                    yield text
