"""A message that comes again while the run that has it waits: one run answers it."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import inngest
import pytest

from agentkit_py import Agent, MemoryHistory, SqliteHistory, ToolContext, tool
from agentkit_py.history.leases import ThreadLease
from agentkit_py.inngest import FunctionOptions, create_functions, mailbox_function
from agentkit_py.stores import HistoryStore, PostgresHistory
from agentkit_py.testing import FakeProvider, tool_call
from agentkit_py.testing.executor import KillAt, ReplayExecutor, Run, Wait
from tests.apis import APIS
from tests.stores.record_store import record_store

ARRIVED = "parcel/arrived"
WAITS = ["approval", "event", "mail", "sleep"]
HOUR = timedelta(hours=1)


@pytest.fixture(params=["memory", "sqlite", "records", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> HistoryStore:
    """A store of each kind, with a lease."""
    if request.param == "memory":
        return MemoryHistory(lease=ThreadLease())
    if request.param == "sqlite":
        return SqliteHistory(tmp_path / "threads.db", lease=ThreadLease())
    if request.param == "records":
        return record_store(tmp_path, lease=ThreadLease())
    url = request.getfixturevalue("postgres_url")
    schema = request.getfixturevalue("postgres_schema")
    return PostgresHistory(url, schema=schema, connections=4, lease=ThreadLease())


class Desk:
    """A function whose agent pays a refund once it has waited, and events that begin it."""

    def __init__(
        self, store: Any, waits_for: str, *, looks: int = 0, kill: Any = (), **options: Any
    ) -> None:
        self.paid: list[str] = []
        self.asked = 0

        async def pay(ctx: ToolContext) -> str:
            self.paid.append(ctx.step.idempotency_key)
            return "paid"

        async def wait(ctx: ToolContext) -> None:
            if waits_for == "event":
                await ctx.wait_for_event(ARRIVED, timeout=HOUR)
            elif waits_for == "mail":
                await ctx.receive(ARRIVED, key="A1", timeout=HOUR)
            elif waits_for == "sleep":
                await ctx.step.sleep("rest", HOUR)
            else:
                await ctx.approve("Pay?", timeout=HOUR)

        @tool(steps=True)
        async def refund(ctx: ToolContext) -> str:
            """Pay the money back."""
            await wait(ctx)
            return await ctx.step.run("pay", partial(pay, ctx))

        @tool
        def look() -> str:
            """Look something up."""
            return "seen"

        def reply(request: Any) -> Any:
            self.asked += 1
            results = sum(message["role"] == "tool" for message in request.body["messages"])
            if results < looks:
                return tool_call("look")
            return "Done." if results > looks else tool_call("refund")

        fake = FakeProvider(reply)
        model = replace(APIS["chat"], transport=fake.transport)
        self.agent = Agent(
            name="clerk", system="S", tools=[look, refund], max_iter=9, model=model, history=store
        )
        client = inngest.Inngest(app_id="k", is_production=False)
        chosen = FunctionOptions(**options)
        self.executor = ReplayExecutor(
            client,
            [
                *create_functions(client, agents=[self.agent], options={"clerk": chosen}),
                mailbox_function(client, store, {ARRIVED: "order"}),
            ],
            kill=kill,
            check=not kill,
        )

    async def start(self) -> Run:
        """Deliver the message, and let time pass that is less than any wait."""
        data = {"input": {"content": "Pay A1 back.", "id": "m1"}, "threadId": "t"}
        self.executor.receive({"name": "k/agent-clerk", "data": data})
        run = self.executor.runs[-1]
        await self.executor.advance(240)
        return run

    async def finish(self, run: Run) -> Run:
        """Let the run continue with what it waits for."""
        await self.executor.send_event(ARRIVED, {"order": "A1"})
        return await self.executor.finish(run, answer=answer)


def answer(wait: Wait) -> Any:
    """Approve whatever is asked."""
    asked = re.search(r"approvalId == '(.+?)'", wait.expression or "")
    return asked and {"approvalId": asked[1], "approved": True}


def ended(run: Run) -> tuple[str, str | None]:
    """Return what a run's output says."""
    assert run.status == "completed", run.error
    return run.output["text"], run.output["stopReason"]


@pytest.mark.parametrize("waits_for", WAITS)
async def test_a_message_that_comes_again_while_its_run_waits_is_answered_once(
    store: HistoryStore, waits_for: str
) -> None:
    """The second run would pay again: its calls have other keys."""
    async with store:
        desk = Desk(store, waits_for)
        first = await desk.start()
        assert (first.status, desk.paid) == ("running", [])
        second = await desk.start()
        assert ended(second) == ("", "steered")
        assert second.output["answeredBy"] == first.id
        assert first.status == "running", "the second delivery disturbed the first run"
        assert ended(await desk.finish(first)) == ("Done.", None)
        assert ended(await desk.start())[0] == "Done.", "the answer is there by now"
        assert (len(desk.paid), desk.asked) == (1, 2)
        kinds = [message.type for message in await store.messages("t")]
        assert kinds == ["text", "tool_call", "tool_result", "text"]


@pytest.mark.parametrize("waits_for", WAITS)
async def test_a_message_is_kept_by_its_run_wherever_the_worker_dies(waits_for: str) -> None:
    """It is delivered again after each kill, while the run waits and when it has ended."""
    for request in range(1, 12):
        desk = Desk(
            MemoryHistory(lease=ThreadLease()),
            waits_for,
            kill=KillAt(request=request, when="after"),
        )
        first, second = await desk.start(), await desk.start()
        await desk.finish(first)
        await desk.finish(second)
        assert first.status == second.status == "completed", (request, first.error, second.error)
        assert len(desk.paid) == 1, request
        assert ended(await desk.start())[0] == "Done."


@pytest.mark.parametrize("waits_for", WAITS)
async def test_a_message_is_free_once_the_run_that_waited_was_stopped(waits_for: str) -> None:
    """The user sends it again, and gets an answer."""
    desk = Desk(MemoryHistory(lease=ThreadLease()), waits_for)
    first = await desk.start()
    desk.executor.cancel(first)
    await desk.executor.send_event("app/nothing", {})
    second = await desk.start()
    assert second.status == "running", ended(second)
    assert ended(await desk.finish(second))[0] == "Done."
    assert len(desk.paid) == 1


async def test_a_message_is_free_once_the_time_of_the_wait_is_long_over() -> None:
    """Its run died, and nothing of the server said so."""
    store = MemoryHistory(lease=ThreadLease())
    desk = Desk(store, "event")
    await desk.start()
    run = await store.load_run("t", "m1")
    assert run is not None
    assert run.status == "waiting"
    late = {step: until - 3600 - 300 for step, until in run.waits.items()}
    await store.save_run("t", replace(run, waits=late))
    assert (await desk.start()).status == "running"


async def test_a_message_that_comes_again_while_its_continuation_waits_is_answered_once() -> None:
    """The run that waits has the id of the part that it is."""
    desk = Desk(MemoryHistory(lease=ThreadLease()), "approval", looks=6, continue_as_new=15)
    await desk.start()
    waiting = next(run for run in desk.executor.runs if run.status == "running")
    assert waiting.events[0]["data"]["input"]["id"] != "m1"
    await desk.start()
    *_, last = desk.executor.runs
    assert ended(last) == ("", "steered")
    assert ended(await desk.finish(waiting))[0] == "Done."
    assert len(desk.paid) == 1
