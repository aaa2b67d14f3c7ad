"""Deploys in the middle of runs on the real server.

``AGENTKIT_DEPLOYS=20`` with ``-o faulthandler_timeout=0`` gives each change twenty runs; the guide
names their figures.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agentkit_py import SqliteHistory
from agentkit_py.events.approvals import APPROVAL_EVENT
from agentkit_py.testing import FakeProvider
from tests.durable.shops import REPLIES, VERSIONS, check

from .places import Cast, ServerPlace
from .server import ServerClient, WorkerProcess
from .support import APP

pytestmark = pytest.mark.devserver

SEEDS = range(int(os.environ.get("AGENTKIT_DEPLOYS", "2")))
AT_ONCE = 10
STEPS = 18
"""Steps of a run of the first version, at the least."""


async def test_deploys_in_the_middle_of_runs_double_nothing(
    server_url: str, tmp_path: Path, customer: str
) -> None:
    """A change once, or by turns with the old version; what cannot continue says what it is."""
    client, model = ServerClient(server_url), Cast()
    with FakeProvider(model) as provider:
        url = provider.base_url("openai")
        worker = WorkerProcess(server_url, url, tmp_path, "local", world="versions")
        place = ServerPlace(client, worker, model, tmp_path)
        async with SqliteHistory(tmp_path / "threads.db") as store:
            slots = asyncio.Semaphore(AT_ONCE)
            said: dict[str, Counter[str]] = {after: Counter() for after in VERSIONS}

            async def one(after: str, seed: int, *, turns: bool) -> None:
                async with slots:
                    number = f"{list(VERSIONS).index(after)}x{seed}x{int(turns)}"
                    name = f"{customer}d{number}"
                    plan = {"after": after, "turns": turns, "seed": f"{after} {seed}"}
                    said[after][await deploy(place, store, name, plan)] += 1

            with worker.started():
                async with asyncio.TaskGroup() as outer:
                    people = outer.create_task(refuse_all(place, store))
                    async with asyncio.TaskGroup() as group:
                        for seed in SEEDS:
                            for after in VERSIONS:
                                group.create_task(one(after, seed, turns=seed % 2 == 1))
                    people.cancel()
        assert provider.rejections == []
    await client.close()
    assert said["the same"] == {"completed": len(SEEDS)}
    for after, counted in said.items():
        print(f"deploys of {after!r}: {dict(counted)}")  # noqa: T201 - the figures
    print(f"in all: {dict(sum(said.values(), Counter[str]()))}")  # noqa: T201 - the figures


async def deploy(place: ServerPlace, store: SqliteHistory, name: str, plan: dict[str, Any]) -> str:
    """Have one run go through a deploy, check what it leaves, and return its status."""
    chance = random.Random(f"{plan}")  # noqa: S311 - no secret
    place.model.says(name, REPLIES)
    data = {"customer": name, **plan, "at": chance.randrange(1, STEPS)}
    end = await place.end(await place.start(f"{APP}/shop", data))
    assert end.status != "cancelled"
    done = end.status == "completed"
    charged = end.output["charged"] if done else ()
    error = None if done else json.dumps(end.output)
    check(place.books.in_order(name), await store.load(name), charged, error)
    return end.status


async def refuse_all(place: ServerPlace, store: SqliteHistory) -> None:
    """Answer all questions with no."""
    while True:
        for question in await store.list_questions(limit=None):
            answer = {"approvalId": question.id, "approved": False}
            await place.send(APPROVAL_EVENT, answer)
        await asyncio.sleep(0.3)
