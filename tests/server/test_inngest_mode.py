"""The Inngest mode: the same contract, with runs as functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import httpx
import inngest
import pytest

from agentkit_py import MemoryHistory, Network, State, ToolContext, tool
from agentkit_py.errors import ConfigurationError
from agentkit_py.events import APPROVAL_EVENT
from agentkit_py.history.leases import ThreadLease
from agentkit_py.inngest import create_functions
from agentkit_py.inngest.sending import CANCEL_EVENT
from agentkit_py.testing import tool_call
from agentkit_py.testing.executor import ReplayExecutor, Run
from agentkit_py.testing.provider import Raw
from tests.server.test_streams import SECRET
from tests.server.world import app_of, client_of, message, support


@dataclass
class Hosted:
    """An API, and the functions that it starts."""

    network: Network
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        client = inngest.Inngest(app_id="shop", is_production=False)
        functions = create_functions(
            client, networks=[self.network], inference="local", realtime=True
        )
        self.executor = ReplayExecutor(client, functions)
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
    await shop.post("/api/threads", {"threadId": "t2"}, "eve")
    stop = "/api/chat/cancel"
    assert (await shop.post(stop, {"threadId": "t1", "userId": "ada"}, "eve")).status_code == 404
    assert (await shop.post(stop, {"threadId": "t2", "userId": "ada"}, "eve")).status_code == 200
    assert shop.runs[-1].status == "running"
    answer = await shop.post(stop, {"threadId": "t1"})
    assert answer.json() == {"success": True, "cancelled": 1}
    assert shop.runs[-1].status == "cancelled"
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
    """Nothing is begun; threads are read in their form all the same."""
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
