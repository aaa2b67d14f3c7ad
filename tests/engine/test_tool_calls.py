"""Each tool call gets a result, or an error that the model reads."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from agentkit_py import Agent, RunLimits, State, ToolContext, anthropic, create_tool, tool
from agentkit_py.errors import (
    ConfigurationError,
    NonRetriableError,
    RetryAfterError,
    ToolDefinitionError,
    is_control_error,
)
from agentkit_py.messages import ImageContent, TextContent, result_parts
from agentkit_py.testing import FakeProvider, ScriptedModel, tool_call

from .runner import Runner


async def call(
    runner: Runner,
    made: Any,
    arguments: Any = None,
    *,
    state: State[Any] | None = None,
    **options: Any,
) -> Any:
    """Let a model call one tool, and return the result's content as the model reads it."""
    name = made.name if hasattr(made, "name") else made.__name__
    model = ScriptedModel(tool_call(name, arguments), "done")
    agent = Agent(name="a", system="S", tools=[made], model=model, max_iter=2)
    state = State() if state is None else state
    await runner.run(agent, "q?", state=state, **options)
    model.assert_finished()
    return state.results[-2].tool_calls[0].content


def data(value: Any) -> dict[str, Any]:
    """The envelope of a result."""
    return {"data": value}


async def test_a_sync_handler_runs_in_a_worker_thread(runner: Runner) -> None:
    """A handler that blocks must not stop the event loop."""

    def where() -> bool:
        """Say where it runs."""
        return threading.current_thread() is threading.main_thread()

    assert await call(runner, where) == data(value=False)


async def test_an_async_handler_runs_in_the_event_loop(runner: Runner) -> None:
    """The loop is the run's own."""

    async def where() -> bool:
        """Say where it runs."""
        return threading.current_thread() is threading.main_thread()

    assert await call(runner, where) == data(value=True)


async def test_a_sync_handler_sees_the_callers_context_variables(runner: Runner) -> None:
    """Tracing and request ids live there."""
    request = contextvars.ContextVar("request", default="none")
    request.set("r1")

    def read() -> str:
        """Read it."""
        return request.get()

    assert await call(runner, read) == data("r1")


async def test_a_sync_handler_that_returns_an_awaitable_is_awaited(runner: Runner) -> None:
    """Wrappers often look sync."""

    async def work() -> str:
        return "worked"

    def start() -> Awaitable[str]:
        """Begin."""
        return work()

    assert await call(runner, start) == data("worked")


async def test_an_object_with_an_async_call_is_a_handler(runner: Runner) -> None:
    """Tools with settings may be objects."""

    class Greeter:
        def __init__(self, word: str) -> None:
            self.word = word

        async def __call__(self, name: str) -> str:
            """Greet somebody."""
            return f"{self.word} {name}"

    made = tool(name="greet")(Greeter("Hello"))
    assert made.description == "Greet somebody."
    assert await call(runner, made, {"name": "Ada"}) == data("Hello Ada")


async def test_a_handler_that_returns_nothing_says_it_was_executed(runner: Runner) -> None:
    """A model takes an empty result for a failure."""

    def send() -> None:
        """Send it."""

    assert await call(runner, send) == data("send successfully executed")


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int


class Order(BaseModel):
    id: str
    total: Decimal


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0),
        ("", ""),
        ({"a": [1, 2.5, True, None]}, {"a": [1, 2.5, True, None]}),
        ((1, 2), [1, 2]),
        ({1: "one"}, {"1": "one"}),
        (frozenset([3]), [3]),
        (Colour.RED, "red"),
        (Point(1), {"x": 1}),
        (Order(id="o1", total=Decimal("9.90")), {"id": "o1", "total": "9.90"}),
        ([Order(id="o1", total=Decimal(1))], [{"id": "o1", "total": "1"}]),
        (datetime(2025, 1, 2, 3, 4, tzinfo=UTC), "2025-01-02T03:04:00Z"),
        (date(2025, 1, 2), "2025-01-02"),
        (Path("a/b"), "a/b"),
        (b"bytes", "bytes"),
        (10**30, 10**30),
        (float("nan"), "NaN"),
        ({"deep": [float("inf")]}, {"deep": ["Infinity"]}),
    ],
)
async def test_results_become_json(runner: Runner, value: Any, expected: Any) -> None:
    """Dataclasses, models, dates and other Python values reach the model as JSON."""

    def give() -> Any:
        """Give it."""
        return value

    assert await call(runner, give) == data(expected)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"\ud83d": 1}, {"\ufffd": 1}),
        ({"\ud83d\ude00": 1}, {"😀": 1}),
        (dict([("\ud83d", 1), ("\ude00", 2)]), {"\ufffd": 1, "\ufffd 2": 2}),  # noqa: C406 - one hash
        ([{"deep": {"\ude00": 1}}], [{"deep": {"\ufffd": 1}}]),
        ({"n": float("inf"), "t": "\ud83d"}, {"n": "Infinity", "t": "\ufffd"}),
        (
            {"o": Order(id="\ud83d", total=Decimal(1)), "\ude00": 1},
            {"o": {"id": "\ufffd", "total": "1"}, "\ufffd": 1},
        ),
    ],
)
async def test_half_an_emoji_in_a_result_ends_no_run(runner: Runner, given: Any, read: Any) -> None:
    """Names that were cut in the middle: halves that meet are joined, others replaced."""

    def give() -> Any:
        """Give it."""
        return given

    assert await call(runner, give) == data(read)


@pytest.mark.parametrize("make", [object, lambda: ValueError("no"), lambda: int])
async def test_a_result_without_a_json_form_is_the_developers_error(
    runner: Runner,
    make: Callable[[], Any],
) -> None:
    """No model can help with it; the message names tool and type."""

    def give() -> Any:
        """Give it."""
        return make()

    with pytest.raises(ToolDefinitionError, match=r"'give': it returned .* no JSON form") as caught:
        await call(runner, give)
    assert caught.value.tool == "give"


async def test_an_exception_becomes_an_error_that_the_model_reads(runner: Runner) -> None:
    """Name and message; nothing of the machine."""

    def fail() -> None:
        """Fail."""
        raise LookupError("no booking 42")

    content = await call(runner, fail)
    assert content == {"error": {"name": "LookupError", "message": "no booking 42"}}


async def test_an_exception_without_words_is_called_by_its_name(runner: Runner) -> None:
    """An empty message says nothing."""

    async def fail() -> None:
        """Fail."""
        raise TimeoutError

    assert (await call(runner, fail))["error"] == {
        "name": "TimeoutError",
        "message": "TimeoutError",
    }


async def test_the_model_sees_neither_stack_nor_paths(runner: Runner) -> None:
    """TypeScript sends the stack trace along."""

    def fail() -> None:
        """Fail."""
        raise RuntimeError("it broke")

    model = ScriptedModel(tool_call("fail"), "sorry")
    await runner.run(Agent(name="a", system="S", tools=[fail], model=model, max_iter=2), "q?")
    model.assert_saw("it broke")
    model.assert_not_saw("Traceback", "test_tool_calls", "raise RuntimeError")


async def test_a_validation_error_says_which_argument_is_wrong_and_why(runner: Runner) -> None:
    """The model can correct its call."""

    def book(seats: int, day: date) -> None:
        """Book seats."""

    content = await call(runner, book, {"seats": "many", "extra": 1})
    assert content["error"]["name"] == "InvalidArgumentsError"
    issues = {issue["path"]: issue["message"] for issue in content["error"]["issues"]}
    assert set(issues) == {"seats", "day", "extra"}
    assert "valid integer" in issues["seats"]
    assert "day: Field required" in content["error"]["message"]
    assert "pydantic" not in str(content)


@pytest.mark.parametrize("arguments", ["[1]", "5", "true"])
async def test_arguments_that_are_no_object_are_invalid(runner: Runner, arguments: str) -> None:
    """JSON, but not what tools take."""

    def book(seats: int) -> None:
        """Book seats."""

    content = await call(runner, book, arguments)
    assert content["error"]["issues"][0]["path"] == "(arguments)"


async def test_malformed_arguments_are_shown_to_the_model(runner: Runner) -> None:
    """The handler is not called."""
    called: list[int] = []

    def book(seats: int) -> None:
        """Book seats."""
        called.append(seats)

    content = await call(runner, book, '{"seats": 2')
    assert content["error"]["name"] == "InvalidArgumentsError"
    assert '{"seats": 2' in content["error"]["message"]
    assert called == []


@pytest.mark.parametrize(
    ("tools", "offer"), [(True, "Available: look."), (False, "This agent has no tools.")]
)
async def test_an_unknown_tool_is_an_error_that_names_the_known_ones(
    runner: Runner, tools: bool, offer: str
) -> None:
    """The others of the same reply are run nevertheless."""

    def look() -> str:
        """Look."""
        return "found"

    model = ScriptedModel(
        {"tool_calls": [{"name": "fly", "arguments": {}}, {"name": "look", "arguments": {}}]}
    )
    agent = Agent(name="a", system="S", tools=[look] if tools else [], model=model, max_iter=1)
    result = await runner.run(agent, "q?")
    first, second = result.tool_calls
    assert first.content == {
        "error": {"name": "UnknownToolError", "message": f"Unknown tool 'fly'. {offer}"}
    }
    assert second.is_error is not tools


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize(
    "error", [NonRetriableError("stop"), RetryAfterError("later", timedelta(seconds=5))]
)
async def test_control_errors_of_a_tool_fail_the_run(
    runner: Runner, error: Exception, sync: bool
) -> None:
    """They say that no model can help."""

    def refund() -> None:
        """Refund."""
        raise error

    async def refund_later() -> None:
        """Refund."""
        raise error

    with pytest.raises(type(error)) as caught:
        await call(runner, refund if sync else refund_later)
    assert runner.is_same(caught.value, error)


def test_the_sdks_control_errors_pass_through_by_name() -> None:
    """The engine imports no SDK, so classes are known by name and module."""
    foreign = type("NonRetriableError", (Exception,), {"__module__": "inngest._internal.errors"})
    child = type("OurStop", (foreign,), {})
    other = type("NonRetriableError", (Exception,), {"__module__": "elsewhere"})
    assert is_control_error(foreign())
    assert is_control_error(child())
    assert not is_control_error(other())
    assert not is_control_error(ValueError())


def test_retry_after_takes_seconds_or_a_timedelta() -> None:
    """The value is kept in seconds."""
    assert RetryAfterError("x", 2).retry_after == 2.0
    assert RetryAfterError("x", timedelta(minutes=1)).retry_after == 60.0


@pytest.mark.direct_only("a task is cancelled in this process")
async def test_cancelling_the_run_cancels_the_tool(runner: Runner) -> None:
    """Which may clean up."""
    began, ended = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        """Wait for ever."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    running = asyncio.create_task(call(runner, wait))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended.is_set()


@pytest.mark.parametrize("sync", [True, False])
async def test_a_tool_that_takes_too_long_is_given_up(runner: Runner, sync: bool) -> None:
    """The model reads an error, the run continues."""
    release = threading.Event()

    async def wait() -> None:
        """Wait for ever."""
        await asyncio.Event().wait()

    def block() -> None:
        """Block for ever."""
        release.wait()

    try:
        content = await call(runner, block if sync else wait, limits=RunLimits(tool_timeout=0.01))
    finally:
        release.set()
    assert content["error"]["name"] == "ToolTimeoutError"
    assert "took more than 0.01 s" in content["error"]["message"]


async def test_a_tool_within_its_time_is_left_alone(runner: Runner) -> None:
    """A limit that is not reached changes nothing."""

    async def quick() -> str:
        """Be quick."""
        return "done"

    assert await call(runner, quick, limits=RunLimits(tool_timeout=60)) == data("done")


async def test_a_context_names_the_run_of_the_handler(runner: Runner) -> None:
    """Agent, state, thread, and the call as the model made it."""
    seen: list[ToolContext] = []

    def note(what: str, ctx: ToolContext) -> None:
        """Note it."""
        seen.append(ctx)
        ctx.state.data["noted"] = what

    state = State[Any](thread_id="t1")
    await call(runner, note, {"what": "it"}, state=state)
    (context,) = seen
    assert (context.agent.name, context.network, context.thread_id) == ("a", None, "t1")
    assert (context.call.name, context.call.arguments) == ("note", {"what": "it"})
    assert context.state is state
    assert state.data == {"noted": "it"}


async def test_the_context_is_not_shown_to_the_model(runner: Runner) -> None:
    """The model cannot pass it either."""

    def by_hint(value: int, context: ToolContext) -> str:
        """One."""
        return context.agent.name

    def by_name(value: int, *, ctx: Any) -> str:
        """Two."""
        return ctx.agent.name

    for made in (tool(by_hint), tool(by_name)):
        assert made.parameters is not None
        assert list(made.parameters["properties"]) == ["value"]  # type: ignore[arg-type,index,call-overload]
        assert await call(runner, made, {"value": 1}) == data("a")
        wrong = await call(runner, made, {"value": 1, "ctx": {}, "context": {}})
        assert wrong["error"]["name"] == "InvalidArgumentsError"


async def test_steps_of_a_tool_simply_happen_in_a_direct_run(runner: Runner) -> None:
    """One tool serves both direct runs and Inngest functions."""

    @tool(steps=True)
    async def wait(ctx: ToolContext) -> str:
        """Wait a moment."""

        async def work() -> str:
            return "worked"

        await ctx.step.sleep("a moment", timedelta(0))
        await ctx.step.sleep("no time", 0)
        return await ctx.step.run("work", work)

    assert wait.steps
    assert await call(runner, wait) == data("worked")


@pytest.mark.direct_only("in a function these steps are there")
async def test_steps_that_need_inngest_say_so(runner: Runner) -> None:
    """The developer's error, as the model cannot help; here it is caught as any other."""

    @tool(steps=True)
    async def ask(ctx: ToolContext) -> Any:
        """Ask a person."""
        with pytest.raises(ConfigurationError, match=r"ask\.approval' waits for the event 'ok'"):
            await ctx.step.wait_for_event("approval", event="ok", timeout=1)
        with pytest.raises(ConfigurationError, match=r"ask\.call' invokes the function 'f'"):
            await ctx.step.invoke_by_id("call", function_id="f")

    assert await call(runner, ask) == data("ask successfully executed")


async def test_nulls_for_optional_arguments_count_as_omitted(runner: Runner) -> None:
    """Strict schemas make every field required and optional ones nullable."""

    def search(query: str, limit: int = 10) -> list[Any]:
        """Search."""
        return [query, limit]

    assert await call(runner, search, {"query": "x", "limit": None}) == data(["x", 10])


async def test_a_handler_without_described_arguments_gets_the_models_arguments(
    runner: Runner,
) -> None:
    """A tool without a schema takes any arguments."""
    got: list[Any] = []
    made = create_tool(name="any", handler=got.append)
    assert await call(runner, made, {"x": 1}) == data("any successfully executed")
    assert got == [{"x": 1}]


NO_JSON = {
    "a number too large": '{"q": 1e999}',
    "a negative one inside": '{"q": [-1e999]}',
    "NaN": '{"q": NaN}',
    "900 lists": '{"q": %s}' % ("[" * 900 + "]" * 900),
    "900 objects": '{"a": ' * 900 + "1" + "}" * 900,
    "100,000 lists": "[" * 100_000 + "]" * 100_000,
    "5,000 digits": '{"q": ' + "9" * 5000 + "}",
    "half a surrogate pair": '{"q": "\\ud800"}',
    "half a pair as a name": '{"\\ud800": 1}',
}


@pytest.mark.parametrize("written", NO_JSON.values(), ids=NO_JSON.keys())
async def test_nothing_that_a_model_writes_as_arguments_ends_a_run(
    runner: Runner, written: str
) -> None:
    """A value that no JSON holds is an error that the model reads, or reaches the tool."""

    def find(q: Any = None) -> str:
        """Find."""
        return "found"

    content = await call(runner, find, written)
    if "surrogate" in written or "ud800" in written:
        assert content == {"data": "found"} or content["error"]["name"] == "InvalidArgumentsError"
    else:
        assert content["error"]["name"] == "InvalidArgumentsError"


def _nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("levels", [101, 300, 900, 5000])
async def test_a_result_that_is_nested_too_deeply_is_an_error_that_the_model_reads(
    runner: Runner, levels: int
) -> None:
    """No database and no parser takes it; the run continues."""

    def find() -> Any:
        """Find."""
        return _nested(levels)

    content = await call(runner, find, {})
    assert content["error"]["name"] == "ResultTooDeepError"
    assert "100 levels" in content["error"]["message"]


async def test_a_result_that_holds_itself_is_an_error_that_the_model_reads(runner: Runner) -> None:
    """Such a value has no end."""
    value: list[Any] = []
    value += [value, value]

    def find() -> Any:
        """Find."""
        return value

    content = await call(runner, find, {})
    assert content["error"]["name"] == "ResultTooDeepError"


async def test_a_handlers_image_is_an_image_for_the_model(runner: Runner) -> None:
    """It survives the step of a durable run, and Claude gets it as a block."""
    image = ImageContent("iVBORw0KGgo=", None, "image/png")

    def look() -> Any:
        """Look."""
        return ["Look:", image]

    with FakeProvider([tool_call("look", {}), "A cat."]) as provider:
        url = provider.base_url("anthropic")
        model = anthropic("claude-sonnet-4-5", api_key="k", base_url=url)
        agent = Agent(name="a", system="S", tools=[look], model=model, max_iter=2)
        state = State[Any]()
        await runner.run(agent, "q?", state=state)
        assert not provider.rejections
        (block,) = provider.requests[-1].body["messages"][2]["content"]
    assert [one["type"] for one in block["content"]] == ["text", "image"]
    (result,) = state.results[0].tool_calls
    assert result_parts(result.content) == [TextContent("Look:"), image]
