"""Limits of a run's time, inferences, tokens and cost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentkit_py import (
    Agent,
    Lifecycle,
    Network,
    RouterContext,
    RunLimits,
    State,
    create_tool,
    tool,
)
from agentkit_py.errors import ConfigurationError, ToolDefinitionError
from agentkit_py.guardrails import Guardrail
from agentkit_py.lifecycle import ResultContext
from agentkit_py.messages import Usage
from agentkit_py.routing import sequence
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.testing import ScriptedModel, text, tool_call, tool_calls

from .runner import Runner


class Clock(DirectRuntime):
    """A runtime whose clock the test moves."""

    def __init__(self, step: float = 0) -> None:
        super().__init__()
        self.time = datetime(2025, 1, 1, tzinfo=UTC)
        self.pace = timedelta(seconds=step)
        self.asked: list[str] = []

    def now(self, key: str) -> datetime:
        """The time of the test, which passes with every look."""
        self.asked.append(key)
        self.time += self.pace
        return self.time

    def pass_time(self, seconds: float) -> None:
        """Let time go by."""
        self.time += timedelta(seconds=seconds)


def look() -> str:
    """Look something up."""
    return "found"


def agent_with(model: ScriptedModel, **options: Any) -> Agent:
    """An agent that would look things up for ever."""
    return Agent(name="a", system="S", tools=[look], model=model, max_iter=100, **options)


def calls(count: int, usage: dict[str, int] | None = None) -> list[Any]:
    """Return ``count`` replies that call the tool."""
    return [{**tool_call("look"), "usage": usage or {}} for _ in range(count)]


async def test_a_number_of_inferences_ends_the_turn_with_whole_results(runner: Runner) -> None:
    """The tools of the last one were run."""
    model = ScriptedModel(*calls(2))
    state = State[Any]()
    result = await runner.run(
        agent_with(model), "q?", state=state, limits=RunLimits(max_inferences=2)
    )
    assert result.stop_reason == "max_inferences"
    assert [len(r.tool_calls) for r in state.results] == [1, 1]
    model.assert_finished()


async def test_a_number_of_tokens_ends_the_turn(runner: Runner) -> None:
    """Input and output together, as the provider counts them."""
    model = ScriptedModel(*calls(2, {"input_tokens": 40, "output_tokens": 10}))
    result = await runner.run(agent_with(model), "q?", limits=RunLimits(max_tokens=100))
    assert result.stop_reason == "max_tokens"
    model.assert_finished()


async def test_a_cost_ends_the_turn(runner: Runner) -> None:
    """The price is the user's function of model and usage."""
    asked: list[tuple[str, Usage]] = runner.again([])

    def price(model: str, usage: Usage) -> float:
        asked.append((model, usage))
        return usage.total_tokens / 100

    model = ScriptedModel(*calls(2, {"input_tokens": 40, "output_tokens": 10}))
    limits = RunLimits(max_cost=1.0, price=price)
    result = await runner.run(agent_with(model), "q?", limits=limits)
    assert result.stop_reason == "max_cost"
    assert asked == [("gpt-4o", Usage(40, 10))] * 2
    model.assert_finished()


async def test_replies_without_usage_cost_nothing(runner: Runner) -> None:
    """Some servers count no tokens; calls are counted nevertheless."""
    bare = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}}]}

    async def respond(body: dict[str, Any]) -> object:
        return bare

    model = ScriptedModel()
    object.__setattr__(model, "answers", respond)
    network = Network(name="n", agents=[agent_with(model)], router=lambda context: "a")
    limits = RunLimits(max_tokens=1, max_inferences=3)
    run = await runner.run(network, "q?", limits=limits)
    assert (run.stop_reason, len(run.results), run.usage) == ("max_inferences", 3, Usage())


@pytest.mark.direct_only("the clock is a runtime of the test's own")
@pytest.mark.parametrize("deadline", [10, timedelta(seconds=10)])
async def test_a_deadline_ends_the_turn(deadline: Any) -> None:
    """No further call is made after it."""
    clock = Clock()

    def work() -> None:
        """Take six seconds."""
        clock.pass_time(6)

    model = ScriptedModel(tool_call("work"), tool_call("work"))
    agent = Agent(name="a", system="S", tools=[work], model=model, max_iter=9)
    result = await agent.run("q?", limits=RunLimits(deadline=deadline), runtime=clock)
    assert result.stop_reason == "deadline"
    model.assert_finished()


@pytest.mark.direct_only("the clock is a runtime of the test's own")
async def test_a_deadline_that_passes_at_any_moment_is_the_stop_reason() -> None:
    """The stop reason does not depend on which check of the clock notices the deadline."""
    for step in range(1, 12):
        model = ScriptedModel(*calls(20))
        finished: list[Any] = []
        agent = agent_with(model, lifecycle=Lifecycle(on_finish=finished.append))
        limits = RunLimits(deadline=float(step))
        result = await agent.run("q?", limits=limits, runtime=Clock(step=1))
        assert result.stop_reason == "deadline"
        assert len(finished) == (1 if result.output else 0)


@pytest.mark.direct_only("the clock is a runtime of the test's own")
async def test_without_a_deadline_the_clock_is_not_read() -> None:
    """Each look is a step of a durable run."""
    clock = Clock()
    await agent_with(ScriptedModel("hi")).run("q?", runtime=clock)
    assert [key for key in clock.asked if key.endswith("/limit")] == []


async def test_a_limit_that_is_reached_at_once_asks_no_model(runner: Runner) -> None:
    """The blank result says why."""
    model = ScriptedModel()
    result = await runner.run(agent_with(model), "q?", limits=RunLimits(deadline=0))
    assert (result.output, result.stop_reason) == ((), "deadline")
    model.assert_finished()


@pytest.mark.parametrize(
    ("limits", "reason", "turns"),
    [
        (RunLimits(max_inferences=3), "max_inferences", 3),
        (RunLimits(max_tokens=100), "max_tokens", 2),
        (RunLimits(max_cost=1, price=lambda model, usage: 0.25), "max_cost", 4),
    ],
)
async def test_a_limit_ends_a_network(
    runner: Runner, limits: RunLimits, reason: str, turns: int
) -> None:
    """It counts over all agents."""
    reply = text("hi", usage={"input_tokens": 49, "output_tokens": 1})
    model = ScriptedModel(*[reply] * turns)
    names = ("a", "b")

    def router(context: RouterContext) -> str:
        return names[context.call_count % 2]

    agents = [Agent(name=name, system="S", model=model) for name in names]
    run = await runner.run(Network(name="n", agents=agents, router=router), "q?", limits=limits)
    assert (run.stop_reason, len(run.results)) == (reason, turns)
    model.assert_finished()


async def test_a_limit_in_the_middle_of_an_agents_turn_ends_its_network_too(runner: Runner) -> None:
    """The agent's last result says so as well."""
    model = ScriptedModel(*calls(2))
    network = Network(name="n", agents=[agent_with(model)], router=lambda context: "a")
    run = await runner.run(network, "q?", limits=RunLimits(max_inferences=2))
    assert run.stop_reason == "max_inferences"
    assert run.last_result is not None
    assert run.last_result.stop_reason == "max_inferences"
    model.assert_finished()


async def test_on_finish_is_called_when_a_limit_ends_the_turn(runner: Runner) -> None:
    """It is the end of the turn, after all."""
    seen: list[str] = runner.again([])

    def finish(context: ResultContext) -> None:
        seen.append(context.agent.name)

    agent = agent_with(ScriptedModel(*calls(1)), lifecycle=Lifecycle(on_finish=finish))
    await runner.run(agent, "q?", limits=RunLimits(max_inferences=1))
    assert seen == ["a"]


@pytest.mark.parametrize("name", ["tool_timeout", "max_inferences", "max_tokens", "max_cost"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), True, "5"])
def test_a_limit_that_cannot_be_meant_is_refused(name: str, value: Any) -> None:
    """None is no limit."""
    options: dict[str, Any] = {name: value}
    with pytest.raises(ConfigurationError, match=f"{name}={value!r}"):
        RunLimits(**options)
    with pytest.raises(ConfigurationError, match="deadline='soon'"):
        RunLimits(deadline="soon")  # type: ignore[arg-type] - on purpose: it is refused


def test_a_limit_may_be_larger_than_any_float() -> None:
    """It is a number nevertheless."""
    assert RunLimits(max_tokens=10**400).max_tokens == 10**400


def test_a_price_that_is_no_function_is_refused() -> None:
    """Else the run would fail after its first model call."""
    with pytest.raises(ConfigurationError, match=r"RunLimits\(price=0.5\): pass a function"):
        RunLimits(price=0.5)  # type: ignore[arg-type]


def test_a_cost_needs_a_price() -> None:
    """The library knows none."""
    with pytest.raises(ConfigurationError, match="needs price="):
        RunLimits(max_cost=1)


def contents(state: State[Any]) -> list[Any]:
    """What the model reads of each call of a run: a result, or the name of the error."""
    found: list[Any] = [one.content for result in state.results for one in result.tool_calls]
    return [one.get("data") or one["error"]["name"] for one in found]


@tool(max_calls=2)
def search(text: str) -> str:
    """Search."""
    return f"found {text}"


def searches(*texts: str) -> Any:
    """A reply with one call for each text."""
    return tool_calls(*[("search", {"text": text}) for text in texts])


@pytest.mark.parametrize(
    ("limits", "read"),
    [
        (RunLimits(), ["found a", "found b", "ToolLimitError", "ToolLimitError"]),
        (RunLimits(max_tool_calls=1), ["found a"] + ["ToolLimitError"] * 3),
        (RunLimits(max_tool_calls={"search": 1}), ["found a"] + ["ToolLimitError"] * 3),
        (RunLimits(max_tool_calls={"look": 1}), ["found a", "found b"] + ["ToolLimitError"] * 2),
    ],
)
async def test_a_call_beyond_a_tools_limit_is_not_made_and_the_model_reads_why(
    runner: Runner, limits: RunLimits, read: list[str]
) -> None:
    """The run continues: the model answers with what it has."""
    model = ScriptedModel(searches("a"), searches("b", "c"), searches("d"), "done")
    look = create_tool(name="look", description="Look.", handler=print)
    agent, state = Agent(name="a", system="S", tools=[search, look], model=model), State[Any]()

    result = await runner.run(agent, "q?", state=state, limits=limits)

    assert (result.text, result.stop_reason) == ("done", None)
    assert contents(state) == read
    assert "this call was not made" in str(model.bodies[-1])


async def test_the_agents_of_a_network_share_the_limit_of_a_tool(runner: Runner) -> None:
    """It is the run's."""
    one, two = [
        Agent(name=n, system="S", tools=[search], model=ScriptedModel(searches("a", "b"), "done"))
        for n in ("one", "two")
    ]
    state = State[Any]()

    await runner.run(
        Network(name="n", agents=[one, two], router=sequence(one, two), max_iter=2),
        "q?",
        state=state,
        limits=RunLimits(max_tool_calls=3),
    )

    assert contents(state) == ["found a", "found b", "ToolLimitError", "ToolLimitError"]


async def test_calls_that_are_not_made_do_not_count(runner: Runner) -> None:
    """One has wrong arguments, and one is refused by a guardrail."""
    checked = Guardrail(lambda given: "no" if "bad" in str(given) else None)
    model = ScriptedModel(
        tool_call("search", {"wrong": 1}), searches("bad"), searches("a", "b", "c"), "done"
    )
    agent = Agent(
        name="a", system="S", tools=[search], model=model, tool_input_guardrails=[checked]
    )
    state = State[Any]()

    await runner.run(agent, "q?", state=state)

    expected = ["InvalidArgumentsError", "GuardrailError", "found a", "found b", "ToolLimitError"]
    assert contents(state) == expected


async def test_calls_at_the_same_time_keep_to_the_limit(runner: Runner) -> None:
    """The first ones of the reply are made."""
    model = ScriptedModel(searches("a", "b", "c"), "done")
    agent = Agent(name="a", system="S", tools=[search], model=model, parallel_tools=True)
    state = State[Any]()

    await runner.run(agent, "q?", state=state)

    assert contents(state) == ["found a", "found b", "ToolLimitError"]


@pytest.mark.parametrize("value", [0, -1, 1.5, True, {"search": 0}, {1: 2}, "3"])
def test_a_limit_of_tools_that_cannot_be_meant_is_refused(value: Any) -> None:
    """The error names the option and the value."""
    with pytest.raises(ConfigurationError, match="max_tool_calls"):
        RunLimits(max_tool_calls=value)
    if not isinstance(value, dict):
        with pytest.raises(ToolDefinitionError, match=f"max_calls={value!r}"):
            create_tool(name="t", handler=print, max_calls=value)
