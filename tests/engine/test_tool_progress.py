"""Tools that are generators report while they work; their last value is the result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

import pytest

from agentkit_py import Agent, Network, State, ToolContext, tool
from agentkit_py.events.consume import ChunkReader
from agentkit_py.events.types import Event, ToolFinished, ToolProgressed, ToolStarted
from agentkit_py.guardrails import Guardrail
from agentkit_py.processors import Redactor
from agentkit_py.routing import once
from agentkit_py.runs import RunLimits, StreamingConfig
from agentkit_py.testing import EventLog, ScriptedModel, tool_call, tool_calls
from agentkit_py.tools import Progress, Tool, create_tool_manifest

from .runner import Runner


async def used(
    runner: Runner, made: Any, arguments: Any = None, **options: Any
) -> tuple[Any, list[ToolProgressed]]:
    """Let a model call one tool; return what it reads, and the reports."""
    found: Tool[..., Any] = made if isinstance(made, Tool) else tool(made)  # pyright: ignore[reportUnknownVariableType] - any kind
    model = ScriptedModel(tool_call(found.name, arguments), "done")
    limits = options.pop("limits", RunLimits())
    agent = Agent(name="a", system="S", tools=[found], model=model, **options)
    state, events = State[Any](), list[Event]()
    await runner.run(agent, "q?", state=state, limits=limits, observer=events.append)
    reports = [event for event in events if isinstance(event, ToolProgressed)]
    return state.results[0].tool_calls[0].content, reports


async def asynchronous(pages: int) -> AsyncGenerator[Any, None]:
    """Read pages."""
    yield Progress("Reading", 0.0)
    for page in range(pages):
        await asyncio.sleep(0)
        yield Progress(fraction=(page + 1) / pages, data={"page": page})
    yield "almost"
    yield {"pages": pages}


def synchronous(pages: int) -> Generator[Any, None, None]:
    """Read pages."""
    yield Progress("Reading", 0.0)
    for page in range(pages):
        yield Progress(fraction=(page + 1) / pages, data={"page": page})
    yield "almost"
    yield {"pages": pages}


def returning(pages: int) -> Generator[Any, None, dict[str, int]]:
    """Read pages."""
    yield Progress("Reading", 0.0)
    for page in range(pages):
        yield Progress(fraction=(page + 1) / pages, data={"page": page})
    yield "almost"
    return {"pages": pages}


@pytest.mark.parametrize("function", [asynchronous, synchronous, returning])
async def test_a_generators_last_value_is_the_result_and_the_others_are_progress(
    runner: Runner, function: Callable[..., Any]
) -> None:
    """In a durable run it works in one step, whose reports come once."""
    events: list[Event] = []
    made = tool(function)
    model = ScriptedModel(tool_call(made.name, {"pages": 2}), "done")
    state = State[Any]()

    await runner.run(
        Agent(name="a", system="S", tools=[made], model=model),
        "q?",
        state=state,
        observer=events.append,
    )

    assert state.results[0].tool_calls[0].content == {"data": {"pages": 2}}
    reports = [one.progress for one in events if isinstance(one, ToolProgressed)]
    assert reports == [
        Progress("Reading", 0.0),
        Progress(fraction=0.5, data={"page": 0}),
        Progress(fraction=1.0, data={"page": 1}),
        Progress("almost"),
    ]


@pytest.mark.direct_only("calls in steps work one after another under the executor")
async def test_a_report_comes_when_it_happens_also_of_calls_at_the_same_time(
    runner: Runner,
) -> None:
    """Whose other events wait for their turn."""
    together = asyncio.Barrier(2)

    async def work(name: str) -> AsyncGenerator[Any, None]:
        """Work."""
        yield Progress(name)
        await together.wait()
        yield name

    events: list[Event] = []
    calls = tool_calls(("work", {"name": "one"}), ("work", {"name": "two"}))
    model = ScriptedModel(calls, "done")
    agent = Agent(name="a", system="S", tools=[work], model=model, parallel_tools=True)

    await runner.run(agent, "q?", observer=events.append)

    wanted = (ToolStarted, ToolFinished, ToolProgressed)
    kinds = [type(one) for one in events if isinstance(one, wanted)]
    assert kinds == [ToolStarted] * 2 + [ToolProgressed] * 2 + [ToolFinished] * 2


async def test_chunks_of_reports_have_no_number_and_disturb_no_reader(runner: Runner) -> None:
    """A replay does not repeat them, so that numbers would not be the same."""
    made = tool(asynchronous)
    published: list[dict[str, Any]] = []
    model = ScriptedModel(tool_call(made.name, {"pages": 1}), "done")

    await runner.run(
        Agent(name="a", system="S", tools=[made], model=model),
        "q?",
        streaming=StreamingConfig(publish=published.append),
    )

    reports = [one for one in published if one["data"].get("type") == "tool_progress"]
    assert [one["data"]["metadata"] for one in reports] == [
        {"toolName": "asynchronous", "text": "Reading", "fraction": 0.0},
        {"toolName": "asynchronous", "fraction": 1.0, "data": {"page": 0}},
        {"toolName": "asynchronous", "text": "almost"},
    ]
    assert {one["sequenceNumber"] for one in reports} == {-1}
    assert len({one["id"] for one in published}) == len(published)
    parts = [one["data"]["partId"] for one in published if one["event"] == "part.created"]
    assert {one["data"]["partId"] for one in reports} == {parts[0]}
    rest = [one for one in published if one not in reports]
    assert [one["sequenceNumber"] for one in rest] == list(range(len(rest)))
    reader = ChunkReader()
    assert len(list(reader.read(published))) == len(published)


async def test_a_tool_with_steps_reports_each_thing_once(runner: Runner) -> None:
    """Replays say it again under the same id."""

    @tool(steps=True)
    async def work(ctx: ToolContext) -> AsyncGenerator[Any, None]:
        """Work."""
        yield Progress("one")
        first = await ctx.step.run("first", lambda: 1)
        yield Progress("two")
        second = await ctx.step.run("second", lambda: 2)
        yield first + second

    content, reports = await used(runner, work)

    assert content == {"data": 3}
    texts = {one.id: one.progress.text for one in reports}
    assert list(texts.values()) == ["one", "two"]


async def test_text_that_is_masked_in_results_is_masked_in_progress(runner: Runner) -> None:
    """A report is seen before the result."""

    async def work() -> AsyncGenerator[Any, None]:
        """Work."""
        yield Progress("Writing to ada@example.com", data={"to": "ada@example.com"})
        yield "sent"

    redactor = Redactor(["email"])
    _, reports = await used(runner, work, tool_output_guardrails=[redactor])
    assert [one.progress.to_dict() for one in reports] == [
        {"text": "Writing to [email]", "data": {"to": "[email]"}}
    ]

    checked = Guardrail(lambda given: None)
    _, reports = await used(runner, work, tool_output_guardrails=[checked])
    assert reports == []


async def test_a_networks_guardrail_of_results_shows_no_progress_either(runner: Runner) -> None:
    """Progress would show what the guardrail may withhold."""
    checked = Guardrail(lambda given: None)
    agent = Agent(name="a", system="S", tools=[tool(asynchronous)])
    network = Network(
        name="n",
        agents=[agent],
        router=once(agent),
        default_model=ScriptedModel(tool_call("asynchronous", {"pages": 2}), "done"),
        tool_output_guardrails=[checked],
    )
    events = EventLog()
    run = await runner.run(network, "q?", observer=events)

    assert run.results[0].tool_calls[0].content == {"data": {"pages": 2}}
    assert events.of(ToolProgressed) == []


async def test_an_error_in_a_generator_is_the_calls_error(runner: Runner) -> None:
    """What it reported before stays said; one that yields nothing has succeeded."""

    def work(fails: bool) -> Generator[Any, None, None]:
        """Work."""
        yield Progress("begun")
        if fails:
            raise ValueError("broken")

    content, reports = await used(runner, work, {"fails": True})
    assert content["error"]["message"] == "broken"
    assert [one.progress.text for one in reports] == ["begun"]

    content, _ = await used(runner, work, {"fails": False})
    assert content == {"data": "work successfully executed"}


async def test_a_generator_that_takes_too_long_is_closed(runner: Runner) -> None:
    """Its clean-up is done."""
    closed: list[str] = []

    async def work() -> AsyncGenerator[Any, None]:
        """Work."""
        try:
            yield Progress("begun")
            await asyncio.Event().wait()
        finally:
            closed.append("closed")

    content, _ = await used(runner, work, limits=RunLimits(tool_timeout=0.01))

    assert content["error"]["name"] == "ToolTimeoutError"
    assert closed == ["closed"]


@pytest.mark.parametrize("fraction", [-0.1, 1.1, True, "half", float("nan")])
async def test_a_fraction_that_is_none_is_the_developers_error(
    runner: Runner, fraction: Any
) -> None:
    """No model can do anything about it."""

    async def work() -> AsyncGenerator[Any, None]:
        """Work."""
        yield Progress(fraction=fraction)

    with pytest.raises(Exception, match="a fraction is a number from 0 to 1"):
        await used(runner, work)


def test_the_manifest_says_nothing_of_a_generators_output() -> None:
    """Its type says what it yields."""
    manifest = create_tool_manifest([asynchronous, synchronous])
    assert [schemas["output"] for schemas in manifest.values()] == [{}, {}]
