"""Questions that wait for a person are rows of the thread's store, in both ways of running."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import inngest
import pytest

from agentkit_py import Agent, MemoryHistory, SqliteHistory, ToolContext, tool
from agentkit_py.errors import ConfigurationError, HistoryError, NotPendingError
from agentkit_py.events import ApprovalAnswer, Decision
from agentkit_py.events.approvals import APPROVAL_EVENT
from agentkit_py.history.leases import ThreadLease
from agentkit_py.history.questions import Question
from agentkit_py.inngest import (
    AgentKitMiddleware,
    answer_question,
    create_functions,
    send_answers,
)
from agentkit_py.stores import PostgresHistory
from agentkit_py.testing import ScriptedModel, tool_call, tool_calls
from agentkit_py.testing.executor import KillAt, ReplayExecutor, Wait
from tests.stores.record_store import record_store


@pytest.fixture(params=["memory", "sqlite", "records", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A store of each kind."""
    if request.param == "memory":
        return MemoryHistory()
    if request.param == "sqlite":
        return SqliteHistory(tmp_path / "threads.db")
    if request.param == "records":
        return record_store(tmp_path)
    url = request.getfixturevalue("postgres_url")
    schema = request.getfixturevalue("postgres_schema")
    return PostgresHistory(url, schema=schema, connections=4)


@tool(needs_approval=True, approval_timeout=timedelta(hours=1))
def refund(amount: int) -> str:
    """Pay back."""
    return f"paid {amount}"


@tool(steps=True)
async def ask(ctx: ToolContext) -> str:
    """Ask a person."""
    answer = await ctx.approve("May I?", timeout=timedelta(hours=2))
    return "nobody answered" if answer is None else str(answer.approved)


def clerk(store: Any, *replies: Any, parallel: bool = False) -> Agent:
    """An agent that asks."""
    return Agent(
        name="clerk", system="S", model=ScriptedModel(*replies), tools=[refund, ask], max_iter=3,
        history=store, parallel_tools=parallel,
    )  # fmt: skip


def executor_of(
    agent: Agent, client: inngest.Inngest | None = None, **options: Any
) -> ReplayExecutor:
    """An executor with the agent as a function."""
    client = client or inngest.Inngest(app_id="app", is_production=False)
    functions = create_functions(client, agents=[agent], inference="local")
    return ReplayExecutor(client, functions, check=not options, **options)


DATA = {"input": "hi", "threadId": "t", "userId": "ada"}
ASKED = [tool_calls(("refund", {"amount": 5}), ("refund", {"amount": 7})), "Done."]


async def only(store: Any, **filters: Any) -> Question:
    """Return the one question there is."""
    (found,) = await store.list_questions(**filters)
    return found


async def test_a_waiting_run_has_a_row_and_the_answer_comes_into_it(store: Any) -> None:
    """Id, calls, arguments, agent, user, thread, expiry; then the answer, who and why."""
    async with store:
        executor = executor_of(clerk(store, *ASKED))
        run = await executor.start("app/agent-clerk", DATA)
        asked = await only(store)
        assert (asked.agent, asked.user_id, asked.thread_id) == ("clerk", "ada", "t")
        calls = [(call.name, call.arguments) for call in asked.calls]
        assert calls == [("refund", {"amount": 5}), ("refund", {"amount": 7})]
        assert asked.expires_at == asked.asked_at + timedelta(hours=1)
        assert (asked.status, asked.execution) == ("open", run.id)
        entry = (await store.load("t"))[0]
        assert asked.run_id == entry.id
        (wait,) = run.waits.values()
        assert asked.id in str(wait.expression)
        calls_ = {"1": {"approved": False, "reason": "too much"}}
        answer = {"approvalId": asked.id, "approved": True, "reason": "ok", "calls": calls_}
        await executor.send_event(APPROVAL_EVENT, {**answer, "answeredBy": "boss"})
        assert run.status == "completed"
        assert run.differences == []
        assert await store.list_questions() == []
        closed = await only(store, status=None)
        assert (closed.status, closed.answered_by, closed.reason) == ("answered", "boss", "ok")
        assert closed.answered_at is not None
        assert closed.answer is not None
        assert [closed.answer.on(index).approved for index in (0, 1)] == [True, False]


async def test_an_unanswered_question_expires(store: Any) -> None:
    """Its row says so."""
    async with store:
        run = await executor_of(clerk(store, *ASKED)).run("app/agent-clerk", DATA)
        assert run.status == "completed"
        assert (await only(store, status=None)).status == "expired"


async def test_a_tools_own_question_is_a_row_too(store: Any) -> None:
    """Of one of several calls that run at the same time."""
    async with store:
        replies = [tool_calls(("ask", {}), ("ask", {})), "Done."]
        executor = executor_of(clerk(store, *replies, parallel=True))
        run = await executor.start("app/agent-clerk", DATA)
        first, second = await store.list_questions(user_id="ada")
        assert (first.message, first.calls) == ("May I?", ())
        for question in (second, first):
            data = {"approvalId": question.id, "approved": question is first}
            await executor.send_event(APPROVAL_EVENT, data)
        assert run.status == "completed"
        results = run.output["results"][0]["toolCalls"]
        assert sorted(one["content"]["data"] for one in results) == ["False", "True"]
        assert {one.status for one in await store.list_questions(status=None)} == {"answered"}


async def test_an_answer_that_comes_as_soon_as_the_row_exists_counts() -> None:
    """The wait has begun by then: a mailbox that nothing falls out of."""
    answered: list[str] = []

    class Quick(MemoryHistory):
        async def save_question(self, question: Question) -> None:
            await super().save_question(question)
            answered.append(question.id)
            executor.receive(
                {"name": APPROVAL_EVENT, "data": {"approvalId": question.id, "approved": True}}
            )

    for parallel in (False, True):
        executor = executor_of(clerk(Quick(), *ASKED, parallel=parallel), seed=None)
        run = await executor.run("app/agent-clerk", DATA)
        contents = [one["content"] for one in run.output["results"][0]["toolCalls"]]
        assert contents == [{"data": "paid 5"}, {"data": "paid 7"}]
    assert len(answered) == 2


@pytest.mark.parametrize("approved", [True, False])
async def test_a_direct_run_keeps_the_question_that_its_approver_answers(
    store: Any, approved: bool
) -> None:
    """While the approver thinks, the row is open."""
    seen: list[Sequence[Question]] = []

    async def approver(_request: object) -> ApprovalAnswer:
        seen.append(await store.list_questions(thread_id="t"))
        return ApprovalAnswer(approved=approved, reason="so", data={"answeredBy": "boss"})

    async with store:
        await clerk(store, *ASKED).run("hi", thread_id="t", approver=approver)
        assert [one.status for one in seen[0]] == ["open"]
        closed = await only(store, status=None)
        assert (closed.status, closed.answered_by, closed.reason) == ("answered", "boss", "so")


async def test_a_store_that_fails_after_an_answer_does_not_have_the_person_asked_again() -> None:
    """The function saves the answer again, and the call is made once."""
    failures = ["the disk is full"]
    asked: list[object] = []

    class Full(MemoryHistory):
        async def change_question(self, *args: Any, **options: Any) -> Any:
            if failures:
                raise HistoryError(failures.pop())
            return await super().change_question(*args, **options)

    def approver(request: object) -> ApprovalAnswer:
        asked.append(request)
        return ApprovalAnswer(approved=True, reason="worn")

    store = Full()
    agent = clerk(store, *ASKED)
    client = inngest.Inngest(
        app_id="app", is_production=False,
        middleware=[AgentKitMiddleware.configured(inference="local")],
    )  # fmt: skip

    @client.create_function(fn_id="desk", trigger=inngest.TriggerEvent(event="app/desk"), retries=3)
    async def desk(ctx: inngest.Context) -> None:
        await agent.run("hi", thread_id="t", approver=approver)

    run = await ReplayExecutor(client, [desk], check=False).run("app/desk", {})
    assert (run.status, failures) == ("completed", [])
    assert len(asked) == 1
    closed = await only(store, status=None)
    assert (closed.status, closed.reason) == ("answered", "worn")


async def test_a_run_that_is_cancelled_while_it_asks_stops_waiting(store: Any) -> None:
    """Directly, and as a function whose thread has a lease."""
    asking = asyncio.Event()

    async def approver(_request: object) -> bool:
        asking.set()
        await asyncio.Event().wait()
        return True

    async with store:
        task = asyncio.create_task(clerk(store, *ASKED).run("hi", thread_id="t", approver=approver))
        await asking.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await only(store, status=None)).status == "stopped"
        store.lease = ThreadLease()
        executor = executor_of(clerk(store, *ASKED), seed=None)
        run = await executor.start("app/agent-clerk", {"input": "hi", "threadId": "u"})
        assert (await only(store)).thread_id == "u"
        executor.cancel(run)
        await executor.advance(1)
        assert (await only(store, thread_id="u", status=None)).status == "stopped"


async def test_answer_question_answers_a_run_once(store: Any) -> None:
    """The row has the answer before the run knows it; single calls and arguments are decided."""
    async with store:
        client = inngest.Inngest(app_id="app", is_production=False)
        agent = clerk(store, *ASKED)
        executor = executor_of(agent, client)
        run = await executor.start("app/agent-clerk", {**DATA, "answerableBy": "ada"})
        (asked,) = await agent.pending("t")
        with pytest.raises(ConfigurationError, match=rf"answer_question\(client.*{asked.id}.*by=…"):
            await agent.resume("t", {asked.id: True})
        calls = {0: Decision(True, arguments={"amount": 2}), 1: Decision(False, "too much")}
        answer = ApprovalAnswer(approved=True, reason="worn", calls=calls)
        with executor.connection.use():
            closed = await answer_question(client, agent.history, asked.id, answer, by="mia")
            assert closed == await only(store, status=None)
            assert (closed.status, closed.answered_by, closed.reason) == ("answered", "mia", "worn")
            with pytest.raises(NotPendingError, match="it is answered"):
                await answer_question(client, store, asked.id, answer=False)
        await executor.advance(1)
        assert (run.status, run.differences) == ("completed", [])
        results = run.output["results"][0]["toolCalls"]
        assert ["paid 2" in str(results[0]), "too much" in str(results[1])] == [True, True]
        assert [event["name"] for event in executor.events].count(APPROVAL_EVENT) == 1


class Offline(inngest.Middleware):
    """No event leaves."""

    async def before_send_events(self, events: list[inngest.Event]) -> None:
        """Fail as a network does."""
        raise ConnectionError


class UnheardOnce(inngest.Middleware):
    """The first events leave, and the server's reply is lost."""

    heard = True

    async def after_send_events(self, result: inngest.SendEventsResult) -> None:
        """Fail as a network does."""
        if not UnheardOnce.heard:
            UnheardOnce.heard = True
            raise ConnectionError


def one_refund(store: Any, paid: list[int]) -> Agent:
    """An agent whose refund needs an approval."""

    @tool(needs_approval=True, approval_timeout=timedelta(hours=1))
    def refund(amount: int) -> str:
        """Pay back."""
        paid.append(amount)
        return f"paid {amount}"

    model = ScriptedModel(tool_call("refund", {"amount": 5}), "Done.")
    return Agent(name="clerk", system="S", model=model, tools=[refund], max_iter=3, history=store)


def made(app: str, *middleware: Any) -> inngest.Inngest:
    """Return a client of the app."""
    return inngest.Inngest(app_id=app, is_production=False, middleware=list(middleware))


async def test_an_answer_that_was_sent_is_not_taken_back_where_the_servers_reply_is_lost(
    store: Any,
) -> None:
    """The run has paid; a row that opened again would say that sam denied it."""
    async with store:
        paid: list[int] = []
        client = made("app", UnheardOnce)
        executor = executor_of(one_refund(store, paid), client)
        run = await executor.start("app/agent-clerk", DATA)
        asked = await only(store)
        UnheardOnce.heard = False
        with executor.connection.use():
            with pytest.raises(ConnectionError) as raised:
                await answer_question(client, store, asked.id, answer=True, by="mia")
            assert "stored and valid" in raised.value.__notes__[0]
            with pytest.raises(NotPendingError, match="approved by 'mia' at") as second:
                await answer_question(client, store, asked.id, answer=False, by="sam")
            assert second.value.answered_by == "mia"
        await executor.advance(1)
        assert (run.status, paid) == ("completed", [5])
        row = await only(store, status=None)
        assert (row.answered_by, row.answer is not None and row.answer.approved) == ("mia", True)
        assert not row.is_undelivered


@pytest.mark.parametrize("way", ["answer", "look"])
async def test_an_answer_that_could_not_be_sent_is_sent_by_the_next_look(
    store: Any, way: str
) -> None:
    """Its process lost the network, or died; another person's answer changes nothing."""
    async with store:
        paid: list[int] = []
        client = made("app")
        executor = executor_of(one_refund(store, paid), client)
        run = await executor.start("app/agent-clerk", DATA)
        asked = await only(store)
        with pytest.raises(ConnectionError):
            await answer_question(made("app", Offline), store, asked.id, answer=True, by="mia")
        assert await only(store, status="answered") == await only(store, status="undelivered")
        with executor.connection.use():
            if way == "answer":
                with pytest.raises(NotPendingError, match="approved by 'mia'"):
                    await answer_question(client, store, asked.id, answer=False, by="sam")
            else:
                assert await send_answers(client, store) == 1
            await executor.advance(1)
            assert (run.status, paid) == ("completed", [5])
            assert await store.list_questions(status="undelivered") == []
            assert len(await store.list_questions(status="answered")) == 1
            assert await send_answers(client, store) == 0


async def test_a_run_that_gets_no_event_acts_on_the_row_when_its_time_is_over(store: Any) -> None:
    """The row says who approved."""
    async with store:
        paid: list[int] = []
        executor = executor_of(one_refund(store, paid))
        run = await executor.start("app/agent-clerk", DATA)
        asked = await only(store)
        with pytest.raises(ConnectionError):
            await answer_question(made("app", Offline), store, asked.id, answer=True, by="mia")
        await executor.advance(3601)
        assert (run.status, paid) == ("completed", [5])


async def test_an_answer_to_a_run_that_was_stopped_is_not_sent_again() -> None:
    """Its run does not wait any more."""
    store = MemoryHistory(lease=ThreadLease())
    executor = executor_of(one_refund(store, []))
    run = await executor.start("app/agent-clerk", DATA)
    asked = await only(store)
    with pytest.raises(ConnectionError):
        await answer_question(made("app", Offline), store, asked.id, answer=True)
    executor.cancel(run)
    await executor.advance(1)
    assert await store.list_questions(status="undelivered") == []
    assert (await only(store, status=None)).status == "answered"


async def test_decisions_on_single_calls_are_kept_with_a_later_answer(store: Any) -> None:
    """They came before it."""
    async with store:
        await executor_of(clerk(store, *ASKED)).start("app/agent-clerk", DATA)
        asked = await only(store)
        decided = {0: Decision(approved=False)}

        def decide(known: Question) -> Question:
            return known.decided(decided, asked.asked_at)

        await store.change_question(asked.id, decide)
        with pytest.raises(ConnectionError):
            await answer_question(made("app", Offline), store, asked.id, answer=True)
        row = await only(store, status="answered")
        assert row.decisions == decided


async def test_answer_question_refuses_questions_that_it_cannot_answer() -> None:
    """No store of questions, no such question, and one whose run is none of Inngest's."""
    client = inngest.Inngest(app_id="app", is_production=False)
    store = MemoryHistory()
    with pytest.raises(ConfigurationError, match="must keep questions"):
        await answer_question(client, None, "q", answer=True)
    with pytest.raises(NotPendingError, match="question does not exist"):
        await answer_question(client, store, "q", answer=True)
    await clerk(store, *ASKED).run("hi", thread_id="t")
    asked = await only(store)
    with pytest.raises(ConfigurationError, match=rf"resume\('t', {{'{asked.id}'"):
        await answer_question(client, store, asked.id, answer=True)
    assert (await only(store)).status == "open"


@pytest.mark.parametrize("when", ["before", "inside", "after"])
@pytest.mark.parametrize("step", ["asked", "closed"])
async def test_a_kill_leaves_one_question_with_its_answer(step: str, when: Any) -> None:
    """The process that asks, or takes the answer, may die."""
    run = await run_killed([KillAt(step=f"clerk.0.approve.{step}", when=when)])
    assert f"clerk.0.approve.{step}" in run.names


async def run_killed(kills: Sequence[Any]) -> Any:
    """Run once, and check the row."""
    store = MemoryHistory()
    executor = executor_of(clerk(store, tool_call("refund", {"amount": 5}), "Done."), kill=kills)

    def answer(wait: Wait) -> dict[str, Any]:
        assert wait.expression is not None
        return {"approvalId": wait.expression.split("'")[1], "approved": True}

    run = await executor.run("app/agent-clerk", DATA, answer=answer)
    assert run.status == "completed"
    assert (await only(store, status=None)).status == "answered"
    return run
