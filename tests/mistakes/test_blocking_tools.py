"""An async tool that blocks is named: all else in its process waited for it."""

from __future__ import annotations

import asyncio
import logging
import time
from uuid import uuid4

import pytest

from agentkit_py import Agent, tool
from agentkit_py._engine.tool_handlers import LONGEST_HOLD, Watched
from agentkit_py.testing import ScriptedModel, tool_call

LOGGER = "agentkit_py.blocking"


@pytest.fixture(autouse=True)
def warns(caplog: pytest.LogCaptureFixture) -> None:
    """Turn the warning on, which tests/conftest.py turns off."""
    caplog.set_level(logging.WARNING, LOGGER)


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return the seconds."""
        return self.now


async def test_an_async_tool_that_blocks_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """It is named where it stands, in an agent that is a tool, and not again in the next call."""
    name = f"sleep_{uuid4().hex}"

    @tool(name=name)
    async def block() -> str:
        """Block."""
        time.sleep(LONGEST_HOLD)  # noqa: ASYNC251 - the mistake
        return "done"

    call = tool_call(name, {})
    inner = Agent(name="inner", system="S", model=ScriptedModel(call, call, "Done."), tools=[block])
    model = ScriptedModel(tool_call("inner", {"task": "Work."}), "Done.")
    outer = Agent(name="outer", system="S", model=model, tools=[inner.as_tool(allowed_tools="own")])
    assert (await outer.run("Hi")).text == "Done."
    lines = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    assert len(lines) == 1
    assert lines[0].startswith(f"Tool {name!r} held the event loop for ")
    assert "asyncio.to_thread" in lines[0]


@pytest.mark.parametrize("level", [logging.WARNING, logging.ERROR])
async def test_the_level_of_its_logger_turns_the_warning_off(
    level: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A program that may block has no use for it."""
    caplog.set_level(level, LOGGER)
    clock = Clock()

    async def block() -> int:
        clock.now += LONGEST_HOLD
        return 3

    assert await Watched(f"blocking {uuid4()}", block(), clock) == 3
    assert len(caplog.records) == (level == logging.WARNING)


async def test_work_of_a_run_inside_of_a_tool_is_not_the_tools(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An agent that is a tool is not blamed for what takes long in its run."""
    clock = Clock()

    async def drive() -> str:
        clock.now += LONGEST_HOLD
        await asyncio.sleep(0)
        clock.now += LONGEST_HOLD
        return "done"

    async def call() -> str:
        return await Watched("", drive(), clock)

    assert await Watched(f"agent {uuid4()}", call(), clock) == "done"
    assert not caplog.records


async def test_a_tool_that_waits_long_in_await_holds_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Many short steps, and waiting between them, are how an async tool is meant."""
    clock = Clock()

    async def wait() -> None:
        for _ in range(3):
            clock.now += LONGEST_HOLD / 2
            event = asyncio.Event()
            asyncio.get_running_loop().call_soon(event.set)
            await event.wait()
        raise LookupError("none")

    async def elsewhere() -> None:
        for _ in range(9):
            clock.now += 60
            await asyncio.sleep(0)

    with pytest.raises(LookupError, match="none"):
        await asyncio.gather(Watched("waiting", wait(), clock), elsewhere())
    assert not caplog.records


async def test_a_tool_that_blocks_can_be_cancelled_where_it_waits() -> None:
    """It gets the cancellation, and may clean up."""
    ended: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cleaned up")

    task = asyncio.ensure_future(Watched("cancelled", wait()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["cleaned up"]
