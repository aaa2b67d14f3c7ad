"""A server for tests: its users, its network, and a browser's place to listen."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from typing import Any
from uuid import uuid4

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request

from agentkit_py import Agent, MemoryHistory, Network, RouterContext, Tool, tool
from agentkit_py.events import ApprovalRequest
from agentkit_py.history.questions import Question
from agentkit_py.server import Hub, create_app
from agentkit_py.testing import ScriptedModel

NO_LIMIT = httpx.Timeout(None)
"""A busy machine may take its time; pytest ends a test that hangs."""


def by_header(request: Request) -> str | None:
    """The user, as tests say it; a real one has a session or a signed token."""
    return request.headers.get("x-user")


def once(context: RouterContext) -> str | None:
    """Each agent of the network, one after another."""
    names = [agent.name for agent in context.network.network.agents]
    return names[context.call_count] if context.call_count < len(names) else None


def support(*replies: Any, tools: tuple[Tool, ...] = (), **options: Any) -> Network:
    """A network of one clerk that answers from a script."""
    model = ScriptedModel(*replies)
    clerk = Agent(name="clerk", system="You sell hats.", tools=list(tools), max_iter=5)
    return Network(name="support", agents=[clerk], router=once, default_model=model, **options)


def question_of(name: str, thread: str, asked_at: datetime, *, run: str | None = None) -> Question:
    """A question of the clerk's, without calls."""
    request = ApprovalRequest(id=name, agent="clerk", timeout=inf, asked_at=asked_at)
    return Question(request=request, thread_id=thread, run_id=run)


def app_of(network: Network, **options: Any) -> Starlette:
    """The API of one network; its users are named by a header."""
    options.setdefault("auth", by_header)
    options.setdefault("approvers", ["owner"])
    options.setdefault("history", None if network.history else MemoryHistory())
    return create_app(networks=[network], **options)


@asynccontextmanager
async def client_of(
    app: Any, user: str | None = "ada", **headers: str
) -> AsyncGenerator[httpx.AsyncClient]:
    """A client in this process; it cannot stream."""
    named = {} if user is None else {"x-user": user}
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost", headers={**named, **headers}
    ) as client:
        yield client


@asynccontextmanager
async def served(app: Any, **config: Any) -> AsyncGenerator[str]:
    """A real server on loopback; gives its address."""
    listening = socket.create_server(("127.0.0.1", 0))
    options: dict[str, Any] = {"log_level": "warning", "timeout_graceful_shutdown": 5, **config}
    server = uvicorn.Server(uvicorn.Config(app, **options))
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        listening.close()


@asynccontextmanager
async def served_together(*apps: Starlette) -> AsyncGenerator[list[str]]:
    """The same as processes of one server, once each of them has heard of the others."""
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(served(app)) for app in apps]
        hubs: list[Hub] = [app.state.api.hub for app in apps]
        for number, hub in enumerate(hubs):
            channel = f"known:{number}"
            others = [stack.enter_context(one.subscribe(channel)) for one in hubs if one is not hub]
            while not all(reader.is_behind for reader in others):
                hub.publish(channel, {"event": "known", "data": {}})
                await asyncio.sleep(0.005)
        yield urls


def message(text: str, thread_id: str | None = None, **fields: Any) -> dict[str, Any]:
    """The body of `POST /api/chat` as the hook sends it."""
    thread = {} if thread_id is None else {"threadId": thread_id}
    own = {"id": str(uuid4()), "content": text, "role": "user", **fields}
    return {"userMessage": own, "history": [], "userId": "whoever", **thread}


@dataclass
class Stream:
    """Server-sent events as they come."""

    source: AsyncIterator[str]
    response: httpx.Response
    last_id: str | None = None
    chunks: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    resets: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    async def next(self) -> tuple[str, Any]:
        """Kind and data of the next event."""
        kind, data = "message", ""
        async for line in self.source:
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name == "id":
                self.last_id = value
            elif name == "data":
                data += value
            elif not line and data:
                return kind, json.loads(data)
        raise EOFError

    async def until(self, wanted: Callable[[Mapping[str, Any]], bool] | str) -> dict[str, Any]:
        """The next chunk of this event, or that is wanted; all before it are kept."""
        while True:
            kind, data = await self.next()
            if kind == "reset":
                self.resets.append(data)
            if kind != "message":
                continue
            self.chunks.append(data)
            if data["event"] == wanted if isinstance(wanted, str) else wanted(data):
                return data

    @property
    def names(self) -> list[str]:
        """The events that have come."""
        return [chunk["event"] for chunk in self.chunks]

    @property
    def text(self) -> str:
        """The text of the deltas."""
        return "".join(c["data"]["delta"] for c in self.chunks if c["event"] == "text.delta")


@asynccontextmanager
async def listening(
    url: str,
    user: str = "ada",
    last_id: str | None = None,
    query: str = "",
    path: str = "/api/stream",
) -> AsyncGenerator[Stream]:
    """A reader of the user's channel that is connected."""
    headers = {"x-user": user} | ({} if last_id is None else {"last-event-id": last_id})
    async with (
        httpx.AsyncClient(timeout=NO_LIMIT, trust_env=False) as client,
        client.stream("GET", f"{url}{path}{query}", headers=headers) as response,
    ):
        stream = Stream(response.aiter_lines(), response)
        if response.status_code == 200:
            kind, _ = await stream.next()
            assert kind == "ready"
        yield stream


async def post(url: str, path: str, body: Any, user: str = "ada") -> httpx.Response:
    """One request to a served app."""
    async with httpx.AsyncClient(timeout=NO_LIMIT, trust_env=False) as client:
        return await client.post(f"{url}{path}", json=body, headers={"x-user": user})


async def eventually(check: Callable[[], bool]) -> None:
    """Wait until the server has noticed what nobody can tell us of."""
    while not check():  # noqa: ASYNC110 - a closed connection sets no event here
        await asyncio.sleep(0.005)


async def wait_until_idle(app: Starlette) -> None:
    """Wait until no run is under way."""
    await app.state.api.backend.idle()


async def said(app: Starlette, text: str, thread_id: str, user: str = "ada", **fields: Any) -> None:
    """Send a message, and wait for the run's end."""
    async with client_of(app, user) as client:
        answer = await client.post("/api/chat", json=message(text, thread_id, **fields))
        assert answer.status_code == 200, answer.text
    await wait_until_idle(app)


def waiting() -> tuple[Tool, asyncio.Event, asyncio.Event]:
    """A tool that waits; an event that says it was called, and one that lets it continue."""
    begun, go = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        await go.wait()
        return "waited"

    return wait, begun, go
