"""Errors are retried as often as the function's setting says, and never more."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import inngest
import pytest

from agentkit_py import (
    Agent,
    HistoryConfig,
    Lifecycle,
    Network,
    State,
    Tool,
    ToolContext,
    create_tool,
    tool,
)
from agentkit_py.errors import ConfigurationError, NonRetriableError, RetryAfterError
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.testing import ScriptedModel, tool_call, tool_calls
from agentkit_py.testing import error as error_reply
from agentkit_py.testing.executor import ReplayExecutor

from .world import EVENT, INFERENCES, Inference, Scenario, Stage, executor_for

PLACES = ["tool", "router", "on_start", "on_response", "on_finish", "store"]
ATTEMPTS = 3


def failing(place: str, raising: Callable[[int], Exception | None]) -> Callable[[Stage], Network]:
    """A network in which one place counts a side effect, and then raises the error given."""

    def network(stage: Stage) -> Network:
        def happen(*_: Any) -> None:
            stage.effects.happen(place)
            found = raising(stage.effects.counts[place])
            if found is not None:
                raise found

        @tool
        def act() -> str:
            """Act."""
            if place == "tool":
                happen()
            return "acted"

        hook: dict[str, Any] = {place: happen} if place.startswith("on_") else {}
        agent = Agent(
            name="actor", system="actor S", tools=[act], max_iter=2, lifecycle=Lifecycle(**hook)
        )

        def router(context: Any) -> Agent | None:
            if place == "router":
                happen()
            return agent if context.call_count == 0 else None

        store = None
        if place == "store":
            store = HistoryConfig(append_results=happen, save_each=True)
        return Network(name="net", agents=[agent], router=router, history=store)

    return network


REPLIES = {"actor": [tool_call("act"), "Done."]}


@pytest.mark.parametrize("inference", INFERENCES)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", [NonRetriableError, inngest.NonRetriableError])
async def test_a_non_retriable_error_is_tried_once_wherever_it_is_raised(
    scenario: Callable[..., Scenario], place: str, kind: Any, inference: Inference
) -> None:
    """Ours and the SDK's; the side effect before it happened once."""
    failed = scenario(failing(place, lambda _count: kind("no")), REPLIES, retries=ATTEMPTS - 1)
    outcome = await failed.durable(inference, check=False)
    assert outcome.error is not None
    assert outcome.error.endswith("no")
    assert "NonRetriableError: NonRetriableError" not in outcome.error
    assert outcome.effects == {place: 1}
    assert [c[1] for c in outcome.chunks].count("run.failed") >= 1
    assert "run.completed" not in [c[1] for c in outcome.chunks]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", ["ours", "sdk"])
async def test_an_error_with_a_time_is_tried_again_then_as_often_as_retries_says(
    scenario: Callable[..., Scenario], place: str, kind: str
) -> None:
    """Once for each attempt, side effects included."""

    def raising(_count: int) -> Exception:
        made = RetryAfterError if kind == "ours" else inngest.RetryAfterError
        return made("later", timedelta(hours=1))

    failed = scenario(failing(place, raising), REPLIES, retries=ATTEMPTS - 1)
    outcome = await failed.durable(check=False)
    assert outcome.error is not None
    assert "later" in outcome.error
    assert outcome.effects == {place: ATTEMPTS}


@pytest.mark.parametrize("inference", INFERENCES)
@pytest.mark.parametrize("place", PLACES)
async def test_a_transient_error_is_tried_again_and_leaves_no_trace(
    scenario: Callable[..., Scenario], place: str, inference: Inference
) -> None:
    """No run.failed, no half-saved result, and everything as if nothing had been."""

    def raising(count: int) -> Exception | None:
        return RetryAfterError("busy", 60) if count == 1 else None

    hurt = scenario(failing(place, raising), REPLIES)
    whole = scenario(failing(place, lambda _count: None), REPLIES)
    outcome, expected = await hurt.durable(inference, check=False), await whole.direct()
    names = [chunk[1] for chunk in outcome.chunks]
    assert outcome.error is None
    assert "run.failed" not in names
    assert names.count("stream.ended") == 1
    for one in (outcome, expected):
        one.effects.clear()  # a router and hooks run again on each replay
    assert outcome == expected


async def test_a_store_that_fails_for_a_moment_gets_its_rows_once(support: Scenario) -> None:
    """Each save is a step of its own."""
    rows: list[str] = []
    tries: list[int] = []

    def append(context: Any) -> None:
        tries.append(1)
        if len(tries) == 2:
            raise ConnectionError("the database is away")
        rows.extend(result.id for result in context.new_results)

    support.store = lambda: HistoryConfig(append_results=append, save_each=True)
    outcome = await support.durable()
    assert outcome.error is None
    assert len(rows) == len(set(rows)) == 5
    assert len(tries) == 6


@pytest.mark.parametrize(
    ("value", "path"), [({1: "x"}, "orders"), ((1, 2), "orders"), (math.nan, "orders")]
)
async def test_state_that_is_no_json_fails_at_once_and_names_the_key(
    scenario: Callable[..., Scenario], value: Any, path: str
) -> None:
    """The tool that wrote it is not called again."""

    def network(stage: Stage) -> Network:
        @tool
        def spoil(ctx: ToolContext) -> str:
            """Put something there."""
            stage.effects.happen("spoil")
            ctx.state.data["orders"] = value
            return "done"

        agent = Agent(name="actor", system="actor S", tools=[spoil], max_iter=2)
        return Network(
            name="net", agents=[agent], router=lambda c: agent if c.call_count == 0 else None
        )

    spoilt = scenario(network, {"actor": [tool_call("spoil"), "Done."]})
    outcome = await spoilt.durable()
    assert outcome.error is not None
    assert path in outcome.error
    assert outcome.effects == {"spoil": 1}


async def test_output_that_is_too_large_fails_at_once_and_says_how_large(
    scenario: Callable[..., Scenario],
) -> None:
    """Inngest would try it again and again."""

    def network(stage: Stage) -> Network:
        @tool
        def large() -> str:
            """Give very much."""
            stage.effects.happen("large")
            return "é" * 1_000_000

        agent = Agent(name="actor", system="actor S", tools=[large], max_iter=2)
        return Network(
            name="net", agents=[agent], router=lambda c: agent if c.call_count == 0 else None
        )

    outcome = await scenario(network, {"actor": [tool_call("large"), "Done."]}).durable()
    assert outcome.error is not None
    assert "6,000,0" in outcome.error
    assert "4,194,304" in outcome.error
    assert outcome.effects == {"large": 1}


@pytest.mark.parametrize(
    ("status", "name"),
    [(400, "BadRequestError"), (401, "AuthenticationError"), (429, "RateLimitError")],
)
@pytest.mark.parametrize("inference", INFERENCES)
async def test_a_models_error_is_ours_and_tried_as_often_as_makes_sense(
    scenario: Callable[..., Scenario], inference: Inference, status: int, name: str
) -> None:
    """The gateway tries everything again; here 400 and 401 are sent once."""

    def network(stage: Stage) -> Network:
        agent = Agent(name="actor", system="actor S")
        return Network(
            name="net", agents=[agent], router=lambda c: agent if c.call_count == 0 else None
        )

    replies = {"actor": [error_reply(status, "The provider says no.")]}
    outcome = await scenario(network, replies, retries=ATTEMPTS - 1).durable(inference)
    assert outcome.error is not None
    assert name in outcome.error
    assert "The provider says no." in outcome.error
    again = inference == "offload" or status == 429
    assert len(outcome.requests) == (ATTEMPTS if again else 1)


async def test_a_failed_run_that_the_function_survives_is_saved_once() -> None:
    """The function continues with other steps, and the error comes by again in each replay."""
    saved: list[str] = []

    def append(context: Any) -> None:
        saved.extend(result.agent_name for result in context.new_results)

    @tool
    def fail() -> str:
        """Fail."""
        raise NonRetriableError("no")

    model = ScriptedModel("first", tool_call("fail"))
    one = Agent(name="one", system="S", model=model)
    two = Agent(name="two", system="S", model=model, tools=[fail], max_iter=1)
    network = Network(
        name="net",
        agents=[one, two],
        router=lambda c: [one, two] if c.call_count == 0 else None,
        history=HistoryConfig(append_results=append),
    )

    async def handler(ctx: inngest.Context) -> str:
        try:
            await network.run("go")
        except Exception as error:  # noqa: BLE001 - what functions do
            message = str(error)
        else:
            message = ""

        async def notify() -> str:
            return message

        first = await ctx.step.run("notify", notify)
        await ctx.step.sleep("rest", timedelta(hours=1))
        return first

    run = await executor_for(handler).run(EVENT)
    assert run.status == "completed"
    assert "no" in run.output
    assert saved == ["one", "two"]  # the reply whose call failed, too


@pytest.mark.parametrize("hook", ["create_thread", "get", "append_user_message"])
async def test_a_store_that_refuses_before_the_run_begins_is_asked_once(
    support: Scenario, hook: str
) -> None:
    """Whichever of its hooks says that trying again is of no use."""
    asked: list[str] = []

    def refuse(context: Any) -> Any:
        asked.append(hook)
        raise NonRetriableError("not this thread")

    hooks: Any = {hook: refuse}
    support.store = lambda: HistoryConfig(**hooks)
    support.options = {"thread_id": "t1"}
    outcome = await support.durable()
    assert outcome.error is not None
    assert "not this thread" in outcome.error
    assert asked == [hook]


@pytest.mark.parametrize("where", ["function", "step"])
async def test_our_errors_mean_the_same_in_the_functions_own_code(where: str) -> None:
    """The middleware says it in the SDK's words."""
    tries: list[int] = []

    async def fail() -> None:
        tries.append(1)
        raise NonRetriableError("never")

    async def handler(ctx: inngest.Context) -> None:
        await (fail() if where == "function" else ctx.step.run("fail", fail))

    run = await executor_for(handler, check=False).run(EVENT)
    assert run.status == "failed"
    assert tries == [1]


def in_a_group(failing_tool: Tool, effects: list[str]) -> Agent:
    """An agent that calls two tools at the same time, of which one fails."""

    @tool
    def work() -> None:
        """Work."""
        effects.append("work")

    model = ScriptedModel(tool_calls(("work", {}), (failing_tool.name, {})))
    tools = [work, failing_tool]
    return Agent(name="a", system="S", tools=tools, model=model, parallel_tools=True, max_iter=1)


SEEDS = pytest.mark.parametrize("seed", range(5))
"""Orders in which the steps of a group are done."""


@SEEDS
async def test_an_error_with_a_time_is_tried_again_then_also_in_a_group(seed: int) -> None:
    """The retry does not depend on whether the parallel call is done."""
    effects: list[str] = []

    @tool
    def fail() -> None:
        """Fail."""
        effects.append("fail")
        raise RetryAfterError("later", timedelta(hours=1))

    agent = in_a_group(fail, effects)

    async def handler(ctx: inngest.Context) -> str:
        return (await agent.run("go")).text

    executor = executor_for(handler, retries=ATTEMPTS - 1, seed=seed)
    began = executor.schedule.now
    run = await executor.run(EVENT)
    assert run.error is not None
    assert (run.error["name"], run.error["message"]) == ("RetryAfterError", "later")
    assert effects.count("fail") == ATTEMPTS
    assert executor.schedule.now - began == pytest.approx((ATTEMPTS - 1) * 3600, abs=60)


@SEEDS
async def test_a_non_retriable_error_of_a_tools_own_step_is_tried_once_also_in_a_group(
    seed: int,
) -> None:
    """The failure does not depend on whether the parallel call is done."""
    effects: list[str] = []

    @tool(steps=True)
    async def fail(ctx: ToolContext) -> None:
        """Fail."""

        async def inner() -> None:
            effects.append("fail")
            raise NonRetriableError("never")

        await ctx.step.run("inner", inner)

    agent = in_a_group(fail, effects)

    async def handler(ctx: inngest.Context) -> str:
        return (await agent.run("go")).text

    run = await executor_for(handler, seed=seed).run(EVENT)
    assert run.error is not None
    assert "never" in run.error["message"]
    assert effects.count("fail") == 1


async def test_half_an_emoji_ends_no_run() -> None:
    """The server fails a run of which a step's output holds one."""

    @tool
    def cut(ctx: ToolContext) -> str:
        """Cut a text."""
        ctx.state.data["cut"] = ["\ude00"]
        return "cut \ud83d, \ud83d\ude00 and 😀"

    @tool(steps=True)
    async def cut_too(ctx: ToolContext) -> str:
        """Cut a text in a step."""

        async def inner() -> str:
            return "\ud83d"

        return await ctx.step.run("inner", inner)

    model = ScriptedModel(tool_calls(("cut", {}), ("cut_too", {})), "Half: \ud83d")
    agent = Agent(name="a", system="S", tools=[cut, cut_too], model=model, max_iter=2)

    async def handler(ctx: inngest.Context) -> list[Any]:
        state: State[Any] = State()
        result = await agent.run("go", state=state)
        read = [message.content for message in state.results[0].tool_calls]
        return [read, state.data, result.text]

    run = await executor_for(handler).run(EVENT)
    assert run.output == [
        [{"data": "cut \ufffd, 😀 and 😀"}, {"data": "\ufffd"}],
        {"cut": ["\ufffd"]},
        "Half: \ufffd",
    ]


class OwnError(NonRetriableError):
    """A user's, by the name of one of ours."""


OwnError.__name__ = "StateError"


def _raise(error: Exception, _: object) -> None:
    raise error


async def test_facts_of_an_error_that_cannot_be_remembered_are_left_out() -> None:
    """Values that are no JSON, lone surrogates and a foreign error's attributes are dropped."""
    ours, theirs = ConfigurationError("half \ud83d"), OwnError("theirs")
    vars(ours).update(path=object(), hint="kept")
    vars(theirs).update(password="secret")

    async def function(ctx: inngest.Context) -> list[Any]:
        found: list[Any] = []
        for raised in (ours, theirs):
            tools = [create_tool(name="fail", handler=partial(_raise, raised))]
            model = ScriptedModel(tool_call("fail", {}))
            agent = Agent(name="a", system="S", tools=tools, model=model, max_iter=2)
            try:
                await agent.run("go")
            except Exception as error:  # noqa: BLE001 - what came out is looked at
                found.append([str(error.__cause__), vars(error.__cause__)])
        return found

    run = await executor_for(function).run(EVENT)
    assert run.status == "completed", run.error
    assert "secret" not in json.dumps(run.memos)
    assert run.output == [["half \ufffd", {"hint": "kept"}], ["theirs", {}]]


@pytest.mark.parametrize("way", ["nothing", "ctx", "runtime"])
async def test_a_run_in_a_function_without_middleware_is_refused_unless_it_says_how(
    way: str,
) -> None:
    """It would be repeated with each step of the function, and its tools with it."""
    paid: list[str] = []

    @tool
    def pay() -> str:
        """Pay."""
        paid.append("paid")
        return "paid"

    model = ScriptedModel(tool_call("pay"), "Paid.")
    agent = Agent(name="a", system="S", model=model, tools=[pay], max_iter=3)
    client = inngest.Inngest(app_id="a", is_production=False)

    @client.create_function(fn_id="f", trigger=inngest.TriggerEvent(event="go"), retries=0)
    async def function(ctx: inngest.Context) -> str:
        async def run() -> str:
            return (await agent.run("Pay.", runtime=DirectRuntime())).text

        async def nothing() -> None:
            return None

        if way == "runtime":
            found = await ctx.step.run("agent", run)
        else:
            given: Any = {"ctx": ctx} if way == "ctx" else {}
            found = (await agent.run("Pay.", **given)).text
        await ctx.step.run("first", nothing)
        await ctx.step.run("second", nothing)
        return found

    run = await ReplayExecutor(client, [function]).run("go", {})
    if way == "nothing":
        assert run.status == "failed"
        assert run.error is not None
        assert "AgentKitMiddleware" in run.error["message"]
        assert model.bodies == []
    else:
        assert (run.status, run.output) == ("completed", "Paid.")
    assert paid == ([] if way == "nothing" else ["paid"])
