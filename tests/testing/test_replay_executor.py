"""ReplayExecutor does what the Inngest server does, and is stricter than the SDK's mock."""

from __future__ import annotations

import math
from datetime import timedelta
from functools import partial
from typing import Any

import httpx
import inngest
import pytest
from inngest.experimental.ai import anthropic, gemini, openai

from agentkit_py.errors import ConfigurationError, ScriptError
from agentkit_py.testing import FakeProvider
from agentkit_py.testing.executor import KillAt, ReplayExecutor, kill_points
from agentkit_py.testing.executor.runs import matches

GO = inngest.TriggerEvent(event="go")


def client(**options: Any) -> inngest.Inngest:
    """A client in development mode."""
    return inngest.Inngest(app_id="app", is_production=False, **options)


def executor(handler: Any, *, made: Any = None, retries: int = 2, **options: Any) -> ReplayExecutor:
    """An executor with one function."""
    made = made or client()
    function = made.create_function(fn_id="f", trigger=GO, retries=retries)(handler)
    return ReplayExecutor(made, [function], **options)


async def test_each_step_is_a_request_and_each_output_goes_through_json() -> None:
    """The SDK's mock passes outputs on unchanged; here they become JSON."""
    calls: list[str] = []

    async def handler(ctx: inngest.Context) -> Any:
        calls.append("top")

        async def pair() -> Any:
            return (1, {"data": {"error": None}})

        return [await ctx.step.run("pair", pair), await ctx.step.run("pair", pair)]

    run = await executor(handler, check=True).run("go")
    assert run.output == [[1, {"data": {"error": None}}]] * 2
    assert run.names == ["pair", "pair"]
    assert len({step.id for step in run.steps}) == 2  # the second is pair:1
    assert run.requests == 3
    assert run.differences == []


async def test_a_failing_step_is_tried_again_and_then_raised_as_a_step_error() -> None:
    """The function may survive it; attempts are counted for each step."""
    attempts: list[int] = []

    async def handler(ctx: inngest.Context) -> str:
        async def fail() -> None:
            attempts.append(ctx.attempt)
            raise ValueError("no luck")

        try:
            await ctx.step.run("fail", fail)
        except inngest.StepError as error:
            return f"{error.name}: {error.message}"
        return "not reached"

    run = await executor(handler).run("go")
    assert (run.output, attempts) == ("ValueError: no luck", [0, 1, 2])
    assert run.steps[0].attempts == 3


async def test_a_function_that_fails_is_tried_again_unless_it_says_not_to() -> None:
    """The waits that it asks for pass at once."""
    attempts: list[int] = []

    async def handler(ctx: inngest.Context) -> None:
        attempts.append(ctx.attempt)
        if len(attempts) == 1:
            raise inngest.RetryAfterError("later", timedelta(days=2))
        raise inngest.NonRetriableError("never")

    made = executor(handler)
    before = made.schedule.now
    run = await made.run("go")
    assert (run.status, attempts) == ("failed", [0, 1])
    assert made.schedule.now - before > timedelta(days=1).total_seconds()


async def test_parallel_steps_are_planned_and_run_in_an_order_of_the_seed() -> None:
    """The results keep the order in which the calls were written."""
    orders: set[str] = set()
    for seed in range(8):
        done: list[str] = []

        async def handler(ctx: inngest.Context, done: list[str] = done) -> Any:
            def branch(name: str) -> Any:
                async def work() -> str:
                    done.append(name)
                    return name

                return lambda: ctx.step.run(name, work)

            return await ctx.group.parallel((branch("a"), branch("b"), branch("c")))

        run = await executor(handler, seed=seed, check=True).run("go")
        assert run.output == ["a", "b", "c"]
        orders.add("".join(done))
    assert len(orders) > 3


async def test_sleeps_and_waits_take_no_time_and_events_end_waits() -> None:
    """A wait that nobody ends times out; an event must match its expression."""

    async def handler(ctx: inngest.Context) -> Any:
        await ctx.step.sleep("s", timedelta(days=3))
        found = await ctx.step.wait_for_event(
            "w",
            event="answer",
            if_exp="async.data.id == event.data.id && async.data.ok == true",
            timeout=timedelta(hours=4),
        )
        return found.data if found is not None else None

    made = executor(handler)
    run = await made.start("go", {"id": 7})
    assert (run.status, run.waiting_for) == ("running", ["answer"])
    await made.send_event("answer", {"id": 8, "ok": True})
    assert run.status == "running"
    await made.send_event("answer", {"id": 7, "ok": True})
    assert (run.status, run.output) == ("completed", {"id": 7, "ok": True})
    assert (await executor(handler).run("go", {"id": 1})).output is None
    answered = await executor(handler).run(
        "go", {"id": 2}, answer=lambda wait: {"id": 2, "ok": True, "to": wait.event}
    )
    assert answered.output["to"] == "answer"


async def test_functions_invoke_each_other_and_send_events() -> None:
    """A failed callee is a StepError; an event that was sent twice under one id counts once."""
    made = client()

    @made.create_function(fn_id="double", trigger=inngest.TriggerEvent(event="number"))
    async def double(ctx: inngest.Context) -> Any:
        number: Any = ctx.event.data["n"]
        if number < 0:
            raise inngest.NonRetriableError("negative")
        return number * 2

    @made.create_function(fn_id="f", trigger=GO)
    async def main(ctx: inngest.Context) -> Any:
        found: list[Any] = [await ctx.step.invoke("i", function=double, data={"n": 4})]
        try:
            await ctx.step.invoke("j", function=double, data={"n": -1})
        except inngest.StepError as error:
            found.append(error.message)
        for _ in range(2):
            await ctx.step.send_event("s", inngest.Event(name="number", data={"n": 1}, id="once"))
        return found

    server = ReplayExecutor(made, [main, double])
    run = await server.run("go")
    await server.advance(1)
    assert run.output == [8, "negative"]
    assert [r.function for r in server.runs] == ["app-f", "app-double", "app-double", "app-double"]


@pytest.mark.parametrize(
    ("adapter", "body"),
    [
        (openai.Adapter(auth_key="sk-k", model="gpt-4o"), "messages"),
        (anthropic.Adapter(auth_key="sk-k", model="claude-sonnet-4-5"), "max"),
        (gemini.Adapter(auth_key="sk-k", model="gemini-2.5-flash"), "contents"),
    ],
    ids=["openai", "anthropic", "gemini"],
)
async def test_the_gateway_sends_the_request_that_an_adapter_describes(
    adapter: Any, body: str
) -> None:
    """The key is where each format has it."""
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={"ok": [1]})

    async def handler(ctx: inngest.Context) -> Any:
        return await ctx.step.ai.infer("ask", adapter=adapter, body={body: []})

    run = await executor(handler, transport=httpx.MockTransport(answer)).run("go")
    assert run.output == {"ok": [1]}
    where = [str(seen[0].url), *(f"{k}: {v}" for k, v in seen[0].headers.items())]
    assert any("sk-k" in part for part in where)


async def test_the_gateway_tries_every_error_again_and_then_raises_it_with_the_body() -> None:
    """400 and 401 too, as the server does."""
    fake = FakeProvider([], api_keys={"openai": "sk-right"})

    async def handler(ctx: inngest.Context) -> Any:
        adapter = openai.Adapter(auth_key="sk-wrong", model="gpt-4o")
        messages = [{"role": "user", "content": "hi"}]
        try:
            return await ctx.step.ai.infer("ask", adapter=adapter, body={"messages": messages})
        except inngest.StepError as error:
            return [error.name, error.message, error.stack]

    run = await executor(handler, transport=fake.transport).run("go")
    name, message, stack = run.output
    assert name == "AIGatewayError"
    assert message.endswith("unsuccessful status code: 401")
    assert "Incorrect API key" in stack
    assert len(fake.requests) == 3


async def test_a_kill_loses_the_answer_but_not_the_recorded_steps() -> None:
    """Each point of a run of two steps is tried, with new function objects after each."""
    made = client()
    processes: list[int] = []
    done: list[str] = []

    def functions() -> Any:
        processes.append(1)

        @made.create_function(fn_id="f", trigger=GO)
        async def f(ctx: inngest.Context) -> Any:
            async def first() -> str:
                done.append("first")
                return "1"

            async def second() -> str:
                done.append("second")
                return "2"

            return await ctx.step.run("first", first) + await ctx.step.run("second", second)

        return [f]

    points = list(kill_points(3))
    assert len(points) == 9
    for point in points:
        done.clear()
        run = await ReplayExecutor(made, functions, kill=point).run("go")
        assert run.output == "12"
        twice = point.when == "inside" and point.request in (1, 2)
        assert len(done) == 2 + twice
    assert len(processes) == 18
    run = await ReplayExecutor(made, functions, kill=KillAt(step="second", when="inside")).run("go")
    assert done[-3:] == ["first", "second", "second"]


async def test_code_that_differs_between_replays_is_found() -> None:
    """Another step, and one that is not asked for again."""
    count: list[int] = []

    async def handler(ctx: inngest.Context) -> None:
        count.append(1)

        async def nothing() -> None:
            return None

        await ctx.step.run(f"step-{len(count)}" if len(count) < 6 else "last", nothing)

    run = await executor(handler, check=True).run("go")
    assert any("first it asked for" in found for found in run.differences)
    assert any("without asking again" in found for found in run.differences)


async def test_limits_are_those_of_the_server() -> None:
    """4 MB a step, 1000 steps a run."""

    async def large(ctx: inngest.Context) -> None:
        async def much() -> str:
            return "x" * (4 * 1024 * 1024)

        await ctx.step.run("much", much)

    async def many(ctx: inngest.Context) -> None:
        async def nothing() -> None:
            return None

        steps = tuple(
            (lambda name=f"s{number}": ctx.step.run(name, nothing)) for number in range(1001)
        )
        await ctx.group.parallel(steps)

    run = await executor(large).run("go")
    assert run.error is not None
    assert "output size" in run.error["message"]
    run = await executor(many).run("go")
    assert run.error is not None
    assert "step limit of 1000" in run.error["message"]


async def test_state_that_does_not_fit_a_request_is_fetched_by_the_worker() -> None:
    """The server does so beyond 4 MB."""

    async def handler(ctx: inngest.Context) -> int:
        async def much() -> str:
            return "x" * 3_000_000

        return sum([len(await ctx.step.run(f"much-{n}", much)) for n in range(3)])

    assert (await executor(handler).run("go")).output == 9_000_000


async def test_output_that_is_no_json_is_refused() -> None:
    """Python writes NaN, which nobody else reads."""

    async def handler(ctx: inngest.Context) -> float:
        return math.nan

    with pytest.raises(ValueError, match="NaN"):
        await executor(handler).run("go")


async def test_a_run_is_cancelled_by_its_event() -> None:
    """The cancellation's expression must hold."""
    made = client()

    @made.create_function(
        fn_id="f",
        trigger=GO,
        cancel=[inngest.Cancel(event="stop", if_exp="event.data.id == async.data.id")],
    )
    async def f(ctx: inngest.Context) -> None:
        await ctx.step.wait_for_event("w", event="never", timeout=timedelta(hours=1))

    server = ReplayExecutor(made, [f])
    run = await server.start("go", {"id": 1})
    await server.send_event("stop", {"id": 2})
    assert run.status == "running"
    await server.send_event("stop", {"id": 1})
    await server.advance(7200)
    assert run.status == "cancelled"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("event.data.a == 1", True),
        ("event.data.a != 1", False),
        ("async.data.list[1] == 'y' && !(event.data.a > 1)", True),
        ('async.data["odd key"] == "z" || false', True),
        ("event.data.missing == null", True),
        ("event.data.a < 'text'", False),
        ("!event.data.a == false && event.data.a > -1", True),
        ("event.data.from == 'x && !y' || async.data.list[5] == 'x'", True),
        (None, True),
    ],
)
def test_expressions_are_evaluated(expression: str | None, expected: bool) -> None:
    """The part of CEL that functions use to match events."""
    variables = {
        "event": {"data": {"a": 1, "from": "x && !y"}},
        "async": {"data": {"list": ["x", "y"], "odd key": "z"}},
    }
    assert matches(expression, variables) is expected


@pytest.mark.parametrize(
    "expression", ["size(event.data) > 1", "event.data.a ==", "a b", "x.y", "1 < 2 < 3"]
)
def test_an_expression_beyond_that_is_an_error(expression: str) -> None:
    """Rather than an event that never matches."""
    with pytest.raises(ScriptError, match="cannot evaluate"):
        matches(expression, {"event": {}})


async def test_a_function_that_cannot_be_run_is_refused() -> None:
    """A production client, an event for nobody, two functions of one name."""

    async def handler(ctx: inngest.Context) -> None:
        return None

    made = inngest.Inngest(app_id="app", is_production=True, signing_key="signkey-test-12345678")
    with pytest.raises(ConfigurationError, match="is_production=False"):
        executor(handler, made=made)
    with pytest.raises(ScriptError, match="starts none"):
        await executor(handler).run("nobody")
    made = client()
    function = made.create_function(fn_id="f", trigger=GO)(handler)
    with pytest.raises(ConfigurationError, match="'app-f'"):
        ReplayExecutor(made, [function, function])
    assert (await executor(handler).run("go")).status == "completed"


async def test_each_of_many_waits_is_answered() -> None:
    """A wait that reuses the memory of one that is over is answered, too."""

    async def handler(ctx: inngest.Context) -> list[bool]:
        async def wait(name: str) -> bool:
            event = await ctx.step.wait_for_event(
                name,
                event="answer",
                timeout=timedelta(hours=1),
                if_exp=f"async.data.to == '{name}'",
            )
            return event is not None

        found: list[bool] = []
        for number in range(25):
            pair = [partial(wait, f"{side}{number}") for side in "ab"]
            found += await ctx.group.parallel(tuple(pair))
        return found

    run = await executor(handler).run("go", answer=lambda wait: {"to": wait.step.name})
    assert run.output == [True] * 50
