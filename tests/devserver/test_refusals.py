"""What is refused is refused before anything is done: on the real server.

The worker serves `functions_of`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import inngest
import pytest

from agentkit_py import (
    Agent,
    Network,
    RouterContext,
    SqliteHistory,
    Tool,
    ToolContext,
    openai,
    tool,
)
from agentkit_py.errors import NotPendingError
from agentkit_py.inngest import (
    AgentKitMiddleware,
    FunctionOptions,
    answer_question,
    create_functions,
    send_answers,
)
from agentkit_py.inngest.runtime import Inference
from agentkit_py.stores import ThreadLease
from agentkit_py.testing import tool_call

from .conftest import Working
from .server import WorkerProcess
from .shop import Shop, opened, person, serving
from .support import APP, Books, customer

pytestmark = pytest.mark.devserver

WORLD = __name__.rpartition(".")[2]

WORD = "word"
"""Name of a file with the word of the option `on_version_mismatch`, and the version after it."""

ORDERS = 8
"""Orders that are paid, one after another, in runs of 15 steps."""

MESSAGE = "event.data.threadId + event.data.input.id"
HOUR = timedelta(hours=1)
DROPPING = {
    "singleton": FunctionOptions(singleton=inngest.Singleton(mode="skip", key=MESSAGE)),
    "idempotency": FunctionOptions(idempotency=MESSAGE),
    "rated": FunctionOptions(rate_limit=inngest.RateLimit(limit=1, period=HOUR, key=MESSAGE)),
}
"""Options by which the server drops events, by the name of the network that has them."""


def store_of(folder: Path) -> SqliteHistory:
    """The store of the threads."""
    return SqliteHistory(folder / "threads.db", lease=ThreadLease(seconds=100_000))


def functions_of(
    client: inngest.Inngest, *, model_url: str, folder: Path, inference: Inference
) -> list[inngest.Function[Any]]:
    """Networks that continue as new, a clerk of a version, and a function whose state is odd."""
    model = openai("gpt-4o", api_key="sk-test", base_url=model_url)
    tools, store = _tools(Books(folder / "books.db")), store_of(folder)

    def agent(name: str, **options: Any) -> Agent:
        return Agent(name=name, system=name, tools=tools, model=model, max_iter=30, **options)

    def network(name: str) -> Network:
        def route(context: RouterContext) -> str | None:
            return name if context.state.data.get("paid", 0) < ORDERS else None

        return Network(name=name, agents=[agent(name)], router=route, history=store)

    file = folder / WORD
    word, version = file.read_text().split() if file.exists() else ("continue", "1")
    options = {
        name: FunctionOptions(continue_as_new=15, retries=2) | flow
        for name, flow in DROPPING.items()
    }
    strict: Any = word
    options["strict"] = FunctionOptions(version=version, on_version_mismatch=strict, retries=1)
    made = create_functions(
        client,
        agents=[agent("strict", history=store), agent("clerk", history=store)],
        networks=[network(name) for name in DROPPING],
        options=options,
        inference=inference,
    )
    return [*made, _with_dates(client, agent("dates"))]


def _tools(books: Books) -> list[Tool]:
    def enter(ctx: ToolContext, name: str) -> str:
        books.enter(customer(ctx), name)
        return f"done: {name}"

    @tool
    def pay(ctx: ToolContext) -> str:
        """Pay the next order."""
        ctx.state.data["paid"] = number = ctx.state.data.get("paid", 0) + 1
        return enter(ctx, f"pay {number}")

    @tool
    def scan(order: str, ctx: ToolContext) -> bytes:
        """Pay, and give a picture, which is no text."""
        enter(ctx, f"pay {order}")
        return b"\xff\xd8\xfe"

    @tool(needs_approval=True)
    def refund(order: str, ctx: ToolContext) -> str:
        """Pay back."""
        return enter(ctx, f"refund {order}")

    return [pay, scan, refund]


def _with_dates(client: inngest.Inngest, agent: Agent) -> inngest.Function[Any]:
    @client.create_function(
        fn_id="dates",
        trigger=inngest.TriggerEvent(event=f"{client.app_id}/dates"),
        middleware=[AgentKitMiddleware],
        retries=1,
    )
    async def dates(ctx: inngest.Context) -> str:
        data: Any = ctx.event.data
        return (await agent.run(data["input"], state={"data": {"day": date(2027, 1, 1)}})).text

    return dates


@pytest.fixture(scope="module")
def working(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[Working]:
    """A worker with `functions_of`."""
    with serving(WORLD, server_url, tmp_path_factory.mktemp("refused")) as worker:
        yield worker


@pytest.fixture
async def shop(working: Working) -> AsyncGenerator[Shop]:
    """Where the functions run."""
    async with opened(working, store_of(working[2])) as shop:
        yield shop


@pytest.mark.parametrize("name", DROPPING)
async def test_a_run_that_continues_as_new_beside_what_drops_events_pays_all(
    shop: Shop, customer: str, name: str
) -> None:
    """Its key has the message, as the refusal of another key says; a message twice is one."""
    replies: list[Any] = [tool_call("pay", {}) for _ in range(ORDERS)]
    shop.place.model.says(customer, {name: [*replies, "All is paid."]})
    run = await shop.start(name, customer, kind="network")
    parts = 1
    while (end := await shop.place.end(run)).output.get("continuedAs"):
        assert end.status == "completed"
        parts += 1
        run = await shop.place.client.run_of(end.output["continuedAs"])
    assert (end.status, end.output["text"]) == ("completed", "All is paid.")
    assert parts > 1
    assert shop.place.books.of(customer) == {f"pay {n}": 1 for n in range(1, ORDERS + 1)}


async def test_a_state_that_is_no_json_is_refused_before_a_model_is_asked(
    shop: Shop, customer: str
) -> None:
    """The run's error names the key."""
    call: Any = tool_call("pay", {"order": customer})
    shop.place.model.says(customer, {"dates": [call, "Paid."]})
    run = await shop.place.start(f"{APP}/dates", {"input": f"I am {customer}."})
    assert "data.day" in await shop.fails(run)
    assert shop.place.model.read(call) == []


async def test_bytes_that_a_tool_returns_are_an_error_that_the_model_reads(
    shop: Shop, customer: str
) -> None:
    """It has paid, once, and the run continues."""
    calls = [tool_call("scan", {"order": "a"}), "I cannot see it."]
    shop.place.model.says(customer, {"clerk": calls})
    assert await shop.text(await shop.start("clerk", customer)) == "I cannot see it."
    assert shop.place.books.of(customer) == {"pay a": 1}
    assert "bytes" in str(shop.place.model.read("I cannot see it."))


async def test_a_word_that_is_none_of_its_choices_stops_the_worker_that_would_take_it(
    shop: Shop, working: Working, customer: str
) -> None:
    """With the right word a run of the version before fails; the wrong one would let it go on."""
    worker, _, folder = working
    shop.place.model.says(customer, {"strict": [tool_call("refund", {"order": "a"}), "Paid."]})
    run = await shop.start("strict", customer)
    await shop.place.waits(run, ".approve")
    worker.kill()
    (folder / WORD).write_text("fial 2")
    with pytest.raises(AssertionError, match=r"on_version_mismatch.*fial"):
        worker.start()
    (folder / WORD).write_text("fail 2")
    worker.start()
    await shop.place.answer(run, {"approved": True})
    assert "version" in await shop.fails(run)
    assert shop.place.books.of(customer) == {}


def test_a_word_for_who_asks_the_models_is_checked_before_the_server_knows_the_functions(
    server_url: str, tmp_path: Path
) -> None:
    """No worker serves functions whose models nobody would ask."""
    word: Any = "offlaod"
    worker = WorkerProcess(server_url, "http://127.0.0.1:9", tmp_path, word, world=WORLD)
    with pytest.raises(AssertionError, match=r"inference.*'offlaod'"):
        worker.start()
    worker.kill()


PEOPLE = 8
"""Questions that two people answer at the same moment."""


async def test_of_two_simultaneous_answers_the_first_decides_and_the_other_is_refused(
    shop: Shop, working: Working, customer: str
) -> None:
    """Row and money are the same; each has a client of its own."""
    names = [f"{customer}p{number}" for number in range(PEOPLE)]
    runs: dict[str, str] = {}
    for name in names:
        shop.place.model.says(name, {"clerk": [tool_call("refund", {"order": "a"}), "Well."]})
        runs[name] = await shop.start("clerk", name)
    won: list[str] = []
    async with person(working[0].server_url) as mia, person(working[0].server_url) as sam:
        for number, name in enumerate(names):
            await shop.place.waits(runs[name], ".approve")
            (asked,) = await shop.questions(name)
            people = [(mia, "mia", True), (sam, "sam", False)]
            answers = await asyncio.gather(
                *(
                    answer_question(client, shop.store, asked.id, answer=says, by=who)
                    for client, who, says in people[:: 1 if number % 2 else -1]
                ),
                return_exceptions=True,
            )
            told = [one for one in answers if isinstance(one, NotPendingError)]
            assert len(told) == 1, answers
            won.append(str(told[0].answered_by))
    for name, first in zip(names, won, strict=True):
        assert await shop.text(runs[name]) == "Well."
        (row,) = await shop.store.list_questions(thread_id=name, status=None)
        assert row.answer is not None
        assert (row.answered_by, row.answer.approved) == (first, first == "mia")
        paid = shop.place.books.of(name)
        assert paid == ({"refund a": 1} if first == "mia" else {})


async def test_an_answer_whose_sender_was_killed_before_its_event_is_sent_by_the_next_look(
    shop: Shop, working: Working, customer: str
) -> None:
    """A process of its own answers, and is killed where the event would leave."""
    shop.place.model.says(customer, {"clerk": [tool_call("refund", {"order": "a"}), "Paid."]})
    run = await shop.start("clerk", customer)
    await shop.place.waits(run, ".approve")
    (asked,) = await shop.questions(customer)
    url = working[0].server_url
    command = [sys.executable, "-m", f"tests.devserver.{WORLD}", str(shop.place.folder), asked.id]
    ended = await asyncio.to_thread(subprocess.run, [*command, url], check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    (row,) = await shop.store.list_questions(thread_id=customer, status=None)
    assert (row.answered_by, row.is_undelivered) == ("mia", True)
    assert shop.place.books.of(customer) == {}
    async with person(url) as other:
        assert await send_answers(other, shop.store) == 1
    assert await shop.text(run) == "Paid."
    assert shop.place.books.of(customer) == {"refund a": 1}


class Killed(inngest.Middleware):
    """Ends the process before an event leaves."""

    async def before_send_events(self, events: list[inngest.Event]) -> None:
        """End without any warning."""
        os.kill(os.getpid(), signal.SIGKILL)


async def _answer_and_die(folder: str, question: str, url: str) -> None:
    async with person(url, Killed) as mia, store_of(Path(folder)) as store:
        await answer_question(mia, store, question, answer=True, by="mia")


if __name__ == "__main__":
    asyncio.run(_answer_and_die(*sys.argv[1:]))
