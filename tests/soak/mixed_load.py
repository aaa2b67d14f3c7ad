"""Mixed load on two worker processes of one store; prints what was lost, doubled, and how slow.

``python tests/soak/mixed_load.py --minutes 10`` uses an SQLite file, ``--store postgres`` a server.
Users chat and read on either worker, some answer questions, some read slowly and many leave and
come back. One worker is killed and started again all the time, the other one lives for the whole
load: its memory says whether anything grows.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]
PORTS = [0, 0]
SERVED: dict[int, asyncio.subprocess.Process] = {}
TOOK: list[float] = []
SAID: dict[str, list[str]] = {}
SEEN: Counter[str] = Counter()
MEMORY: list[float] = []
ANSWERED = 200
ANSWER = "We have straw hats and felt hats in all sizes."
GIVEN_UP = 20.0
"""Seconds for which a message is tried."""


def serve(place: str, port: int) -> None:
    """Serve on a port: each fourth message asks for an approval."""
    import uvicorn  # noqa: PLC0415 - only workers need it

    from agentkit_py import Agent, SqliteHistory, TextMessage, tool  # noqa: PLC0415 - of the workers
    from agentkit_py.messages import ToolCall, ToolCallMessage  # noqa: PLC0415 - of the workers
    from agentkit_py.models import function_model  # noqa: PLC0415 - of the workers
    from agentkit_py.models.base import ModelReply  # noqa: PLC0415 - of the workers
    from agentkit_py.processors import MessageWindow  # noqa: PLC0415 - of the workers
    from agentkit_py.server import create_app  # noqa: PLC0415 - of the workers
    from agentkit_py.stores import PostgresHistory, ThreadLease  # noqa: PLC0415 - of the workers

    @tool(needs_approval=True)
    def refund(amount: int) -> str:
        """Pay back."""
        return f"paid {amount}"

    async def reply(request: Any) -> Any:
        await asyncio.sleep(0.05)
        last = request.messages[-1]
        if isinstance(last, TextMessage) and "refund" in last.text:
            call = ToolCall(f"c{time.time_ns()}", "refund", {"amount": 3})
            return ModelReply(messages=(ToolCallMessage([call]),))
        return ANSWER

    lease = ThreadLease(seconds=5)
    kind = PostgresHistory if "://" in place else SqliteHistory
    clerk = Agent(
        name="clerk",
        system="You sell hats.",
        model=function_model(reply),
        tools=[refund],
        processors=[MessageWindow(20)],
    )
    app = create_app(
        agents=[clerk],
        history=kind(place, lease=lease),
        auth=lambda request: request.headers.get("x-user"),
        approvers=["owner"],
    )
    uvicorn.run(app, port=port, log_level="error")


async def start(place: str, index: int) -> None:
    """Start a worker, and wait until it serves."""
    command = [sys.executable, __file__, "--serve", place, "--port", str(PORTS[index])]
    SERVED[index] = await asyncio.create_subprocess_exec(*command, cwd=ROOT)
    async with httpx.AsyncClient(trust_env=False) as client:
        while SERVED[index].returncode is None:
            with suppress(httpx.HTTPError):
                url = f"http://127.0.0.1:{PORTS[index]}/health/ready"
                if (await client.get(url)).status_code == ANSWERED:
                    return
            await asyncio.sleep(0.2)


def url() -> str:
    """Return one of the workers."""
    return f"http://127.0.0.1:{random.choice(PORTS)}"  # noqa: S311 - no secret


async def read(user: str, client: httpx.AsyncClient, news: asyncio.Event) -> None:
    """Read the user's stream, leave now and then, and come back to any worker."""
    slow = user.endswith("7")
    while True:
        leave = time.monotonic() + random.uniform(3, 30)  # noqa: S311 - no secret
        with suppress(httpx.HTTPError):
            async with client.stream("GET", f"{url()}/api/stream") as stream:
                async for line in stream.aiter_lines():
                    if "stream.ended" in line or "hitl.requested" in line:
                        SEEN["ends"] += 1
                        news.set()
                    SEEN["resets"] += "event: reset" in line
                    if slow:
                        await asyncio.sleep(0.05)
                    if time.monotonic() > leave:
                        break
        await asyncio.sleep(0.1)


async def say(user: str, number: int, client: httpx.AsyncClient, news: asyncio.Event) -> None:
    """Send a message until a worker takes it, and wait for its end."""
    text = "A refund, please" if number % 4 == 0 else "Any hats?"
    name = f"{user}-{number}"
    body = {"userMessage": {"content": text, "id": name}, "threadId": f"t-{user}"}
    began = time.monotonic()
    news.clear()
    while True:
        with suppress(httpx.HTTPError):
            done = await client.post(f"{url()}/api/chat", json=body)
            if done.status_code == ANSWERED:
                break
            SEEN[f"refused with {done.status_code}"] += 1
        if time.monotonic() - began > GIVEN_UP:
            SEEN["given up"] += 1
            return
        await asyncio.sleep(0.2)
    SAID.setdefault(user, []).append(name)
    try:
        async with asyncio.timeout(20):
            await news.wait()
            TOOK.append(time.monotonic() - began)
    except TimeoutError:
        SEEN["no end seen within 20 s"] += 1
    if "refund" in text:
        await approve(client)


async def approve(client: httpx.AsyncClient) -> None:
    """Answer all questions of the user, on any worker that lives."""
    for _ in range(40):
        with suppress(httpx.HTTPError):
            found = (await client.get(f"{url()}/api/approvals")).json()["approvals"]
            for one in found:
                where = f"{url()}/api/approvals/{one['id']}"
                done = await client.post(where, json={"action": "approve"})
                SEEN[f"approvals answered with {done.status_code}"] += 1
            if found:
                return
        await asyncio.sleep(0.5)


async def use(user: str, until: float) -> None:
    """Be one user."""
    news = asyncio.Event()
    headers = {"x-user": user}
    async with httpx.AsyncClient(headers=headers, timeout=30, trust_env=False) as client:
        reading = asyncio.create_task(read(user, client, news))
        number = 1
        while time.monotonic() < until:
            await say(user, number, client, news)
            number += 1
            await asyncio.sleep(random.uniform(0.2, 2))  # noqa: S311 - no secret
        reading.cancel()


async def kill(place: str, until: float, seconds: float) -> None:
    """Kill the first worker again and again, and note the memory of the other one."""
    while time.monotonic() < until - seconds:
        await asyncio.sleep(seconds)
        MEMORY.append(psutil.Process(SERVED[1].pid).memory_info().rss / 2**20)
        SERVED[0].send_signal(signal.SIGKILL)
        await SERVED[0].wait()
        SEEN["kills"] += 1
        await start(place, 0)


async def check() -> tuple[int, int, int]:
    """Return messages that are lost, doubled, and without an answer, after the load."""
    lost = doubled = unanswered = 0
    for user, names in SAID.items():
        async with httpx.AsyncClient(headers={"x-user": user}, timeout=60) as client:
            kept: list[dict[str, Any]] = []
            before = ""
            while True:
                page = await client.get(f"{url()}/api/threads/t-{user}?limit=100{before}")
                found = page.json()
                kept = [*found["messages"], *kept]
                if not found["hasMore"]:
                    break
                before = f"&before={kept[0]['position']}"
        counts = Counter(m["message_id"] for m in kept)
        lost += sum(not counts[name] for name in names)
        doubled += sum(count > 1 for count in counts.values())
        answers = sum(ANSWER in json.dumps(m) for m in kept if m["type"] != "user")
        unanswered += sum(m["type"] == "user" for m in kept) - answers
    return lost, doubled, unanswered


async def main(given: argparse.Namespace, place: str) -> None:
    """Run the load, and print the figures."""
    for index in range(2):
        with socket.create_server(("127.0.0.1", 0)) as free:
            PORTS[index] = free.getsockname()[1]
        await start(place, index)
    until = time.monotonic() + 60 * given.minutes
    users = [use(f"u{number}", until) for number in range(given.users)]
    try:
        await asyncio.gather(kill(place, until, given.kill), *users)
        await asyncio.sleep(6)  # leases of runs that were killed are over
        lost, doubled, unanswered = await check()
    finally:
        for one in SERVED.values():
            one.terminate()
    said = sum(map(len, SAID.values()))
    took = sorted(TOOK) or [0.0]
    print(json.dumps({**SEEN, "said": said, "lost": lost, "doubled": doubled}))
    print(f"without an answer (their worker was killed, or they wait for a person): {unanswered}")
    ninety_nine = took[int(len(took) * 0.99)]
    print(
        f"seconds to the end of an answer: median {took[len(took) // 2]:.2f}, p99 {ninety_nine:.2f}"
    )
    print(
        "MiB of the worker that is not killed, before each kill:", *(f"{one:.0f}" for one in MEMORY)
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument("--kill", type=float, default=30, help="seconds between two kills")
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.port)
    else:
        with ExitStack() as stack:
            if options.store == "sqlite":
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                asyncio.run(main(options, os.path.join(folder, "t.db")))  # noqa: PTH118 - a text
            else:
                from benchmarks.knowledge import server

                asyncio.run(main(options, stack.enter_context(server())))
