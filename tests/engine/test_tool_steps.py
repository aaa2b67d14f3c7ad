"""``ctx.step`` of tools, and tools that are tried again."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentkit_py import Agent, Tool, ToolContext, openai, tool
from agentkit_py.errors import ConfigurationError, ToolDefinitionError
from agentkit_py.models.base import Model
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.testing import FakeProvider, ScriptedModel, tool_call

from .runner import Runner


def agent(*tools: Tool, call: dict[str, Any] | None = None) -> Agent:
    """An agent that calls the first tool."""
    model = ScriptedModel(tool_call(tools[0].name, call or {}), "Done.")
    return Agent(name="a", system="S", model=model, tools=list(tools), max_iter=2)


async def content(runner: Runner, used: Tool) -> Any:
    """Run the tool, and return the content of its result."""
    found: list[Any] = []

    def look(event: Any) -> None:
        if type(event).__name__ == "ToolFinished":
            found.append(event.result.content)

    await runner.run(agent(used), "hi", observer=look)
    return found[0]


async def test_steps_have_keys_of_their_own(runner: Runner) -> None:
    """Each differs from the others and from that of the call, and stays with its step."""
    keys: dict[str, set[str]] = {}

    @tool(steps=True)
    async def work(ctx: ToolContext) -> str:
        """Work."""

        def note(name: str) -> None:
            keys.setdefault(name, set()).add(ctx.step.idempotency_key)

        async def one() -> None:
            note("one")

        async def two() -> None:
            note("two")
            note("two")

        await ctx.step.run("one", one)
        await ctx.step.run("two", two)
        keys.setdefault("call", set()).add(ctx.idempotency_key)
        return "ok"

    assert await content(runner, work) == {"data": "ok"}
    assert len(keys["one"]) == len(keys["two"]) == 1
    assert len(keys["one"] | keys["two"] | keys["call"]) == 2 + len(keys["call"])


async def test_steps_run_in_parallel_and_come_back_in_order(runner: Runner) -> None:
    """Each may have several; an error of one is raised when all have ended."""
    done: list[str] = []

    @tool(steps=True)
    async def work(ctx: ToolContext) -> list[Any]:
        """Work."""

        async def chain(name: str) -> list[str]:
            async def act(part: str) -> str:
                done.append(f"{name}{part}")
                return f"{name}{part}"

            return [
                await ctx.step.run(f"{name}{part}", lambda part=part: act(part)) for part in "12"
            ]

        return await ctx.step.parallel(lambda: chain("a"), lambda: chain("b"), lambda: chain("c"))

    assert await content(runner, work) == {"data": [["a1", "a2"], ["b1", "b2"], ["c1", "c2"]]}
    assert sorted(done) == ["a1", "a2", "b1", "b2", "c1", "c2"]


async def test_a_tool_sleeps_until_a_time(runner: Runner) -> None:
    """A time that has passed is no wait; one without a zone is refused."""

    @tool(steps=True)
    async def work(ctx: ToolContext) -> str:
        """Work."""
        await ctx.step.sleep_until("then", datetime(2020, 1, 1, tzinfo=UTC))
        with pytest.raises(ConfigurationError, match="time zone"):
            await ctx.step.sleep_until("naive", datetime(2020, 1, 1))  # noqa: DTZ001 - it is refused
        return "awake"

    assert await content(runner, work) == {"data": "awake"}


async def test_a_wrapped_call_is_a_step(runner: Runner) -> None:
    """With its arguments; once."""
    asked: list[str] = []

    async def client(question: str, n: int) -> dict[str, Any]:
        asked.append(question)
        return {"answer": n}

    @tool(steps=True)
    async def work(ctx: ToolContext) -> Any:
        """Work."""
        return await ctx.step.ai_wrap("ask", client, "why?", 42)

    assert await content(runner, work) == {"data": {"answer": 42}}
    assert asked == ["why?"]


async def test_a_tool_asks_a_model(runner: Runner) -> None:
    """The reply's JSON comes back."""
    fake = FakeProvider(["Forty-two."])
    model = openai("gpt-4o", api_key="sk-test")
    known: dict[str, Any] = {name: getattr(model, name) for name in Model.__dataclass_fields__}
    known["transport"] = fake.transport
    model = Model(**known)

    @tool(steps=True)
    async def work(ctx: ToolContext) -> Any:
        """Work."""
        messages = [{"role": "user", "content": "why?"}]
        body = {"model": "gpt-4o", "messages": messages}
        reply = await ctx.step.ai_infer("ask", model=model, body=body)
        return reply["choices"][0]["message"]["content"]

    assert await content(runner, work) == {"data": "Forty-two."}
    assert len(fake.requests) == 1


@pytest.mark.direct_only("what a function does with them: tests/durable/test_tool_steps.py")
async def test_steps_that_only_inngest_can_do_are_refused_by_name() -> None:
    """Events and functions."""
    refused: list[str] = []

    @tool(steps=True)
    async def work(ctx: ToolContext) -> str:
        """Work."""
        for call in (
            ctx.step.send_event("tell", []),
            ctx.step.invoke("call", function="other"),
            ctx.step.wait_for_event("wait", event="x", timeout=1),
        ):
            with pytest.raises(ConfigurationError, match="Inngest") as caught:
                await call
            refused.append(str(caught.value))
        return "ok"

    await agent(work).run("hi")
    assert ["tell" in refused[0], "other" in refused[1], "wait" in refused[2]] == [True] * 3


def failing(times: int, **traits: Any) -> tuple[Tool, list[int]]:
    """A tool that fails so many times, and the calls it got."""
    calls: list[int] = []

    @tool(backoff=0, **traits)
    def work() -> str:
        """Work."""
        calls.append(len(calls))
        if len(calls) <= times:
            raise OSError(f"attempt {len(calls)}")
        return "ok"

    return work, calls


async def test_a_tool_is_tried_again_as_often_as_it_says(runner: Runner) -> None:
    """The model reads nothing of the attempts that failed."""
    work, calls = failing(3, retries=3)
    assert await content(runner, work) == {"data": "ok"}
    assert len(calls) == 4


async def test_the_model_reads_the_error_of_the_last_attempt(runner: Runner) -> None:
    """And a tool that says nothing is called once."""
    for retries in (2, 0):
        work, calls = failing(9, retries=retries)
        found = await content(runner, work)
        assert found["error"] == {"name": "OSError", "message": f"attempt {retries + 1}"}
        assert len(calls) == retries + 1


async def test_an_attempt_that_takes_too_long_is_tried_again(runner: Runner) -> None:
    """Each attempt has the time-out."""
    calls: list[int] = []

    @tool(retries=1, backoff=0, timeout=timedelta(milliseconds=20))
    async def work() -> str:
        """Work."""
        calls.append(1)
        if len(calls) == 1:
            await asyncio.Event().wait()
        return "ok"

    assert await content(runner, work) == {"data": "ok"}


@pytest.mark.direct_only("the test chooses the runtime itself")
async def test_pauses_between_attempts_double() -> None:
    """From ``backoff`` on."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    calls: list[int] = []

    @tool(retries=3, backoff=2)
    def work() -> str:
        """Work."""
        calls.append(1)
        raise OSError("no")

    await agent(work).run("hi", runtime=DirectRuntime(sleep=sleep))
    assert pauses == [2, 4, 8]


@pytest.mark.parametrize(
    "traits",
    [{"retries": -1}, {"backoff": -1}, {"timeout": 0}, {"steps": True, "retries": 1}],
)
def test_attempts_that_make_no_sense_are_refused(traits: dict[str, Any]) -> None:
    """A tool with steps has attempts for each of them."""
    with pytest.raises(ToolDefinitionError, match="retries"):

        @tool(**traits)
        def work() -> None:
            """Work."""


@pytest.mark.parametrize("kind", [asyncio.CancelledError, SystemExit, GeneratorExit])
async def test_a_sync_tool_that_raises_an_exit_ends_like_other_tools(
    runner: Runner, kind: type[BaseException]
) -> None:
    """The model reads an error; the run continues, and so does the process."""

    @tool
    def work() -> str:
        """Work."""
        raise kind("its own")

    found = await content(runner, work)
    assert found == {"error": {"name": kind.__name__, "message": "its own"}}
