"""Health endpoints, as a load balancer and an orchestrator ask them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import jsonschema

from agentkit_py import MemoryHistory, SqliteHistory
from agentkit_py.errors import HistoryError
from agentkit_py.server import ServerLimits, lifespan
from agentkit_py.testing import tool_call
from tests.server.test_openapi import schema_of
from tests.server.world import app_of, client_of, message, support, waiting


class FailingHistory(MemoryHistory):
    """A store that can be broken."""

    broken = False

    async def thread_exists(self, thread_id: str) -> bool:
        if self.broken:
            raise HistoryError("postgresql://agentkit@10.0.0.7 refused the connection")
        return await super().thread_exists(thread_id)


class SlowHistory(MemoryHistory):
    """A store that answers when it is told to, and counts what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.answer = asyncio.Event()

    async def thread_exists(self, thread_id: str) -> bool:
        self.asked += 1
        await self.answer.wait()
        return await super().thread_exists(thread_id)


def refused_with(answer: httpx.Response) -> str:
    """The code of a 503 that is as the document says."""
    assert answer.status_code == 503
    jsonschema.validate(answer.json(), schema_of("GET", "/health/ready", 503))
    return answer.json()["error"]["code"]


async def test_a_server_that_works_is_alive_and_ready_for_anybody() -> None:
    """Probes have no user."""
    async with client_of(app_of(support()), user=None) as client:
        answers = [await client.get(f"/health/{name}") for name in ("live", "ready")]
    assert [(one.status_code, one.json()) for one in answers] == [(200, {"status": "ok"})] * 2


async def test_a_server_with_a_database_file_is_ready(tmp_path: Path) -> None:
    """The question suits a real store."""
    app = app_of(support(), history=SqliteHistory(tmp_path / "threads.db"))
    async with lifespan(app), client_of(app, user=None) as client:
        assert (await client.get("/health/ready")).status_code == 200


async def test_a_server_without_its_store_is_alive_and_not_ready_until_it_is_back() -> None:
    """A restart would not bring the store back, and its address is for the log."""
    store = FailingHistory()
    async with client_of(app_of(support(), history=store), user=None) as client:
        store.broken = True
        answer = await client.get("/health/ready")
        assert refused_with(answer) == "store"
        assert "10.0.0.7" not in answer.text
        assert (await client.get("/health/live")).status_code == 200
        store.broken = False
        assert (await client.get("/health/ready")).status_code == 200


async def test_a_store_that_does_not_answer_in_time_is_asked_once() -> None:
    """However many probes there are; and no probe waits for ever."""
    store = SlowHistory()
    app = app_of(support(), history=store, limits=ServerLimits(health_seconds=0.01))
    async with client_of(app, user=None) as client:
        answers = await asyncio.gather(*(client.get("/health/ready") for _ in range(5)))
        answers.append(await client.get("/health/ready"))
        assert {refused_with(one) for one in answers} == {"store"}
        assert store.asked == 1
        store.answer.set()
        await asyncio.sleep(0)
        assert (await client.get("/health/ready")).status_code == 200


async def test_a_stopping_server_is_alive_and_not_ready() -> None:
    """A run that works keeps it alive; nothing new is sent to it."""
    wait, begun, go = waiting()
    app = app_of(support(tool_call("wait", {}), "done", tools=(wait,)))
    async with lifespan(app), client_of(app) as client:
        await client.post("/api/chat", json=message("Hi", "t1"))
        await begun.wait()
        stopping = asyncio.create_task(app.state.api.backend.close())
        await asyncio.sleep(0)
        assert refused_with(await client.get("/health/ready")) == "stopping"
        assert (await client.get("/health/live")).status_code == 200
        go.set()
        await stopping
