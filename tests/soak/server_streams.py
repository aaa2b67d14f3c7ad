"""Many streams of the HTTP API at once, slow and vanishing readers among them. Prints a table.

``python tests/soak/server_streams.py`` has 200 users, ``--users 40`` as many as you say. Each user
listens to one stream and sends messages, one after another; the server runs in a process of its
own. Of ten users seven read as fast as they can, one reads slowly, one goes away in the middle and
comes back with ``Last-Event-ID``, and one goes away for good.

Checked, not only measured: every run comes to its end and is stored whole; what a reader gets is in
order and without a gap, also over a break, unless the server says that something was lost; no more
is kept than the hub's limits allow.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import resource
import socket
import statistics
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse

from agentkit_py import Agent, Network, RouterContext
from agentkit_py.server import HubLimits, ServerLimits, create_app
from agentkit_py.testing import ScriptedModel
from agentkit_py.testing.provider import Raw

CHANNEL_BYTES = 256 * 1024
TEXT = "The order was sent on Monday and will be with you soon. " * 20
KINDS = ("fast",) * 7 + ("slow", "comes back", "goes away")
PATIENCE = 300.0
SEND_BUFFER = 16 * 1024


# The server.


def by_header(request: Request) -> str | None:
    """The user, as this benchmark names it."""
    return request.headers.get("x-user")


def only_clerk(context: RouterContext) -> str | None:
    """One agent turn."""
    return "clerk" if context.call_count == 0 else None


def memory_now() -> int:
    """Bytes that this process has in memory; 0 where the system does not say."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    found = (int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
    return next(found, 0) * 1024


def make_app(replies: int, stall: float) -> Starlette:
    """The API of a network whose model writes the same text in many pieces."""
    model = ScriptedModel(*[Raw(reply=TEXT, pause=0.002)] * replies)
    network = Network(
        name="support",
        agents=[Agent(name="clerk", system="S")],
        router=only_clerk,
        default_model=model,
    )
    app = create_app(
        networks=[network],
        auth=by_header,
        limits=ServerLimits(runs=100_000, runs_per_user=1000, stream_seconds=stall),
        hub_limits=HubLimits(channel_bytes=CHANNEL_BYTES),
    )

    async def figures(_request: Request) -> JSONResponse:
        hub = app.state.api.hub
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return JSONResponse(
            {
                "rss": memory_now(),
                "peak": usage.ru_maxrss * 1024,
                "cpu": usage.ru_utime + usage.ru_stime,
                "kept": hub.kept_bytes,
                "readers": hub.readers,
                "runs": app.state.api.backend.count,
            }
        )

    app.add_route("/figures", figures)
    return app


def serve(replies: int, stall: float) -> None:
    """Say the port and serve."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    # The system would buffer megabytes for each slow reader, so that none would look slow.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(make_app(replies, stall), log_level="critical", access_log=False)
    uvicorn.Server(config).run(sockets=[listening])


@contextlib.asynccontextmanager
async def server(replies: int, stall: float) -> AsyncGenerator[str]:
    """The server in a process of its own; gives its address."""
    arguments = [__file__, "--serve", str(replies), "--stall", str(stall)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    port = int(await process.stdout.readline())
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


# The readers.


@dataclass
class Reader:
    """One user: what it has got."""

    number: int
    kind: str
    messages: int
    last_id: str | None = None
    chunks: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    lost: int = 0
    """The number of times the server reported a loss."""

    waits: list[float] = field(default_factory=list[float])
    """Seconds from sending a message to the first piece of its answer."""

    breaks: int = 0

    @property
    def name(self) -> str:
        """The user's id."""
        return f"user-{self.number}"

    def take(self, kind: str, data: Any, event_id: str | None) -> str | None:
        """Take an event; gives the chunk's name."""
        self.last_id = event_id or self.last_id
        if kind == "reset":
            self.lost += 1
            self.chunks.clear()  # what comes now need not follow what came before
        if kind != "message":
            return None
        self.chunks.append(data)
        return data["event"]

    def check(self) -> int:
        """Return the number of chunks, each checked to follow the one before it in its run.

        Raises:
            AssertionError: One is missing or out of order.
        """
        expected: dict[str, int] = {}
        for chunk in self.chunks:
            thread, number = chunk["data"]["threadId"], chunk["sequenceNumber"]
            # After a reset the first of a thread may be any.
            wanted = expected.get(thread, number if self.lost else 0)
            assert number == wanted, (self.name, self.kind, thread, number, wanted)
            expected[thread] = number + 1
        return len(self.chunks)


async def parsed(lines: AsyncIterator[str]) -> AsyncGenerator[tuple[str, Any, str | None]]:
    """Server-sent events: kind, data and id."""
    kind, data, event_id = "message", "", None
    async for line in lines:
        name, _, value = line.partition(": ")
        if name == "event":
            kind = value
        elif name == "id":
            event_id = value
        elif name == "data":
            data = value
        elif not line and data:
            yield kind, json.loads(data), event_id
            kind, data, event_id = "message", "", None


@dataclass
class Load:
    """All of it."""

    url: str
    client: httpx.AsyncClient

    async def send(self, reader: Reader, number: int) -> float:
        """Send a message; gives when."""
        body = {
            "userMessage": {"content": f"Message {number}", "role": "user"},
            "threadId": f"{reader.name}-{number}",
        }
        begun = time.perf_counter()
        answer = await self.client.post("/api/chat", json=body, headers={"x-user": reader.name})
        assert answer.status_code == 200, answer.text
        return begun

    async def stored(self, reader: Reader, number: int) -> bool:
        """Return whether the answer is in the store, whole."""
        path = f"/api/threads/{reader.name}-{number}"
        found = (await self.client.get(path, headers={"x-user": reader.name})).json()
        last = found["messages"][-1]
        return last["type"] == "agent" and last["data"]["output"][0]["content"] == TEXT

    @contextlib.asynccontextmanager
    async def stream(
        self, reader: Reader
    ) -> AsyncGenerator[AsyncGenerator[tuple[str, Any, str | None]]]:
        """A connection of the user's."""
        headers = {"x-user": reader.name}
        if reader.last_id is not None:
            headers["last-event-id"] = reader.last_id
        async with self.client.stream("GET", "/api/stream", headers=headers) as response:
            assert response.status_code == 200
            yield parsed(response.aiter_lines())

    async def read_all(self, reader: Reader, *, leave_after: int = 0, pause: float = 0.0) -> None:
        """Listen and send, until all messages are answered, or the reader leaves."""
        async with self.stream(reader) as events:
            begun, answered, sent = 0.0, 0, 0
            async for kind, data, event_id in events:
                event = reader.take(kind, data, event_id)
                if kind == "ready" or event == "stream.ended":
                    answered += event is not None
                    if answered == reader.messages:
                        return
                    begun = await self.send(reader, sent)
                    sent += 1
                elif event == "text.delta" and begun:
                    reader.waits.append(time.perf_counter() - begun)
                    begun = 0.0
                if leave_after and len(reader.chunks) >= leave_after:
                    return
                if pause:
                    await asyncio.sleep(pause)

    async def come_back(self, reader: Reader) -> None:
        """Go away in the middle of each answer, and come back for the rest of it."""
        for number in range(reader.messages):
            async with self.stream(reader) as events:
                async for kind, data, event_id in events:
                    event = reader.take(kind, data, event_id)
                    if kind == "ready":
                        await self.send(reader, number)
                    if event == "text.delta" and reader.chunks[-1]["sequenceNumber"] > 20:
                        break
            reader.breaks += 1
            await asyncio.sleep(0.1)
            async with self.stream(reader) as events:
                async for kind, data, event_id in events:
                    if reader.take(kind, data, event_id) == "stream.ended":
                        break

    async def crawl(self, reader: Reader) -> None:
        """Take so little that all buffers fill, until the server closes; then come back."""
        source, writer = await self._slow_connection(reader)
        for number in range(reader.messages):
            await self.send(reader, number)
        await self.until_idle(reader)
        rest = b""
        with contextlib.suppress(OSError):  # until the server has closed, or there is no more
            while rest.count(b'"stream.ended"') < reader.messages:
                piece = await source.read(65536)
                rest += piece
                if not piece:
                    break
        await self._take_rest(reader, rest)
        writer.close()
        reader.breaks += 1
        ends = sum(chunk["event"] == "stream.ended" for chunk in reader.chunks)
        if ends == reader.messages:
            return
        async with self.stream(reader) as events:
            async for kind, data, event_id in events:
                event = reader.take(kind, data, event_id)
                ends += event == "stream.ended"
                if ends == reader.messages or kind == "reset":
                    return

    async def _slow_connection(
        self, reader: Reader
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, _, port = self.url.removeprefix("http://").partition(":")
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        slow.setblocking(False)
        await asyncio.get_running_loop().sock_connect(slow, (host, int(port)))
        source, writer = await asyncio.open_connection(sock=slow, limit=2048)
        # 1.0: without chunked encoding, so that the bytes are the events.
        request = f"GET /api/stream HTTP/1.0\r\nHost: x\r\nx-user: {reader.name}\r\n\r\n"
        writer.write(request.encode())
        await source.readuntil(b"\r\n\r\n")
        return source, writer

    async def _take_rest(self, reader: Reader, rest: bytes) -> None:
        """Take the rest of the stream before it was closed, without a cut event."""
        whole = rest.decode(errors="ignore").rpartition("\n\n")[0] + "\n\n"

        async def lines() -> AsyncGenerator[str]:
            for line in whole.splitlines():
                yield line
            yield ""

        async for kind, data, event_id in parsed(lines()):
            reader.take(kind, data, event_id)

    async def until_idle(self, reader: Reader) -> None:
        """Wait until the user's runs are over, without listening."""
        for number in range(reader.messages):
            while not await self.answered(reader, number):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.5)

    async def answered(self, reader: Reader, number: int) -> bool:
        """Return whether nothing runs in a thread any more."""
        path = f"/api/threads/{reader.name}-{number}"
        found = (await self.client.get(path, headers={"x-user": reader.name})).json()
        return not found["running"] and len(found["messages"]) > 1

    async def leave(self, reader: Reader) -> None:
        """Send everything, hear a little, and never come back."""
        for number in range(reader.messages):
            async with self.stream(reader) as events:
                async for kind, data, event_id in events:
                    reader.take(kind, data, event_id)
                    if kind == "ready":
                        await self.send(reader, number)
                    if reader.chunks and reader.chunks[-1]["sequenceNumber"] > 10:
                        break
            reader.last_id = None
            reader.check()
            reader.chunks.clear()
        await self.until_idle(reader)

    async def act(self, reader: Reader) -> None:
        """One user, as it is."""
        how = {"slow": self.crawl, "comes back": self.come_back, "goes away": self.leave}
        async with asyncio.timeout(PATIENCE):
            await how.get(reader.kind, self.read_all)(reader)


async def watch(client: httpx.AsyncClient, seen: list[dict[str, Any]]) -> None:
    """Ask the server for its figures, over and over."""
    while True:
        seen.append((await client.get("/figures")).json())
        await asyncio.sleep(0.1)


async def at_rest(client: httpx.AsyncClient) -> dict[str, Any]:
    """The figures once the server has noticed that everybody is gone."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = (await client.get("/figures")).json()
            if not found["readers"] and not found["runs"]:
                return found
            await asyncio.sleep(0.1)


async def measure(users: int, messages: int, stall: float) -> dict[str, float]:
    """Run the load, check it, and give the figures."""
    readers = [Reader(n, KINDS[n % len(KINDS)], messages) for n in range(users)]
    # Shorter than the server keeps idle connections, which would close under a request.
    limits = httpx.Limits(max_connections=None, keepalive_expiry=1.0)
    async with (
        server(users * messages, stall) as url,
        httpx.AsyncClient(base_url=url, timeout=PATIENCE, limits=limits, trust_env=False) as client,
    ):
        load = Load(url, client)
        before = (await client.get("/figures")).json()
        seen: list[dict[str, Any]] = [before]
        watching = asyncio.create_task(watch(client, seen))
        begun = time.perf_counter()
        try:
            await asyncio.gather(*(load.act(reader) for reader in readers))
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        seconds = time.perf_counter() - begun
        after = await at_rest(client)
        whole = await asyncio.gather(
            *(load.stored(reader, number) for reader in readers for number in range(messages))
        )
    return figures_of(readers, [*seen, after], whole, seconds)


def figures_of(
    readers: list[Reader], seen: list[dict[str, Any]], whole: list[bool], seconds: float
) -> dict[str, float]:
    """The figures, and what must be so of them."""
    kinds = Counter(reader.kind for reader in readers)
    got = sum(reader.check() for reader in readers)
    for reader in readers:
        if reader.kind in ("fast", "comes back"):
            ends = [c for c in reader.chunks if c["event"] == "stream.ended"]
            assert len(ends) == reader.messages, (reader.name, reader.kind, len(ends))
            assert reader.lost == 0, (reader.name, reader.kind)
    before, after = seen[0], seen[-1]
    kept = max(one["kept"] for one in seen)
    assert all(whole), f"{whole.count(False)} answers are not stored whole"
    assert after["runs"] == 0, f"{after['runs']} runs have not ended"
    assert kept <= CHANNEL_BYTES * len(readers)
    waits = sorted(wait for reader in readers for wait in reader.waits)
    return {
        "users": len(readers),
        **{f"users, {kind}": count for kind, count in sorted(kinds.items())},
        "runs": len(whole),
        "runs stored whole": whole.count(True),
        "chunks read": got,
        "chunks read per second": got / seconds,
        "breaks that were gone on from": sum(reader.breaks for reader in readers),
        "readers at once, at most": max(one["readers"] for one in seen),
        "readers left at the end": after["readers"],
        "first piece after, median, ms": 1000 * statistics.median(waits),
        "first piece after, 99 %, ms": 1000 * waits[int(0.99 * (len(waits) - 1))],
        "kept in rings at most, KB": kept / 1024,
        "memory before, MB": before["rss"] / 2**20,
        "memory at most, MB": max(one["rss"] for one in seen) / 2**20,
        "memory at the end, MB": after["rss"] / 2**20,
        "server's CPU, s": after["cpu"] - before["cpu"],
        "seconds": seconds,
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--messages", type=int, default=2, help="of each user")
    parser.add_argument("--stall", type=float, default=1.0, help="seconds a reader may not read")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve is not None:
        serve(chosen.serve, chosen.stall)
        return
    figures = asyncio.run(measure(chosen.users, chosen.messages, chosen.stall))
    if chosen.json:
        print(json.dumps(figures))
        return
    print("| | |\n| --- | ---: |")
    for name, value in figures.items():
        print(f"| {name} | {value:,.0f} |" if value >= 100 else f"| {name} | {value:,.3g} |")


if __name__ == "__main__":
    main()
