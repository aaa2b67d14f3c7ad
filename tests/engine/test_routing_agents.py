"""Routing agents: a model decides who is next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import pytest
from pydantic import Field

from agentkit_py import (
    Agent,
    HistoryConfig,
    Lifecycle,
    Message,
    Network,
    RouterContext,
    RoutingAgent,
    RunLimits,
    State,
    TextMessage,
    create_routing_agent,
)
from agentkit_py.errors import ConfigurationError, RoutingError
from agentkit_py.lifecycle import ResultContext
from agentkit_py.routing import get_default_routing_agent
from agentkit_py.testing import EventLog, ScriptedModel, tool_call

from .runner import Runner


def by_text(context: ResultContext) -> list[str]:
    """The names that the model wrote, with spaces between."""
    return context.result.text.split()


def routing_agent(on_route: Any = by_text, **options: Any) -> RoutingAgent:
    """A routing agent of our own."""
    return RoutingAgent(
        name="router", system="Route!", lifecycle=Lifecycle(on_route=on_route), **options
    )


def refund(booking: Annotated[str, Field(description="Its number")]) -> str:
    """Refund a booking."""
    return "refunded"


def network_of(model: ScriptedModel, router: Any = None, **options: Any) -> Network:
    """A network of two agents that ask one model."""
    return Network(
        name="n",
        agents=[
            Agent(name="billing", system="B", description="Money matters", tools=[refund]),
            Agent(name="travel", system="T", description="Trips"),
        ],
        default_model=model,
        router=router,
        **options,
    )


def select(name: str, **more: Any) -> dict[str, Any]:
    """Return a model's reply that chooses an agent."""
    return tool_call("select_agent", {"name": name, **more})


def done() -> dict[str, Any]:
    """Return a model's reply that ends the run."""
    return tool_call("done", {})


# Of our own.


async def test_a_routing_agent_names_the_next_agent_until_it_names_none(runner: Runner) -> None:
    """One or several at a time."""
    model = ScriptedModel("travel billing", "from travel", "", "from billing", "")
    run = await runner.run(network_of(model, routing_agent()), "q?")
    assert [r.text for r in run.results] == ["from travel", "from billing"]
    assert [r.text for r in run.routing_results] == ["travel billing", "", ""]
    model.assert_finished()


async def test_replies_of_a_routing_agent_are_not_part_of_the_conversation(runner: Runner) -> None:
    """Its reply is not in the state or in other agents' input; it sees the conversation itself."""
    model = ScriptedModel("travel", "from travel", "")
    run = await runner.run(network_of(model, routing_agent()), "q?")
    assert [r.agent_name for r in run.state.transcript] == ["user", "travel"]
    model.assert_not_saw("Route!", request=1)
    model.assert_saw("Route!", "q?", "from travel", request=2)


async def test_on_route_may_be_async(runner: Runner) -> None:
    """It may look something up."""

    async def later(context: ResultContext) -> list[str] | None:
        return by_text(context) or None

    model = ScriptedModel("travel", "from travel", "")
    run = await runner.run(network_of(model, routing_agent(later)), "q?")
    assert [r.agent_name for r in run.results] == ["travel"]


async def test_on_route_may_return_a_single_name(runner: Runner) -> None:
    """A text is one name, not a list of letters."""
    model = ScriptedModel("travel", "from travel", "")

    def one_name(context: ResultContext) -> str | None:
        return context.result.text or None

    router = routing_agent(one_name)
    run = await runner.run(network_of(model, router), "q?")
    assert ([r.agent_name for r in run.results], run.stop_reason) == (["travel"], "done")


async def test_on_route_that_returns_something_else_is_an_error(runner: Runner) -> None:
    """The error is that of router functions."""

    def five(context: ResultContext) -> Any:
        return 5

    with pytest.raises(RoutingError, match="its router returned 5"):
        await runner.run(network_of(ScriptedModel("x"), routing_agent(five)), "q?")


async def test_an_unknown_name_from_a_routing_agent_ends_the_run(runner: Runner) -> None:
    """`stopped_at` has the name."""
    run = await runner.run(network_of(ScriptedModel("nobody"), routing_agent()), "q?")
    assert (run.stop_reason, run.stopped_at) == ("unknown_agent", "nobody")


def test_a_routing_agent_needs_on_route() -> None:
    """It could not say anything."""
    with pytest.raises(ConfigurationError, match="needs lifecycle"):
        RoutingAgent(name="r", system="S")


def test_create_routing_agent_is_the_class_under_the_typescript_name() -> None:
    """TypeScript's name has the same signature."""
    assert create_routing_agent is RoutingAgent


async def test_a_routing_agents_own_model_is_used(runner: Runner) -> None:
    """A small one may do."""
    small, large = ScriptedModel("travel", ""), ScriptedModel("from travel")
    await runner.run(network_of(large, routing_agent(model=small)), "q?")
    small.assert_finished()
    large.assert_finished()


async def test_a_routing_agents_history_goes_through_the_processors(runner: Runner) -> None:
    """Its own last, like everyone's."""
    order: list[str] = runner.again([])

    def level(name: str) -> Any:
        def process(messages: Sequence[Message], context: Any) -> Sequence[Message]:
            order.append(f"{name} for {context.agent}")
            return [m for m in messages if getattr(m, "content", "") != name]

        return process

    seeds = [TextMessage("user", word) for word in ("history", "network", "agent", "kept")]
    model = ScriptedModel("")
    network = network_of(
        model,
        routing_agent(processors=[level("agent")]),
        history=HistoryConfig(processors=[level("history")]),
        processors=[level("network")],
    )
    await runner.run(network, "q?", state=State(messages=seeds))
    assert order == ["history for router", "network for router", "agent for router"]
    assert [m["content"] for m in model.bodies[0]["messages"]] == ["Route!", "kept", "q?"]


async def test_a_function_may_return_a_routing_agent(runner: Runner) -> None:
    """Code decides what is clear, a model the rest."""
    routing = routing_agent()

    def router(context: RouterContext) -> Any:
        return "billing" if "refund" in context.input and not context.call_count else routing

    model = ScriptedModel("from billing", "")
    run = await runner.run(network_of(model, router), "refund, please")
    assert [r.agent_name for r in run.results] == ["billing"]
    model = ScriptedModel("travel", "from travel", "")
    run = await runner.run(network_of(model, router), "Where to?")
    assert [r.agent_name for r in run.results] == ["travel"]
    model.assert_finished()


async def test_a_routing_agent_may_call_tools_before_it_decides(runner: Runner) -> None:
    """Its calls are no part of the conversation either."""
    model = ScriptedModel(tool_call("refund", {"booking": "b1"}), "travel", "from travel", "")
    run = await runner.run(network_of(model, routing_agent(tools=[refund], max_iter=2)), "q?")
    assert [m.type for m in run.state.format_history()] == ["text", "text"]


async def test_a_limit_that_is_reached_before_the_router_is_asked_ends_the_run(
    runner: Runner,
) -> None:
    """It is not taken for an answer that names nobody."""
    model = ScriptedModel()
    run = await runner.run(network_of(model, routing_agent()), "q?", limits=RunLimits(deadline=0))
    assert (run.stop_reason, run.results) == ("deadline", [])
    model.assert_finished()


# The default one.


async def test_without_a_router_a_model_selects_agents_until_it_is_done(runner: Runner) -> None:
    """The model has a tool to select an agent and one to end the run."""
    model = ScriptedModel(
        select("billing", reason="money"), "from billing", select("travel"), "from travel", done()
    )
    run = await runner.run(network_of(model), "q?")
    assert [r.agent_name for r in run.results] == ["billing", "travel"]
    assert run.stop_reason == "done"
    assert [r.tool_calls[0].content for r in run.routing_results] == [
        {"data": "billing"}, {"data": "travel"}, {"data": ""},
    ]  # fmt: skip
    model.assert_finished()


async def test_the_default_routing_agent_reads_each_agent_and_its_tools(
    runner: Runner,
) -> None:
    """Name, description, and the tools' names, descriptions and arguments."""
    model = ScriptedModel(done())
    await runner.run(network_of(model), "q?")
    prompt = model.bodies[0]["messages"][0]["content"]
    for expected in ("<name>billing</name>", "Money matters", "refund", "Refund a booking."):
        assert expected in prompt
    assert '"booking"' in prompt
    assert "Its number" in prompt
    assert model.bodies[0]["tool_choice"] == "required"
    assert [t["function"]["name"] for t in model.bodies[0]["tools"]] == ["select_agent", "done"]


async def test_a_disabled_agent_is_not_offered(runner: Runner) -> None:
    """A model that selects it anyway ends the run."""
    model = ScriptedModel(select("closed"))
    closed = Agent(name="closed", system="S", lifecycle=Lifecycle(enabled=lambda context: False))
    network = Network(name="n", agents=[closed, Agent(name="o", system="S")], default_model=model)
    run = await runner.run(network, "q?")
    assert "<name>closed</name>" not in model.bodies[0]["messages"][0]["content"]
    assert (run.stop_reason, run.stopped_at) == ("disabled_agent", "closed")


async def test_selecting_an_agent_that_is_not_there_ends_the_run(runner: Runner) -> None:
    """TypeScript's network dies of it."""
    run = await runner.run(network_of(ScriptedModel(select("nobody"))), "q?")
    assert (run.stop_reason, run.stopped_at) == ("unknown_agent", "nobody")
    content: Any = run.routing_results[0].tool_calls[0].content
    assert content["error"]["message"] == "Unknown agent 'nobody'. Agents: billing, travel"


async def test_an_answer_without_a_tool_call_ends_the_run(runner: Runner) -> None:
    """Some models do that although a call was required."""
    run = await runner.run(network_of(ScriptedModel("I think we are done.")), "q?")
    assert (run.stop_reason, run.results) == ("done", [])


async def test_done_comes_before_a_selection_in_the_order_of_the_calls(runner: Runner) -> None:
    """The first of either counts; calls of other tools do not."""
    first_done = {"tool_calls": [{"name": "done"}, {"name": "select_agent"}]}
    run = await runner.run(network_of(ScriptedModel(first_done)), "q?")
    assert run.stop_reason == "done"
    other = {"tool_calls": [{"name": "fly"}, {"name": "select_agent", "arguments": "{"}]}
    run = await runner.run(network_of(ScriptedModel(other)), "q?")
    assert (run.stop_reason, run.stopped_at) == ("unknown_agent", "")


async def test_the_default_routing_agent_cannot_run_by_itself(runner: Runner) -> None:
    """It has nobody to choose from."""
    model = ScriptedModel()
    agent = get_default_routing_agent()
    assert agent is get_default_routing_agent()
    with pytest.raises(ConfigurationError, match="only run in a network"):
        await runner.run(agent, "q?", model=model)


async def test_the_default_routing_agent_says_when_all_agents_have_been_disabled(
    runner: Runner,
) -> None:
    """The agents are disabled during the run."""
    state = State[Any]({"open": True})
    agent = Agent(
        name="a",
        system="S",
        lifecycle=Lifecycle(
            enabled=lambda context: context.state.data["open"],
            on_finish=lambda context: context.state.data.update(open=False),
        ),
    )
    network = Network(name="n", agents=[agent], default_model=ScriptedModel(select("a"), "hi"))
    with pytest.raises(RoutingError, match="no agent is enabled"):
        await runner.run(network, "q?", state=state)


async def test_observers_see_every_choice(runner: Runner) -> None:
    """The event has the chosen names, or none at the end."""
    log = EventLog()
    model = ScriptedModel(select("travel"), "from travel", done())
    await runner.run(network_of(model), "q?", observer=log)
    chosen = [getattr(e, "agents", None) for e in log.events if type(e).__name__ == "AgentsRouted"]
    assert chosen == [("travel",), ()]
