"""`agentkit approvals`: questions that wait for a person, and the answers."""

from __future__ import annotations

import importlib
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Console

from agentkit_py._core.awaiting import run_interruptibly
from agentkit_py._core.json import dumps
from agentkit_py._core.untrusted import clean
from agentkit_py.cli.console import counted, shorten
from agentkit_py.cli.stores import store_command
from agentkit_py.cli.target import (
    DbOption,
    TargetArgument,
    import_module,
    load_target,
    split_target,
    with_history,
)
from agentkit_py.errors import ConfigurationError, NotPendingError
from agentkit_py.events.approvals import ApprovalAnswer
from agentkit_py.history.questions import Question, QuestionStore
from agentkit_py.runtime.current import close_shared_runtime
from agentkit_py.stores import HistoryStore

app: typer.Typer = typer.Typer(
    name="approvals",
    help="Questions that wait for a person: list and answer them.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


def _questions_of(store: object) -> QuestionStore:
    if not isinstance(store, QuestionStore):
        raise ConfigurationError(f"{store!r:.80} keeps no questions.")
    return store


@store_command(app, "list")
async def list_(
    store: HistoryStore,
    console: Console,
    *,
    thread: Annotated[str | None, typer.Option(metavar="ID", help="Only of this thread.")] = None,
    user: Annotated[str | None, typer.Option(metavar="ID", help="Only of this user.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that are answered or have expired.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="Number of questions at most.")] = 50,
) -> None:
    """List questions, the oldest first."""
    found = await _questions_of(store).list_questions(
        thread_id=thread, user_id=user, status=None if everything else "open", limit=limit
    )
    for one in found:
        owner = f", user {one.user_id}" if one.user_id else ""
        lines = (
            f"{one.id}  {_status(one)}{_left(one)}",
            f"  {one.agent}: {_asked(one)}",
            f"  thread {one.thread_id}{owner}",
        )
        for line in lines:  # ids stand whole, to be copied
            console.print(clean(line), markup=False, highlight=False, soft_wrap=True)
    console.print(counted(len(found), "question"), style="dim")


def _asked(question: Question) -> str:
    calls = [f"{call.name} {dumps(call.arguments)}" for call in question.calls]
    return shorten("; ".join([*([question.message] if question.message else []), *calls]), 200)


def _left(question: Question) -> str:
    if question.expires_at is None or question.status != "open":
        return ""
    minutes = max(0, int((question.expires_at - datetime.now(UTC)).total_seconds() / 60))
    left = f"{minutes} min" if minutes < 600 else f"{minutes // 60} h"  # noqa: PLR2004 - ten hours
    return f", expires in {left}"


def _status(question: Question) -> str:
    by = f" by {question.answered_by}" if question.answered_by else ""
    reason = f": {question.reason}" if question.reason else ""
    return f"{question.status}{by}{reason}"


@app.command()
def answer(
    ctx: typer.Context,
    target: TargetArgument,
    question: Annotated[str, typer.Argument(metavar="ID", help="The question.")],
    *,
    approve: Annotated[bool, typer.Option("--approve/--deny", help="The decision.")],
    reason: Annotated[str, typer.Option(help="The reason, which the model reads.")] = "",
    by: Annotated[str | None, typer.Option(metavar="ID", help="The one who answers.")] = None,
    db: DbOption = None,
) -> None:
    """Answer a question, and go on with its run here.

    A run that waits as an Inngest function goes on there: name a module that has the Inngest client
    beside its network or agent. Whoever may run this may answer: the rules of the HTTP API hold
    there.
    """
    found, _ = with_history(load_target(target), db)
    console: Console = ctx.obj.console

    async def main() -> None:
        store = _questions_of(found.history)
        try:
            asked = await store.load_question(question)
            if asked is None:
                raise NotPendingError("", "there is no such question", question_id=question)
            given = ApprovalAnswer(approved=approve, reason=reason)
            if asked.execution is not None:
                client = _client(target, question)
                await importlib.import_module("agentkit_py.inngest").answer_question(
                    client, store, question, given, by=by
                )
                console.print("Sent: the run goes on as its Inngest function.")
                return
            done: Any = await found.resume(asked.thread_id, {question: given}, by=by)
            if done.stop_reason == "pending":
                console.print("The run waits for another answer.")
            else:
                console.print(clean(done.text), markup=False, soft_wrap=True)
        finally:
            await close_shared_runtime()
            if isinstance(found.history, HistoryStore):
                await found.history.close()

    run_interruptibly(main())


def _client(target: str, question: str) -> object:
    """Return the Inngest client of the target's module."""
    name, path = split_target(target)
    serving = importlib.import_module("agentkit_py.inngest.serving")
    client = serving.client_of(import_module(name))
    if client is None:
        raise ConfigurationError(
            f"Question {question!r} was asked by an Inngest function, and {name!r} has no Inngest "
            f"client to send it the answer: name a module that has both, {path!r} and `client`."
        )
    return client
