"""Cancelling runs, and the server's own end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from pathlib import Path
from typing import Any

import httpx
from websockets.asyncio.client import connect

from agentkit_py import MemoryHistory, SqliteHistory
from agentkit_py.history.leases import ThreadLease
from agentkit_py.server import ServerLimits, lifespan
from agentkit_py.testing import tool_call
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


async def test_a_cancelled_run_ends_its_stream_as_interrupted() -> None:
    """The tool is cancelled, the stream ends, and the thread continues from what was finished."""
    wait, begun, _ = waiting()
    network = support(tool_call("wait", {}), "Hello again.", tools=(wait,))
    app = app_of(network, history=MemoryHistory(lease=ThreadLease(seconds=3600)))
    async with served(app) as url, listening(url) as stream:
        await post(url, "/api/chat", message("Hi", "t1"))
        await begun.wait()
        answer = await post(url, "/api/chat/cancel", {"threadId": "t1"})
        assert answer.json() == {"success": True, "cancelled": 1}
        await stream.until("stream.ended")
        assert stream.names[-3:] == ["run.interrupted", "run.interrupted", "stream.ended"]
        again = await post(url, "/api/chat/cancel", {"threadId": "t1"})
        assert again.json() == {"success": True, "cancelled": 0}
        await said(app, "And now?", "t1")
    model: Any = network.default_model
    model.assert_finished()  # its rules refuse a history with a call that nobody answered
    async with client_of(app) as client:
        found = (await client.get("/api/threads/t1")).json()
    asked, stopped, again_, answered = found["messages"]
    assert [asked["content"], again_["content"]] == ["Hi", "And now?"]
    assert "not known" in str(stopped["data"]["toolCalls"])
    assert answered["data"]["output"][0]["content"] == "Hello again."


async def test_a_run_that_waits_for_its_thread_can_be_cancelled() -> None:
    """Both end, each with an end of its own."""
    wait, begun, _ = waiting()
    app = app_of(support(tool_call("wait", {}), tools=(wait,)))
    async with served(app) as url, listening(url) as stream:
        await post(url, "/api/chat", message("one", "t1"))
        await begun.wait()
        await post(url, "/api/chat", message("two", "t1", id="m2"))
        answer = await post(url, "/api/chat/cancel", {"threadId": "t1"})
        assert answer.json()["cancelled"] == 2
        await stream.until("stream.ended")
        await stream.until("stream.ended")
    assert stream.names.count("run.interrupted") == 3  # agent, network, and the one that waited
    ended = [one["data"]["messageId"] for one in stream.chunks if one["event"] == "stream.ended"]
    begun_as = next(one["data"]["messageId"] for one in stream.chunks)
    assert sorted(ended) == sorted([begun_as, "m2-reply"])  # where front ends show its reply


async def test_a_run_that_has_not_taken_its_first_step_can_be_cancelled() -> None:
    """The thread's lock is released."""
    app = app_of(support("Hi."))
    backend = app.state.api.backend
    async with client_of(app) as client:
        await client.post("/api/threads", json={"threadId": "t1"})
        job = asyncio.create_task(client.post("/api/chat", json=message("Hi", "t1")))
        while not backend.count:  # noqa: ASYNC110 - the next turn of the loop is too late
            await asyncio.sleep(0)
        await backend.cancel("ada", "t1")
        assert (await job).status_code == 200
        await wait_until_idle(app)
        await said(app, "Hi", "t1")
        found = (await client.get("/api/threads/t1")).json()
    assert found["messages"][-1]["type"] == "agent"


async def test_a_deleted_thread_stops_its_run() -> None:
    """The thread's entries are gone."""
    wait, begun, _ = waiting()
    app = app_of(support(tool_call("wait", {}), tools=(wait,)))
    async with client_of(app) as client:
        await client.post("/api/chat", json=message("Hi", "t1"))
        await begun.wait()
        assert (await client.delete("/api/threads/t1")).json() == {"success": True}
        await wait_until_idle(app)
        assert (await client.get("/api/threads/t1")).status_code == 404
        assert (await client.delete("/api/threads/t1")).status_code == 404


async def test_a_stopping_server_lets_runs_end() -> None:
    """The wait is limited, and no new runs begin."""
    wait, begun, go = waiting()
    app = app_of(support(tool_call("wait", {}), "done", tools=(wait,)))
    async with lifespan(app), client_of(app) as client:
        await client.post("/api/chat", json=message("Hi", "t1"))
        await begun.wait()
        stopping = asyncio.create_task(app.state.api.backend.close())
        await asyncio.sleep(0)
        refused = await client.post("/api/chat", json=message("Hi", "t2"))
        assert refused.status_code == 503
        go.set()
        await stopping
        found = (await client.get("/api/threads/t1")).json()
    assert found["messages"][-1]["data"]["output"][0]["content"] == "done"


async def test_a_stopping_server_cancels_runs_that_do_not_end(tmp_path: Any) -> None:
    """Runs that wait for a person are cancelled at once; the store is closed last."""
    wait, begun, _ = waiting()
    app = app_of(
        support(tool_call("wait", {}), tools=(wait,)),
        limits=ServerLimits(shutdown_seconds=0.01),
        history=SqliteHistory(tmp_path / "threads.db"),
    )
    async with lifespan(app), client_of(app) as client:
        await client.post("/api/chat", json=message("Hi", "t1"))
        await begun.wait()
    assert app.state.api.backend.count == 0


async def test_streams_end_with_an_event_that_says_that_the_server_stops() -> None:
    """Runs at work get their time and are then interrupted; the reader comes back elsewhere."""
    wait, begun, _ = waiting()
    app = app_of(
        support(tool_call("wait", {}), tools=(wait,)), limits=ServerLimits(shutdown_seconds=0.01)
    )
    server = contextlib.AsyncExitStack()
    url = await server.enter_async_context(served(app, timeout_graceful_shutdown=30))
    async with (
        listening(url) as busy,
        listening(url, "bob") as idle,
        listening(url, path="/api/approvals/stream") as asked,
    ):
        await post(url, "/api/chat", message("Hi", "t1"))
        await begun.wait()
        stopping = asyncio.create_task(server.aclose())
        assert await idle.next() == ("shutdown", {"reason": "shutdown"})
        assert await asked.next() == ("shutdown", {"reason": "shutdown"})
        last = await busy.until("run.interrupted")
        assert last["data"]["reason"] == "shutdown"
        await busy.until("stream.ended")
        assert await busy.next() == ("shutdown", {"reason": "shutdown"})
        assert busy.last_id is not None
        await stopping


PROGRAM = """
import asyncio, pathlib, socket, sys
import uvicorn
from agentkit_py import Agent, tool
from agentkit_py.server import create_app
from agentkit_py.testing import ScriptedModel, tool_call

@tool
async def wait() -> str:
    while not pathlib.Path(sys.argv[1]).exists():
        await asyncio.sleep(0.01)
    return "waited"

replies = [tool_call("wait", {}), "Hi."][not sys.argv[1:]:]
agent = Agent(name="clerk", system="S", model=ScriptedModel(*replies), tools=[wait])
app = create_app(agents=[agent], auth="local")
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])
"""


async def test_a_server_with_open_streams_stops_on_a_signal() -> None:
    """Readers of both kinds do not hold it up, although nothing limits the wait for them."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    port = int(await process.stdout.readline())
    url = f"http://127.0.0.1:{port}"
    async with listening(url) as stream:
        key = (await post(url, "/api/realtime/token", {})).json()["key"]
        async with connect(f"ws://127.0.0.1:{port}/v1/realtime/connect?token={key}"):
            await post(url, "/api/chat", message("Hi", "t1"))
            await stream.until("stream.ended")
            process.terminate()
            assert await process.wait() in (0, -signal.SIGTERM)


async def test_a_server_that_got_sigterm_refuses_new_messages_with_retry_after(
    tmp_path: Path,
) -> None:
    """Over new connections, too, as long as a run is given time; it then ends with its reply."""
    gate = tmp_path / "gate"
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-c", PROGRAM, str(gate)], stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    url = f"http://127.0.0.1:{int(await process.stdout.readline())}"
    async with listening(url) as stream:
        await post(url, "/api/chat", message("Hi", "t1"))
        await stream.until("tool_call.arguments.delta")
        process.terminate()
        async with httpx.AsyncClient(trust_env=False, timeout=NO_LIMIT) as client:
            while (await client.get(f"{url}/health/ready")).status_code == 200:
                pass
        async with httpx.AsyncClient(trust_env=False, timeout=NO_LIMIT) as client:
            refused = await client.post(f"{url}/api/chat", json=message("Hats?", "t2"))
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
            assert (await client.get(f"{url}/api/threads/t1")).status_code == 200
            assert (await client.get(f"{url}/health/live")).status_code == 200
        gate.touch()
        await stream.until("run.completed")
        await stream.until("stream.ended")
        assert await stream.next() == ("shutdown", {"reason": "shutdown"})
    assert await process.wait() in (0, -signal.SIGTERM)
