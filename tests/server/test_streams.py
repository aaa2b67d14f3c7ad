"""Server-sent events: a run as it happens, and after a break."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import httpx
import pytest

from agentkit_py import Agent, MemoryHistory, Network, tool
from agentkit_py.errors import HistoryError
from agentkit_py.history.leases import ThreadLease
from agentkit_py.server import HubLimits, ServerLimits
from agentkit_py.testing import ScriptedModel, tool_call
from agentkit_py.testing.provider import Raw
from tests.server.world import (
    app_of,
    client_of,
    eventually,
    listening,
    message,
    once,
    post,
    said,
    served,
    support,
    wait_until_idle,
    waiting,
)


@tool
def price(hat: str) -> str:
    """Return the price of a hat."""
    return f"{hat}: 30"


async def test_a_message_is_answered_by_the_stream() -> None:
    """The whole run, in order, to the end."""
    network = support(tool_call("price", {"hat": "bowler"}), "It costs 30.", tools=(price,))
    async with served(app_of(network)) as url, listening(url) as stream:
        assert stream.response.headers["content-type"].startswith("text/event-stream")
        assert stream.response.headers["cache-control"] == "no-store"
        answer = await post(url, "/api/chat", message("What does the bowler cost?", "t1"))
        assert answer.status_code == 200, answer.text
        await stream.until("stream.ended")
    assert stream.names[0] == "run.started"
    assert stream.text == "It costs 30."
    assert [c["sequenceNumber"] for c in stream.chunks] == list(range(len(stream.chunks)))
    assert {c["data"].get("threadId") for c in stream.chunks} == {"t1"}
    assert "usage.updated" not in stream.names


async def test_usage_and_metadata_are_streamed_only_with_extended() -> None:
    """They are nobody's business but the developer's."""
    async with served(app_of(support("Hi."), extended=True)) as url, listening(url) as stream:
        await post(url, "/api/chat", message("Hi", "t1"))
        await stream.until("stream.ended")
    assert "usage.updated" in stream.names
    assert "metadata.updated" in stream.names


async def test_a_reader_with_a_last_event_id_gets_the_events_it_missed() -> None:
    """The run continued after the event whose id the reader sends."""
    wait, begun, go = waiting()
    app = app_of(support(tool_call("wait", {}), "done", tools=(wait,)))
    async with served(app) as url:
        async with listening(url) as first:
            await post(url, "/api/chat", message("Hi", "t1"))
            await first.until("tool_call.arguments.delta")
        await begun.wait()
        go.set()
        await wait_until_idle(app)  # nobody listens, and the run comes to its end
        async with listening(url, last_id=first.last_id) as second:
            await second.until("stream.ended")
    numbers = [chunk["sequenceNumber"] for chunk in (*first.chunks, *second.chunks)]
    assert numbers == list(range(len(numbers)))
    assert second.text == "done"
    assert second.resets == []
    async with client_of(app) as client:
        stored = (await client.get("/api/threads/t1")).json()["messages"]
    assert stored[-1]["data"]["output"][0]["content"] == "done"


async def test_a_new_reader_gets_open_runs_from_their_start() -> None:
    """A page that is loaded again: the thread without the run's own results, and the run."""
    wait, begun, go = waiting()
    replies = ["One.", "Two.", "Three.", tool_call("wait", {}), "done"]
    agents = [
        Agent(name="greeter", system="S"),
        Agent(name="clerk", system="S", tools=[wait], max_iter=2),
    ]
    network = Network(
        name="support", agents=agents, router=once, default_model=ScriptedModel(*replies)
    )
    app = app_of(network)
    await said(app, "Hi", "t1")
    async with served(app) as url:
        await post(url, "/api/chat", message("And now?", "t1", id="m-2"))
        await begun.wait()
        async with httpx.AsyncClient(headers={"x-user": "ada"}, trust_env=False) as client:
            found = (await client.get(f"{url}/api/threads/t1")).json()
        assert found["running"] == ["m-2"]
        said_ = [m.get("content") or m["data"]["output"][0]["content"] for m in found["messages"]]
        assert said_ == ["Hi", "One.", "Two.", "And now?"]
        async with listening(url) as stream:
            await stream.until("tool_call.arguments.delta")
            go.set()
            await stream.until("stream.ended")
        assert [c["sequenceNumber"] for c in stream.chunks] == list(range(len(stream.chunks)))
        assert stream.text == "Three.done"
        await wait_until_idle(app)
        async with listening(url) as later:
            model: Any = network.default_model
            model.reply("Four.", "Five.")
            await post(url, "/api/chat", message("Hi", "t2"))
            first = await later.until("run.started")
        assert first["data"]["threadId"] == "t2"  # what has ended is not repeated


@pytest.mark.parametrize("last_id", ["abc-5", "5", "-1", "x" * 999, "0-0", "é-1"])
async def test_an_unknown_last_event_id_gives_a_reset(last_id: str) -> None:
    """The id may be of another process, or invented."""
    app = app_of(support("Hi."))
    query = "" if last_id.isascii() else f"?lastEventId={last_id}"
    async with (
        served(app) as url,
        listening(url, last_id=last_id if not query else None, query=query) as stream,
    ):
        await post(url, "/api/chat", message("Hi", "t1"))
        await stream.until("stream.ended")
    assert stream.resets == [{"reason": "unknown", "lost": 0}]
    assert stream.text == "Hi."


async def test_a_last_event_id_that_was_dropped_gives_a_reset() -> None:
    """The channel keeps so much and no more."""
    app = app_of(support("Hi.", "a b c d e f g"), hub_limits=HubLimits(channel_chunks=4))
    async with served(app) as url:
        async with listening(url) as first:
            pass
        await said(app, "Hi", "t1")
        async with listening(url, last_id=first.last_id) as second:
            await post(url, "/api/chat", message("Hi", "t1"))
            await second.until("stream.ended")
    assert second.resets[0] == {"reason": "too_old", "lost": 0}


async def test_a_stream_can_be_limited_to_one_thread() -> None:
    """The user's own."""
    app = app_of(support("one", "two"))
    await said(app, "Hi", "t1")
    async with served(app) as url:
        async with listening(url, query="?threadId=t1") as stream:
            wanted = asyncio.create_task(stream.until("stream.ended"))
            await post(url, "/api/chat", message("Hi", "t2"))
            await wait_until_idle(app)
            model: Any = app.state.api.settings.target(None, None).default_model
            model.reply("three")
            await post(url, "/api/chat", message("Hi", "t1"))
            await wanted
        assert {c["data"]["threadId"] for c in stream.chunks} == {"t1"}
        async with listening(url, query="?threadId=t9") as missing:
            assert missing.response.status_code == 404


async def test_a_stream_can_be_opened_with_a_realtime_token() -> None:
    """`EventSource` sends no headers."""
    app = app_of(support("Hi."))
    async with served(app) as url:
        key = (await post(url, "/api/realtime/token", {})).json()["key"]
        async with listening(url, "nobody", query=f"?token={key}") as stream:
            await post(url, "/api/chat", message("Hi", "t1"))
            await stream.until("stream.ended")
        async with listening(url, "nobody", query=f"?token={key}x") as refused:
            assert refused.response.status_code == 401


async def test_one_stream_too_many_is_refused() -> None:
    """429 for one more; one that is closed makes room."""
    app = app_of(support(), limits=ServerLimits(streams_per_user=1))
    async with served(app) as url, listening(url):
        async with listening(url) as second:
            assert second.response.status_code == 429
        async with listening(url, "bob") as other:
            assert other.response.status_code == 200


SECRET = "sk-live-1234567890abcdef"


async def test_a_failed_run_ends_its_stream_with_a_public_message() -> None:
    """The hook shows what it says."""
    raw = Raw(status=401, json={"error": {"message": f"bad key {SECRET} at /srv/app.py line 3"}})
    async with served(app_of(support(raw))) as url, listening(url) as stream:
        await post(url, "/api/chat", message("Hi", "t1"))
        await stream.until("stream.ended")
    failed = [c["data"] for c in stream.chunks if c["event"] == "run.failed"]
    assert {data["error"] for data in failed} == {"The model could not answer."}
    assert SECRET not in str(stream.chunks)
    assert "/srv" not in str(stream.chunks)


async def test_a_reply_that_breaks_off_fails_with_a_public_message() -> None:
    """Its part fails with public words."""
    raw = Raw(reply="A long reply that is cut somewhere.", cut_after=600)
    async with served(app_of(support(raw))) as url, listening(url) as stream:
        await post(url, "/api/chat", message("Hi", "t1"))
        await stream.until("stream.ended")
    failed = [c["data"]["error"] for c in stream.chunks if c["event"].endswith("failed")]
    assert len(failed) == 3
    assert {error.count("model") for error in failed} == {1}
    assert "openai" not in str(failed)


async def test_a_thread_that_is_deleted_meanwhile_is_reported_without_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Another process may delete it, or a tool."""
    store = MemoryHistory()

    @tool
    async def wipe() -> str:
        """Delete the conversation."""
        await store.delete_thread("t1")
        return "gone"

    network = support(tool_call("wipe"), "Done.", tools=(wipe,), history=store)
    async with served(app_of(network)) as url, listening(url) as stream:
        await post(url, "/api/chat", message("Hi", "t1"))
        await stream.until("stream.ended")
    failed = [c["data"]["error"] for c in stream.chunks if c["event"] == "run.failed"]
    assert set(failed) == {"This conversation does not exist any more."}
    said_ = [one for one in caplog.records if one.levelname in ("WARNING", "ERROR")]
    assert [one.exc_info for one in said_] == [None] * len(said_)
    assert any("was deleted during a run" in one.getMessage() for one in said_)


async def test_a_run_that_never_began_ends_its_stream() -> None:
    """E.g. since its thread could not be loaded."""

    class Broken(MemoryHistory):
        async def append_rows(self, thread_id: str, rows: Any) -> None:
            raise HistoryError(f"{thread_id}: disk {SECRET} is gone")

    app = app_of(support("Hi."), history=Broken())
    async with served(app) as url, listening(url) as stream:
        await post(url, "/api/chat", message("Hi", "t1"))
        await stream.until("stream.ended")
    assert stream.names == ["error", "stream.ended"]
    assert stream.chunks[0]["data"]["error"] == "Something went wrong on the server."
    assert stream.chunks[0]["data"]["threadId"] == "t1"
    assert SECRET not in str(stream.chunks)


async def test_a_message_that_was_answered_before_ends_its_stream() -> None:
    """The stored outcome stands, and the front end stops waiting."""
    app = app_of(support("Hi."), history=MemoryHistory(lease=ThreadLease()))
    body = message("Hi", "t1", id="m-1")
    async with served(app) as url, listening(url) as stream:
        await post(url, "/api/chat", body)
        await stream.until("stream.ended")
        await wait_until_idle(app)
        await post(url, "/api/chat", body)
        await stream.until("stream.ended")
    begun = [c for c in stream.chunks if c["data"].get("scope") == "network"]
    assert [c["event"] for c in begun] == [
        "run.started", "run.completed", "stream.ended", "stream.ended"
    ]  # fmt: skip


async def test_a_run_beyond_its_time_limit_is_stopped() -> None:
    """The stream reports the reason."""
    wait, begun, _ = waiting()
    app = app_of(
        support(tool_call("wait", {}), tools=(wait,)), limits=ServerLimits(run_seconds=0.05)
    )
    async with served(app) as url, listening(url) as stream:
        await post(url, "/api/chat", message("Hi", "t1"))
        await stream.until("stream.ended")
        await wait_until_idle(app)
    assert begun.is_set()
    assert stream.names[-3:] == ["run.interrupted", "run.interrupted", "stream.ended"]


async def test_a_slow_reader_is_dropped_and_holds_no_chunks() -> None:
    """Unread chunks stay once, in the ring, and the connection is closed."""
    app = app_of(
        support("Hi."),
        hub_limits=HubLimits(channel_bytes=200_000),
        limits=ServerLimits(stream_seconds=0.2),
    )
    hub = app.state.api.hub
    async with served(app) as url:
        host, _, port = url.removeprefix("http://").partition(":")
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.setblocking(False)
        await asyncio.get_running_loop().sock_connect(slow, (host, int(port)))
        reader, writer = await asyncio.open_connection(sock=slow, limit=1024)
        writer.write(b"GET /api/stream HTTP/1.1\r\nHost: x\r\nx-user: ada\r\n\r\n")
        await reader.readuntil(b"event: ready")
        for _ in range(400):
            hub.publish("user:ada", {"event": "text.delta", "data": {"delta": "x" * 50_000}})
            assert hub.kept_bytes <= 200_000
            await asyncio.sleep(0)
        await eventually(lambda: hub.readers == 0)
        writer.close()
        async with listening(url) as next_one:
            assert next_one.response.status_code == 200


async def test_a_head_request_is_not_counted_as_a_reader() -> None:
    """A HEAD request holds no reader."""
    app = app_of(support("Hi."))
    async with served(app) as url, httpx.AsyncClient(trust_env=False) as client:
        answer = await client.head(f"{url}/api/stream", headers={"x-user": "ada"})
        assert answer.status_code == 200
        assert app.state.api.hub.readers == 0
        assert app.state.api.streams.count("ada") == 0


async def test_half_a_surrogate_pair_breaks_neither_stream_nor_thread() -> None:
    """Models cut surrogate pairs, too."""
    reply = {"choices": [{"index": 0, "finish_reason": "stop", "message": {
        "role": "assistant", "content": "half \ud83d"}}], "id": "1", "model": "gpt-4o",
        "object": "chat.completion", "created": 1}  # fmt: skip
    app = app_of(support(Raw(text=json.dumps(reply))))
    async with served(app) as url, listening(url) as stream:
        await post(url, "/api/chat", message("Hi", "t1"))
        await stream.until("stream.ended")
        await wait_until_idle(app)
        async with httpx.AsyncClient(trust_env=False, headers={"x-user": "ada"}) as client:
            answer = await client.get(f"{url}/api/threads/t1")
    assert stream.text == "half \ud83d"
    assert answer.json()["messages"][-1]["data"]["output"][0]["content"] == "half \ud83d"


async def test_a_stream_that_fails_to_open_gives_a_public_error() -> None:
    """The error has the format of all errors."""

    class Broken(MemoryHistory):
        async def get_thread(self, thread_id: str) -> Any:
            raise HistoryError(f"disk {SECRET} is gone")

    async with client_of(app_of(support(), history=Broken())) as client:
        answer = await client.get("/api/stream?threadId=t1")
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal_error"
    assert SECRET not in answer.text
