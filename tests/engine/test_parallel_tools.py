"""Tools of one reply that run at the same time, each on its own fork of the state."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from pydantic import BaseModel

from agentkit_py import Agent, RunLimits, State, ToolContext
from agentkit_py.errors import NonRetriableError, RetryAfterError, StateConflictError
from agentkit_py.testing import EventLog, ScriptedModel, tool_calls

from .runner import Runner


def agent_with(*tools: Any, replies: list[Any], **options: Any) -> Agent:
    """An agent that runs tools together."""
    model = ScriptedModel(*replies)
    return Agent(name="a", system="S", tools=tools, model=model, parallel_tools=True, **options)


ONE_PROCESS = pytest.mark.direct_only(
    "in a function each call is a request, so none waits for another"
)


@ONE_PROCESS
async def test_async_tools_are_under_way_at_the_same_time() -> None:
    """None gets on before all have begun."""
    meeting = asyncio.Barrier(3)

    async def meet(who: str) -> str:
        """Wait for the others."""
        await meeting.wait()
        return who

    calls = tool_calls(*(("meet", {"who": who}) for who in "abc"))
    result = await agent_with(meet, replies=[calls], max_iter=1).run("q?")
    assert [m.content for m in result.tool_calls] == [{"data": "a"}, {"data": "b"}, {"data": "c"}]


@ONE_PROCESS
async def test_sync_tools_are_under_way_at_the_same_time() -> None:
    """Each in a thread."""
    meeting = threading.Barrier(2, timeout=120)

    def meet() -> None:
        """Wait for the other."""
        meeting.wait()

    result = await agent_with(
        meet, replies=[tool_calls(("meet", {}), ("meet", {}))], max_iter=1
    ).run("q?")
    assert [m.is_error for m in result.tool_calls] == [False, False]


@ONE_PROCESS
async def test_results_come_in_the_order_of_the_calls() -> None:
    """Whichever is done first."""
    second_done = asyncio.Event()

    async def slow() -> str:
        """Wait for the other."""
        await second_done.wait()
        return "slow"

    async def quick() -> str:
        """Be quick."""
        second_done.set()
        return "quick"

    log = EventLog()
    result = await agent_with(
        slow, quick, replies=[tool_calls(("slow", {}), ("quick", {}))], max_iter=1
    ).run("q?", observer=log)
    assert [m.tool.name for m in result.tool_calls] == ["slow", "quick"]
    assert [s.split()[0] for s in log.story if s.startswith("Tool")] == [
        "ToolStarted", "ToolStarted", "ToolFinished", "ToolFinished",
    ]  # fmt: skip


@dataclass
class Notes:
    a: int = 0
    b: list[int] = field(default_factory=list[int])


class Model(BaseModel):
    a: int = 0
    b: list[int] = []


def _get(data: Any, key: str) -> Any:
    if isinstance(data, dict):
        return cast("dict[str, Any]", data)[key]
    return getattr(data, key)


def _set(data: Any, key: str, value: Any) -> None:
    if isinstance(data, dict):
        data[key] = value
    else:
        setattr(data, key, value)


async def set_a(ctx: ToolContext) -> None:
    """Set a."""
    _set(ctx.state.data, "a", 1)


async def add_b(ctx: ToolContext) -> None:
    """Add to b, in place."""
    _get(ctx.state.data, "b").append(2)


async def also_set_a(ctx: ToolContext) -> None:
    """Set a to something else."""
    _set(ctx.state.data, "a", 3)


KINDS: list[Any] = [lambda: {"a": 0, "b": list[int]()}, Notes, Model]


@pytest.mark.parametrize("kind", KINDS)
async def test_changes_of_parallel_tools_are_merged(runner: Runner, kind: Any) -> None:
    """Dicts, dataclasses and pydantic models; nested changes too."""
    state = State[Any](kind())
    before = state.data
    agent = agent_with(set_a, add_b, replies=[tool_calls(("set_a", {}), ("add_b", {}))], max_iter=1)
    await runner.run(agent, "q?", state=state)
    assert (_get(state.data, "a"), _get(state.data, "b")) == (1, [2])
    assert state.data is before


@pytest.mark.parametrize("kind", KINDS)
async def test_two_tools_that_changed_one_key_are_an_error(runner: Runner, kind: Any) -> None:
    """It names key and tools; nothing is taken over."""
    state = State[Any](kind())
    calls = tool_calls(("set_a", {}), ("add_b", {}), ("also_set_a", {}))
    agent = agent_with(set_a, add_b, also_set_a, replies=[calls])
    with pytest.raises(StateConflictError, match="'set_a' and 'also_set_a'") as caught:
        await runner.run(agent, "q?", state=state)
    assert (caught.value.keys, caught.value.tools) == (("a",), ("set_a", "also_set_a"))
    assert (_get(state.data, "a"), _get(state.data, "b")) == (0, [])


async def test_a_tool_sees_the_state_as_it_was_before_all_of_them(runner: Runner) -> None:
    """Changes of the other tools are not visible."""
    changed = asyncio.Event()

    async def change(ctx: ToolContext) -> None:
        """Change it."""
        ctx.state.data["a"] = "changed"
        changed.set()

    async def read(ctx: ToolContext) -> Any:
        """Read it."""
        if runner.mode == "direct":  # in a function each call is a request, in any order
            await changed.wait()
        return ctx.state.data["a"]

    state = State[Any]({"a": "old"})
    agent = agent_with(change, read, replies=[tool_calls(("change", {}), ("read", {}))], max_iter=1)
    result = await runner.run(agent, "q?", state=state)
    assert result.tool_calls[1].content == {"data": "old"}
    assert state.data == {"a": "changed"}


async def test_a_key_that_a_tool_removed_is_gone(runner: Runner) -> None:
    """The removed key may be one that no other tool touched."""

    async def remove(ctx: ToolContext) -> None:
        """Remove it."""
        del ctx.state.data["a"]

    async def nothing() -> None:
        """Do nothing."""

    state = State[Any]({"a": 1, "b": 2})
    agent = agent_with(
        remove, nothing, replies=[tool_calls(("remove", {}), ("nothing", {}))], max_iter=1
    )
    await runner.run(agent, "q?", state=state)
    assert state.data == {"b": 2}


async def test_a_single_call_works_on_the_state_itself(runner: Runner) -> None:
    """One call needs no fork."""
    states: list[Any] = []

    async def keep(ctx: ToolContext) -> None:
        """Keep it."""
        states.append(ctx.state)

    state = State[Any]()
    await runner.run(
        agent_with(keep, replies=[tool_calls(("keep", {}))], max_iter=1), "q?", state=state
    )
    assert states == [state]


async def test_an_error_of_a_tool_does_not_end_the_others(runner: Runner) -> None:
    """The model reads both."""

    async def fail() -> None:
        """Fail."""
        raise ValueError("no")

    calls = tool_calls(("fail", {}), ("set_a", {}))
    state = State[Any]()
    result = await runner.run(
        agent_with(fail, set_a, replies=[calls], max_iter=1), "q?", state=state
    )
    assert [m.is_error for m in result.tool_calls] == [True, False]
    assert state.data == {"a": 1}


@pytest.mark.direct_only("in a function an error with a time ends the request at once")
async def test_a_control_error_fails_the_run_after_all_have_ended() -> None:
    """The first of them, in the order of the calls."""
    ended: list[str] = []
    failed = asyncio.Event()

    async def stop() -> None:
        """Stop."""
        failed.set()
        raise RetryAfterError("later", 5)

    async def stop_too() -> None:
        """Stop, too."""
        raise NonRetriableError("never")

    async def work() -> None:
        """Go on after that."""
        await failed.wait()
        await asyncio.sleep(0)
        ended.append("work")

    calls = tool_calls(("work", {}), ("stop", {}), ("stop_too", {}))
    with pytest.raises(RetryAfterError, match="later"):
        await agent_with(stop, stop_too, work, replies=[calls]).run("q?")
    assert ended == ["work"]


async def test_a_time_limit_is_each_tools_own(runner: Runner) -> None:
    """The others are not stopped by it."""

    async def wait() -> None:
        """Wait for ever."""
        await asyncio.Event().wait()

    calls = tool_calls(("wait", {}), ("set_a", {}))
    limits = RunLimits(tool_timeout=0.01)
    result = await runner.run(
        agent_with(wait, set_a, replies=[calls], max_iter=1), "q?", limits=limits
    )
    assert [m.is_error for m in result.tool_calls] == [True, False]


async def test_the_next_inference_sees_all_results_in_order(runner: Runner) -> None:
    """The strict provider accepts the order."""
    model = ScriptedModel(tool_calls(("set_a", {}), ("add_b", {}), ("fly", {})), "done")
    agent = Agent(
        name="a", system="S", tools=[set_a, add_b], model=model, parallel_tools=True, max_iter=2
    )
    await runner.run(agent, "q?", state=State[Any](Notes()))
    ids = [m["tool_call_id"] for m in model.bodies[1]["messages"] if m["role"] == "tool"]
    assert ids == ["call_1", "call_2", "call_3"]
    model.assert_finished()
