"""A stream that stays open says why: at work, waiting for a person, waiting for its turn."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request

from agentkit_py import AgentResult, MemoryHistory, TextMessage, Tool, tool
from agentkit_py.history.runs import RunRecord
from agentkit_py.server import FormatName
from agentkit_py.server import formats as every
from agentkit_py.server.frontends import respond_to
from agentkit_py.stores.broadcast import Broadcast, Receiver
from agentkit_py.testing import error, tool_call
from tests.server.test_front_ends import events_in, run_input
from tests.server.test_front_ends import said as vercel_message
from tests.server.world import (
    NO_LIMIT,
    app_of,
    client_of,
    listening,
    message,
    post,
    said,
    served,
    support,
    wait_until_idle,
    waiting,
)

FORMATS: list[FormatName] = ["agentkit", "vercel", "ag-ui"]


def refund(**options: Any) -> Tool:
    """A tool that needs a person."""

    @tool(name="refund", needs_approval=True, **options)
    def refund(amount: int) -> str:
        """Pay money back."""
        return f"paid {amount}"

    return refund


CALL = tool_call("refund", {"amount": 5})


def with_route(app: Starlette) -> Starlette:
    """Add a route that streams our own chunks, with the parts of the server."""

    async def ask(request: Request) -> Any:
        return await respond_to(every.format_of("agentkit"), app.state.api, request, "ada")

    app.add_route("/ask", ask, ["POST"])
    return app


def asked_by(kind: FormatName, text: str, message_id: str) -> tuple[str, dict[str, Any]]:
    """The path and body with which a front end sends a message, or reads its reply again."""
    if kind == "agentkit":
        return "/ask", message(text, "t1", id=message_id)
    if kind == "vercel":
        return "/api/vercel", vercel_message(text, message_id)
    messages = [{"id": message_id, "role": "user", "content": text}]
    return "/api/ag-ui", run_input() | {"messages": messages}


def status_in(event: dict[str, Any]) -> dict[str, Any] | None:
    """The status that an event says, in any of the formats."""
    if event.get("event") == "reply.status":
        return {name: event["data"][name] for name in ("status", "until")}
    if event.get("type") == "data-status":
        assert event["transient"] is True
        return event["data"]
    if event.get("name") == "agentkit.status":
        return event["value"]
    return None


class Page:
    """What a page gets of one answer, as it comes."""

    def __init__(self, source: AsyncIterator[dict[str, Any]]) -> None:
        self.source = source
        self.last: dict[str, Any] = {}
        self.told: list[dict[str, Any]] = []

    async def until(self, status: str) -> dict[str, Any]:
        """Read until a status is told."""
        async for event in self.source:
            self.last = event
            found = status_in(event)
            if found is not None:
                self.told.append(found)
                if found["status"] == status:
                    return found
        raise EOFError(status)

    async def end(self) -> dict[str, Any]:
        """Read to the end; return the last event."""
        async for event in self.source:
            self.last = event
            if (found := status_in(event)) is not None:
                self.told.append(found)
        return self.last

    @property
    def words(self) -> list[str]:
        """The statuses that were told."""
        return [one["status"] for one in self.told]


@asynccontextmanager
async def page_of(url: str, path: str, body: Any) -> AsyncGenerator[Page]:
    """A page that reads an answer."""
    async with (
        httpx.AsyncClient(timeout=NO_LIMIT, trust_env=False, headers={"x-user": "ada"}) as client,
        client.stream("POST", f"{url}{path}", json=body) as response,
    ):
        assert response.status_code == 200

        async def read() -> AsyncIterator[dict[str, Any]]:
            async for line in response.aiter_lines():
                for event in events_in(line):
                    yield event

        yield Page(read())


def is_success(last: dict[str, Any]) -> bool:
    """Return whether the last event of an answer says that it is whole."""
    ends = last.get("finishReason"), last.get("outcome"), last.get("data", {}).get("reason")
    return ends in (
        ("stop", None, None),
        (None, {"type": "success"}, None),
        (None, None, "completed"),
    )


@pytest.mark.parametrize("kind", FORMATS)
async def test_a_message_behind_another_says_that_it_waits_for_its_turn(kind: FormatName) -> None:
    """Its page is told when the work begins; the page of the first has nothing to be told."""
    wait, begun, go = waiting()
    app = with_route(app_of(support(tool_call("wait", {}), "One.", "Two.", tools=(wait,))))
    async with served(app) as url:
        await post(url, "/api/chat", message("First?", "t1", id="m1"))
        await begun.wait()
        async with page_of(url, *asked_by(kind, "Second?", "m2")) as page:
            assert await page.until("queued") == {"status": "queued", "until": None}
            go.set()
            assert is_success(await page.end())
    assert page.words == ["queued", "working"]


@pytest.mark.parametrize("kind", FORMATS)
async def test_a_run_that_waits_for_staff_says_until_when(kind: FormatName) -> None:
    """A page that sent the message is told, and one that comes later; then it continues."""
    lapsing = refund(approval_timeout=timedelta(hours=3))
    network = support(CALL, "Paid.", tools=(lapsing,))
    store = MemoryHistory()
    app = with_route(app_of(network, approvers=["mia"], history=store))
    body = asked_by(kind, "Money back!", "m1")
    async with (
        served(app) as url,
        page_of(url, *body) as first,
    ):
        told = await first.until("waiting")
        (question,) = await store.list_questions()
        assert question.expires_at is not None
        assert told == {"status": "waiting", "until": question.expires_at.isoformat()}
        async with page_of(url, *body) as later:
            assert await later.until("waiting") == told
            await post(url, f"/api/approvals/{question.id}", {"action": "approve"}, "mia")
            assert is_success(await later.end())
            assert is_success(await first.end())
    assert (first.words, later.words) == (["waiting", "working"], ["waiting", "working"])


async def test_the_channel_of_the_hook_says_that_a_message_waits_for_its_turn() -> None:
    """Beside the chunks of runs, which it cannot bring into disorder."""
    wait, begun, go = waiting()
    app = app_of(support(tool_call("wait", {}), "One.", "Two.", tools=(wait,)))
    async with served(app) as url, listening(url) as stream:
        await post(url, "/api/chat", message("First?", "t1", id="m1"))
        await begun.wait()
        await post(url, "/api/chat", message("Second?", "t1", id="m2"))
        told = await stream.until("reply.status")
        go.set()
        await stream.until("stream.ended")
        await stream.until("stream.ended")
    assert told["sequenceNumber"] == -1
    assert (told["data"]["messageId"], told["data"]["status"]) == ("m2", "queued")


async def status_of(app: Starlette, thread_id: str = "t1") -> dict[str, Any]:
    """The status of a thread's last reply, as its page reads it."""
    async with client_of(app) as client:
        return (await client.get(f"/api/threads/{thread_id}")).json()["reply"]


async def test_a_thread_has_the_status_of_its_last_reply() -> None:
    """A page that is loaded again knows what to show, at work or after it."""
    wait, begun, go = waiting()
    replies = (tool_call("wait", {}), "One.", CALL, error(400, "no"))
    app = app_of(support(*replies, tools=(wait, refund())), approvers=["mia"])
    async with served(app) as url:
        await post(url, "/api/threads", {"threadId": "t1"})
        assert await status_of(app) is None
        await post(url, "/api/chat", message("First?", "t1", id="m1"))
        await begun.wait()
        assert (await status_of(app))["status"] == "working"
        go.set()
        await wait_until_idle(app)
        assert (await status_of(app))["status"] == "completed"
        await said(app, "Money back!", "t1", id="m2")
        assert (await status_of(app))["status"] == "waiting"
        await post(url, "/api/chat/cancel", {"threadId": "t1"})
        assert (await status_of(app))["status"] == "stopped"
        await said(app, "Again", "t1", id="m3")
        found = await status_of(app)
    assert (found["messageId"], found["status"], found["recoverable"]) == ("m3", "failed", False)
    assert found["error"]


async def test_a_thread_whose_process_died_says_that_the_message_can_be_sent_again() -> None:
    """Nothing but the message is there."""
    store = MemoryHistory()
    await store.add_thread("t1", user_id="ada")
    await store.append("t1", [AgentResult.from_user("Hi", id="m1")])
    found = await status_of(app_of(support(), history=store))
    assert (found["status"], found["recoverable"]) == ("failed", True)


@pytest.mark.parametrize("kind", FORMATS)
async def test_a_paused_run_that_no_question_can_wake_ends(kind: FormatName) -> None:
    """Its questions were stopped, and the process died before it said so in the record."""
    store = MemoryHistory()
    app = with_route(app_of(support("Again."), history=store))
    await store.add_thread("t1", user_id="ada")
    await store.append("t1", [AgentResult.from_user("Hi", id="m1")])
    journal: dict[str, Any] = {"steps": {"asked": ["gone"]}}
    await store.save_run("t1", RunRecord(id="m1", status="paused", journal=journal))
    async with served(app) as url, page_of(url, *asked_by(kind, "Hi", "m1")) as page:
        assert is_success(await page.end()), "the message is answered when it is sent again"
    run = await store.load_run("t1", "m1")
    assert run is not None
    assert run.status == "completed"


class Heard(Broadcast):
    """A broadcast of which the test plays the other processes."""

    def __init__(self) -> None:
        super().__init__()
        self.receiver: Receiver | None = None

    async def open(self, receiver: Receiver) -> None:
        """Remember the server's end."""
        self.receiver = receiver

    def send(self, text: str, *, lasting: bool = False) -> None:
        """Send nothing."""

    async def close(self) -> None:
        """Do nothing."""

    def say(self, kind: str, **facts: Any) -> None:
        """Say something as another process."""
        assert self.receiver is not None
        self.receiver.receive(json.dumps({"from": "other", "kind": kind, "to": None, **facts}))


class SharedStore(MemoryHistory):
    """A store with such a broadcast."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = Heard()

    def broadcast(self) -> Broadcast:
        """Return it."""
        return self.heard


@pytest.mark.parametrize("is_answered", [True, False])
async def test_the_streams_of_a_process_that_died_end_in_the_others(
    monkeypatch: pytest.MonkeyPatch, *, is_answered: bool
) -> None:
    """A page of the hook hears it, though it only listens: an error, unless the reply is there."""
    monkeypatch.setattr("agentkit_py.server.workers._BEAT_SECONDS", 0.01)
    store = SharedStore()
    app = app_of(support(), history=store)
    where = {"threadId": "t1", "userId": "ada"}
    begin = {"event": "run.started", "data": {**where, "messageId": "r", "runId": "r", "name": "n"}}
    chunk = {**begin, "sequenceNumber": 0, "id": "publish-0:run.started"}
    async with served(app) as url, listening(url) as stream:
        await store.add_thread("t1", user_id="ada")
        await store.append("t1", [AgentResult.from_user("Hi", id="m1")])
        if is_answered:
            await store.append("t1", [AgentResult("clerk", [TextMessage("assistant", "Hello.")])])
        store.heard.say("hello")
        store.heard.say("chunk", channel="user:ada", answers="m1", chunk=chunk)
        await stream.until("run.started")
        monkeypatch.setattr("agentkit_py.server.workers._DEAD_SECONDS", 0.0)
        ended = await stream.until("stream.ended")
    assert ended["data"]["messageId"] == "r"
    assert stream.names == ["run.started", *([] if is_answered else ["error"]), "stream.ended"]
    assert [one["sequenceNumber"] for one in stream.chunks] == [*range(len(stream.chunks))]


def test_the_formats_of_the_routes_are_all_tested() -> None:
    """A new one has to say its statuses, too."""
    assert sorted(FORMATS) == sorted(every.FORMATS)
