"""A mailbox, a schedule, encrypted steps and flow control on the real server."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Generator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from agentkit_py.testing import FakeProvider, tool_call, tool_calls

from .conftest import Working
from .kinds import CLOCK, HOLD, PAID, PERIOD, SECRET
from .places import Cast, ServerPlace
from .server import ServerClient, WorkerProcess, eventually, program, serve_module, start_server
from .support import APP, SUPPORT, app_of

pytestmark = pytest.mark.devserver

WORKING = [tool_call("work", {"order": "first"}), "Done."]
WORKED = ["begin first", "end first"]


class Kinds:
    """Where the functions run, and what the server knows of their runs."""

    def __init__(self, place: ServerPlace, client: ServerClient) -> None:
        self.place, self.client = place, client

    async def start(self, agent: str, customer: str, replies: list[Any], **data: Any) -> str:
        """Start an agent for a customer."""
        self.place.model.says(customer, {agent: replies})
        return await self.place.start(f"{APP}/agent-{agent}", asks(customer, **data))

    async def text(self, run: str) -> str:
        """Wait for the end of a run; return its answer."""
        end = await self.place.end(run)
        assert end.status == "completed", end.output
        return end.output["text"]

    async def began(self, run: str) -> datetime:
        """Return the time at which a run that has ended began."""
        return datetime.fromisoformat((await self.client.look_at(run))["startedAt"])


def asks(customer: str, **data: Any) -> dict[str, Any]:
    """An event's data."""
    whose = {"threadId": customer, "userId": customer, "state": {"customer": customer}}
    return {"input": f"I am {customer}.", **whose, **data}


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Working]:
    """A server of its own: the schedule of a worker that is gone would continue."""
    binary = program()
    if binary is None:
        pytest.skip("no `inngest` program on PATH")
    folder, model = tmp_path_factory.mktemp("kinds"), Cast()
    process, url = start_server(binary, folder)
    model.says(CLOCK, {"reporter": [tool_call("report", {}), "Reported."]})
    with FakeProvider(model) as provider:
        base = provider.base_url("openai")
        worker = WorkerProcess(url, base, folder, "local", world="kinds")
        worker.start()
        yield worker, model, folder
        worker.kill()
        assert provider.rejections == []
    process.terminate()
    process.wait()


@pytest.fixture
async def kinds(own_server: Working) -> AsyncGenerator[Kinds]:
    """Where the functions run."""
    worker, model, folder = own_server
    client = ServerClient(worker.server_url)
    yield Kinds(ServerPlace(client, worker, model, folder), client)
    await client.close()


async def test_a_mailbox_keeps_events_until_a_tool_receives_them(
    kinds: Kinds, customer: str
) -> None:
    """One that came before the run, and one that came while it waited; each once, and in order."""
    place = kinds.place
    await place.send(PAID, {"order": customer, "amount": 5})
    await place.send(PAID, {"order": "another", "amount": 0})
    calls = tool_calls(*(("payment", {"order": customer}) for _ in range(2)))
    run = await kinds.start("cashier", customer, [calls, "Paid twice."])
    await place.waits(run, ".signal")
    place.restart()
    await place.send(PAID, {"order": customer, "amount": 6})
    assert await kinds.text(run) == "Paid twice."
    output = (await place.end(run)).output
    found = [call["content"] for one in output["results"] for call in one["toolCalls"]]
    assert found == [{"data": 5}, {"data": 6}]


async def test_the_server_cannot_read_steps_that_are_encrypted(kinds: Kinds, customer: str) -> None:
    """The run and its replays can."""
    run = await kinds.start("keeper", customer, [tool_call("find", {}), "It is safe."])
    end = await kinds.place.end(run)
    assert (end.status, end.output["__ENCRYPTED__"]) == ("completed", True)
    assert kinds.place.books.of(customer) == {"find": 1}
    assert SECRET in kinds.place.model.read("It is safe.")[-1]
    spans = [span for span in await kinds.place.spans(run) if span["stepOp"] == "RUN"]
    kept = [await kinds.client.output_of(span) for span in spans]
    assert len(kept) == 3
    assert all("__ENCRYPTED__" in one and "vault" not in one for one in kept)


async def test_runs_of_a_thread_take_turns_in_their_steps(kinds: Kinds, customer: str) -> None:
    """`per_thread()`: two runs never work at the same time."""
    whose = {"threadId": customer, "state": {"customer": customer}}
    runs: list[str] = []
    for name in "ab":
        calls = tool_calls(*(("work", {"order": f"{name}{number}"}) for number in range(3)))
        runs.append(await kinds.start("in-turn", f"{customer}{name}", [calls, "Done."], **whose))
    assert [await kinds.text(run) for run in runs] == ["Done.", "Done."]
    found = kinds.place.books.in_order(customer)
    assert found == [f"{what} {one[4:]}" for one in found[1::2] for what in ("begin", "end")]
    assert sorted(found[1::2]) == [f"end {name}{number}" for name in "ab" for number in range(3)]


async def test_runs_that_are_throttled_begin_later(kinds: Kinds, customer: str) -> None:
    """`per_customer(throttle=1)`: one and one more at once, and none is dropped."""
    runs = [
        await kinds.start("throttled", f"{customer}{number}", WORKING, userId=customer)
        for number in range(3)
    ]
    assert [await kinds.text(run) for run in runs] == ["Done."] * 3
    times = [await kinds.began(run) for run in runs]
    assert max(times) - min(times) >= PERIOD * 0.75
    for number in range(3):
        assert kinds.place.books.in_order(f"{customer}{number}") == WORKED


async def test_the_last_of_several_messages_is_run(kinds: Kinds, customer: str) -> None:
    """`per_thread(debounce=…)`: the ones before it are not."""
    kinds.place.model.says(f"{customer}last", {"debounced": WORKING})
    name = f"{app_of('kinds', 'local')}/agent-debounced"
    for said in ("first", "second"):
        await kinds.client.send(name, asks(f"{customer}{said}", threadId=customer))
    last = await kinds.client.send(name, asks(f"{customer}last", threadId=customer))
    assert await kinds.text(await kinds.client.run_of(last)) == "Done."
    books = kinds.place.books
    done = {said: books.in_order(f"{customer}{said}") for said in ("first", "second", "last")}
    assert done == {"first": [], "second": [], "last": WORKED}


async def test_a_run_with_priority_overtakes(kinds: Kinds, customer: str) -> None:
    """`per_thread(priority=…)`: the run of a better plan begins before one that came earlier."""
    hold = kinds.place.folder / HOLD
    hold.touch()
    first = await kinds.start("ranked", f"{customer}none", WORKING, plan="none")

    async def works() -> bool | None:
        return kinds.place.books.of(f"{customer}none")["begin first"] == 1 or None

    await eventually(works, "the first run to work")
    sent: list[str] = []
    for plan in ("basic", "gold"):
        kinds.place.model.says(f"{customer}{plan}", {"ranked": WORKING})
        data = asks(f"{customer}{plan}", plan=plan)
        sent.append(await kinds.client.send(f"{app_of('kinds', 'local')}/agent-ranked", data))
    runs = [await kinds.client.run_of(event) for event in sent]
    hold.unlink()
    assert [await kinds.text(run) for run in (first, *runs)] == ["Done."] * 3
    basic, gold = [await kinds.began(run) for run in runs]
    assert gold < basic


async def test_a_schedule_runs_an_agent(kinds: Kinds) -> None:
    """The server has no shorter schedule than a minute, so this test waits for the next one."""

    async def look() -> Counter[str] | None:
        return kinds.place.books.of(CLOCK) or None

    assert (await eventually(look, "a run of the schedule")).total() == 1


@pytest.mark.parametrize("inference", ["worker", "offloading"])
async def test_the_server_shows_tokens_and_cost_of_each_model_call(
    request: pytest.FixtureRequest, customer: str, inference: str
) -> None:
    """Whoever asks the model, what it used is with its step."""
    process, model, folder = request.getfixturevalue(inference)
    client = ServerClient(process.server_url)
    place = ServerPlace(client, process, model, folder)
    model.says(customer, {"triage": ["How can I help?"]})
    run = await place.start(SUPPORT, asks(customer))
    end = await place.end(run)
    (usage,) = [one["usage"] for one in end.output["results"]]
    shown = await client.shown(run, "support.triage.0.0.infer")
    await client.close()
    assert shown["input_tokens"] == usage["inputTokens"]
    assert shown["output_tokens"] == usage["outputTokens"]
    assert shown["request_model"] == "gpt-4o"
    assert shown["estimated_cost"] > 0


SHOP = """
import os
import inngest
from agentkit_py import Agent, Network, openai
from agentkit_py.inngest import FunctionOptions, create_functions

client = inngest.Inngest(app_id=os.environ["SHOP_APP"])
clerk = Agent(name="clerk", system="S", model=openai("gpt-4o", base_url=os.environ["SHOP_MODEL"]))
shop = Network(name="shop", agents=[clerk], router=lambda c: None if c.call_count else clerk)
# The server may not know of a new connection for some seconds.
options = {"shop": FunctionOptions(retries=20)}
functions = create_functions(client, networks=[shop], options=options)
"""


@pytest.mark.parametrize("connects", [False, True])
async def test_what_agentkit_serves_is_run_by_the_server(
    server_url: str, tmp_path: Path, connects: bool
) -> None:
    """A module, a command, an event."""
    app = "connected-shop" if connects else "shop"
    (tmp_path / "shop.py").write_text(SHOP)
    with FakeProvider(["We have hats."]) as provider:
        variables = {
            "SHOP_APP": app,
            "SHOP_MODEL": provider.base_url("openai"),
            "OPENAI_API_KEY": "sk-test",
            "INNGEST_BASE_URL": server_url,
        }
        process = serve_module("shop", tmp_path, variables, connects=connects)
        client = ServerClient(server_url)
        event = await client.send(f"{app}/network-shop", {"input": "Any hats?"})
        end = await client.ended(await client.run_of(event))
        await client.close()
        process.terminate()
        process.communicate()
        assert (provider.rejections, end["status"]) == ([], "COMPLETED"), end
        assert "We have hats." in str(end["output"])
