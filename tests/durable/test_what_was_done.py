"""A call is made once, also where its result cannot be kept, or its end cannot be noted."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import inngest
import pytest

from agentkit_py import Agent, MemoryHistory, Network, RouterContext, ToolContext, tool
from agentkit_py._core.json import JsonObject
from agentkit_py.errors import AgentKitError, HistoryError, NonRetriableError
from agentkit_py.inngest import FunctionOptions, create_functions
from agentkit_py.inngest.steps import acting, is_final
from agentkit_py.stores import ThreadLease
from agentkit_py.testing import ScriptedModel, tool_call, tool_calls
from agentkit_py.testing.executor import ReplayExecutor, Run


class FullDisk(MemoryHistory):
    """A store in which the beginning of a call can be noted, and not its end."""

    refuses: tuple[str, ...] = ("content", "output")

    async def note_calls(self, thread_id: str, owner: str, notes: Mapping[str, JsonObject]) -> bool:
        if any(name in note for note in notes.values() for name in self.refuses):
            raise HistoryError("the disk is full; nothing was saved")
        return await super().note_calls(thread_id, owner, notes)


class Desk:
    """An agent as a function that is tried five times."""

    def __init__(
        self, tools: Sequence[Any], *replies: Any, store: MemoryHistory | None = None,
        parallel: bool = False, router: Any = None,
    ) -> None:  # fmt: skip
        self.model = ScriptedModel(*replies)
        self.store = store or MemoryHistory(lease=ThreadLease())
        agent = Agent(
            name="clerk", system="S", tools=tools, model=self.model, max_iter=4,
            history=self.store, parallel_tools=parallel,
        )  # fmt: skip
        networks = []
        if router is not None:
            networks = [Network(name="shop", agents=[agent], router=router, history=self.store)]
        client = inngest.Inngest(app_id="app", is_production=False)
        options = {"clerk": FunctionOptions(retries=4)}
        self.executor = ReplayExecutor(
            client,
            lambda: create_functions(client, agents=[agent], networks=networks, options=options),
            check=False,
        )

    async def say(self, text: str) -> Run:
        """Send a message, and drive its run to the end."""
        run = await self.executor.start("app/agent-clerk", {"input": text, "threadId": "t"})
        if run.status == "running":
            await self.executor.finish(run)
        return run

    @property
    def read(self) -> list[str]:
        """Results of calls, as the last request had them."""
        messages: list[dict[str, Any]] = self.model.bodies[-1]["messages"]
        return [one["content"] for one in messages if one["role"] == "tool"]


@pytest.mark.parametrize("steps", [False, True])
async def test_a_call_whose_end_cannot_be_noted_is_made_once(
    caplog: pytest.LogCaptureFixture, *, steps: bool
) -> None:
    """The step keeps what it gave; the log says what the thread may lack."""
    paid: list[str] = []

    @tool
    def pay() -> str:
        """Pay."""
        paid.append("paid")
        return "receipt"

    @tool(name="pay", steps=True)
    async def pay_in_steps(ctx: ToolContext) -> str:
        """Pay."""
        return await ctx.step.run("pay", lambda: paid.append("paid") or "receipt")

    desk = Desk(
        [pay_in_steps if steps else pay], tool_call("pay"), "Paid.",
        store=FullDisk(lease=ThreadLease()),
    )  # fmt: skip
    with caplog.at_level(logging.ERROR, logger="agentkit_py"):
        run = await desk.say("Pay.")
    assert run.status == "completed"
    assert paid == ["paid"]
    assert desk.read == ['{"data":"receipt"}']
    assert "Call 'pay' was made, and the store could not note it" in caplog.text


async def test_a_call_that_could_not_be_noted_is_unknown_once_its_run_is_stopped() -> None:
    """What stops the run has the notes alone."""

    @tool
    def pay() -> str:
        """Pay."""
        return "receipt"

    desk = Desk(
        [pay], tool_call("pay"), "Well.", "Well.", store=FullDisk(lease=ThreadLease(seconds=3600))
    )
    desk.executor.receive({"name": "app/agent-clerk", "data": {"input": "x", "threadId": "t"}})
    run = desk.executor.runs[-1]
    while not any("tool.0" in name for name in run.names):
        assert await desk.executor.do_next(timeouts=False)
    desk.executor.cancel(run)
    while await desk.executor.do_next(timeouts=False):
        pass
    await desk.say("And now?")
    assert "not known" in desk.read[0]


@pytest.mark.parametrize("steps", [False, True])
@pytest.mark.parametrize("what", ["too large", "no JSON"])
async def test_a_call_whose_result_cannot_be_stored_ends_the_run_and_is_named_as_made(
    what: str, *, steps: bool
) -> None:
    """More than 4 MB, or a state, or a step's result, that is no JSON."""
    paid: list[str] = []

    def result() -> Any:
        paid.append("paid")
        return "r" * 5_000_000 if what == "too large" else date(2027, 1, 1)

    @tool
    def pay(ctx: ToolContext) -> str:
        """Pay."""
        found = result()
        if isinstance(found, date):
            ctx.state.data["at"] = found
        return str(found)

    @tool(name="pay", steps=True)
    async def pay_in_steps(ctx: ToolContext) -> str:
        """Pay, and continue whatever happens."""
        try:
            await ctx.step.run("pay", result)
        except ValueError:
            await ctx.step.run("note", lambda: "noted")
            raise
        return "paid"

    desk = Desk([pay_in_steps if steps else pay], tool_call("pay"), "Well.")
    run = await desk.say("Pay.")
    assert run.status == "failed"
    assert paid == ["paid"]
    await desk.say("And now?")
    assert paid == ["paid"]
    (read,) = desk.read
    assert "The call was carried out, and its result cannot be stored." in read


async def test_a_step_that_fails_for_good_is_not_repeated_where_its_tool_continues() -> None:
    """The error is what the step is remembered by."""
    paid: list[str] = []

    @tool(steps=True)
    async def pay(ctx: ToolContext) -> str:
        """Pay, and report."""

        def money() -> str:
            paid.append("paid")
            raise NonRetriableError("no answer from the bank")

        try:
            await ctx.step.run("money", money)
        except Exception as error:  # noqa: BLE001 - what tools do
            said = f"reported: {error}"
            return await ctx.step.run("report", lambda: said)
        return "paid"

    desk = Desk([pay], tool_call("pay"), "Well.")
    assert (await desk.say("Pay.")).status == "completed"
    assert paid == ["paid"]
    assert desk.read == ['{"data":"reported: no answer from the bank"}']


async def test_a_call_parallel_to_the_call_that_ends_the_run_is_finished_and_stored() -> None:
    """It has a step, a wait and another step; the other one fails meanwhile."""
    done: list[str] = []

    @tool(steps=True)
    async def wire(ctx: ToolContext) -> str:
        """Reserve, and transfer later."""
        await ctx.step.run("reserve", lambda: done.append("reserved") or "ok")
        await ctx.step.sleep("wait", 60_000)
        return await ctx.step.run("transfer", lambda: done.append("transferred") or "ok")

    @tool(steps=True)
    async def stop(ctx: ToolContext) -> str:
        """End the run."""

        def fail() -> str:
            raise NonRetriableError("frozen")

        await ctx.step.run("one", lambda: 1)
        return await ctx.step.run("two", fail)

    @tool
    def look() -> str:
        """Look."""
        return "found"

    calls = tool_calls(("look", {}), ("wire", {}), ("stop", {}))
    desk = Desk([wire, stop, look], calls, "Well.", parallel=True)
    assert (await desk.say("Go.")).status == "failed"
    assert done == ["reserved", "transferred"]
    await desk.say("And now?")
    looked, wired, stopped = desk.read
    assert (looked, wired) == ('{"data":"found"}', '{"data":"ok"}')
    assert "frozen" in stopped


@pytest.mark.parametrize("leased", [True, False])
async def test_calls_of_a_run_that_ends_before_it_makes_them_are_in_the_thread(
    *, leased: bool
) -> None:
    """A deploy whose router decides otherwise, or fails, ends a replay at its top."""
    paid: list[str] = []
    new_code: list[str] = []

    @tool
    def pay() -> str:
        """Pay."""
        paid.append("paid")
        return "receipt"

    def router(context: RouterContext) -> str | None:
        if new_code:
            raise NonRetriableError("the table of desks is gone")
        return None if context.call_count else "clerk"

    store = MemoryHistory(lease=ThreadLease() if leased else None)
    desk = Desk([pay], tool_call("pay"), "Noted.", store=store, router=router)
    desk.executor.receive({"name": "app/network-shop", "data": {"input": "Pay", "threadId": "t"}})
    while not paid:
        await desk.executor.do_next(timeouts=True)
    new_code.append("deployed")
    (run,) = desk.executor.runs
    await desk.executor.finish(run)
    await desk.executor.send_event("app/nothing", {})
    assert run.status == "failed"
    new_code.clear()
    assert (await desk.say("And now?")).status == "completed"
    assert desk.read == ['{"data":"receipt"}']
    assert paid == ["paid"]


@pytest.mark.parametrize("error", [HistoryError("disk full"), OSError("disk full")])
def test_no_error_after_the_act_lets_the_step_run_again(error: Exception) -> None:
    """Whatever fails once a handler has returned: the step is final, and says that it acted."""
    with pytest.raises(AgentKitError) as caught, acting():
        raise error
    assert caught.value.acted
    assert is_final(caught.value)
