"""Runtime: a runtime writes what it does differently, and the one that pauses runs passes on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentkit_py import Agent, tool
from agentkit_py.errors import ConfigurationError
from agentkit_py.events.approvals import ApprovalAnswer, ApprovalRequest
from agentkit_py.models.base import Model
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.runtime.journal import JournalRuntime
from agentkit_py.runtime.port import DeltaSink, Runtime
from agentkit_py.runtime.steps import EventWait, ServerRequest
from agentkit_py.testing import ScriptedModel, tool_call


class Smallest(Runtime):
    """No more than a runtime has to write."""

    def new_id(self, key: str) -> str:
        return f"id of {key}"

    def now(self, key: str) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    async def infer(
        self,
        step_id: str,
        model: Model,
        make_body: Callable[[], dict[str, Any]],
        on_delta: DeltaSink | None = None,
    ) -> object:
        return await DirectRuntime().infer(step_id, model, make_body)


async def test_a_runtime_of_three_methods_runs_an_agent_with_a_tool_that_has_steps() -> None:
    """Whatever it does not write happens once, in this process."""

    @tool(steps=True)
    async def look(ctx: Any) -> int:
        """Look."""
        await ctx.step.sleep("nap", 0)
        return sum(await ctx.step.parallel(lambda: ctx.step.run("a", one), one))

    async def one() -> int:
        return 1

    model = ScriptedModel(tool_call("look"), "Two.")
    agent = Agent(name="a", system="S", tools=[look], model=model)
    result = await agent.run("How many?", runtime=Smallest())
    assert result.text == "Two."
    assert model.bodies[-1]["messages"][-1]["content"] == '{"data":2}'


async def test_a_step_that_needs_a_server_is_refused_where_there_is_none() -> None:
    """The message says which step, and what it wanted."""
    wanted = "Step 'paid' waits for the event 'invoice/paid', which only an Inngest function can"
    with pytest.raises(ConfigurationError, match=wanted):
        await Smallest().step.wait_for_event("paid", event="invoice/paid", timeout=1)


class Noting(Smallest):
    """A runtime that notes what it is asked for, where a default would do without a word."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def account(self, model: Model) -> str:
        self.asked.append("account")
        return "its account"

    async def infer(
        self,
        step_id: str,
        model: Model,
        make_body: Callable[[], dict[str, Any]],
        on_delta: DeltaSink | None = None,
    ) -> object:
        self.asked.append("infer")
        return {}

    async def wait(self, step_id: str, time: timedelta | datetime, /) -> None:
        self.asked.append("wait")

    async def server_step(self, step_id: str, request: ServerRequest, /) -> Any:
        self.asked.append("server_step")

    async def publish(self, chunk: dict[str, Any]) -> None:
        self.asked.append("publish")

    def published_by_next_step(self, follows: bool, /) -> AbstractContextManager[None]:
        self.asked.append("published_by_next_step")
        return nullcontext()

    async def ask(
        self,
        step_id: str,
        request: ApprovalRequest,
        opening: Callable[[], Awaitable[None]] | None = None,
    ) -> ApprovalAnswer | None:
        self.asked.append("ask")
        return None

    async def try_again(self, seconds: float, error: Exception) -> None:
        self.asked.append("try_again")

    async def wait_for_signal(
        self, step_id: str, key: str, enter: Callable[[], Awaitable[bool]], seconds: float
    ) -> bool | None:
        self.asked.append("wait_for_signal")
        return True

    async def signal(self, key: str) -> None:
        self.asked.append("signal")

    def is_final(self, error: BaseException) -> bool:
        self.asked.append("is_final")
        return False

    def repeats(self, error: Exception) -> bool:
        self.asked.append("repeats")
        return True


async def entered() -> bool:
    """Enter at once."""
    return True


REQUEST = ApprovalRequest(id="q", agent="a", message="Well?", calls=(), timeout=1)

CALLS: dict[str, Callable[[Runtime], Any]] = {
    "account": lambda runtime: runtime.account(ScriptedModel()),
    "infer": lambda runtime: runtime.infer("i", ScriptedModel(), dict),
    "wait": lambda runtime: runtime.wait("w", timedelta(hours=1)),
    "server_step": lambda runtime: runtime.server_step(
        "s", EventWait(event="e", if_exp=None, timeout=1)
    ),
    "publish": lambda runtime: runtime.publish({}),
    "published_by_next_step": lambda runtime: runtime.published_by_next_step(True),
    "ask": lambda runtime: runtime.ask("a", REQUEST),
    "try_again": lambda runtime: runtime.try_again(1, ValueError()),
    "wait_for_signal": lambda runtime: runtime.wait_for_signal("x", "k", entered, 3600),
    "signal": lambda runtime: runtime.signal("k"),
    "is_final": lambda runtime: runtime.is_final(ValueError()),
    "repeats": lambda runtime: runtime.repeats(ValueError()),
}


@pytest.mark.parametrize("member", CALLS)
async def test_a_run_that_may_pause_leaves_the_outside_world_to_its_runtime(
    member: str,
) -> None:
    """A member that is not passed on would take the default, and nothing would say so."""
    local = Noting()
    result = CALLS[member](JournalRuntime(local))
    if isinstance(result, Awaitable):
        await result
    assert local.asked == [member]


def test_a_runtime_that_does_not_say_how_it_asks_a_model_cannot_be_made() -> None:
    """Else that would come out with the first message."""

    class Without(Runtime):
        def new_id(self, key: str) -> str:
            return key

        def now(self, key: str) -> datetime:
            return datetime.now(UTC)

    made: Any = Without
    with pytest.raises(TypeError, match=r"abstract method '?infer"):
        made()
