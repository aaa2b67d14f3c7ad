"""Twenty open streams, and the process that works on their replies is killed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from tests.server.test_front_ends import events_in, run_input
from tests.server.test_workers import get, until
from tests.server.world import NO_LIMIT, message, post

STREAMS = ("ag-ui", "vercel", "hook")
RUNS = 20


@asynccontextmanager
async def worker(place: str) -> AsyncGenerator[tuple[str, asyncio.subprocess.Process]]:
    """A process whose tools hang; gives its address."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.server.hanging_worker", place),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(await process.stdout.readline())}", process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def begin(url: str, number: int) -> None:
    """Begin a run whose tool hangs; every second one was approved by its user before."""
    user, thread_id = f"u{number}", f"t{number}"
    word = "refund" if number % 2 else "hang"
    await post(url, "/api/chat", message(word, thread_id, id="m1"), user)
    if number % 2 == 0:
        return

    async def asked() -> Any:
        return (await get(url, f"/api/threads/{thread_id}", user))["pending"]

    (question,) = await until(asked)
    path = f"/api/approvals/{question['id']}"
    approved = await post(url, path, {"action": "approve"}, user)
    assert approved.status_code == 200, approved.text


async def read(url: str, number: int, begun: asyncio.Semaphore) -> tuple[str, bool]:
    """Read a reply to its end, which has to be an error; return it and whether to send again."""
    stream = STREAMS[number % len(STREAMS)]
    paths = {"ag-ui": "/api/ag-ui", "vercel": f"/api/vercel/t{number}/stream"}
    body = run_input(thread_id=f"t{number}") if stream == "ag-ui" else None
    method, path = "POST" if body else "GET", paths.get(stream, "/api/stream")
    headers = {"x-user": f"u{number}"}
    last: dict[str, Any] = {}
    has_begun = False
    async with (
        httpx.AsyncClient(timeout=NO_LIMIT, trust_env=False, headers=headers) as client,
        client.stream(method, f"{url}{path}", json=body) as response,
    ):
        assert response.status_code == 200, (stream, response.status_code)
        async for line in response.aiter_lines():
            for event in events_in(line):
                if not has_begun and "topic" not in event:
                    has_begun = True
                    begun.release()
                if event.get("event") == "stream.ended":
                    return str(last.get("event")), bool(last["data"].get("recoverable"))
                last = event
    words = str(last.get("message") or last.get("errorText"))
    return str(last["type"]), "again" in words


async def running(url: str, number: int) -> list[str]:
    """The messages that a process knows to be answered."""
    return (await get(url, f"/api/threads/t{number}", f"u{number}"))["running"]


async def kill_with_open_streams(place: str) -> None:
    """Let the readers of one process follow the runs of another, which dies."""
    begun = asyncio.Semaphore(0)
    async with worker(place) as (dying, process), worker(place) as (other, _):
        await asyncio.gather(*(begin(dying, number) for number in range(RUNS)))

        for number in range(RUNS):  # the other process has heard of it
            await until(partial(running, other, number))
        reading = [asyncio.create_task(read(other, number, begun)) for number in range(RUNS)]
        for _ in range(RUNS):
            await begun.acquire()
        process.kill()
        await process.wait()
        ends = await asyncio.gather(*reading)
    assert {again for _, again in ends} == {True}
    assert {kind for kind, _ in ends} == {"RUN_ERROR", "error"}


async def test_every_reader_of_a_killed_worker_on_sqlite_gets_an_end(tmp_path: Path) -> None:
    """Of plain runs, and of those that a person had approved."""
    await kill_with_open_streams(str(tmp_path / "shop.db"))


async def test_every_reader_of_a_killed_worker_on_postgresql_gets_an_end(
    postgres_url: str, postgres_schema: str
) -> None:
    """The same on a server."""
    await kill_with_open_streams(f"{postgres_url} {postgres_schema}")
