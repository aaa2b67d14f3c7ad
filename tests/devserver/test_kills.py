"""Two workers behind one app are killed again and again, on the real server.

``AGENTKIT_KILLS=200`` with ``-o faulthandler_timeout=0`` kills two hundred times; the guide names
the figures.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentkit_py.events.approvals import APPROVAL_EVENT
from agentkit_py.results import USER
from agentkit_py.stores import PostgresHistory, SqliteHistory
from agentkit_py.testing import FakeProvider

from . import shapes
from .forking import WORKERS
from .places import Cast, ServerPlace
from .server import ServerClient, WorkerProcess, eventually
from .support import APP

pytestmark = pytest.mark.devserver

KILLS = int(os.environ.get("AGENTKIT_KILLS", "5"))
AT_ONCE = 6


class Killed:
    """Counts of what happened while workers were killed."""

    def __init__(
        self, place: ServerPlace, sqlite: SqliteHistory, postgres: PostgresHistory
    ) -> None:
        self.place, self.sqlite, self.postgres = place, sqlite, postgres
        self.kills = 0
        self.runs = Counter[str]()
        self.doubled = Counter[str]()

    async def kill(self) -> None:
        """Kill a worker at a random moment after each effect, as often as is wanted."""
        chance = random.Random(11)  # noqa: S311 - moments
        while self.kills < KILLS:
            seen = self.place.books.count()
            await eventually(partial(self._acted, seen), "an effect")
            await asyncio.sleep(chance.uniform(0, 1))
            workers = (self.place.folder / WORKERS).read_text().split()
            with suppress(ProcessLookupError):
                os.kill(int(chance.choice(workers)), signal.SIGKILL)
                self.kills += 1

    async def _acted(self, seen: int) -> bool | None:
        return self.place.books.count() > seen or None

    async def agree(self) -> None:
        """Answer all questions with yes."""
        while True:
            for question in await self.sqlite.list_questions(limit=None):
                answer = {"approvalId": question.id, "approved": True}
                await self.place.send(APPROVAL_EVENT, answer)
            await asyncio.sleep(0.3)

    async def run(self, shape: str, name: str) -> None:
        """Run one network to its end, and check everything that it leaves."""
        self.place.model.says(name, shapes.REPLIES[shape])
        data: dict[str, Any] = {"input": f"I am {name}.", "threadId": name, "userId": name}
        data["state"] = {"customer": name}
        async with self.place.listening(name) as received:
            run = await self.place.start(f"{APP}/network-{shape}", data)
            end = await self.place.end(run)
            assert end.status == "completed", end.output
            chunks = await whole(received) if shape == "streamed" else []
        await self.check(shape, name, end.output)
        self.runs[shape] += 1
        if shape == "streamed":
            check_stream(chunks)

    async def check(self, shape: str, name: str, output: Any) -> None:
        """Each effect under one key, and in the thread once."""
        replies = shapes.REPLIES[shape]
        texts = [given[-1] for given in replies.values()]
        assert output["text"] == texts[-1]
        entered = self.place.books.of(name)
        orders = Counter(one.split()[0] for one in entered)
        assert orders == Counter(shapes.ORDERS[shape]), entered
        self.doubled[shape] += entered.total() - len(entered)
        rows = await (self.postgres if shape == "threads" else self.sqlite).load(name)
        told = [call.content for row in rows for call in row.tool_calls]
        assert told == [{"data": f"charged {order}"} for order in shapes.ORDERS[shape]]
        assert [row.text for row in rows if row.text] == texts
        assert [row.agent_name for row in rows].count(USER) == 1


async def whole(received: Callable[[], list[Any]]) -> list[Any]:
    """Return a stream's chunks, each once and in order, when its last one is there."""

    async def ended() -> bool | None:
        return any(chunk["event"] == "stream.ended" for chunk in received()) or None

    await eventually(ended, "the end of the stream")
    chunks = {chunk["id"]: chunk for chunk in received()}
    return sorted(chunks.values(), key=lambda chunk: chunk["sequenceNumber"])


def check_stream(chunks: list[Any]) -> None:
    """No chunk is missing, and none is there twice under another id."""
    assert [chunk["sequenceNumber"] for chunk in chunks] == list(range(len(chunks)))
    said = "".join(chunk["data"]["delta"] for chunk in chunks if chunk["event"] == "text.delta")
    assert said == "First is done."


async def test_workers_that_are_killed_at_any_moment_lose_nothing(
    server_url: str, tmp_path: Path, customer: str, postgres_url: str, postgres_schema: str
) -> None:
    """A call that was killed inside is made again with the same key, and nothing else is."""
    named = json.dumps({"url": postgres_url, "schema": postgres_schema})
    (tmp_path / "postgres.json").write_text(named)
    client, model = ServerClient(server_url), Cast()
    with FakeProvider(model) as provider:
        url = provider.base_url("openai")
        worker = WorkerProcess(server_url, url, tmp_path, "local", world="shapes")
        sqlite, postgres = shapes.sqlite(tmp_path), shapes.postgres(tmp_path)
        async with sqlite, postgres:
            await postgres.setup()
            with worker.started():
                killed = Killed(ServerPlace(client, worker, model, tmp_path), sqlite, postgres)
                async with asyncio.TaskGroup() as outer:
                    people = outer.create_task(killed.agree())
                    killer = outer.create_task(killed.kill())
                    async with asyncio.TaskGroup() as group:
                        for lane in range(AT_ONCE):
                            name = f"{customer}k{lane}"
                            group.create_task(keep_running(killed, killer, name, lane))
                    people.cancel()
        assert provider.rejections == []
    await client.close()
    assert killed.doubled.total() <= killed.kills
    print(  # noqa: T201 - the figures
        f"workers killed: {killed.kills} times in {killed.runs.total()} runs "
        f"({dict(killed.runs)}), {killed.doubled.total()} effects doubled ({dict(killed.doubled)})"
    )


async def keep_running(
    killed: Killed, killer: asyncio.Task[None], customer: str, number: int
) -> None:
    """Run one network after another while workers are killed; half of them on PostgreSQL.

    Two hundred kills are to meet a hundred threads there.
    """
    others = [shape for shape in shapes.REPLIES if shape != "threads"]
    count = 0
    while count == 0 or not killer.done() or killed.runs["threads"] < KILLS // 2:
        shape = "threads" if number % 2 else others[(number // 2 + count) % len(others)]
        await killed.run(shape, f"{customer}n{count}")
        count += 1
