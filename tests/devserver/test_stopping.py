"""Runs that are stopped at any moment, on the real server."""

from __future__ import annotations

import asyncio
import os
import random
import re
import statistics
import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from agentkit_py import SqliteHistory
from agentkit_py.inngest import CANCEL_EVENT
from agentkit_py.results import USER
from agentkit_py.testing import tool_call, tool_calls

from .places import ServerPlace
from .server import ServerClient
from .support import TELLERS

pytestmark = pytest.mark.devserver

MOMENTS = int(os.environ.get("AGENTKIT_STOPS", "6"))
"""Runs that are stopped; the guide names the figures of fifty."""

PAYING = [
    tool_calls(("pay", {"amount": 1}), ("pay", {"amount": 2})),
    tool_call("pay", {"amount": 3}),
    "All is paid.",
]


class Counter:
    """Where tellers work, and their threads."""

    def __init__(self, client: ServerClient, place: ServerPlace, store: SqliteHistory) -> None:
        self.client, self.place, self.store = client, place, store

    async def start(self, customer: str, replies: list[Any]) -> str:
        """Send a message; gives the run."""
        self.place.model.says(customer, {"teller": replies})
        state = {"customer": customer}
        data = {"input": f"I am {customer}.", "threadId": customer, "userId": customer}
        return await self.place.start(TELLERS, {**data, "state": state})

    async def contents(self, customer: str) -> list[Any]:
        """Contents of the tool results in the customer's thread."""
        found = await self.store.load(customer)
        return [one.content for result in found for one in result.tool_calls]


@pytest.fixture
async def counter(request: pytest.FixtureRequest) -> AsyncGenerator[Counter]:
    """The counter of the worker process."""
    client = ServerClient(request.getfixturevalue("server_url"))
    process, model, folder = request.getfixturevalue("worker")
    async with SqliteHistory(folder / "tellers.db") as store:
        yield Counter(client, ServerPlace(client, process, model, folder), store)
    await client.close()


async def test_a_run_that_is_stopped_at_any_moment_leaves_what_it_did(
    counter: Counter, customer: str
) -> None:
    """However it is stopped, the next message is answered and sees what was done."""
    chance = random.Random(7)  # noqa: S311 - moments
    took: list[float] = []
    for number in range(MOMENTS):
        name = f"{customer}s{number}"
        run = await counter.start(name, list(PAYING))
        await asyncio.sleep(chance.uniform(0, 1.2))
        await stop(counter, number, run, name)
        counter.place.model.says(f"{name}again", {"teller": [f"Hello again, {name}."]})
        began = time.monotonic()
        data = {"input": f"I am {name}again.", "threadId": name, "userId": name}
        after = await counter.place.start(TELLERS, data)
        end = await counter.place.end(after)
        took.append(time.monotonic() - began)
        assert end.status == "completed", end.output
        assert end.output["text"] == f"Hello again, {name}."
        assert not [one for one in await counter.place.steps(after) if one.endswith(".wait")]
        paid = counter.place.books.of(name)
        assert max(paid.values(), default=1) == 1
        seen = str(counter.place.model.read(f"Hello again, {name}."))
        contents = await counter.contents(name)
        for amount in (1, 2, 3):
            done = {"data": f"paid {amount}"} in [_plain(one) for one in contents]
            assert done == (paid[f"pay {amount}"] == 1), (amount, paid, contents)
        assert "paid 1" in seen or not paid["pay 1"] or "not known" in seen
    print(  # noqa: T201 - the figures
        f"stopped at {MOMENTS} moments: the next message was answered after "
        f"{statistics.median(took):.2f} s (median), {max(took):.2f} s (most)"
    )


async def stop(counter: Counter, number: int, run: str, customer: str) -> None:
    """Stop a run in one of three ways."""
    match number % 3:
        case 0:
            await counter.client.cancel(run)
        case 1:
            await counter.client.cancel_on_page(run)
        case _:
            await counter.place.send(CANCEL_EVENT, {"threadId": customer, "userId": customer})


def _plain(content: Any) -> Any:
    return {key: value for key, value in content.items() if key != "note"}


async def test_runs_of_one_thread_wait_without_steps(counter: Counter, customer: str) -> None:
    """They come one after another, in the order in which they came."""
    first = await counter.start(customer, [*PAYING, *["Next."] * 3])
    runs: list[str] = []
    whose = {"threadId": customer, "userId": customer}
    for number in range(3):
        data = {"input": f"I am {customer}. Message {number}.", **whose}
        runs.append(await counter.place.start(TELLERS, data))
    assert (await counter.place.end(first)).output["text"] == "All is paid."
    assert [(await counter.place.end(run)).output["text"] for run in runs] == ["Next."] * 3
    rows = await counter.store.load(customer)
    asked = [str(row.output[0]) for row in rows if row.agent_name == USER]
    order = [re.findall(r"Message (\d)", said) for said in asked]
    assert order == [[], ["0"], ["1"], ["2"]]
