"""An approval that outlives its worker: asked on one, answered on another, told on a third."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from agentkit_py.errors import ThreadNotFoundError
from tests.server.worker import store_of
from tests.server.world import NO_LIMIT, listening, message, post


@asynccontextmanager
async def worker(
    place: str, paid: Path, *script: str
) -> AsyncGenerator[tuple[str, asyncio.subprocess.Process]]:
    """A process that serves the shop; gives its address."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.server.worker", place, str(paid), *script),
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


async def get(url: str, path: str, user: str) -> Any:
    """The JSON of one request."""
    async with httpx.AsyncClient(timeout=NO_LIMIT, trust_env=False) as client:
        return (await client.get(f"{url}{path}", headers={"x-user": user})).json()


async def until(ask: Callable[[], Awaitable[Any]]) -> Any:
    """The first answer that says something; only the other process knows when."""
    while not (found := await ask()):  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.05)
    return found


async def told(url: str, path: str) -> str:
    """Everything that ada's page gets of the reply, to its end."""
    async with (
        httpx.AsyncClient(timeout=NO_LIMIT, trust_env=False) as client,
        client.stream("GET", f"{url}{path}", headers={"x-user": "ada"}) as answer,
    ):
        return "".join([piece async for piece in answer.aiter_text()])


async def refund_with_a_kill(place: str, paid: Path) -> None:
    """A refund asked for on one worker, which is killed, approved on another, told on a third."""
    async with worker(place, paid) as (first, process):
        await post(first, "/api/chat", message("Money back!", "t", id="m1"))
        async with store_of(place) as store:
            await until(partial(is_paused, store))
        process.kill()
        await process.wait()
    assert paid_in(paid) == []
    rest = "Your money is on its way."
    async with worker(place, paid, rest) as (second, _), worker(place, paid, rest) as (third, _):
        (question,) = (await get(second, "/api/approvals", "mia"))["approvals"]
        path = f"/api/approvals/{question['id']}"
        refused = [(await post(second, path, {"action": "approve"}, u)).status_code for u in WHO]
        assert (refused, paid_in(paid)) == ([403, 404], [])
        page = asyncio.create_task(told(third, "/api/vercel/t/stream"))
        async with listening(second) as stream:
            body = {"action": "approve", "reason": "late train"}
            assert (await post(second, path, body, "mia")).status_code == 200
            await stream.until("stream.ended")
        assert "on its way" in stream.text
        assert "on its way" in await page
        assert (await post(third, path, body, "mia")).status_code == 409
        answered = (await get(third, "/api/approvals?status=answered", "mia"))["approvals"]
        assert [(one["answeredBy"], one["reason"]) for one in answered] == [("mia", "late train")]
        thread = await get(third, "/api/threads/t", "ada")
    assert paid_in(paid) == ["249"]
    assert thread["pending"] == []
    assert "on its way" in str(thread["messages"][-1])


WHO = ("ada", "bob")


def paid_in(file: Path) -> list[str]:
    """The amounts that were paid."""
    return file.read_text().split() if file.exists() else []


async def is_paused(store: Any) -> bool:
    """Return whether the run is stored, so that any process can continue with it."""
    with suppress(ThreadNotFoundError):
        run = await store.load_run("t", "m1")
        return run is not None and run.status == "paused"
    return False


async def test_a_refund_on_sqlite_is_paid_once_although_its_worker_was_killed(
    tmp_path: Path,
) -> None:
    """Workers share a file."""
    await refund_with_a_kill(str(tmp_path / "shop.db"), tmp_path / "paid")


async def test_a_refund_on_postgresql_is_paid_once_although_its_worker_was_killed(
    tmp_path: Path, postgres_url: str, postgres_schema: str
) -> None:
    """Workers share a server."""
    await refund_with_a_kill(f"{postgres_url} {postgres_schema}", tmp_path / "paid")
