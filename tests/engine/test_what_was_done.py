"""However a run ends, the thread says what is known of each of its calls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import date
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from agentkit_py import Agent, MemoryHistory, Network, State, Tool, ToolContext, tool
from agentkit_py.errors import HistoryError, NonRetriableError, RetryAfterError, StateError
from agentkit_py.models.base import copy_model
from agentkit_py.processors import Redactor
from agentkit_py.stores import ThreadLease
from agentkit_py.testing import ScriptedModel, tool_call, tool_calls

from .runner import Runner


class World:
    """Effects outside of the run, and tools that have them."""

    def __init__(self) -> None:
        self.ledger: list[str] = []

        @tool
        def look() -> str:
            """Look."""
            return "found"

        @tool
        async def mail() -> str:
            """Mail."""
            return "mailed"

        self.look, self.mail = look, mail

    def pay(self, error: Callable[[], Exception]) -> Tool:
        """A tool that pays, and then ends the run."""

        @tool
        def pay() -> str:
            """Pay."""
            self.ledger.append("paid")
            raise error()

        return pay

    def charge(self, error: Callable[[], Exception]) -> Tool:
        """A tool of two steps, the second of which ends the run."""

        @tool(name="pay", steps=True)
        async def charge(ctx: ToolContext) -> str:
            """Charge, then print a receipt."""

            def receipt() -> str:
                raise error()

            await ctx.step.run("money", lambda: self.ledger.append("paid") or "charged")
            return await ctx.step.run("receipt", receipt)

        return charge


ERRORS = {
    "NonRetriableError": lambda: NonRetriableError("account frozen"),
    "RetryAfterError": lambda: RetryAfterError("account busy", 60),
}


@pytest.mark.parametrize("leased", [False, True])
@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("steps", [False, True])
@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("calls", [("pay",), ("look", "pay"), ("pay", "mail")])
async def test_the_next_message_reads_the_calls_of_a_failed_run(
    runner: Runner, calls: tuple[str, ...], kind: str, *, steps: bool, parallel: bool, leased: bool
) -> None:
    """Never that a call was not made that was."""
    world = World()
    paying = (world.charge if steps else world.pay)(ERRORS[kind])
    store = MemoryHistory(lease=ThreadLease() if leased else None)
    model = ScriptedModel(tool_calls(*[(name, dict[str, Any]()) for name in calls]), "Well.")
    agent = Agent(
        name="a", system="S", tools=[paying, world.look, world.mail], max_iter=3, model=model,
        parallel_tools=parallel, history=store,
    )  # fmt: skip
    with pytest.raises((NonRetriableError, RetryAfterError)):
        await runner.run(agent, "Pay.", thread_id="t")
    assert (await runner.run(agent, "And now?", thread_id="t")).text == "Well."
    sent: list[dict[str, Any]] = model.bodies[1]["messages"]
    said = dict(zip(calls, [one["content"] for one in sent if one["role"] == "tool"], strict=True))
    assert world.ledger == ["paid"]
    assert f'"name":"{kind}"' in said["pay"]
    assert "account" in said["pay"]
    assert ('"done":{"money":"charged"}' in said["pay"]) is steps
    if "look" in calls:
        assert said["look"] == '{"data":"found"}'
    if "mail" in calls:
        if not parallel:
            assert "before this call was made" in said["mail"]
        elif said["mail"] != '{"data":"mailed"}':  # it may be under way in another request
            assert (kind, runner.mode) == ("RetryAfterError", "inngest")
            assert "not known" in said["mail"]


@pytest.mark.parametrize("parallel", [False, True])
async def test_a_nested_runs_calls_are_known_to_the_outer_thread(
    runner: Runner, *, parallel: bool
) -> None:
    """The nested run has no thread of its own, and its error ends both."""
    world = World()
    model = ScriptedModel(tool_call("ask", {"task": "Pay."}), tool_call("pay"), "Well.")
    clerk = Agent(
        name="clerk", system="S", tools=[world.charge(ERRORS["NonRetriableError"])], model=model
    )
    agent = Agent(
        name="a", system="S", model=model, max_iter=3, history=MemoryHistory(),
        tools=[clerk.as_tool(name="ask", allowed_tools=["pay"])], parallel_tools=parallel,
    )  # fmt: skip
    with pytest.raises(NonRetriableError):
        await runner.run(agent, "Pay.", thread_id="t")
    assert (await runner.run(agent, "And now?", thread_id="t")).text == "Well."
    read = str(model.bodies[2]["messages"])
    assert "account frozen" in read
    assert "charged" in read
    assert world.ledger == ["paid"]


@pytest.mark.direct_only("a task is cancelled in this process; a function: tests/durable")
@pytest.mark.parametrize("by_scope", [False, True])
@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("names", [("pay",), ("look", "pay"), ("pay", "look")])
async def test_a_run_that_is_cancelled_in_its_first_call_keeps_the_reply(
    runner: Runner, names: tuple[str, ...], *, parallel: bool, by_scope: bool
) -> None:
    """By its task, or by an anyio scope, which cancels what is awaited from then on, too."""
    begun, world = asyncio.Event(), World()

    @tool
    async def pay() -> str:
        """Pay."""
        world.ledger.append("paid")
        begun.set()
        await asyncio.Event().wait()
        return "paid"

    store = SlowMemory()
    model = ScriptedModel(tool_calls(*[(name, dict[str, Any]()) for name in names]), "Well.")
    agent = Agent(
        name="a", system="S", tools=[pay, world.look], model=model, max_iter=3, history=store,
        parallel_tools=parallel,
    )  # fmt: skip
    if by_scope:
        async with anyio.create_task_group() as group:

            async def run() -> None:
                await runner.run(agent, "Pay.", thread_id="t")

            group.start_soon(run)
            await begun.wait()
            group.cancel_scope.cancel()
    else:
        task = asyncio.create_task(runner.run(agent, "Pay.", thread_id="t"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await runner.run(agent, "And now?", thread_id="t")
    sent: list[dict[str, Any]] = model.bodies[1]["messages"]
    said = dict(zip(names, [one["content"] for one in sent if one["role"] == "tool"], strict=True))
    assert "Whether it took effect is not known" in said["pay"]
    if "look" in names:
        was_made = names[0] == "look" and not parallel
        under_way = "not known" if parallel else "before this call was made"
        assert ("found" if was_made else under_way) in said["look"]


class SlowMemory(MemoryHistory):
    """A store that lets others work meanwhile, as databases do."""

    async def append(self, *arguments: Any, **options: Any) -> Any:
        await anyio.lowlevel.checkpoint()
        return await super().append(*arguments, **options)


async def test_a_result_that_cannot_be_masked_is_withheld_and_the_call_not_repeated(
    runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    """The tool has acted."""
    world = World()

    @tool
    def pay() -> str:
        """Pay."""
        world.ledger.append("paid")
        return "4111 1111"

    class Broken(Redactor):
        def value(self, value: Any) -> Any:
            raise KeyError("no table")

    model = ScriptedModel(tool_call("pay"), "Well.")
    agent = Agent(
        name="a", system="S", tools=[pay], model=model, max_iter=3,
        tool_output_guardrails=[Broken(patterns=["4111"])],
    )  # fmt: skip
    with caplog.at_level(logging.CRITICAL, logger="agentkit_py"):
        result = await runner.run(agent, "Pay.")
    assert result.text == "Well."
    assert world.ledger == ["paid"]
    read = str(model.bodies[1])
    assert "could not be masked" in read
    assert "4111" not in read


async def test_a_model_call_that_could_not_be_counted_is_not_made_again(runner: Runner) -> None:
    """What counts calls fails after the model has answered."""

    class Away:
        async def enter(self, call: Any, /) -> None:
            return None

        async def leave(self, *_: Any) -> None:
            raise HistoryError("the disk is full")

    model = ScriptedModel("Well.", "Again.")
    agent = Agent(name="a", system="S", model=copy_model(model, guards=(Away(),)))
    network = Network(name="n", agents=[agent], router=lambda c: None if c.call_count else agent)
    assert (await runner.run(network, "Hi.")).text == "Well."
    assert len(model.bodies) == 1


@pytest.mark.parametrize("leased", [False, True])
async def test_a_state_that_is_no_json_is_refused_before_a_model_is_asked(
    runner: Runner, *, leased: bool
) -> None:
    """Where it has to be kept: in a function, and in the record of a run with a lease."""
    store = MemoryHistory(lease=ThreadLease() if leased else None)
    model = ScriptedModel("Well.")
    agent = Agent(name="a", system="S", model=model, history=store)
    state: State[Any] = State({"day": date(2027, 1, 1)})
    if not leased and runner.mode == "direct":
        assert (await runner.run(agent, "Hi.", thread_id="t", state=state)).text == "Well."
        return
    with pytest.raises(StateError, match=r"data\.day"):
        await runner.run(agent, "Hi.", thread_id="t", state=state)
    assert model.bodies == []
    assert list(await store.list_threads()) == []


@pytest.mark.parametrize("steps", [False, True])
@pytest.mark.parametrize("parallel", [False, True])
async def test_a_tool_that_makes_the_state_unserialisable_ends_the_run_and_counts_as_made(
    runner: Runner, *, parallel: bool, steps: bool
) -> None:
    """At once, not after another model call; the run with a lease keeps its state."""
    world = World()

    @tool
    async def pay(ctx: ToolContext) -> str:
        """Pay."""
        world.ledger.append("paid")
        ctx.state.data["day"] = date(2027, 1, 1)
        return "paid 5"

    @tool(name="pay", steps=True)
    async def pay_in_steps(ctx: ToolContext) -> str:
        """Pay in a step."""
        await ctx.step.run("money", lambda: "moved")
        ctx.state.data["day"] = date(2027, 1, 1)
        world.ledger.append("paid")
        return "paid 5"

    store = MemoryHistory(lease=ThreadLease())
    model = ScriptedModel(tool_calls(("look", {}), ("pay", {})), "Well.")
    agent = Agent(
        name="a", system="S", tools=[world.look, pay_in_steps if steps else pay], model=model,
        max_iter=3, history=store, parallel_tools=parallel,
    )  # fmt: skip
    with pytest.raises(StateError, match=r"data\.day"):
        await runner.run(agent, "Pay.", thread_id="t")
    assert len(model.bodies) == 1
    assert (await runner.run(agent, "And now?", thread_id="t")).text == "Well."
    read = [one["content"] for one in model.bodies[1]["messages"] if one["role"] == "tool"]
    assert read[0] == '{"data":"found"}'
    assert "paid 5" in read[1] or "The call was carried out" in read[1]
    assert steps or world.ledger == ["paid"]


@pytest.mark.parametrize("value", [b"\xff\xd8", {"file": b"\xff"}, [bytearray(b"\xff")]])
async def test_bytes_that_are_no_text_are_an_error_that_the_model_reads(
    runner: Runner, value: Any
) -> None:
    """The tool was carried out; bytes that are text go to the model as text."""
    values = iter([value, b"text"])

    @tool
    def read() -> Any:
        """Read."""
        return next(values)

    model = ScriptedModel(tool_call("read"), tool_call("read"), "Well.")
    agent = Agent(name="a", system="S", tools=[read], model=model, max_iter=4)
    assert (await runner.run(agent, "Read.")).text == "Well."
    messages: list[dict[str, Any]] = model.bodies[2]["messages"]
    first, second = [one["content"] for one in messages if one["role"] == "tool"]
    assert "ResultNotTextError" in first
    assert "was carried out" in first
    assert second == '{"data":"text"}'
