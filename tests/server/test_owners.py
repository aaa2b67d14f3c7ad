"""Runs that were taken have an owner, and runs without a living owner an end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.types import Message

from agentkit_py import (
    AgentResult,
    MemoryHistory,
    PostgresHistory,
    SqliteHistory,
    TextMessage,
    Tool,
    tool,
)
from agentkit_py._core.json import dumps
from agentkit_py.history.leases import ThreadLease
from agentkit_py.history.questions import Question, record_answer
from agentkit_py.history.runs import RunRecord, RunWorker
from agentkit_py.server import ServerLimits, lifespan
from agentkit_py.testing import error, tool_call
from tests.server.test_front_ends import events, run_input
from tests.server.test_front_ends import said as vercel_message
from tests.server.world import (
    app_of,
    client_of,
    listening,
    message,
    post,
    question_of,
    said,
    served,
    support,
    wait_until_idle,
    waiting,
)
from tests.stores.record_store import record_store

CALL = tool_call("refund", {"amount": 5})


def refund(paid: list[int]) -> Tool:
    """A tool that needs a person."""

    @tool(name="refund", needs_approval=True)
    def refund(amount: int) -> str:
        """Pay money back."""
        paid.append(amount)
        return f"paid {amount}"

    return refund


@pytest.fixture(params=["memory", "sqlite", "leased", "records", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Any]:
    """A store of each kind."""
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
        made: Any = PostgresHistory(url, schema=request.getfixturevalue("postgres_schema"))
        async with made:
            yield made
    elif request.param == "memory":
        yield MemoryHistory()
    elif request.param == "records":
        async with record_store(tmp_path, lease=ThreadLease()) as made:
            yield made
    else:
        lease = ThreadLease() if request.param == "leased" else None
        async with SqliteHistory(tmp_path / "t.db", lease=lease) as made:
            yield made


async def asked(app: Starlette, store: Any, thread_id: str = "t1") -> Question:
    """Send a message whose run asks a person; return the question."""
    await said(app, "Money back!", thread_id, id="m1")
    (question,) = await store.list_questions(thread_id=thread_id)
    return question


async def died(store: Any, question: Question, *, signed: bool = True) -> None:
    """Leave an answered run as a process that was killed leaves it while the tool works."""
    await record_answer(store, question.id, True, "ada")
    past = RunWorker(name="dead", alive_until=datetime.now(UTC) - timedelta(seconds=1))

    def die(run: RunRecord) -> RunRecord:
        return replace(run, status="running", worker=past if signed else None)

    await store.change_run(question.thread_id, question.run_id, die)


async def test_an_answer_and_a_stop_at_the_same_time_leave_no_run_without_an_owner(
    store: Any,
) -> None:
    """Whichever comes first, the run has an end, and the stop's word is the last."""
    paid: list[int] = []
    app = app_of(support(CALL, "done", tools=(refund(paid),), history=store))
    async with client_of(app) as ada:
        question = await asked(app, store)
        await asyncio.gather(
            ada.post(f"/api/approvals/{question.id}", json={"action": "approve"}),
            ada.post("/api/chat/cancel", json={"threadId": "t1"}),
        )
        await wait_until_idle(app)
        run = await store.load_run("t1", "m1")
        assert run is not None
        assert run.status == "stopped"
        found = await events(ada, "/api/ag-ui", run_input())
    assert found[-1]["type"] == "RUN_ERROR" or found[-1]["type"] == "RUN_FINISHED"
    assert await store.list_questions(thread_id="t1") == []


async def test_a_run_that_is_stopped_while_it_waits_for_a_slot_ends_as_stopped(
    store: Any,
) -> None:
    """Its code has not begun, so that only the server can say how it ended."""
    wait, begun, go = waiting()
    paid: list[int] = []
    replies = (CALL, tool_call("wait", {}), "done")
    app = app_of(
        support(*replies, tools=(refund(paid), wait), history=store), limits=ServerLimits(runs=1)
    )
    async with client_of(app) as ada:
        question = await asked(app, store)
        other = asyncio.create_task(said(app, "Hi", "t2"))
        await begun.wait()
        await ada.post(f"/api/approvals/{question.id}", json={"action": "approve"})
        assert (await store.load_run("t1", "m1")).status == "running"
        stopped = await ada.post("/api/chat/cancel", json={"threadId": "t1"})
        assert stopped.json()["cancelled"] == 1
        run = await store.load_run("t1", "m1")
        assert (run.status, run.worker, paid) == ("stopped", None, [])
        go.set()
        await other


@pytest.mark.parametrize("signed", [True, False])
async def test_a_run_whose_process_died_ends_in_every_stream(
    store: Any, monkeypatch: pytest.MonkeyPatch, *, signed: bool
) -> None:
    """It is not taken again: the tool may have done its work. The message can be sent again."""
    paid: list[int] = []
    network = support(CALL, CALL, "done", tools=(refund(paid),), history=store)
    await died(store, await asked(app_of(network), store), signed=signed)
    # A version that gives no signs may be at work in a rolling deploy, and gets minutes.
    monkeypatch.setattr("agentkit_py._engine.pausing._TO_END", timedelta(0))
    app = app_of(network)  # a process that knows nothing
    async with client_of(app) as ada:
        found = await events(ada, "/api/ag-ui", run_input())
        assert (found[-1]["type"], "send" in found[-1]["message"]) == ("RUN_ERROR", True)
        run = await store.load_run("t1", "m1")
        assert (run.status, run.stop_reason, run.journal) == ("failed", "lost", None)
        again = await events(ada, "/api/vercel", vercel_message("Money back!"))
        assert again[-1]["type"] == "finish", "it asks"
        await wait_until_idle(app)
        (question,) = await store.list_questions(thread_id="t1")
        await ada.post(f"/api/approvals/{question.id}", json={"action": "approve"})
        await wait_until_idle(app)
        found = await events(ada, "/api/ag-ui", run_input())
    assert (found[-1]["type"], paid) == ("RUN_FINISHED", [5])
    assert (await store.load_run("t1", "m1")).status == "completed"


@pytest.mark.parametrize("is_new", [True, False])
async def test_an_answer_counts_whose_process_died_before_it_recorded_its_end(
    store: Any, *, is_new: bool
) -> None:
    """It is in the thread, and not given again; what an earlier attempt said is no answer."""
    paid: list[int] = []
    network = support(CALL, CALL, "done", tools=(refund(paid),), history=store)
    question = await asked(app_of(network), store)
    before = AgentResult("clerk", [TextMessage("assistant", "Paid.")])
    before = replace(before, created_at=question.asked_at)
    await died(store, question)
    after = AgentResult("clerk", [TextMessage("assistant", "Paid.")])
    await store.append("t1", [after if is_new else before])
    async with client_of(app_of(network)) as ada:
        found = await events(ada, "/api/ag-ui", run_input())
        assert found[-1]["type"] == ("RUN_FINISHED" if is_new else "RUN_ERROR")
    run = await store.load_run("t1", "m1")
    assert run is not None
    assert run.status == ("completed" if is_new else "failed")


async def test_a_page_of_the_hook_is_notified_of_the_death_of_a_process(store: Any) -> None:
    """It reads the thread, and its stream ends the reply."""
    network = support(CALL, tools=(refund([]),), history=store)
    await died(store, await asked(app_of(network), store))
    async with served(app_of(network)) as url, listening(url) as stream:
        async with client_of(app_of(network)):
            pass
        ended = asyncio.create_task(stream.until("stream.ended"))
        await get(url, "/api/threads/t1")
        await ended
    (said_,) = [one["data"] for one in stream.chunks if one["event"] == "error"]
    assert (said_["messageId"], said_["recoverable"]) == ("m1-reply", True)


async def get(url: str, path: str) -> Any:
    """Read something of a served app."""
    import httpx  # noqa: PLC0415

    async with httpx.AsyncClient(trust_env=False) as client:
        return (await client.get(f"{url}{path}", headers={"x-user": "ada"})).json()


async def test_an_answered_run_that_no_process_took_resumes_at_the_next_look(
    store: Any,
) -> None:
    """The process that took the answer died before it took the run, so that nothing has begun."""
    paid: list[int] = []
    network = support(CALL, "done", tools=(refund(paid),), history=store)
    question = await asked(app_of(network), store)
    await record_answer(store, question.id, True, "ada")
    app = app_of(network)
    async with client_of(app) as ada:
        found = await events(ada, "/api/ag-ui", run_input())
        await wait_until_idle(app)
    assert (found[-1]["type"], paid) == ("RUN_FINISHED", [5])


async def test_an_owner_gives_signs_of_life_while_it_works(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that takes longer than one sign counts is not taken for dead."""
    monkeypatch.setattr("agentkit_py._engine.pausing._SIGN_SECONDS", 0.01)
    begun, go = asyncio.Event(), asyncio.Event()

    @tool(name="refund", needs_approval=True)
    async def slow(amount: int) -> str:
        """Take time."""
        begun.set()
        await go.wait()
        return f"paid {amount}"

    app = app_of(support(CALL, "done", tools=(slow,), history=store))
    async with client_of(app) as ada:
        question = await asked(app, store)
        await ada.post(f"/api/approvals/{question.id}", json={"action": "approve"})
        await begun.wait()
        first = (await store.load_run("t1", "m1")).worker
        now = first
        while now == first:
            await asyncio.sleep(0)
            now = (await store.load_run("t1", "m1")).worker
        assert (now.name, now.alive_until > first.alive_until) == (first.name, True)
        go.set()
        await wait_until_idle(app)
    run = await store.load_run("t1", "m1")
    assert (run.status, run.worker) == ("completed", None)


async def gone(app: Starlette, body: Any, *, after: int) -> None:
    """Send a request to AG-UI's endpoint whose client goes away after so many pieces."""
    sent, left = 0, asyncio.Event()
    told = False

    async def receive() -> Message:
        nonlocal told
        if not told:
            told = True
            return {"type": "http.request", "body": dumps(body).encode(), "more_body": False}
        if after:
            await left.wait()
        return {"type": "http.disconnect"}

    async def send(_message: Message) -> None:
        nonlocal sent
        sent += 1
        if sent == after:
            left.set()
        await asyncio.sleep(0)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "path": "/api/ag-ui",
        "raw_path": b"/api/ag-ui",
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "headers": [(b"x-user", b"ada"), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1),
        "server": ("localhost", 80),
    }
    await app(scope, receive, send)


@pytest.mark.parametrize("after", [0, 1, 2, 3])
async def test_an_answer_counts_whenever_its_connection_breaks(store: Any, *, after: int) -> None:
    """What was decided is decided: the run continues to its end, once."""
    paid: list[int] = []
    app = app_of(support(CALL, "done", tools=(refund(paid),), history=store))
    async with client_of(app) as ada:
        question = await asked(app, store)
        thread = (await ada.get("/api/ag-ui/t1")).json()
        (interrupt,) = thread["interrupts"]
        answer = {"interruptId": interrupt["id"], "status": "resolved"}
        body = run_input(resume=[{**answer, "payload": {"approved": True}}])
        await gone(app, body, after=after)
        await app.state.api.decisions.idle()
        await wait_until_idle(app)
        found = await events(ada, "/api/ag-ui", run_input())
    assert (found[-1]["type"], paid) == ("RUN_FINISHED", [5])
    assert (await store.load_question(question.id)).status == "answered"
    assert (await store.load_run("t1", "m1")).status == "completed"


async def test_a_message_counts_whenever_its_connection_breaks(store: Any) -> None:
    """It is answered though its client did not stay for the first word."""
    app = app_of(support("Hello.", history=store))
    await gone(app, run_input("Hi"), after=0)
    await app.state.api.decisions.idle()
    await wait_until_idle(app)
    assert [str(one) for one in await store.load("t1")][-1] == "clerk: Hello."


class Slow(MemoryHistory):
    """A store that is asked to change a question, and takes its time."""

    def __init__(self) -> None:
        super().__init__()
        self.changing, self.goes_on = asyncio.Event(), asyncio.Event()

    async def change_question(
        self, question_id: str, change: Callable[[Question], Question | None]
    ) -> Question | None:
        self.changing.set()
        await self.goes_on.wait()
        return await super().change_question(question_id, change)


async def test_a_server_that_stops_carries_out_decided_calls_first() -> None:
    """The request is gone, the decision is not."""
    store, paid = Slow(), list[int]()
    store.goes_on.set()
    app = app_of(support(CALL, "done", tools=(refund(paid),), history=store))
    async with lifespan(app), client_of(app) as ada:
        question = await asked(app, store)
        store.goes_on.clear()
        store.changing.clear()
        path = f"/api/approvals/{question.id}"
        answering = asyncio.create_task(ada.post(path, json={"action": "approve"}))
        await store.changing.wait()
        answering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answering
        asyncio.get_running_loop().call_later(0, store.goes_on.set)
    assert paid == [5]
    run = await store.load_run("t1", "m1")
    assert run is not None
    assert run.status == "completed"


async def test_a_stop_does_not_close_the_question_of_an_active_run() -> None:
    """Such a run would pause on a question that is stopped."""
    store = MemoryHistory()
    now = datetime.now(UTC)
    worker = RunWorker(name="other", alive_until=now + timedelta(minutes=1))
    app = app_of(support(history=store))
    async with client_of(app) as ada:
        await ada.post("/api/threads", json={"threadId": "t1"})
        await store.save_run("t1", RunRecord(id="m1", status="running", worker=worker))
        question = question_of("q", "t1", now, run="m1")
        await store.save_question(question)
        await ada.post("/api/chat/cancel", json={"threadId": "t1"})
    assert [one.status for one in await store.list_questions(status=None)] == ["open"]


@pytest.mark.parametrize("stop", [True, False])
async def test_a_run_that_was_stopped_or_failed_has_one_word_in_all_stores(
    store: Any, *, stop: bool
) -> None:
    """Without a lease, the server records it; with one, the engine does."""
    wait, begun, _ = waiting()
    replies = (tool_call("wait", {}),) if stop else (error(400, "no"),)
    app = app_of(support(*replies, tools=(wait,), history=store))
    async with served(app) as url:
        await post(url, "/api/chat", message("Hi", "t1", id="m1"))
        if stop:
            await begun.wait()
            await post(url, "/api/chat/cancel", {"threadId": "t1"})
        await wait_until_idle(app)
    run = await store.load_run("t1", "m1")
    assert run is not None
    assert run.status == ("stopped" if stop else "failed")


@pytest.mark.parametrize("path", ["/api/chat", "/api/vercel", "/api/ag-ui"])
async def test_a_stopped_message_is_answered_when_it_is_sent_again(store: Any, path: str) -> None:
    """Also where the thread has a part of the reply: the call that was stopped."""
    wait, begun, _ = waiting()
    app = app_of(support(tool_call("wait", {}), "done", tools=(wait,), history=store))
    bodies: dict[str, Any] = {
        "/api/chat": message("Hi", "t1", id="m1"),
        "/api/vercel": vercel_message("Hi"),
        "/api/ag-ui": run_input("Hi"),
    }
    async with client_of(app) as ada:
        await ada.post("/api/chat", json=bodies["/api/chat"])
        await begun.wait()
        await ada.post("/api/chat/cancel", json={"threadId": "t1"})
        await ada.post(path, json=bodies[path])
        await wait_until_idle(app)
    run = await store.load_run("t1", "m1")
    assert run is not None
    assert run.status == "completed"
    assert str((await store.load("t1"))[-1]) == "clerk: done"


async def test_an_answer_that_a_person_approved_is_given_once(store: Any) -> None:
    """The hook sends its message again, and stops waiting: the run's record says how it ended."""
    paid: list[int] = []
    app = app_of(support(CALL, "done", tools=(refund(paid),), history=store))
    async with served(app) as url, client_of(app) as ada, listening(url) as stream:
        question = await asked(app, store)
        await ada.post(f"/api/approvals/{question.id}", json={"action": "approve"})
        await stream.until("stream.ended")
        await wait_until_idle(app)
        await said(app, "Money back!", "t1", id="m1")
        await stream.until("stream.ended")
        assert len(await store.load("t1")) == 3
        if store.lease is None:
            await said(app, "Other words", "t1", id="m1")
            await stream.until("error")  # the id is another message's
    assert paid == [5]
