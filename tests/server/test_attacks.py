"""Faults found by attacks, accidents and odd clients; each was possible once."""

from __future__ import annotations

import asyncio
import gc
import json
import tracemalloc
from typing import Any

import pytest
from websockets.asyncio.client import connect

from agentkit_py import MemoryHistory, SqliteHistory, tool
from agentkit_py.errors import ConfigurationError
from agentkit_py.server import HubLimits, ServerLimits, lifespan
from agentkit_py.server.api import openapi_document
from agentkit_py.server.app import ENDPOINTS
from agentkit_py.server.hub import Hub
from agentkit_py.testing import tool_call, tool_calls
from tests.server.test_approving import ask, decide, refund
from tests.server.world import (
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


@pytest.mark.parametrize("secret", ["", "   ", "guess", "x" * 15])
def test_a_short_secret_is_refused(secret: str) -> None:
    """An empty one, from a variable that is not set, would let everybody be everybody."""
    with pytest.raises(ConfigurationError, match="secret"):
        app_of(support(), secret=secret)


async def test_an_app_that_was_stopped_can_be_started_again(tmp_path: Any) -> None:
    """Tests enter the lifespan of one app several times."""
    app = app_of(support("one", "two"), history=SqliteHistory(tmp_path / "threads.db"))
    for text in ("Hi", "Again"):
        async with lifespan(app):
            await said(app, text, "t1")
    async with client_of(app) as client:
        found = (await client.get("/api/threads/t1")).json()["messages"]
    assert [one["type"] for one in found] == ["user", "agent", "user", "agent"]
    await app.state.api.settings.store.close()


async def test_nothing_follows_a_tool_that_swallows_a_cancel() -> None:
    """The model gets no further request, and nothing more is stored."""
    begun, stopped, go = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @tool
    async def stubborn() -> str:
        """Go on whatever happens."""
        begun.set()
        try:
            await go.wait()
        except asyncio.CancelledError:
            stopped.set()
            await go.wait()
        return "went on"

    network = support(tool_call("stubborn", {}), "And now I answer.", tools=(stubborn,))
    app = app_of(network)
    async with served(app) as url, listening(url) as stream:
        await post(url, "/api/chat", message("Hi", "t1"))
        await begun.wait()
        cancelling = asyncio.create_task(post(url, "/api/chat/cancel", {"threadId": "t1"}))
        await stopped.wait()
        go.set()
        assert (await cancelling).json() == {"success": True, "cancelled": 1}
        await wait_until_idle(app)
        await stream.until("stream.ended")
    assert stream.text == ""
    assert "run.interrupted" in stream.names
    model: Any = network.default_model
    assert len(model.requests) == 1


async def test_nothing_follows_a_tool_beyond_the_time_limit() -> None:
    """A run that exceeds its time ends like a cancelled one."""
    stopped = asyncio.Event()

    @tool
    async def stubborn() -> str:
        """Go on whatever happens."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.set()
        return "went on"

    network = support(tool_call("stubborn", {}), "And now I answer.", tools=(stubborn,))
    app = app_of(network, limits=ServerLimits(run_seconds=0.05))
    async with served(app) as url, listening(url) as stream:
        await post(url, "/api/chat", message("Hi", "t1"))
        await stream.until("stream.ended")
        await wait_until_idle(app)
    assert stopped.is_set()
    assert stream.text == ""


async def test_a_run_beyond_its_time_limit_names_the_timeout() -> None:
    """A time-out is no cancellation."""
    wait, _, _ = waiting()
    limits = ServerLimits(run_seconds=0.05)
    app = app_of(support(tool_call("wait", {}), tools=(wait,)), limits=limits)
    async with served(app) as url, listening(url) as stream:
        await post(url, "/api/chat", message("Hi", "t1"))
        await stream.until("stream.ended")
    reasons = {c["data"]["reason"] for c in stream.chunks if c["event"] == "run.interrupted"}
    assert reasons == {"timeout"}


async def test_a_decision_cannot_be_changed() -> None:
    """The answer is 409 even while the question waits for the other calls."""
    paid: list[int] = []
    calls = tool_calls(*(("refund", {"amount": amount}) for amount in (1, 2)))
    app = app_of(support(calls, "done", tools=(refund(paid),)))
    async with served(app) as url, listening(url) as stream:
        await ask(url)
        asked = (await stream.until("hitl.requested"))["data"]
        first, second = (call["partId"] for call in asked["toolCalls"])
        assert (await decide(url, first, "deny")).status_code == 200
        again = await decide(url, first, "approve")
        assert again.status_code == 409
        assert again.json()["error"]["code"] == "already_answered"
        assert (await decide(url, second, "deny")).status_code == 200
        await stream.until("stream.ended")
    assert paid == []


@pytest.mark.parametrize("depth", [101, 600, 900])
async def test_state_that_is_too_deep_is_refused(depth: int) -> None:
    """400, as for what is too long; nothing that walks it later fails."""
    nested = "[" * depth + "]" * depth
    body = '{"userMessage":{"content":"Hi","state":{"language":' + nested + "}}}"
    async with client_of(app_of(support("Hi."), client_state=["language"])) as client:
        answer = await client.post("/api/chat", content=body)
        assert answer.status_code == 400
        text = answer.json()["error"]["message"]
        # How deep JSON may be to be read at all depends on the frames that Python has in use.
        assert "userMessage.state" in text or (depth > 600 and "too deeply" in text)


async def test_half_a_surrogate_pair_in_the_state_is_refused() -> None:
    """Not every place that the state goes to can write a lone surrogate."""
    body = json.dumps(message("Hi", "t1", state={"language": "\ud83d"}))
    async with client_of(app_of(support("Hi."), client_state=["language"])) as client:
        answer = await client.post("/api/chat", content=body)
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"sec-fetch-site": "same-origin"}, 404),
    ],
)
async def test_pages_of_other_origins_open_no_streams(headers: dict[str, str], status: int) -> None:
    """They could not read them, but take all that the user may have."""
    async with client_of(app_of(support()), "ada", **headers) as client:
        answer = await client.get("/api/stream?threadId=none")
    assert answer.status_code == status


async def test_a_request_without_a_host_has_no_page_of_its_own() -> None:
    """``Origin: null`` is not the same host as none."""
    async with client_of(app_of(support()), "ada", origin="null", host="") as client:
        assert (await client.post("/api/threads", json={})).status_code == 403


@pytest.mark.parametrize("text", ["x" * 999, "汉" * 999, "x" * 998 + "😀"])
def test_a_channel_takes_no_more_memory_than_its_limit(text: str) -> None:
    """Python takes up to four bytes for each character, so the text's kind must not matter."""
    limit = 500_000
    hub = Hub(HubLimits(channel_bytes=limit))
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(1500):
            hub.publish("c", {"event": "text.delta", "data": {"delta": text, "threadId": "t1"}})
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert taken < 1.2 * limit


async def test_a_reader_holds_one_small_batch() -> None:
    """A reader that has stopped reading keeps one batch."""
    hub = Hub()
    for _ in range(200):
        hub.publish("c", {"event": "x", "data": {"text": "x" * 5_000}})
    first = hub.publish("c", {"event": "x", "data": {"text": "x" * 500_000}})
    begin = f"{first.id.partition('-')[0]}-0"
    sizes: list[int] = []
    with hub.subscribe("c", begin) as reader:
        got = 0
        while got < 201:
            batch = await reader.next()
            got += len(batch.entries)
            sizes.append(sum(len(entry.text) for entry in batch.entries))
    assert max(sizes[:-1]) <= 2**16
    assert got == 201


async def test_binary_messages_from_the_client_are_ignored() -> None:
    """It can only listen, whatever it sends."""
    app = app_of(support())
    async with served(app) as url:
        token = (await post(url, "/api/realtime/token", {})).json()["key"]
        path = f"{url}/v1/realtime/connect?token={token}".replace("http", "ws")
        async with connect(path, proxy=None) as socket:
            await socket.send(b"\x00")
            await post(url, "/api/threads", {})  # the server has got round to the bytes, too
            app.state.api.hub.publish("user:ada", {"event": "x", "data": {}})
            found = json.loads(await socket.recv())
    assert found["data"]["event"] == "x"


async def test_idle_channels_share_a_memory_limit() -> None:
    """A thousand users of yesterday must not fill the machine."""
    hub = Hub(HubLimits(idle_bytes=100_000))
    chunk = {"event": "x", "data": {"text": "x" * 1_000}}
    begun = {"event": "run.started", "data": {"messageId": "m1", "text": "x" * 90_000}}
    hub.publish("running", begun)
    for number in range(200):
        hub.publish(f"user:{number}", chunk)
    with hub.subscribe("user:new") as reader:
        assert hub.kept_bytes < 220_000
        hub.publish("user:new", chunk)
        assert len((await reader.next()).entries) == 1
    assert hub.holds("running", "m1")
    last = hub.publish("user:199", chunk)
    assert last.number == 2
    with pytest.raises(ConfigurationError, match="idle_bytes"):
        HubLimits(idle_bytes=0)


def test_the_document_names_every_error_status() -> None:
    """A client must be ready for each of them."""
    operations = {
        (path, method): set(operation["responses"])
        for path, item in openapi_document(ENDPOINTS)["paths"].items()
        for method, operation in item.items()
        if not path.startswith("/health/")  # which know no users
    }
    for (path, method), statuses in operations.items():
        assert {"401", "403", "500"} <= statuses, path
        assert ("413" in statuses) == (method == "post"), path
    assert {"429", "502", "503"} <= operations["/api/chat", "post"]
    for path in ("/api/chat/cancel", "/api/approve-tool", "/api/realtime/token"):
        assert "502" in operations[path, "post"], path
    assert "502" in operations["/api/threads/{threadId}", "delete"]


def lists_alive() -> int:
    """Return the number of lists in this process."""
    gc.collect()
    return sum(type(one) is list for one in gc.get_objects())


async def test_the_clients_history_is_freed_while_its_message_waits() -> None:
    """Four megabytes of brackets are a hundred of lists; many at once would fill the machine."""
    waits, go = asyncio.Event(), asyncio.Event()

    class Slow(MemoryHistory):
        async def add_thread(self, *args: Any, **options: Any) -> str:
            waits.set()
            await go.wait()
            return await super().add_thread(*args, **options)

    app = app_of(support("Hi."), history=Slow())
    body = json.dumps(message("Hi", "t1") | {"history": [[] for _ in range(50_000)]})
    async with client_of(app) as client:
        before = lists_alive()
        sending = asyncio.create_task(client.post("/api/chat", content=body))
        await waits.wait()
        assert lists_alive() - before < 25_000
        go.set()
        assert (await sending).status_code == 200
        await wait_until_idle(app)
