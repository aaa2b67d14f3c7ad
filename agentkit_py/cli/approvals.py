"""`agentkit approvals`: questions that wait for a person, and the answers."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console

from agentkit_py._core.awaiting import run_interruptibly
from agentkit_py._core.json import as_object, dumps, strict_loads
from agentkit_py._core.untrusted import clean
from agentkit_py.cli.console import counted, shorten
from agentkit_py.cli.stores import command_group, store_command
from agentkit_py.cli.target import (
    DbOption,
    TargetArgument,
    import_module,
    load_target,
    split_target,
    with_history,
)
from agentkit_py.errors import AgentKitError, ConfigurationError, NotPendingError
from agentkit_py.events.approvals import ApprovalAnswer, Decision
from agentkit_py.history.abilities import abilities_of
from agentkit_py.history.questions import Question, QuestionStore, change_open
from agentkit_py.network import problem_with_arguments
from agentkit_py.runtime.current import close_shared_runtime
from agentkit_py.stores import HistoryStore
from agentkit_py.stores.base import thread_store

app: typer.Typer = command_group(
    "approvals", "Questions that wait for a person: list and answer them."
)


def _questions_of(store: object) -> QuestionStore:
    questions = abilities_of(store).questions
    if questions is None:
        raise ConfigurationError(f"{store!r:.80} keeps no questions.")
    return questions


@store_command(app, "list")
async def list_(
    store: HistoryStore,
    console: Console,
    *,
    thread: Annotated[str | None, typer.Option(metavar="ID", help="Only of this thread.")] = None,
    user: Annotated[str | None, typer.Option(metavar="ID", help="Only of this user.")] = None,
    agent: Annotated[str | None, typer.Option(metavar="NAME", help="Only of this agent.")] = None,
    tool: Annotated[str | None, typer.Option(metavar="NAME", help="Only about this tool.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that are answered or have expired.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="Number of questions at most.")] = 50,
) -> None:
    """List questions, the oldest first."""
    asked = await _questions_of(store).list_questions(
        thread_id=thread, user_id=user, status=None if everything else "open", limit=None
    )
    found = [
        one
        for one in asked
        if agent in (None, one.agent) and tool in (None, *(call.name for call in one.calls))
    ][:limit]
    for one in found:
        for line in _lines(one):  # ids are not shortened, to be copied
            console.print(clean(line), markup=False, highlight=False, soft_wrap=True)
    console.print(counted(len(found), "question"), style="dim")


def _lines(question: Question) -> Iterator[str]:
    """Yield a question's lines: the question, its calls, its approvers, and the decisions."""
    now = datetime.now(UTC)
    yield f"{question.id}  {_status(question)}{_left(question, now)}"
    if question.message or not question.calls:
        yield f"  {question.agent}: {shorten(question.message, 200)}"
    for index, call in enumerate(question.calls):
        number = f"{index}. " if len(question.calls) > 1 else ""
        asked = shorten(f"{call.name} {dumps(call.arguments)}", 200)
        yield f"  {question.agent}: {number}{asked}{_decision(question.decisions.get(index))}"
    owner = f", user {question.user_id}" if question.user_id else ""
    yield f"  thread {question.thread_id}{owner}"
    if question.status != "open":
        return
    names = ", ".join(question.approvers_at(now))
    escalates = question.escalates_at
    then = ""
    if escalates is not None and now < escalates:
        then = f"; in {_time(escalates, now)} also {', '.join(question.escalate_to)}"
    if names or then:
        yield f"  for {names or 'anybody'}{then}"


def _decision(decision: Decision | None) -> str:
    if decision is None:
        return ""
    word = "approved" if decision.approved else "denied"
    by = f" by {decision.by}" if decision.by else ""
    changed = "" if decision.arguments is None else f" with {dumps(decision.arguments)}"
    reason = f": {decision.reason}" if decision.reason else ""
    return f"  {word}{by}{changed}{reason}"


def _left(question: Question, now: datetime) -> str:
    if question.expires_at is None or question.status != "open":
        return ""
    over = question.is_due(now)
    return ", its time is over" if over else f", expires in {_time(question.expires_at, now)}"


def _time(until: datetime, now: datetime) -> str:
    minutes = round((until - now).total_seconds() / 60)
    return f"{minutes} min" if minutes < 600 else f"{round(minutes / 60)} h"  # noqa: PLR2004 - ten hours


def _status(question: Question) -> str:
    by = f" by {question.answered_by}" if question.answered_by else ""
    reason = f": {question.reason}" if question.reason else ""
    return f"{question.status}{by}{reason}"


@app.command()
def answer(  # noqa: PLR0913 - the options of the command
    ctx: typer.Context,
    target: TargetArgument,
    question: Annotated[str, typer.Argument(metavar="ID", help="The question.")],
    *,
    approve: Annotated[bool, typer.Option("--approve/--deny", help="The decision.")],
    call: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N[=JSON]",
            help="Decide on this call alone, and change its arguments; can be repeated.",
        ),
    ] = None,
    reason: Annotated[
        str, typer.Option(help="The reason, which the model reads, and not the user.")
    ] = "",
    to_user: Annotated[
        str, typer.Option(help="Words for the user, which the model reads, too.")
    ] = "",
    by: Annotated[str | None, typer.Option(metavar="ID", help="The user who answers.")] = None,
    db: DbOption = None,
) -> None:
    """Answer a question, and resume its run here.

    With --call the other calls stay open, for another user; the run resumes when all are decided.
    A run that waits as an Inngest function resumes there: the answer goes to the server by the
    module's Inngest client, else by that of agentkit serve. Every user of this command may
    answer: the rules of the HTTP API hold there.
    """
    found, _ = with_history(load_target(target), db, create=False)
    console: Console = ctx.obj.console

    async def main() -> None:
        store = _questions_of(found.history)
        try:
            asked = await store.load_question(question)
            if asked is None:
                raise NotPendingError("", "unknown question", question_id=question)
            decision = Decision(approve, reason, by, to_user=to_user)
            calls = dict(_single(asked, one, decision) for one in call or ())
            problem = problem_with_arguments([found], asked, calls)
            if problem is not None:
                raise typer.BadParameter(problem, param_hint="--call")
            if call and not {*range(len(asked.calls))} <= calls.keys() | asked.decisions.keys():
                await change_open(store, question, partial(_decided, calls, by))
                console.print("Decided. The run waits for the other calls of the question.")
                return
            given = ApprovalAnswer(
                approved=approve and not call, reason=reason, calls=calls, to_user=to_user
            )
            if asked.execution is not None:
                words = await _send(_client(target), store, asked, given, by)
                console.print(words)
                return
            done: Any = await found.resume(asked.thread_id, {question: given}, by=by)
            if done.stop_reason == "pending":
                console.print("The run waits for another answer.")
            else:
                console.print(clean(done.text), markup=False, soft_wrap=True)
        finally:
            await close_shared_runtime()
            store = thread_store(found.history)
            if store is not None:
                await store.close()

    run_interruptibly(main())


def _single(question: Question, given: str, decision: Decision) -> tuple[int, Decision]:
    """Return a call's index, and the decision on it with the arguments that ``N=JSON`` gives."""
    number, _, text = given.partition("=")
    count = len(question.calls)
    if not (number.isdecimal() and int(number) < count):
        problem = f"{number!r:.80} is none of the question's {count} calls, counted from 0"
        raise typer.BadParameter(problem, param_hint="--call")
    try:
        arguments = as_object(strict_loads(text)) if text else {}
    except ValueError:
        arguments = None
    if arguments is None:
        raise typer.BadParameter(f"{text!r:.200} is no JSON object", param_hint="--call")
    return int(number), replace(decision, arguments=arguments) if text else decision


def _decided(calls: Mapping[int, Decision], by: str | None, question: Question) -> Question | None:
    """Return a question with decisions on some of its calls; None: they are decided."""
    new = bool(calls.keys() - question.decisions.keys())
    return question.decided(calls, datetime.now(UTC), by=by) if new else None


async def _send(
    client: Any, store: QuestionStore, asked: Question, given: ApprovalAnswer, by: str | None
) -> str:
    """Store an answer and send it to the function that waits for it; return a line to print."""
    ours = importlib.import_module("agentkit_py.inngest")
    try:
        await ours.answer_question(client, store, asked.id, given, by=by)
    except NotPendingError:
        before = asked.answer
        if not asked.is_undelivered or before is None or before.approved != given.approved:
            raise
        return "The question was answered before; that answer was sent again."
    except AgentKitError:
        raise
    except Exception as error:
        raise ConfigurationError(
            f"The answer is stored, but the Inngest server at {client.event_api_origin} did not "
            f"take it ({error}). Set INNGEST_BASE_URL, INNGEST_DEV or INNGEST_EVENT_KEY as for the "
            "functions, and answer again: then it is sent again."
        ) from error
    return "Sent: the run continues as its Inngest function."


def _client(target: str) -> object:
    """Return the Inngest client of the target's module, else that of `agentkit serve`."""
    name, _ = split_target(target)
    serving = importlib.import_module("agentkit_py.inngest.serving")
    found = serving.client_of(import_module(name))
    if found is not None:
        return found
    if "INNGEST_EVENT_KEY" not in os.environ:  # it is for a server in production
        serving.default_to_development()
    return serving.client_named(name)
