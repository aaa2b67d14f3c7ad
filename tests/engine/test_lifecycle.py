"""Hooks into an agent's turn, and system prompts that are functions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from agentkit_py import (
    Agent,
    AgentResult,
    Lifecycle,
    Network,
    State,
    TextMessage,
    ToolCallFilter,
)
from agentkit_py.events.types import ModelReplied
from agentkit_py.lifecycle import AgentContext, ResultContext, Start, StartContext
from agentkit_py.messages import ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.processors import MessageWindow, Pin, Redact
from agentkit_py.testing import EventLog, ScriptedModel, tool_call, tool_calls

from .runner import Runner


def look() -> str:
    """Look something up."""
    return "found"


def either(function: Callable[..., Any], sync: bool) -> Callable[..., Any]:
    """The function itself, or an async one around it."""
    if sync:
        return function

    async def later(*arguments: Any) -> Any:
        return function(*arguments)

    return later


BOTH = pytest.mark.parametrize("sync", [True, False])


def agent_with(model: ScriptedModel, lifecycle: Lifecycle, **options: Any) -> Agent:
    """An agent that can look things up, with hooks."""
    return Agent(name="a", system="S", tools=[look], model=model, lifecycle=lifecycle, **options)


# System prompts.


@BOTH
async def test_a_system_prompt_may_be_a_function(runner: Runner, sync: bool) -> None:
    """Asked before each inference."""
    model = ScriptedModel(tool_call("look"), "done")
    times: list[int] = runner.again([])

    def now() -> str:
        times.append(1)
        return f"time {len(times)}"

    async def later() -> str:
        return now()

    system = now if sync else later
    agent = Agent(name="a", system=system, tools=[look], model=model, max_iter=2)
    await runner.run(agent, "q?")
    assert [body["messages"][0]["content"] for body in model.bodies] == ["time 1", "time 2"]


async def _later(context: AgentContext) -> str:
    return _now(context)


def _now(context: AgentContext) -> str:
    where = context.network.name if context.network is not None else "nowhere"
    return f"{context.agent.name} in {where} for {context.state.data['user']}"


@pytest.mark.parametrize("system", [_now, _later])
async def test_a_system_prompt_function_may_take_the_context(
    runner: Runner,
    system: Callable[[AgentContext], str | Awaitable[str]],
) -> None:
    """Agent, network and state."""
    model = ScriptedModel("hi", "hi")
    agent = Agent(name="a", system=system, model=model)
    await runner.run(agent, "q?", state=State({"user": "Ada"}))
    network = Network(name="n", agents=[agent], router=lambda c: None if c.call_count else "a")
    await runner.run(network, "q?", state=State({"user": "Ada"}))
    prompts = [body["messages"][0]["content"] for body in model.bodies]
    assert prompts == ["a in nowhere for Ada", "a in n for Ada"]


async def test_a_system_prompt_functions_own_defaults_stay_its_own(runner: Runner) -> None:
    """Loops bind names that way; only a required parameter gets the context."""
    model = ScriptedModel("hi", "hi")
    agents = [
        Agent(name=name, system=lambda name=name: f"You are {name}.", model=model) for name in "ab"
    ]
    for agent in agents:
        await runner.run(agent, "q?")
    assert [body["messages"][0]["content"] for body in model.bodies] == [
        "You are a.",
        "You are b.",
    ]


# on_start.


@BOTH
async def test_on_start_sees_everything_that_is_about_to_be_sent(
    runner: Runner, sync: bool
) -> None:
    """Prompt, history as processors left it, and where it is."""
    seen: list[StartContext] = runner.again([])
    model = ScriptedModel("hi")
    lifecycle = Lifecycle(on_start=either(seen.append, sync))
    state = State[Any](messages=[TextMessage("user", "old")])
    await runner.run(agent_with(model, lifecycle, assistant="P"), "q?", state=state)
    (context,) = seen
    assert [m.role for m in context.prompt] == ["system", "user", "assistant"]
    assert list(context.history) == state.messages
    assert (context.agent.name, context.network, context.input) == ("a", None, "q?")
    assert context.state is state
    model.assert_saw("old", "q?")


@BOTH
async def test_on_start_may_change_prompt_and_history(runner: Runner, sync: bool) -> None:
    """The model sees what it returned; the state does not."""

    def change(context: StartContext) -> Start:
        prompt = [TextMessage("system", "other"), *context.prompt[1:]]
        return Start(prompt, [TextMessage("user", "made up")])

    model = ScriptedModel("hi")
    state = State[Any](messages=[TextMessage("user", "old")])
    lifecycle = Lifecycle(on_start=either(change, sync))
    result = await runner.run(agent_with(model, lifecycle), "q?", state=state)
    assert [m["content"] for m in model.bodies[0]["messages"]] == ["other", "made up", "q?"]
    assert [m.text for m in result.prompt if m.type == "text"] == ["other", "q?"]
    assert state.messages == [TextMessage("user", "old")]


async def test_pairs_that_on_start_breaks_are_made_whole(runner: Runner) -> None:
    """A result without its call is no request that a provider takes."""

    def tear(context: StartContext) -> Start:
        return Start(context.prompt, [m for m in context.history if m.type != "tool_call"])

    call = ToolCall("c1", "look", {})
    state = State[Any](messages=[ToolCallMessage([call]), ToolResultMessage(call, {"data": 1})])
    model = ScriptedModel("done")
    await runner.run(agent_with(model, Lifecycle(on_start=tear)), "q?", state=state)
    assert [m["role"] for m in model.bodies[0]["messages"]] == ["system", "user"]
    model.assert_finished()


async def test_on_start_cannot_hide_the_calls_that_an_agent_has_just_made(runner: Runner) -> None:
    """Without their results the model would ask for them until its inferences are used up."""

    async def no_calls(context: StartContext) -> Start:
        left = await context.apply(ToolCallFilter())
        assert list(left) == list(context.history)  # protected, as in a chain
        assert left == await context.apply([ToolCallFilter()])  # as processors= takes them
        assert context.processing.agent == context.agent.name
        assert context.processing.own_tools == {"look"}
        return Start(context.prompt, [m for m in context.history if m.type == "text"])

    model = ScriptedModel(tool_call("look"), "done")
    agent = agent_with(model, Lifecycle(on_start=no_calls), max_iter=2)
    result = await runner.run(agent, "q?")
    assert [m["role"] for m in model.bodies[1]["messages"]][2:] == ["assistant", "tool"]
    assert result.context is not None
    assert result.context.entries[-1].kept_back == 2


async def test_pinned_messages_stay_where_on_start_applies_processors(runner: Runner) -> None:
    """No processor drops it, at any level."""

    async def newest(context: StartContext) -> Start:
        return Start(context.prompt, await context.apply(MessageWindow(1)))

    state = State[Any](messages=[TextMessage("user", f"m{n} a@b.io") for n in range(9)])
    pin = Pin(lambda m: "m3" in getattr(m, "text", ""))
    model = ScriptedModel("done")
    agent = agent_with(model, Lifecycle(on_start=newest), processors=[pin, Redact(["email"])])
    await runner.run(agent, "q?", state=state)
    texts = [m["content"] for m in model.bodies[0]["messages"][1:-1]]
    assert texts[0] == "m3 [email]"
    assert "m7 [email]" not in texts


async def test_on_start_sees_a_whole_history(runner: Runner) -> None:
    """Calls that nobody answered are answered before it is asked."""
    seen: list[Any] = runner.again([])

    def remember(context: StartContext) -> None:
        seen.extend(context.history)

    model = ScriptedModel("hi")
    state = State[Any](messages=[ToolCallMessage([ToolCall("c", "look")])])
    await runner.run(agent_with(model, Lifecycle(on_start=remember)), "q?", state=state)
    assert [m.type for m in seen] == ["tool_call", "tool_result"]
    model.assert_finished()


def stop_at(iteration: int) -> Lifecycle:
    """Stop before this inference of a turn."""

    def on_start(context: StartContext) -> Start | None:
        if context.state.result_count == iteration:
            return Start(context.prompt, context.history, stop=True)
        return None

    return Lifecycle(on_start=on_start, on_finish=lambda context: context.result)


async def test_on_start_may_stop_the_turn_before_the_model_is_asked(runner: Runner) -> None:
    """The result is blank and says why; by itself the agent keeps none."""
    model = ScriptedModel()
    state = State[Any]()
    result = await runner.run(agent_with(model, stop_at(0)), "q?", state=state)
    assert (result.output, result.tool_calls, result.stop_reason) == ((), (), "on_start")
    assert [r.agent_name for r in state.transcript] == ["user"]
    assert state.results == []
    model.assert_finished()


async def test_in_a_network_a_stopped_turn_leaves_a_blank_result(runner: Runner) -> None:
    """The router continues from the blank result, like in TypeScript."""
    model = ScriptedModel()
    agent = agent_with(model, stop_at(0))
    network = Network(name="n", agents=[agent], router=lambda c: None if c.call_count else agent)
    run = await runner.run(network, "q?")
    assert [(r.agent_name, r.output) for r in run.results] == [("a", ())]
    assert run.last_result is run.results[0]
    model.assert_finished()


async def test_on_start_may_stop_at_the_second_inference(runner: Runner) -> None:
    """The result of the first is returned, its tools were run."""
    model = ScriptedModel(tool_call("look"))
    state = State[Any]()
    result = await runner.run(agent_with(model, stop_at(1), max_iter=5), "q?", state=state)
    assert [m.content for m in result.tool_calls] == [{"data": "found"}]
    assert state.results[-1] is result
    model.assert_finished()


# on_response.


@BOTH
async def test_on_response_may_replace_the_output(runner: Runner, sync: bool) -> None:
    """The replacement is what the state and the store keep."""

    def shout(context: ResultContext) -> AgentResult:
        return context.result.with_messages([TextMessage("assistant", context.result.text.upper())])

    model = ScriptedModel("hi")
    log, state = EventLog(), State[Any]()
    lifecycle = Lifecycle(on_response=either(shout, sync))
    result = await runner.run(agent_with(model, lifecycle), "q?", state=state, observer=log)
    assert result.text == state.results[-1].text == "HI"
    assert result.output[0].agent == "a"
    (replied,) = log.of(ModelReplied)
    assert replied.messages == result.output


async def test_on_response_that_returns_nothing_leaves_the_result(runner: Runner) -> None:
    """It may just look."""
    seen: list[str] = runner.again([])

    def look_at(context: ResultContext) -> None:
        seen.append(context.result.text)

    model = ScriptedModel("hi")
    result = await runner.run(agent_with(model, Lifecycle(on_response=look_at)), "q?")
    assert (seen, result.text) == (["hi"], "hi")


async def test_tool_calls_that_on_response_drops_are_not_made(runner: Runner) -> None:
    """The turn ends."""

    def drop(context: ResultContext) -> AgentResult:
        return context.result.with_messages([TextMessage("assistant", "no tools today")])

    model = ScriptedModel(tool_call("look"))
    result = await runner.run(agent_with(model, Lifecycle(on_response=drop), max_iter=5), "q?")
    assert (result.text, result.tool_calls, result.stop_reason) == ("no tools today", (), None)
    model.assert_finished()


async def test_one_of_two_calls_may_be_dropped(runner: Runner) -> None:
    """The other is made and answered."""

    def first_only(context: ResultContext) -> AgentResult:
        (message,) = context.result.output
        if not isinstance(message, ToolCallMessage):
            return context.result
        return context.result.with_messages([replace(message, tools=message.tools[:1])])

    model = ScriptedModel(tool_calls(("look", {}), ("fly", {})), "done")
    lifecycle = Lifecycle(on_response=first_only)
    state = State[Any]()
    await runner.run(agent_with(model, lifecycle, max_iter=2), "q?", state=state)
    assert [m.tool.name for m in state.results[0].tool_calls] == ["look"]
    model.assert_finished()


async def test_a_tool_call_that_on_response_makes_up_is_made(runner: Runner) -> None:
    """A hook's call is treated like one of the model's."""

    def ask(context: ResultContext) -> AgentResult | None:
        if context.state.result_count > 0:
            return None
        call = ToolCallMessage([ToolCall("ours", "look")])
        return context.result.with_messages([*context.result.output, call])

    model = ScriptedModel("Let me see.", "done")
    state = State[Any]()
    result = await runner.run(
        agent_with(model, Lifecycle(on_response=ask), max_iter=3), "q?", state=state
    )
    assert result.text == "done"
    assert [m.content for m in state.results[0].tool_calls] == [{"data": "found"}]
    assert model.bodies[1]["messages"][-1]["tool_call_id"] == "ours"
    model.assert_finished()


# on_finish.


@BOTH
async def test_on_finish_is_called_once_after_the_tools_of_the_last_inference(
    runner: Runner, sync: bool
) -> None:
    """The hook's return value is the turn's last result."""
    seen: list[AgentResult] = runner.again([])

    def sign(context: ResultContext) -> AgentResult:
        seen.append(context.result)
        return context.result.with_messages([TextMessage("assistant", "signed")])

    model = ScriptedModel(tool_call("look"), "done")
    state = State[Any]()
    lifecycle = Lifecycle(on_finish=either(sign, sync))
    result = await runner.run(agent_with(model, lifecycle, max_iter=2), "q?", state=state)
    assert [r.text for r in seen] == ["done"]
    assert result.text == state.results[-1].text == "signed"
    assert [len(r.tool_calls) for r in state.results] == [1, 0]


async def test_on_finish_sees_tool_results_when_the_turn_ends_with_them(runner: Runner) -> None:
    """The case is a turn that ends at max_iter."""
    seen: list[Any] = runner.again([])

    def remember(context: ResultContext) -> None:
        seen.extend(context.result.tool_calls)

    model = ScriptedModel(tool_call("look"))
    result = await runner.run(agent_with(model, Lifecycle(on_finish=remember), max_iter=1), "q?")
    assert [m.content for m in seen] == [{"data": "found"}]
    assert result.stop_reason == "max_iter"


async def test_a_result_that_on_finish_makes_keeps_the_reason_why_the_turn_ended(
    runner: Runner,
) -> None:
    """The stop reason is the engine's, so a hook's new result cannot lose it."""

    def fresh(context: ResultContext) -> AgentResult:
        call = ToolCall("c", "look")
        return AgentResult("a", (ToolCallMessage([call]),), (ToolResultMessage(call, {"data": 1}),))

    model = ScriptedModel(tool_call("look"))
    result = await runner.run(agent_with(model, Lifecycle(on_finish=fresh), max_iter=1), "q?")
    assert result.stop_reason == "max_iter"


@pytest.mark.parametrize("hook", ["on_start", "on_response", "on_finish"])
async def test_a_hook_that_fails_fails_the_run(runner: Runner, hook: str) -> None:
    """Its own error, as it is."""

    def fail(context: Any) -> Any:
        raise LookupError("hook")

    lifecycle = Lifecycle(**{hook: fail})
    with pytest.raises(LookupError, match="hook"):
        await runner.run(agent_with(ScriptedModel("hi"), lifecycle), "q?")


async def test_hooks_may_change_the_state(runner: Runner) -> None:
    """Each sees what the one before left."""

    def count(context: AgentContext) -> None:
        context.state.data["n"] = context.state.data.get("n", 0) + 1

    lifecycle = Lifecycle(on_start=count, on_response=count, on_finish=count)
    state = State[Any]()
    await runner.run(agent_with(ScriptedModel("hi"), lifecycle), "q?", state=state)
    assert state.data == {"n": 3}


async def test_a_call_that_a_hook_puts_in_the_place_of_a_cut_reply_is_run(runner: Runner) -> None:
    """The hook's arguments are whole; those of the reply may not be."""
    call = ToolCallMessage([ToolCall("c1", "look", {})])

    def instead(ctx: ResultContext) -> AgentResult:
        return ctx.result if ctx.result.cut is None else ctx.result.with_messages([call])

    model = ScriptedModel({"text": "Half a sen", "finish": "length"}, "done")
    result = await runner.run(agent_with(model, Lifecycle(on_response=instead)), "q?")
    assert result.text == "done"
    model.assert_saw("found")
