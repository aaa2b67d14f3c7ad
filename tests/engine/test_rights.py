"""Tools that may be used now, models chosen now, mentions, and lists of what is to be done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from agentkit_py import (
    Agent,
    Lifecycle,
    Network,
    RouterContext,
    RoutingAgent,
    State,
    ToolContext,
    tool,
)
from agentkit_py.errors import ConfigurationError
from agentkit_py.lifecycle import AgentContext
from agentkit_py.routing import mention_router, mentioned
from agentkit_py.testing import ScriptedModel, tool_call
from agentkit_py.tools import todo_write
from agentkit_py.tools.ready import todos_of

from .runner import Runner


@tool
def look() -> str:
    """Look."""
    return "looked"


@tool
def pay() -> str:
    """Pay."""
    return "paid"


@tool
def unlock(name: str, ctx: ToolContext) -> str:
    """Unlock a tool."""
    ctx.state.data.setdefault("allowed", []).append(name)
    return "unlocked"


def names(body: Any) -> list[str]:
    """The tools that a request offers."""
    return [found["function"]["name"] for found in body.get("tools", [])]


async def test_only_allowed_tools_are_offered_and_called(runner: Runner) -> None:
    """The others are there, but not now."""
    model = ScriptedModel(tool_call("pay"), "I may not.", strict=False)
    agent = Agent(
        name="a", system="S", model=model, tools=[look, pay], allowed_tools=["look"], max_iter=2
    )
    await runner.run(agent, "Go")
    assert names(model.bodies[0]) == ["look"]
    model.assert_saw("ToolNotAllowedError", "'pay' may not be called now. Available: look.")


async def test_rights_follow_the_state_from_inference_to_inference(runner: Runner) -> None:
    """An unlocked tool is offered at the next inference, and in the next run on the state."""

    def allowed(context: AgentContext) -> list[str]:
        return ["unlock", *context.state.data.get("allowed", [])]

    model = ScriptedModel(tool_call("unlock", {"name": "pay"}), tool_call("pay"), "Paid.", "Again.")
    agent = Agent(
        name="a", system="S", model=model, tools=[unlock, look, pay], max_iter=3,
        allowed_tools=allowed,
    )  # fmt: skip
    state: State[Any] = State()
    await runner.run(agent, "Go", state=state)
    await runner.run(agent, "Again", state=State.from_dict(state.to_dict()))
    assert [names(body) for body in model.bodies] == [
        ["unlock"], ["unlock", "pay"], ["unlock", "pay"], ["unlock", "pay"],
    ]  # fmt: skip


async def test_a_function_may_allow_all(runner: Runner) -> None:
    """None allows all; names that are no tools are left out."""
    model = ScriptedModel("One.", "Two.")
    allowed = runner.again([None, ["look", "unheard-of"]])
    agent = Agent(
        name="a", system="S", model=model, tools=[look, pay],
        allowed_tools=lambda _context: allowed.pop(0),
    )  # fmt: skip
    await runner.run(agent, "Go")
    await runner.run(agent, "Go")
    assert [names(body) for body in model.bodies] == [["look", "pay"], ["look"]]


async def test_a_choice_that_is_not_allowed_is_no_choice(runner: Runner) -> None:
    """Providers refuse a tool choice that names a missing tool."""
    model = ScriptedModel("Well.")
    agent = Agent(
        name="a", system="S", model=model, tools=[look, pay], tool_choice="pay",
        allowed_tools=["look"],
    )  # fmt: skip
    await runner.run(agent, "Go")
    assert model.bodies[0].get("tool_choice", "auto") == "auto"


async def test_rights_that_are_none_are_refused(runner: Runner) -> None:
    """The error comes when they are given, or when the function returns them."""
    with pytest.raises(ConfigurationError, match="payy"):
        Agent(name="a", system="S", tools=[pay], allowed_tools=["payy"])
    agent = Agent(
        name="a", system="S", tools=[pay], model=ScriptedModel("x"),
        allowed_tools=lambda _c: "pay",
    )  # fmt: skip
    with pytest.raises(ConfigurationError, match="list of names"):
        await runner.run(agent, "Go")


async def test_a_model_may_be_chosen_at_each_turn(runner: Runner) -> None:
    """The function reads the state, and is sync or async."""
    cheap, vision = ScriptedModel("cheap"), ScriptedModel("vision")

    async def choose(context: AgentContext) -> Any:
        return vision if context.state.data.get("image") else cheap

    agent = Agent(name="a", system="S", model=choose)
    assert (await runner.run(agent, "Go")).text == "cheap"
    assert (await runner.run(agent, "Go", state=State({"image": True}))).text == "vision"
    with pytest.raises(ConfigurationError, match="'gpt-4o' is not PROVIDER:NAME"):
        await runner.run(Agent(name="a", system="S", model=_no_model), "Go")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("@billing what do I owe?", ["billing"]),
        ("ask @Bookings, then @billing.", ["bookings", "billing"]),
        ("mail ada@billing.com", []),
        ("see @billing.com", []),
        ("@billing-extra please", ["billing-extra"]),
        ("@billingx", []),
        ("(@billing)", ["billing"]),
        ("@billing and @billing", ["billing"]),
        ("nobody", []),
    ],
)
def test_mentioned_agents_are_next(text: str, found: list[str]) -> None:
    """Only whole names count, once each and in order."""
    assert mentioned(text, ["billing", "billing-extra", "bookings"]) == found


def _no_model(_context: AgentContext) -> Any:
    return "gpt-4o"


def _billing_once(context: RouterContext) -> str | None:
    return None if context.call_count else "billing"


def desk(model: ScriptedModel, fallback: Any = None) -> Network:
    """A network routed by mention."""
    agents = [Agent(name=name, system=name) for name in ("billing", "bookings")]
    return Network(name="desk", agents=agents, default_model=model, router=mention_router(fallback))


async def test_those_who_are_mentioned_take_one_turn_each(runner: Runner) -> None:
    """The order is that of mention."""
    run = await runner.run(desk(ScriptedModel("One.", "Two.")), "@bookings and @billing: hello")
    assert [r.agent_name for r in run.results][-2:] == ["bookings", "billing"]
    assert run.stop_reason == "done"


async def test_without_a_mention_the_fallback_is_next(runner: Runner) -> None:
    """An agent's name, a function, a routing agent, or nobody."""
    for fallback in ("billing", _billing_once):
        run = await runner.run(desk(ScriptedModel("One."), fallback), "hello")
        assert run.last_result is not None
        assert run.last_result.agent_name == "billing"
    assert (await runner.run(desk(ScriptedModel()), "hello")).last_result is None
    router = RoutingAgent(
        name="router", system="Route.",
        lifecycle=Lifecycle(on_route=lambda c: () if c.state.results else ("billing",)),
    )  # fmt: skip
    run = await runner.run(desk(ScriptedModel("r", "One.", "r"), router), "hello")
    assert run.last_result is not None
    assert run.last_result.agent_name == "billing"
    with pytest.raises(ConfigurationError, match="mention_router"):
        mention_router(5)  # type: ignore[arg-type] - wrong on purpose


async def test_a_list_of_tasks_is_kept_in_the_state(runner: Runner) -> None:
    """The whole list each time, checked."""
    items = [{"content": "look", "status": "in_progress"}, {"content": "pay"}]
    two = [{"content": "a", "status": "in_progress"}, {"content": "b", "status": "in_progress"}]
    model = ScriptedModel(
        tool_call("todo_write", {"todos": items}),
        tool_call("todo_write", {"todos": two}),
        tool_call("todo_write", {"todos": [{"content": ""}]}),
        "Done.",
    )
    state: State[Any] = State()
    await runner.run(
        Agent(name="a", system="S", model=model, tools=[todo_write], max_iter=4), "Go", state=state
    )
    assert state.data["todos"] == [items[0], {"content": "pay", "status": "pending"}]
    assert [todo.content for todo in todos_of(state.data)] == ["look", "pay"]
    model.assert_saw("at most one item may be in progress", request=2)
    model.assert_saw("InvalidArgumentsError", request=3)


@dataclass
class Tasks:
    """Typed data with a list."""

    todos: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


@dataclass
class NoTasks:
    """Typed data without one."""

    other: int = 0


async def test_typed_states_have_a_list_or_say_that_they_have_none(runner: Runner) -> None:
    """A state without the list gives an error that the model reads."""
    call = tool_call("todo_write", {"todos": [{"content": "look"}]})
    for data, expected in ((Tasks(), "looked up"), (NoTasks(), "has no 'todos'")):
        model = ScriptedModel(call, "Done.")
        agent = Agent(name="a", system="S", model=model, tools=[todo_write], max_iter=2)
        await runner.run(agent, "Go", state=State(data))
        if isinstance(data, Tasks):
            assert [todo.content for todo in todos_of(data)] == ["look"]
        else:
            model.assert_saw(expected)
