"""The Inngest mode: the same contract, with runs as functions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import httpx
import inngest
import pytest

from agentkit_py import MemoryHistory, Network, SqliteHistory, State, ToolContext, tool
from agentkit_py.errors import ConfigurationError
from agentkit_py.events import APPROVAL_EVENT, ApprovalAnswer
from agentkit_py.history.leases import ThreadLease
from agentkit_py.inngest import create_functions
from agentkit_py.inngest.sending import CANCEL_EVENT
from agentkit_py.server import Hub
from agentkit_py.stores import PostgresHistory
from agentkit_py.stores.broadcast import STREAMS, stream_box
from agentkit_py.testing import tool_call, tool_calls
from agentkit_py.testing.executor import KillAt, ReplayExecutor, Run
from agentkit_py.testing.provider import Raw
from tests.server import test_shared_streams
from tests.server.test_front_ends import answered, opened, run_input, said, until
from tests.server.test_streams import SECRET
from tests.server.world import (
    app_of,
    client_of,
    eventually,
    listening,
    message,
    post,
    served,
    support,
    waiting,
)


@dataclass
class Hosted:
    """An API, and the functions that it starts."""

    network: Network
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        client = inngest.Inngest(app_id="shop", is_production=False)
        self.client = client
        self.functions = create_functions(
            client,
            networks=[self.network],
            inference="local",
            realtime=self.options.get("realtime", True),
        )
        self.executor = ReplayExecutor(client, self.functions)
        self.app = app_of(self.network, client=client, history=None, **self.options)

    @property
    def runs(self) -> list[Run]:
        """The runs that were begun."""
        return self.executor.runs

    async def post(self, path: str, body: Any, user: str = "ada") -> httpx.Response:
        """A request to the API, whose client talks to the executor."""
        async with client_of(self.app, user) as client:
            with self.executor.connection.use():
                return await client.post(path, json=body)

    async def chat(self, text: str, thread: str, user: str = "ada", **fields: Any) -> Any:
        """Send a message."""
        answer = await self.post("/api/chat", message(text, thread, **fields), user)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def messages(self, thread: str = "t1", user: str = "ada") -> list[dict[str, Any]]:
        """Return the messages of the thread."""
        async with client_of(self.app, user) as client:
            return (await client.get(f"/api/threads/{thread}")).json()["messages"]

    async def finish(self) -> Run:
        """The last run, at its end."""
        return await self.executor.finish(self.runs[-1])

    @property
    def chunks(self) -> list[dict[str, Any]]:
        """The published chunks, each once."""
        return list({p.data["id"]: p.data for p in self.executor.published}.values())


def hosted(*replies: Any, tools: Any = (), store: Any = None, **options: Any) -> Hosted:
    """A network that runs as a function, with its API."""
    default = options.pop("default_state", None)
    network = support(
        *replies, tools=tools, history=store or MemoryHistory(), default_state=default
    )
    return Hosted(network, options)


async def test_a_message_is_answered_by_a_function() -> None:
    """The thread, the chunks and the channel are those of a local run."""
    shop = hosted("Hello.")
    answer = await shop.chat("Hi", "t1", id="m-1")
    assert answer == {"success": True, "threadId": "t1", "messageId": "m-1"}
    run = await shop.finish()
    assert run.status == "completed"
    found = await shop.messages()
    said_ = [m.get("content") or m["data"]["output"][0]["content"] for m in found]
    assert said_ == ["Hi", "Hello."]
    assert {p.channel for p in shop.executor.published} == {"user:ada"}
    assert shop.chunks[0]["event"] == "run.started"
    assert shop.chunks[-1]["event"] == "stream.ended"
    assert {c["data"].get("userId") for c in shop.chunks} == {"ada"}
    assert "usage.updated" not in {c["event"] for c in shop.chunks}


async def test_the_events_state_is_that_of_a_local_run() -> None:
    """The user from auth, the client's keys that are allowed, and the run before."""

    @tool
    def note(ctx: ToolContext) -> Any:
        """Change the state, and say what it was."""
        before = dict(ctx.state.data)
        ctx.state.data["visits"] = before.get("visits", 0) + 1
        return before

    replies = [tool_call("note", {}), "one", tool_call("note", {}), "two"]
    store = MemoryHistory(lease=ThreadLease())
    shop = hosted(*replies, tools=(note,), store=store, client_state=["tab"])
    outputs: list[Any] = []
    for tab in ("a", "b"):
        await shop.chat("Hi", "t1", state={"tab": tab, "user_id": "eve", "admin": True})
        run = await shop.finish()
        outputs.append(run.output["results"][0]["toolCalls"][0]["content"]["data"])
    first = (await shop.messages())[0]
    assert outputs == [
        {"tab": "a", "user_id": "ada"},
        {"tab": "b", "user_id": "ada", "visits": 1},
    ]
    assert first["clientState"] == {"tab": "a"}


async def test_a_message_continues_with_the_data_of_the_run_before_it() -> None:
    """It was sent while that run was at work, or had not even begun."""

    @tool
    def note(ctx: ToolContext) -> Any:
        """Count, and say what the state was."""
        before = dict(ctx.state.data)
        ctx.state.data["visits"] = before.get("visits", 0) + 1
        return before

    replies = [tool_call("note", {}), "one", tool_call("note", {}), "two"]
    store = MemoryHistory(lease=ThreadLease())
    shop = hosted(*replies, tools=(note,), store=store, client_state=["tab"])
    for tab in ("a", "b"):
        await shop.chat("Hi", "t1", state={"tab": tab})
    runs = [await shop.executor.finish(run) for run in shop.runs]
    seen = [run.output["results"][0]["toolCalls"][0]["content"]["data"] for run in runs]
    assert sorted(one.get("visits", 0) for one in seen) == [0, 1]
    assert {one["tab"] for one in seen} == {"a", "b"}


@dataclass
class Desk:
    """A typed state."""

    user_id: str = ""
    tab: str = "none"


async def test_the_event_keeps_the_fields_of_a_typed_state() -> None:
    """The event is JSON, but the tool gets the state with its type and its user."""

    @tool
    def look(ctx: ToolContext) -> str:
        """Return the type of the state's data and its user."""
        return f"{type(ctx.state.data).__name__} of {ctx.state.data.user_id}"

    default = State(Desk())
    shop = hosted(tool_call("look", {}), "done", tools=(look,), default_state=default)
    await shop.chat("Hi", "t1")
    run = await shop.finish()
    assert run.output["results"][0]["toolCalls"][0]["content"] == {"data": "Desk of ada"}


async def test_the_event_carries_the_clients_history() -> None:
    """An option turns this on."""
    shop = hosted("Fine.", client_history=True)
    history = [{"type": "text", "role": "assistant", "content": "Earlier words"}]
    await shop.post("/api/chat", message("Hi", "t1") | {"history": history})
    await shop.finish()
    model: Any = shop.network.default_model
    model.assert_saw("Earlier words", "Hi")


async def test_the_same_message_has_the_same_event_id() -> None:
    """Inngest drops events whose id it has seen; another user's, or thread's, is another."""
    shop = hosted(*["Hello."] * 4)
    body = message("Hi", "t1", id="m-1")
    await shop.post("/api/chat", body)
    await shop.post("/api/chat", body)
    await shop.post("/api/chat", body | {"threadId": "t2"})
    await shop.post("/api/chat", body | {"threadId": "t3"}, "bob")
    assert len(shop.executor.events) == len(shop.runs) == 3


async def test_a_cancelled_function_stops_and_its_stream_ends() -> None:
    """The API says so, since a function that is cancelled says nothing."""
    paid: list[int] = []

    @tool(needs_approval=True)
    def refund(amount: int) -> str:
        """Pay money back."""
        paid.append(amount)
        return "paid"

    shop = hosted(tool_call("refund", {"amount": 5}), "done", tools=(refund,))
    await shop.chat("Hi", "t1")
    await shop.executor.advance(1)
    run = shop.runs[-1]
    await shop.post("/api/threads", {"threadId": "t2"}, "eve")
    stop = "/api/chat/cancel"
    assert (await shop.post(stop, {"threadId": "t1", "userId": "ada"}, "eve")).status_code == 404
    assert (await shop.post(stop, {"threadId": "t2", "userId": "ada"}, "eve")).status_code == 200
    assert run.status == "running"
    answer = await shop.post(stop, {"threadId": "t1"})
    assert answer.json() == {"success": True, "cancelled": 1}
    assert run.status == "cancelled"
    assert paid == []
    sent = [event["data"] for event in shop.executor.events if event["name"] == CANCEL_EVENT]
    assert sent[-1] == {"userId": "ada", "threadId": "t1"}
    ends = [p.data for p in shop.executor.published if p.channel == "user:ada"][-2:]
    assert [chunk["event"] for chunk in ends] == ["run.interrupted", "stream.ended"]
    assert {chunk["data"]["threadId"] for chunk in ends} == {"t1"}


async def test_an_approval_is_answered_by_an_event() -> None:
    """The API looks at who answers, and only then tells the function."""
    paid: list[int] = []

    @tool(needs_approval=True)
    def refund(amount: int) -> str:
        """Pay money back."""
        paid.append(amount)
        return "paid"

    shop = hosted(tool_call("refund", {"amount": 5}), "done", tools=(refund,))
    await shop.chat("Hi", "t1")
    await shop.executor.advance(1)
    await shop.post("/api/threads", {"threadId": "t2"}, "eve")
    question = next(c for c in shop.chunks if c["event"] == "hitl.requested")["data"]
    word = {"toolCallId": question["requestId"], "action": "approve"}
    for thread in ("t1", "t2"):
        answer = await shop.post("/api/approve-tool", {**word, "threadId": thread}, "eve")
        assert answer.status_code == 404
    await shop.executor.advance(1)
    assert shop.runs[-1].status == "running"
    answer = await shop.post("/api/approve-tool", {**word, "threadId": "t1"})
    assert answer.json() == {"success": True}
    await shop.finish()
    assert paid == [5]
    assert shop.runs[-1].status == "completed"
    sent = [event["data"] for event in shop.executor.events if event["name"] == APPROVAL_EVENT]
    assert [data["answeredBy"] for data in sent] == ["ada"]
    resolved = next(c for c in shop.chunks if c["event"] == "hitl.resolved")["data"]
    assert resolved["resolvedBy"] == "ada"


async def test_an_answer_that_its_process_did_not_send_is_sent_by_the_next_look() -> None:
    """It was stored, and its process died before the event."""
    paid: list[int] = []

    @tool(needs_approval=True)
    def refund(amount: int) -> str:
        """Pay money back."""
        paid.append(amount)
        return "paid"

    shop = hosted(tool_call("refund", {"amount": 5}), "done", tools=(refund,))
    await shop.chat("Hi", "t1")
    await shop.executor.advance(1)
    store = cast("MemoryHistory", shop.network.history)
    (question,) = await store.list_questions()
    answer = ApprovalAnswer(approved=True, data={"resolvedBy": "ada"})
    at = datetime.now(UTC)
    await store.change_question(question.id, lambda known: known.closed(answer, at))
    async with client_of(shop.app, "ada") as client:
        with shop.executor.connection.use():
            for _ in range(2):
                assert (await client.get("/api/approvals")).json()["approvals"] == []
    await shop.finish()
    assert (shop.runs[-1].status, paid) == ("completed", [5])
    assert [event["name"] for event in shop.executor.events].count(APPROVAL_EVENT) == 1


async def test_the_token_is_a_subscription_token_of_inngest() -> None:
    """The token is for the user's own channel, and names the server's address."""
    shop = hosted()
    found = (await shop.post("/api/realtime/token", {"userId": "eve"})).json()
    async with client_of(shop.app) as client:
        stream = await client.get("/api/stream")
        assert (stream.status_code, stream.json()["error"]["code"]) == (501, "no_streams")
    assert found["channel"] == "user:ada"
    assert found["topics"] == ["agent_stream"]
    assert "user:ada" in found["key"]
    assert found["app"]["apiBaseUrl"].startswith("http://")


async def test_front_ends_that_need_a_stream_are_refused_with_the_reason() -> None:
    """Nothing is begun; threads are read in their form nevertheless."""
    shop = hosted("Hello.")
    said = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}
    run = {"threadId": "t1", "runId": "r", "messages": [{**said, "content": "Hi"}]}
    bodies = {"/api/vercel": {"id": "t1", "messages": [said]}, "/api/ag-ui": run}
    refused = [await shop.post(path, body) for path, body in bodies.items()]
    await shop.chat("Hi", "t1", id="m1")
    await shop.finish()
    async with client_of(shop.app) as client:
        refused.append(await client.get("/api/vercel/t1/stream"))
        read = [(await client.get(f"{path}/t1")).json()["messages"] for path in bodies]
        openapi = (await client.get("/openapi.json")).json()["paths"]
    for answer in refused:
        assert (answer.status_code, answer.json()["error"]["code"]) == (501, "no_streams")
        assert "Inngest" in answer.json()["error"]["message"]
    assert [len(messages) for messages in read] == [2, 2]
    assert len(shop.runs) == 1
    assert all("501" in openapi[path]["post"]["responses"] for path in bodies)


where = test_shared_streams.where  # a fixture


def carried(where: dict[str, Any], *replies: Any, tools: Any = (), **options: Any) -> Hosted:
    """A network whose functions stream through the store."""
    lease = ThreadLease()
    store = (
        SqliteHistory(**where, lease=lease)
        if "path" in where
        else PostgresHistory(**where, lease=lease)
    )
    return hosted(*replies, tools=tools, store=store, realtime="store", **options)


@asynccontextmanager
async def running(shop: Hosted) -> AsyncGenerator[str]:
    """The API, whose functions run as soon as they can."""
    test = asyncio.current_task()
    assert test is not None

    async def drive() -> None:
        try:
            while True:
                await shop.executor.advance(0)  # its clock stands, so that no question expires
                await asyncio.sleep(0)
        except Exception:
            test.cancel("the executor failed")
            raise

    with shop.executor.connection.use():
        async with served(shop.app) as url:
            driving = asyncio.create_task(drive())
            try:
                yield url
            finally:
                driving.cancel()
                await asyncio.wait([driving])


async def whole(url: str, path: str, body: Any = None) -> list[dict[str, Any]]:
    """The events of an answer."""
    async with opened(url, path, body) as reply:
        return [event async for event in reply]


async def thread_of(url: str, path: str) -> Any:
    """A thread as a front end reads it."""
    async with httpx.AsyncClient(trust_env=False, headers={"x-user": "ada"}) as client:
        return (await client.get(f"{url}{path}")).json()


def words_of(events: list[dict[str, Any]]) -> str:
    """The text that a reply streamed."""
    return "".join(one["delta"] for one in events if one["type"] == "text-delta")


async def test_functions_answer_use_chat_ag_ui_and_our_own_stream_through_the_store(
    where: dict[str, Any],
) -> None:
    """Every chunk arrives once, in order, and the reply is that of the thread."""
    long = "Straw hats. " * 100
    shop = carried(where, long, "Felt.", "Caps.")
    async with running(shop) as url, listening(url) as stream:
        reply = await whole(url, "/api/vercel", said("Hats?"))
        assert words_of(reply) == long
        assert reply[-1] == {"type": "finish", "finishReason": "stop"}
        assert "reset-step" not in {event["type"] for event in reply}
        await stream.until("stream.ended")
        assert (await thread_of(url, "/api/threads/t1"))["running"] == []
        again = await whole(url, "/api/vercel", said("Hats?"))  # as after a broken connection
        assert words_of(again) == long
        agui = await whole(url, "/api/ag-ui", run_input("Hats?", thread_id="t2"))
        deltas = [event["delta"] for event in agui if event["type"] == "TEXT_MESSAGE_CONTENT"]
        assert "".join(deltas) == "Felt."
        assert agui[-1]["type"] == "RUN_FINISHED"
        await post(url, "/api/chat", message("Hats?", "t3"))
        await stream.until("stream.ended")
        await stream.until("stream.ended")
        token = await post(url, "/api/realtime/token", {})
        assert token.json()["app"]["apiBaseUrl"] == url
    assert stream.text == f"{long}Felt.Caps."
    assert shop.executor.published == []


async def test_questions_of_functions_are_answered_by_use_chat_and_the_reply_continues(
    where: dict[str, Any],
) -> None:
    """A reader who comes back meanwhile gets it from its beginning; the call is made once."""
    paid: list[int] = []

    @tool(needs_approval=True)
    def refund(amount: int) -> str:
        """Pay money back."""
        paid.append(amount)
        return "paid"

    shop = carried(where, tool_call("refund", {"amount": 5}), "Done.", tools=(refund,))
    async with running(shop) as url:
        reply = await whole(url, "/api/vercel", said("Money back!"))
        assert "tool-approval-request" in {event["type"] for event in reply}
        backend = shop.app.state.api.backend
        await eventually(lambda: backend.replayed("ada", "t1") == ["m1"])
        resumed = await whole(url, "/api/vercel/t1/stream")
        assert "tool-approval-request" in {event["type"] for event in resumed}
        assert paid == []
        thread = await thread_of(url, "/api/vercel/t1")
        rest = await whole(url, "/api/vercel", answered(thread, approved=True))
        assert words_of(rest) == "Done."
        assert (await thread_of(url, "/api/threads/t1"))["running"] == []
    assert paid == [5]


@pytest.mark.parametrize("how", ["api", "dashboard"])
async def test_the_stream_of_a_function_that_is_stopped_ends(
    where: dict[str, Any], how: str
) -> None:
    """Also where the API has not heard of it; the thread is not taken for one at work."""
    shop = carried(where, tool_call("refund", {}), tools=(_refund,), approvers=["mia"])
    async with running(shop) as url:
        async with opened(url, "/api/vercel", said("Money back!")) as reply:
            await until(reply, "tool-input-available")
            store: Any = shop.network.history
            while not await store.list_questions():  # noqa: ASYNC110 - a store sets no event
                await asyncio.sleep(0)
            if how == "api":
                await post(url, "/api/chat/cancel", {"threadId": "t1"})
            else:
                await shop.executor.send_event(CANCEL_EVENT, {"userId": "ada", "threadId": "t1"})
            rest = [event async for event in reply]
        assert rest[-1]["type"] in ("finish", "abort")
        assert (await thread_of(url, "/api/threads/t1"))["running"] == []
        assert shop.app.state.api.hub.open_runs("user:ada", "t1") == {}
        asked = await store.list_questions(status=None)
        assert [one.status for one in asked] == ["stopped"]


async def test_a_message_that_is_stopped_before_its_function_begins_is_named(
    where: dict[str, Any],
) -> None:
    """Its stream ends under the id under which front ends show its reply."""
    shop = carried(where)
    with shop.executor.connection.use():
        async with served(shop.app) as url, listening(url) as stream:
            await shop.chat("Hats?", "t1", id="m1")
            await post(url, "/api/chat/cancel", {"threadId": "t1"})
            end = await stream.until("stream.ended")
    assert end["data"]["messageId"] == "m1-reply"
    assert stream.names == ["run.interrupted", "stream.ended"]


@tool(name="refund", needs_approval=True)
def _refund() -> str:
    """Pay money back."""
    return "paid"


async def test_a_reply_that_a_killed_worker_began_is_shown_once(where: dict[str, Any]) -> None:
    """The step is done again, and publishes again what was read already."""
    long = "Straw hats. " * 50
    shop = carried(where, *[long] * 4)
    shop.executor = ReplayExecutor(
        shop.client, shop.functions, kill=KillAt(request=2, when="after")
    )
    async with running(shop) as url:
        reply = await whole(url, "/api/vercel", said("Hats?"))
        thread = await thread_of(url, "/api/vercel/t1")
    assert words_of(reply) == long
    assert thread["messages"][1]["parts"][0]["text"] == long


async def test_an_api_that_starts_in_the_middle_of_a_reply_streams_it_from_its_beginning(
    where: dict[str, Any],
) -> None:
    """Its reader gets the part so far at once and the rest as it comes, each piece once."""
    wait, begun, go = waiting()
    first = tool_calls(("wait", {}), text="Let me look.")
    shop = carried(where, first, "Straw hats. " * 50, tools=(wait,))
    late = carried(where)
    async with running(shop) as url, listening(url) as stream:
        await post(url, "/api/chat", message("Hats?", "t1", id="m1"))
        await begun.wait()
        async with served(late.app) as other, listening(other) as fresh:
            asked = (await thread_of(other, "/api/threads/t1"))["running"]
            async with opened(other, "/api/vercel/t1/stream") as reply:
                seen = [await anext(reply)]
                while seen[-1]["type"] != "tool-input-available":
                    seen.append(await anext(reply))
                assert words_of(seen) == "Let me look."
                go.set()
                seen += [event async for event in reply]
            for one in (stream, fresh):
                await one.until("stream.ended")
            hub: Hub = late.app.state.api.hub
            assert hub.open_runs("user:ada", "t1") == {}
    assert asked == ["m1"]
    assert words_of(seen) == "Let me look." + "Straw hats. " * 50
    assert "reset-step" not in {event["type"] for event in seen[2:]}
    assert fresh.names == stream.names
    numbers = [chunk["sequenceNumber"] for chunk in fresh.chunks]
    assert numbers == list(range(len(numbers)))


@pytest.mark.parametrize("how", ["ends", "is stopped", "goes with its thread"])
async def test_what_is_kept_of_a_reply_goes_when_it(where: dict[str, Any], how: str) -> None:
    """An API that starts later takes it for one that is not under way."""
    wait, begun, go = waiting()
    shop = carried(where, tool_call("wait", {}), "Done.", tools=(wait,))
    store: Any = shop.network.history
    async with running(shop) as url, listening(url) as stream:
        await post(url, "/api/chat", message("Hats?", "t1", id="m1"))
        await begun.wait()
        (run,) = shop.runs
        assert await store.list_mail(STREAMS)
        assert await store.list_mail(stream_box(run.id))
        if how == "ends":
            go.set()
        elif how == "is stopped":
            await shop.executor.send_event(CANCEL_EVENT, {"userId": "ada", "threadId": "t1"})
            go.set()
        else:
            await store.delete_thread("t1")
        if how == "ends":
            await stream.until("stream.ended")
        elif how == "is stopped":
            hub: Hub = shop.app.state.api.hub
            await eventually(lambda: hub.open_runs("user:ada", "t1") == {})
        assert [await store.list_mail(box) for box in (STREAMS, stream_box(run.id))] == [[], []]
        go.set()


async def test_two_users_may_choose_one_id_for_their_messages(where: dict[str, Any]) -> None:
    """Each may wait for the reply of a function that has not begun."""
    shop = carried(where)
    with shop.executor.connection.use():
        async with served(shop.app) as url:
            for user, thread in (("ada", "t1"), ("bob", "t2")):
                await shop.chat("Hi", thread, user, id="m1")
            for user, thread in (("ada", "t1"), ("bob", "t2")):
                async with (
                    httpx.AsyncClient(trust_env=False, headers={"x-user": user}) as client,
                    client.stream("GET", f"{url}/api/vercel/{thread}/stream") as reply,
                ):
                    assert reply.status_code == 200


def test_a_store_that_carries_no_streams_is_refused_for_them() -> None:
    """In either process, with what to use."""
    client = inngest.Inngest(app_id="shop", is_production=False)
    network = support(history=MemoryHistory())
    with pytest.raises(ConfigurationError, match="SqliteHistory"):
        create_functions(client, networks=[network], realtime="store")
    with pytest.raises(ConfigurationError, match="SqliteHistory"):
        app_of(network, history=None, client=client, realtime="store")


async def test_a_failed_function_streams_a_public_message() -> None:
    """Its chunks go to somebody's browser."""
    raw = Raw(status=401, json={"error": {"message": f"bad key {SECRET}"}})
    shop = hosted(raw)
    await shop.chat("Hi", "t1")
    run = await shop.finish()
    assert run.status == "failed"
    assert "run.failed" in {c["event"] for c in shop.chunks}
    assert SECRET not in str(shop.chunks)


async def test_an_unreachable_inngest_server_gives_502() -> None:
    """502, and nothing of where it would be."""
    network = support(history=MemoryHistory())
    client = inngest.Inngest(
        app_id="shop", is_production=False, event_api_base_url="http://127.0.0.1:9"
    )
    app = app_of(network, client=client, history=None)
    async with client_of(app) as http:
        answer = await http.post("/api/chat", json=message("Hi", "t1"))
    assert answer.status_code == 502
    assert "127.0.0.1" not in answer.text


def test_functions_and_api_must_use_the_same_store() -> None:
    """With two stores, nobody would find the messages of the other."""
    client = inngest.Inngest(app_id="shop", is_production=False)
    with pytest.raises(ConfigurationError, match="its own history"):
        app_of(support(), client=client, history=MemoryHistory())
