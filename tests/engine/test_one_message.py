"""A message that is given again while the run that has it waits: one run answers it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from agentkit_py import Agent, MemoryHistory, ToolContext, UserMessage, tool
from agentkit_py.events import ApprovalRequest
from agentkit_py.history import deliver
from agentkit_py.history.leases import ThreadLease
from agentkit_py.testing import ScriptedModel, tool_call

pytestmark = pytest.mark.direct_only(
    "events are delivered twice to functions in tests/durable/test_one_message.py"
)

MESSAGE = UserMessage("Pay A1 back.", "m1")


class Store(MemoryHistory):
    """A store that says what runs do to it."""

    def __init__(self, seconds: float = 300.0) -> None:
        super().__init__(lease=ThreadLease(seconds=seconds))
        self.released = asyncio.Event()
        self.renewed = asyncio.Event()

    async def unlock_thread(self, thread_id: str, owner: str) -> str | None:
        """Say that a lease was released."""
        after = await super().unlock_thread(thread_id, owner)
        self.released.set()
        return after

    async def change_run(self, thread_id: str, run_id: str, change: Any) -> Any:
        """Say that a run has kept its message for longer."""
        found = await super().change_run(thread_id, run_id, change)
        if self.released.is_set():
            self.renewed.set()
        return found

    async def waits(self) -> list[float]:
        """Return until when the run keeps its message."""
        run = await self.load_run("t", "m1")
        return [] if run is None else [*run.waits.values()]


class Desk:
    """An agent that pays once it has waited, and runs that wait until they may continue."""

    def __init__(self, store: Any, waits_for: str, *replies: Any) -> None:
        self.store = store
        self.paid: list[str] = []
        self.approved = asyncio.Event()

        async def approver(request: ApprovalRequest) -> bool:
            await self.approved.wait()
            return True

        @tool(steps=True)
        async def refund(ctx: ToolContext) -> str:
            """Pay the money back."""
            if waits_for == "mail":
                await ctx.receive("parcel/arrived", key="A1", timeout=timedelta(hours=1))
            elif waits_for == "sleep":
                await ctx.step.sleep("rest", timedelta(hours=1))
            else:
                await ctx.approve("Pay?")
            self.paid.append("A1")
            return "paid"

        self.approver: Any = approver if waits_for == "approver" else None
        model = ScriptedModel(*(replies or (tool_call("refund"), "Done.")))
        self.agent = Agent(
            name="clerk", system="S", tools=[refund], max_iter=3, model=model, history=store
        )

    async def say(self) -> Any:
        """Send the message; return what the run gave."""
        return await self.agent.run(MESSAGE, thread_id="t", approver=self.approver)

    async def begin(self) -> asyncio.Task[Any]:
        """Send the message; return the run once it waits without the lease."""
        run = asyncio.create_task(self.say())
        await self.store.released.wait()
        return run

    async def go_on(self) -> None:
        """Let what waits continue."""
        self.approved.set()
        await deliver(self.store, "parcel/arrived", "A1", {}, mail_id="e1")


@pytest.mark.parametrize("waits_for", ["mail", "approver"])
async def test_a_message_that_is_given_again_while_its_run_waits_is_answered_once(
    waits_for: str,
) -> None:
    """A second run would ask the model again, and pay again."""
    desk = Desk(Store(), waits_for)
    first = await desk.begin()
    assert (await desk.say()).stop_reason == "steered"
    await desk.go_on()
    assert (await first).text == "Done."
    assert (await desk.say()).text == "Done."
    assert desk.paid == ["A1"]
    assert [m.type for m in await desk.store.messages("t")] == [
        "text",
        "tool_call",
        "tool_result",
        "text",
    ]


@pytest.mark.parametrize("waits_for", ["mail", "approver", "sleep"])
async def test_a_message_is_free_once_the_run_that_waited_was_cancelled(waits_for: str) -> None:
    """The user sends it again, and gets an answer."""
    desk = Desk(Store(), waits_for, tool_call("refund"), "I am sorry.")
    first = await desk.begin()
    assert (await desk.say()).stop_reason == "steered"
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert (await desk.say()).text == "I am sorry."
    assert desk.paid == []


async def test_a_run_that_waits_says_now_and_then_that_it_is_alive() -> None:
    """So its message is free soon after the process has died."""
    desk = Desk(store := Store(seconds=0.3), "mail")
    first = await desk.begin()
    (before,) = await store.waits()
    await store.renewed.wait()
    (after,) = await store.waits()
    assert before < after
    await desk.go_on()
    assert (await first).text == "Done."
    assert await store.waits() == []


async def test_a_paused_run_that_resumes_and_waits_again_keeps_its_message() -> None:
    """The process that resumed it is another one than that which began it."""
    store = Store()
    desk = Desk(store, "pause")

    @tool(steps=True)
    async def refund(ctx: ToolContext) -> str:
        """Pay the money back."""
        await ctx.approve("Pay?")
        await ctx.receive("parcel/arrived", key="A1", timeout=timedelta(hours=1))
        desk.paid.append("A1")
        return "paid"

    desk.agent.tools = [refund]
    assert (await desk.say()).stop_reason == "pending"
    (question,) = await desk.agent.pending("t")
    store.released.clear()
    resumed = asyncio.create_task(desk.agent.resume("t", {question.id: True}))
    await store.released.wait()
    assert (await desk.say()).stop_reason == "steered"
    await desk.go_on()
    assert (await resumed).text == "Done."
    assert desk.paid == ["A1"]
