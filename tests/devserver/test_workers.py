"""Two workers behind one app, which connect to the server instead of being called."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from agentkit_py.testing import FakeProvider, tool_call, tool_calls

from .places import Cast, ServerPlace
from .server import ServerClient, WorkerProcess
from .support import SUPPORT

pytestmark = pytest.mark.devserver

RUNS = 6


@pytest.fixture
async def workers(
    server_url: str, tmp_path: Path
) -> AsyncGenerator[tuple[ServerPlace, WorkerProcess]]:
    """A place with one worker, and another worker beside it."""
    client, model = ServerClient(server_url), Cast()
    with FakeProvider(model) as provider:
        url = provider.base_url("openai")
        both = [
            WorkerProcess(server_url, url, tmp_path, "local", connects=name)
            for name in ("one", "two")
        ]
        for one in both:
            one.start()
        yield ServerPlace(client, both[0], model, tmp_path), both[1]
        for one in both:
            one.kill()
        assert provider.rejections == []
    await client.close()


async def test_two_workers_share_the_runs_of_one_app(
    workers: tuple[ServerPlace, WorkerProcess], customer: str
) -> None:
    """One of them dies while people think; each effect happens once."""
    place, second = workers
    runs: dict[str, str] = {}
    for number in range(RUNS):
        name = f"{customer}w{number}"
        triage = [tool_call("hand_over", {"desk": "billing"}), "billing will help."]
        calls = tool_calls(("refund", {"amount": 20}), ("refund", {"amount": 500}))
        place.model.says(name, {"triage": triage, "billing": [calls, "Paid."]})
        data = {"input": f"I am {name}.", "threadId": name, "state": {"customer": name}}
        runs[name] = await place.start(SUPPORT, data)
    for run in runs.values():
        await place.waits(run, ".approve")
    second.kill()
    for run in runs.values():
        await place.answer(run, {"approved": True})
    for name, run in runs.items():
        end = await place.end(run)
        assert (end.status, end.output["text"]) == ("completed", "Paid."), end.output
        assert place.books.of(name) == {"hand over to billing": 1, "refund 20": 1, "refund 500": 1}
