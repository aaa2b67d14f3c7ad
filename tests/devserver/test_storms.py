"""Random programs in bad weather, on the real server: what the thread says is what was done.

Workers die at any write of the store and around each act, runs are cancelled at any moment,
messages come twice, two people answer each question at once and lose events, mail comes early, late
or twice.
``AGENTKIT_STORMS=50`` with ``-o faulthandler_timeout=0`` has fifty runs in each.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import Counter, defaultdict
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import inngest
import pytest

from agentkit_py.errors import NotPendingError
from agentkit_py.inngest import answer_question, send_answers
from agentkit_py.messages import ToolCall
from agentkit_py.testing import FakeProvider, ReceivedRequest

from . import storm
from .places import Cast, End, ServerPlace
from .server import ServerClient, WorkerProcess, eventually
from .shop import Lost, Shop, Unheard, person

pytestmark = pytest.mark.devserver

RUNS = int(os.environ.get("AGENTKIT_STORMS", "6"))
SEED = int(os.environ.get("AGENTKIT_STORM_SEED", "1"))
AT_ONCE = 6
NOT_MADE = "before this call was made"
NOT_KNOWN = "Whether it took effect is not known"


class Script(Cast):
    """Models that say something, also where a run asks more often than its program has replies."""

    def __call__(self, request: ReceivedRequest) -> Any:
        """Return the next reply."""
        try:
            return super().__call__(request)
        except IndexError:
            return "Nothing more."


class Weather:
    """What happens beside the runs, and what their ends are compared with."""

    def __init__(self, shop: Shop, url: str) -> None:
        self.shop, self.url = shop, url
        self.ends = Counter[str]()
        self.doubled = 0

    async def people(self) -> None:
        """Answer each question twice at once; some events are lost, and sent again by a look."""
        chance = random.Random(f"people {SEED}")  # noqa: S311 - no secret
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(person(self.url, *lost))
                for lost in ((), (Unheard,), (Lost,))
            ]
            while True:
                for asked in await self.shop.store.list_questions(limit=None):
                    answers = [
                        self.answer(one, asked.id, yes=chance.random() < 0.6)
                        for one in chance.sample(clients, 2)
                    ]
                    await asyncio.gather(*answers)
                await send_answers(clients[0], self.shop.store)
                await asyncio.sleep(0.2)

    async def answer(self, client: inngest.Inngest, question: str, *, yes: bool) -> None:
        """Answer as somebody; being late and losing the event are no errors."""
        with suppress(NotPendingError, ConnectionError):
            await answer_question(client, self.shop.store, question, answer=yes, by=f"{id(client)}")

    async def run(self, name: str, customer: str) -> None:
        """Let a program run to its end, whatever happens to it."""
        chance = random.Random(f"{name} {customer[-6:]} {SEED}")  # noqa: S311 - no secret
        replies = storm.program(name, customer, chance)
        place = self.shop.place
        place.model.says(customer, replies)
        wires = [f"{customer}/{one}" for one in _orders(replies) if one.startswith("wire")]
        async with asyncio.TaskGroup() as group:
            for order in wires:
                group.create_task(
                    self.mail(order, chance.uniform(0, 3), 1 + (chance.random() < 0.3))
                )
            run = await self.shop.start(name, customer, kind="network")
            group.create_task(self.disturb(name, customer, run, chance))
            end = await self.end(run)
        self.ends[f"{name} {end.status}"] += 1
        await self.check(customer, end)

    async def end(self, run: str) -> End:
        """Return the end of a run; a run that the server has lost is cancelled.

        The Dev Server loses a run, of the SDK alone as well, where the event of its wait comes
        twice while a step beside the wait is tried again.
        """
        try:
            return await self.shop.place.end(run)
        except AssertionError:
            spans = await self.shop.place.spans(run)
            tried = [one for one in spans if one["name"].endswith(".asked") and one["attempts"]]
            if not tried or spans[-1]["name"] != "Queued step":
                raise
            self.ends["lost by the server"] += 1
            await self.shop.cancel(run)
            return await self.shop.place.end(run)

    async def mail(self, order: str, after: float, times: int) -> None:
        """Send mail late, and perhaps twice."""
        await asyncio.sleep(after)
        for _ in range(times):
            await self.shop.place.send(storm.MAIL, {"order": order})

    async def disturb(self, name: str, customer: str, run: str, chance: random.Random) -> None:
        """Cancel the run or deliver its message again, by chance."""
        await asyncio.sleep(chance.uniform(0, 3))
        if chance.random() < 0.3:
            await self.shop.cancel(run)
        elif chance.random() < 0.4:
            again = await self.shop.start(name, customer, kind="network")
            await self.shop.place.end(again)

    async def check(self, customer: str, end: End) -> None:
        """Compare ledger, thread and questions, once whoever is told of a stopped run has acted."""

        async def agrees() -> bool | None:
            with suppress(AssertionError):
                await self.compare(customer, end)
                return True

        if end.status != "completed":
            with suppress(AssertionError):
                await eventually(agrees, "what a stopped run did")
        await self.compare(customer, end)
        entered = self.shop.place.books.of(customer)
        self.doubled += entered.total() - len(entered)

    async def compare(self, customer: str, end: End) -> None:
        """Compare ledger, thread and questions as they are."""
        entered = self.shop.place.books.of(customer)
        acted = Counter(one.split()[0] for one in entered)
        assert set(acted.values()) <= {1}, f"{customer}: an act under two keys: {entered}"
        exists = await self.shop.store.thread_exists(customer)
        told = await self.told(customer) if exists else {}
        for act in acted:
            texts = " ".join(told.get(act.partition(".")[0], ()))
            where = f"{customer} {end.status}: {act} happened, and the thread says {texts!r}"
            made = texts.replace(NOT_MADE, "")
            assert made.strip(), where
            assert NOT_MADE not in texts or NOT_KNOWN in texts or "done " in texts, where
            if end.status == "completed" and not act.startswith("odd"):
                assert f"done {act}" in texts or "." in act, where
        for order, texts in told.items():
            claims = any(f"done {order}" in text for text in texts)
            acts = [act for act in acted if act.partition(".")[0] == order]
            assert acts or not claims, f"{customer}: {order} did not happen: {texts}"
        rows = await self.shop.store.list_questions(thread_id=customer, status=None, limit=None)
        approved = {
            _order_of(call)
            for row in rows
            if row.answer is not None and row.answer.approved
            for call in row.request.calls
        }
        refunds = {act for act in acted if act.startswith("refund")}
        assert not [row for row in rows if row.status == "open"], rows
        assert refunds <= approved, f"{customer}: {refunds} are paid, {approved} approved"
        if end.status == "completed":
            assert refunds == approved, f"{customer}: {refunds} are paid, {approved} approved"

    async def told(self, customer: str) -> dict[str, list[str]]:
        """Return what the thread says of each order."""
        found: dict[str, list[str]] = defaultdict(list)
        for row in await self.shop.store.load(customer):
            for call in row.tool_calls:
                found[_order_of(call.tool)].append(json.dumps(call.content))
        return found


def _order_of(call: ToolCall) -> str:
    """Return the name of the order that a call is about."""
    return str(call.arguments).rpartition("/")[2].rstrip("'}. ")


def _orders(replies: Any) -> list[str]:
    text = json.dumps(replies)
    return sorted({part.split('"')[0].rstrip("\\.") for part in text.split("/")[1:]})


async def test_in_a_storm_the_thread_says_what_the_ledger_has(
    server_url: str, tmp_path: Path, customer: str
) -> None:
    """Each act once, but where its worker died; no row and no thread says otherwise."""
    client, model = ServerClient(server_url), Script()
    with FakeProvider(model) as provider:
        url = provider.base_url("openai")
        worker = WorkerProcess(server_url, url, tmp_path, "local", world="storm")
        place = ServerPlace(client, worker, model, tmp_path)
        async with storm.store_of(tmp_path) as store:
            weather = Weather(Shop(place, store), server_url)
            slots = asyncio.Semaphore(AT_ONCE)

            async def one(number: int) -> None:
                async with slots:
                    name = storm.NETWORKS[number % len(storm.NETWORKS)]
                    await weather.run(name, f"{customer}s{number}")

            with worker.started():
                async with asyncio.TaskGroup() as outer:
                    people = outer.create_task(weather.people())
                    async with asyncio.TaskGroup() as group:
                        for number in range(RUNS):
                            group.create_task(one(number))
                    people.cancel()
        assert provider.rejections == []
    await client.close()
    kills = tmp_path / storm.KILLS
    deaths = Counter(kills.read_text().splitlines() if kills.exists() else ())
    assert weather.doubled <= deaths.total()
    print(  # noqa: T201 - the figures
        f"storm of {RUNS} runs: {dict(weather.ends)}, {deaths.total()} workers died "
        f"({len(deaths)} places), {weather.doubled} acts doubled; {dict(deaths)}"
    )
