"""A message that comes again once its run's lease is over: the second run knows of the first's."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import inngest
import pytest

from agentkit_py import (
    Agent,
    MemoryHistory,
    Network,
    RouterContext,
    ToolContext,
    UserMessage,
    openai,
    tool,
)
from agentkit_py.errors import NonRetriableError
from agentkit_py.history.leases import ThreadLease
from agentkit_py.history.questions import QuestionStore
from agentkit_py.history.runs import RunRecord
from agentkit_py.history.stopping import stop_run
from agentkit_py.inngest import AgentKitMiddleware, create_functions
from agentkit_py.stores import HistoryStore
from agentkit_py.testing import FakeProvider, ReceivedRequest, ScriptedModel, tool_call
from agentkit_py.testing.executor import ReplayExecutor, Run
from tests.durable.world import at

OVER_AT_ONCE = ThreadLease(seconds=1e-6)
"""A lease that is over before the next request, as after an outage that is longer than it."""


class Desk:
    """An agent that charges, and then reserves and transfers in one tool; effects are counted."""

    def __init__(self, store: HistoryStore) -> None:
        self.effects: Counter[str] = Counter()
        self.read: list[dict[str, list[str]]] = []

        @tool
        def charge() -> str:
            """Charge."""
            self.effects["charge"] += 1
            return "charged"

        @tool(steps=True)
        async def wire(ctx: ToolContext) -> str:
            """Reserve, rest, transfer."""

            def act(name: str) -> str:
                self.effects[name] += 1
                return name

            await ctx.step.run("reserve", lambda: act("reserve"))
            await ctx.step.sleep("rest", 1000)
            await ctx.step.run("transfer", lambda: act("transfer"))
            return "wired"

        fake = FakeProvider(self.reply, strict=False)
        agent = Agent(
            name="clerk",
            system="S",
            tools=[charge, wire],
            model=at(openai("gpt-4o", api_key="k"), fake),
            max_iter=9,
            history=store,
        )
        client = inngest.Inngest(app_id="k", is_production=False)
        self.executor = ReplayExecutor(client, create_functions(client, agents=[agent]), seed=None)

    @property
    def queue(self) -> list[Any]:
        """What the server has to do."""
        schedule: Any = self.executor.schedule
        return schedule._items

    def reply(self, request: ReceivedRequest) -> Any:
        """Call what no result in the request stands for."""
        messages: list[Any] = request.body["messages"]
        names = {
            call["id"]: call["function"]["name"]
            for message in messages
            for call in message.get("tool_calls") or ()
        }
        read: dict[str, list[str]] = {}
        for message in messages:
            if message["role"] == "tool":
                read.setdefault(names[message["tool_call_id"]], []).append(message["content"])
        self.read.append(read)
        settled = {
            n for n, texts in read.items() if any("before this call" not in t for t in texts)
        }
        left = [name for name in ("charge", "wire") if name not in settled]
        return tool_call(left[0], id=f"{left[0]}-{len(self.read)}") if left else "Done."

    def deliver(self) -> Run:
        """Deliver the message once more."""
        data = {"input": {"content": "Pay.", "id": "m1"}, "threadId": "t"}
        self.executor.receive({"name": "k/agent-clerk", "data": data})
        return self.executor.runs[-1]


@pytest.mark.parametrize("requests", range(1, 14))
async def test_a_run_whose_message_another_run_took_over_makes_no_more_calls(
    requests: int,
) -> None:
    """It was away for longer than its lease; the message was delivered again meanwhile."""
    store = MemoryHistory(lease=OVER_AT_ONCE)
    desk = Desk(store)
    first = desk.deliver()
    for _ in range(requests):
        await desk.executor.do_next(timeouts=True)
    assert first.status == "running"
    later = list(desk.queue)
    desk.queue.clear()
    second = await desk.executor.finish(desk.deliver())
    assert second.status == "completed", second.error
    desk.queue.extend(later)
    await desk.executor.finish(first)
    assert first.status == "failed"
    record: Any = await store.load_run("t", "m1")
    assert record.status == "completed", "the first run leaves the second's record as it is"
    assert await store.stop_execution(first.id) == [], "and no notes"
    third = await desk.executor.finish(desk.deliver())
    assert third.output["text"] == "Done.", "the message is answered"
    assert set(desk.effects) >= {"charge", "reserve"}
    assert set(desk.effects.values()) == {1}
    rows = [row for row in await store.load("t") if row.tool_calls]
    assert [row.tool_calls[0].tool.name for row in rows] == ["charge", "wire"]
    if "transfer" not in desk.effects:  # the model was told, and asked for nothing more
        assert "Whether it took effect is not known" in desk.read[-1]["wire"][0]
        assert '"done":{"reserve":"reserve"}' in desk.read[-1]["wire"][0]


class RunsOnly(MemoryHistory):
    """A store that keeps runs and leases, and no questions: it cannot say that a run waits."""

    load_question: Any = None


async def test_a_store_that_cannot_say_that_a_run_waits_stops_no_run_that_waits() -> None:
    """The message comes again while its run rests, the lease released."""
    store = RunsOnly(lease=ThreadLease(seconds=1e5))
    assert not isinstance(store, QuestionStore)
    desk = Desk(store)
    first = desk.deliver()
    while not desk.effects["reserve"]:
        await desk.executor.do_next(timeouts=True)
    second = desk.deliver()
    for run in (first, second):  # which of them ends first depends on the moment they began to rest
        await desk.executor.finish(run)
        assert run.status == "completed", run.error
    assert desk.effects["transfer"] == 2, "neither knows of the other"


class Shop:
    """A function of one's own, without a stop function, whose network pays."""

    def __init__(self, store: MemoryHistory | None = None) -> None:
        self.store = store or MemoryHistory(lease=ThreadLease())
        self.paid = 0
        self.is_broken = False
        self.earlier: RunRecord | None = None
        client = inngest.Inngest(
            app_id="k",
            is_production=False,
            middleware=[AgentKitMiddleware.configured(inference="local")],
        )
        network = self.network()

        @client.create_function(fn_id="own", trigger=inngest.TriggerEvent(event="k/own"), retries=0)
        async def own(ctx: inngest.Context) -> str:
            async def begun_before() -> None:
                if self.earlier is not None:
                    owner = f"{ctx.run_id}/before"
                    await self.store.add_thread("t")
                    await self.store.save_run("t", replace(self.earlier, owner=owner))

            await ctx.step.run("begun before", begun_before)
            await network.run(UserMessage("Pay.", id="m1"), thread_id="t")
            return "Done."

        self.executor = ReplayExecutor(client, [own], seed=None, check=False)

    async def signal(self, owner: str) -> None:
        """Wake nobody."""

    def network(self) -> Network:
        @tool
        def pay() -> str:
            """Pay."""
            self.paid += 1
            return "receipt"

        def router(context: RouterContext) -> str | None:
            if self.is_broken:
                raise NonRetriableError("the table of desks is gone")
            return None if context.call_count else "clerk"

        model = ScriptedModel(tool_call("pay"), "Done.")
        clerk = Agent(name="clerk", system="S", tools=[pay], model=model, max_iter=3)
        return Network(name="shop", agents=[clerk], router=router, history=self.store)


async def test_a_failed_run_leaves_its_calls_in_the_thread_and_no_notes() -> None:
    """Nobody else would read the notes where no stop function is served."""
    shop = Shop()
    run = await _fail_after_paying(shop)
    [row] = [row for row in await shop.store.load("t") if row.tool_calls]
    assert row.tool_calls[0].content == {"data": "receipt"}
    assert await shop.store.stop_execution(run.id) == []


class Unopened(MemoryHistory):
    """A store that does not open and end runs at once, so it shows nobody their notes."""

    open_run: Any = None


async def _fail_after_paying(shop: Shop) -> Run:
    shop.executor.receive({"name": "k/own", "data": {}})
    (run,) = shop.executor.runs
    while not shop.paid:
        assert await shop.executor.do_next(timeouts=True)
    shop.is_broken = True
    await shop.executor.finish(run)
    assert run.status == "failed"
    return run


async def test_a_failed_run_that_cannot_read_its_notes_leaves_them_to_the_stop() -> None:
    """What is called when a function has failed adds them to the thread."""
    shop = Shop(Unopened(lease=ThreadLease()))
    run = await _fail_after_paying(shop)
    assert await stop_run(shop.store, run.id, shop.signal) == 1
    [row] = [row for row in await shop.store.load("t") if row.tool_calls]
    assert row.tool_calls[0].content == {"data": "receipt"}


async def test_a_function_that_runs_a_message_again_does_not_stop_itself() -> None:
    """The earlier run of the message belonged to the same execution."""
    shop = Shop()
    shop.earlier = RunRecord(id="m1", status="waiting")
    run = await shop.executor.run("k/own", {})
    assert (run.status, run.output, shop.paid) == ("completed", "Done.", 1)
