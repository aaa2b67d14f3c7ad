"""Code that a run calls is left by a `BaseException` of its own: an error, and no cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from agentkit_py import (
    Agent,
    HistoryConfig,
    Lifecycle,
    MemoryHistory,
    Network,
    RouterContext,
    ToolContext,
    tool,
)
from agentkit_py.errors import AbruptExitError
from agentkit_py.messages import Message
from agentkit_py.models import function_model
from agentkit_py.testing import ScriptedModel, tool_call, tool_calls

from .runner import Runner

EXITS: dict[str, Callable[[], BaseException]] = {
    "CancelledError": asyncio.CancelledError,
    "GeneratorExit": GeneratorExit,
    "SystemExit": lambda: SystemExit(3),
    "BaseExceptionGroup": lambda: BaseExceptionGroup("several", [asyncio.CancelledError()]),
}


@pytest.fixture(params=EXITS)
def name(request: pytest.FixtureRequest) -> str:
    """What leaves the code."""
    return request.param


@pytest.mark.parametrize("sync", [True, False])
async def test_the_model_reads_the_exception_that_left_a_tool_which_acts_once(
    runner: Runner, name: str, *, sync: bool
) -> None:
    """As it reads any other error."""
    paid: list[str] = []

    def pay() -> None:
        """Pay."""
        paid.append("paid")
        raise EXITS[name]()

    async def pay_async() -> None:
        """Pay."""
        pay()

    model = ScriptedModel(tool_call("pay"), "It did not work.")
    chosen = tool(name="pay")(pay if sync else pay_async)
    agent = Agent(name="a", system="S", tools=[chosen], model=model, max_iter=3)
    result = await runner.run(agent, "Pay.")
    assert result.text == "It did not work."
    assert paid == ["paid"]
    assert f'"name":"{name}"' in str(model.bodies[1])


async def test_other_calls_of_the_reply_run_to_their_end(runner: Runner) -> None:
    """Something inside of one is cancelled; the run is not, and all results are stored."""
    paid: list[int] = []

    @tool
    async def refund(n: int) -> str:
        """Refund."""
        for _ in range(5):
            await asyncio.sleep(0)
        paid.append(n)
        return "paid"

    @tool
    async def look() -> str:
        """Look."""
        inner = asyncio.ensure_future(asyncio.sleep(9))
        inner.cancel()
        await inner
        return "found"

    store = MemoryHistory()
    model = ScriptedModel(
        tool_calls(("refund", {"n": 1}), ("look", {}), ("refund", {"n": 2})), "ok"
    )
    agent = Agent(
        name="a", system="S", tools=[refund, look], model=model, max_iter=3, parallel_tools=True,
        history=store,
    )  # fmt: skip
    assert (await runner.run(agent, "Go.", thread_id="t")).text == "ok"
    assert sorted(paid) == [1, 2]
    contents = [c.content for result in await store.load("t") for c in result.tool_calls]
    assert contents[0] == contents[2] == {"data": "paid"}
    assert "CancelledError" in str(contents[1])


PLACES = ("on_response", "router", "processor", "guardrail", "store", "model", "system", "approver")


@pytest.mark.parametrize("place", PLACES)
async def test_hooks_and_the_like_fail_the_run_with_an_error(
    runner: Runner, name: str, place: str
) -> None:
    """Whoever awaits the run is not cancelled, and no process ends."""

    def leave(*_: Any) -> Any:
        raise EXITS[name]()

    async def leave_async(*_: Any) -> Any:
        raise EXITS[name]()

    def router(context: RouterContext) -> Agent | None:
        if place == "router":
            leave()
        return None if context.call_count else agent

    @tool(needs_approval=True)
    def buy() -> str:
        """Buy."""
        return "bought"

    def process(messages: Sequence[Message]) -> Sequence[Message]:
        return leave() if place == "processor" else messages

    scripted = ScriptedModel(tool_call("buy"), "Bought.")
    agent = Agent(
        name="a",
        system=leave_async if place == "system" else "S",
        model=function_model(leave_async) if place == "model" else scripted,
        tools=[buy],
        lifecycle=Lifecycle(on_response=leave_async if place == "on_response" else None),
        processors=[process],
        input_guardrails=[leave_async] if place == "guardrail" else [],
    )
    store = HistoryConfig(append_results=leave_async if place == "store" else lambda _: None)
    network = Network(name="n", agents=[agent], router=router, history=store)

    async def approve(_: Any) -> bool:
        return leave() if place == "approver" else True

    with pytest.raises(Exception) as caught:  # noqa: PT011 - its kind differs with the place
        await runner.run(network, "hi", approver=approve)
    named = [caught.value, caught.value.__cause__]  # a step's error has the name as a fact
    assert any(name in f"{one!r} {getattr(one, 'name', '')}" for one in named)
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()
    if runner.mode == "direct" and place in ("on_response", "router", "system"):
        assert isinstance(caught.value, AbruptExitError)


async def test_a_step_in_a_task_group_acts_once(runner: Runner) -> None:
    """What ends the request comes out of the group by itself."""
    paid: list[str] = []

    @tool(steps=True)
    async def pay(ctx: ToolContext) -> str:
        """Pay."""
        async with asyncio.TaskGroup() as group:
            paying = group.create_task(ctx.step.run("pay", lambda: paid.append("paid") or "paid"))
        return paying.result()

    model = ScriptedModel(tool_call("pay"), "Paid.")
    agent = Agent(name="a", system="S", tools=[pay], model=model, max_iter=3)
    assert (await runner.run(agent, "Pay.")).text == "Paid."
    assert paid == ["paid"]


@pytest.mark.direct_only("a task is cancelled in this process")
async def test_a_run_that_is_cancelled_ends_as_cancelled(runner: Runner) -> None:
    """Also where a tool turns the cancellation into a group of exceptions."""
    begun = asyncio.Event()

    @tool
    async def wait() -> None:
        """Wait."""
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            raise BaseExceptionGroup("several", [error]) from None

    model = ScriptedModel(tool_call("wait"))
    agent = Agent(name="a", system="S", tools=[wait], model=model)
    task = asyncio.create_task(runner.run(agent, "Wait."))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("steps", ["run", "parallel", "ai_wrap"])
async def test_a_sync_function_is_a_step_like_an_async_one(runner: Runner, steps: str) -> None:
    """It acts once, and its result is the step's."""
    bought: list[str] = []

    def buy() -> str:
        bought.append("roses")
        return "ordered"

    @tool(steps=True)
    async def order(ctx: ToolContext) -> str:
        """Order."""
        if steps == "ai_wrap":
            return await ctx.step.ai_wrap("buy", buy)
        if steps == "parallel":
            first, second = await ctx.step.parallel(
                lambda: ctx.step.run("buy", buy), lambda: "at once"
            )
            assert second == "at once"
            return first
        return await ctx.step.run("buy", buy)

    model = ScriptedModel(tool_call("order"), "Done.")
    agent = Agent(name="a", system="S", tools=[order], model=model, max_iter=3)
    assert (await runner.run(agent, "Roses.")).text == "Done."
    assert bought == ["roses"]
    assert "ordered" in str(model.bodies[1])
