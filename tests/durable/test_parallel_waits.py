"""Calls at the same time that wait, each for its own person, and the thread meanwhile."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import inngest
import pytest

from agentkit_py import Agent, MemoryHistory, Network, ToolContext, tool
from agentkit_py.events import ApprovalRequest
from agentkit_py.history.leases import ThreadLease
from agentkit_py.inngest import create_functions
from agentkit_py.inngest.runtime import APPROVAL_EVENT
from agentkit_py.routing import sequence, together
from agentkit_py.stores import HistoryStore
from agentkit_py.testing import FakeProvider, tool_call, tool_calls
from agentkit_py.testing.executor import KillAt, ReplayExecutor, Run
from tests.apis import APIS

from .world import at


class Desk:
    """An agent that pays two people at a time, once somebody has approved each."""

    def __init__(self, store: HistoryStore, *, agents: bool = False) -> None:
        self.agents = agents
        """Whether each person is paid by an agent, the two of them at the same time."""

        self.paid: list[str] = []
        self.has_paid = asyncio.Event()
        self.fake = FakeProvider(self.reply)

        @tool(steps=True)
        async def pay(person: str, ctx: ToolContext) -> str:
            """Pay somebody."""
            await ctx.approve(f"Pay {person}?")

            def act() -> str:
                self.paid.append(person)
                self.has_paid.set()
                return f"paid {person}"

            return await ctx.step.run("money", act)

        model = at(APIS["chat"], self.fake)
        self.agent = Agent(
            name="clerk", system="S", tools=[pay], model=model, max_iter=3,
            parallel_tools=True, history=store,
        )  # fmt: skip
        payers = [
            Agent(name=name, system=name, tools=[pay], model=model, max_iter=3)
            for name in ("ada", "bob")
        ]
        self.network = Network(
            name="payers", agents=payers, router=sequence(together(*payers)), history=store
        )

    def reply(self, request: Any) -> Any:
        """Pay both; say done; answer anything else at once."""
        last = request.body["messages"][-1]
        if last["role"] == "tool":
            return "Both are paid."
        if last["content"] != "Pay.":
            return "As I said."
        if self.agents:
            return tool_call("pay", {"person": request.body["messages"][0]["content"]})
        return tool_calls(("pay", {"person": "ada"}), ("pay", {"person": "bob"}))


def store() -> MemoryHistory:
    """A store whose leases outlast a test."""
    return MemoryHistory(lease=ThreadLease(seconds=100_000))


class Server:
    """The desk as a function."""

    def __init__(self, desk: Desk, kill: Any = ()) -> None:
        client = inngest.Inngest(app_id="app", is_production=False)
        functions = create_functions(client, agents=[desk.agent], networks=[desk.network])
        # Where the server waits for all before it goes on, no call comes back before the others.
        self.executor = ReplayExecutor(
            client, functions, kill=kill, check=not kill, discovery="eager"
        )

        self.event = "app/network-payers" if desk.agents else "app/agent-clerk"

    async def say(self, text: str, message_id: str) -> Run:
        """Deliver a message."""
        data = {"input": {"content": text, "id": message_id}, "threadId": "t"}
        return await self.executor.start(self.event, data)

    async def approve_next(self) -> None:
        """Answer the first question that is waited for."""
        wait = next(one for one in self.executor.waits() if one.event == APPROVAL_EVENT)
        asked = re.search(r"approvalId == '(.+?)'", wait.expression or "")
        assert asked is not None
        await self.executor.send_event(APPROVAL_EVENT, {"approvalId": asked[1], "approved": True})


@pytest.mark.parametrize("agents", [False, True], ids=["calls", "agents"])
async def test_a_message_is_answered_while_one_of_two_calls_still_waits(*, agents: bool) -> None:
    """The one that had its answer would hold the thread for the time of a lease."""
    desk = Desk(store(), agents=agents)
    server = Server(desk)
    first = await server.say("Pay.", "m1")
    await server.approve_next()
    assert (first.status, len(desk.paid)) == ("running", 1)
    second = await server.say("And now?", "m2")
    assert second.status == "completed", second.names
    again = await server.say("Pay.", "m1")
    assert again.output["stopReason"] == "steered", "the message is the first run's"
    await server.approve_next()
    await server.executor.finish(first)
    assert first.output["text"] == "Both are paid."
    assert sorted(desk.paid) == ["ada", "bob"]
    assert (await server.say("Thanks.", "m3")).status == "completed"
    assert (first.differences, second.differences) == ([], [])


@pytest.mark.parametrize("agents", [False, True], ids=["calls", "agents"])
@pytest.mark.parametrize("when", ["before", "inside", "after"])
async def test_two_calls_that_wait_are_made_once_wherever_the_worker_dies(
    when: Any, *, agents: bool
) -> None:
    """Each request of the run, and each step once more with the key of the first time."""
    for number in range(3, 24, 4):
        desk = Desk(store(), agents=agents)
        server = Server(desk, kill=KillAt(request=number, when=when))
        first = await server.say("Pay.", "m1")
        for _ in range(2):
            await server.executor.advance(60)
            await server.approve_next()
        await server.executor.finish(first)
        assert first.status == "completed", (number, first.error)
        assert {*desk.paid} == {"ada", "bob"}
        assert len(desk.paid) <= 2 + (when == "inside")
        assert (await server.say("Thanks.", "m3")).output["text"] == "As I said."


@pytest.mark.parametrize("agents", [False, True], ids=["calls", "agents"])
async def test_a_direct_run_lets_the_thread_go_while_one_of_its_calls_waits(
    *, agents: bool
) -> None:
    """An approver in this process answers one question, and later the other."""
    desk = Desk(store(), agents=agents)
    runs = desk.network if agents else desk.agent
    both_wait, second_may = asyncio.Event(), asyncio.Event()

    async def approver(request: ApprovalRequest) -> bool:
        if "bob" in request.message:
            both_wait.set()
            await second_may.wait()
        await both_wait.wait()
        return True

    run = asyncio.create_task(runs.run("Pay.", thread_id="t", approver=approver))
    await desk.has_paid.wait()
    assert (await runs.run("And now?", thread_id="t")).text == "As I said."
    second_may.set()
    assert (await run).text == "Both are paid."
    assert (await runs.run("Thanks.", thread_id="t")).text == "As I said."
