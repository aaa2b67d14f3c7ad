"""Networks: who is next, what they share, and why a run ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, cast

import pytest
from pydantic import BaseModel, ConfigDict

from agentkit_py import (
    Agent,
    AgentResult,
    Lifecycle,
    Network,
    NetworkRun,
    RouterContext,
    RoutingAgent,
    State,
    TextMessage,
    ToolContext,
    UserMessage,
    create_network,
)
from agentkit_py.errors import ConfigurationError, MissingModelError, RoutingError
from agentkit_py.lifecycle import ResultContext
from agentkit_py.messages import Usage
from agentkit_py.routing import together
from agentkit_py.testing import ScriptedModel, text, tool_call

from .runner import Runner


def agents(*names: str, **options: Any) -> list[Agent]:
    """Agents by these names, without models of their own."""
    return [Agent(name=name, system=f"I am {name}.", **options) for name in names]


def script(*answers: Any) -> Callable[[RouterContext], Any]:
    """A router that gives these answers one after another, and then None."""
    return lambda c: answers[c.call_count] if c.call_count < len(answers) else None


def network_of(model: ScriptedModel, router: Any, *names: str, **options: Any) -> Network:
    """A network of agents by these names that all ask one model."""
    return Network(name="n", agents=agents(*names), default_model=model, router=router, **options)


def names(run: NetworkRun) -> list[str]:
    """Return the names of the agents that answered, in order."""
    return [result.agent_name for result in run.results]


# Routers.


async def test_a_router_function_names_the_next_agent_until_it_has_none(runner: Runner) -> None:
    """The run ends when the router returns nothing."""
    model = ScriptedModel("one", "two")
    run = await runner.run(network_of(model, script("a", "b"), "a", "b"), "q?")
    assert names(run) == ["a", "b"]
    assert (run.stop_reason, run.text, run.name) == ("done", "two", "n")
    assert run.last_result is run.results[-1]
    model.assert_finished()


async def test_a_router_may_be_async(runner: Runner) -> None:
    """It may ask a database."""

    async def router(context: RouterContext) -> str | None:
        await asyncio.sleep(0)
        return None if context.call_count else "a"

    model = ScriptedModel("one")
    assert names(await runner.run(network_of(model, router, "a"), "q?")) == ["a"]


async def test_a_router_sees_the_facts_for_its_decision(runner: Runner) -> None:
    """Input, state, the number of turns, the last result, and who is scheduled."""
    seen: list[RouterContext] = runner.again([])
    answers = script("a", ["b", "a"])

    def router(context: RouterContext) -> Any:
        seen.append(context)
        return answers(context)

    model = ScriptedModel("one", "two", "three")
    message = UserMessage("q?", "m1")
    run = await runner.run(network_of(model, router, "a", "b"), message)
    assert [c.call_count for c in seen] == [0, 1, 2, 3]
    assert [c.stack for c in seen] == [(), (), ("a",), ()]
    assert [c.last_result.text if c.last_result else None for c in seen] == [
        None, "one", "two", "three",
    ]  # fmt: skip
    assert {(c.input, c.user_message.id) for c in seen} == {("q?", "m1")}
    assert seen[0].network is run
    assert seen[0].network.state is run.state


async def test_a_router_may_return_an_agent(runner: Runner) -> None:
    """One of the network's, or another one, which joins this run only."""
    model = ScriptedModel("one", "two", "again")
    (guest,) = agents("guest")
    network = network_of(model, script(guest, "guest"), "a")
    run = await runner.run(network, "q?")
    assert names(run) == ["guest", "guest"]
    assert list(run.agents) == ["a", "guest"]
    assert [agent.name for agent in network.agents] == ["a"]


async def test_the_networks_own_agent_comes_before_a_guest_of_its_name(runner: Runner) -> None:
    """A name means one agent in a run."""
    model = ScriptedModel("one")
    guest = Agent(name="a", system="I am somebody else.")
    await runner.run(network_of(model, script(guest), "a"), "q?")
    model.assert_saw("I am a.")


async def test_a_router_may_return_several_who_then_take_turns(runner: Runner) -> None:
    """Names and agents, mixed; each sees those before it."""
    model = ScriptedModel("one", "two", "three")
    first, second, third = agents("a", "b", "c")
    network = Network(
        name="n", agents=[first, second], default_model=model, router=script(["a", second, third])
    )
    run = await runner.run(network, "q?")
    assert names(run) == ["a", "b", "c"]
    model.assert_saw("one", "two")


@pytest.mark.parametrize("nobody", [None, [], ()])
async def test_a_router_that_returns_no_agent_at_first_ends_the_run(
    runner: Runner, nobody: Any
) -> None:
    """No model was asked, the user's turn is kept."""
    model = ScriptedModel()
    run = await runner.run(network_of(model, script(nobody), "a"), "q?")
    assert (run.stop_reason, run.results, run.text, run.last_result) == ("done", [], "", None)
    assert [r.agent_name for r in run.state.transcript] == ["user"]
    model.assert_finished()


async def test_a_scheduled_agent_is_next_although_the_router_returns_none(runner: Runner) -> None:
    """The run is done when both have nobody."""
    model = ScriptedModel("one", "two", "three")
    run = await runner.run(network_of(model, script(["a", "b"], None, "c"), "a", "b", "c"), "q?")
    assert names(run) == ["a", "b", "c"]


@pytest.mark.parametrize("wrong", [5, {"name": "a"}, object(), True])
async def test_a_router_that_returns_something_else_is_an_error(runner: Runner, wrong: Any) -> None:
    """Which says what it was."""
    with pytest.raises(RoutingError, match="its router returned") as caught:
        await runner.run(network_of(ScriptedModel(), script(wrong), "a"), "q?")
    assert caught.value.network == "n"


async def test_a_wrong_thing_in_a_routers_list_is_an_error(runner: Runner) -> None:
    """A routing agent is no item of a list either: it is asked alone."""
    asked = RoutingAgent(name="r", system="S", lifecycle=Lifecycle(on_route=lambda context: None))
    with pytest.raises(RoutingError, match="5 in a list"):
        await runner.run(network_of(ScriptedModel(), script(["a", 5]), "a"), "q?")
    with pytest.raises(RoutingError, match="routing agent 'r' in a list"):
        await runner.run(network_of(ScriptedModel(), script([asked]), "a"), "q?")


@pytest.mark.parametrize("router", ["a", 5, Agent(name="a", system="S")])
async def test_a_value_that_is_not_a_router_is_refused(runner: Runner, router: Any) -> None:
    """A plain agent cannot route; it would answer for ever."""
    with pytest.raises(ConfigurationError, match="router must be"):
        network_of(ScriptedModel(), router, "a")
    with pytest.raises(ConfigurationError, match="router must be"):
        await runner.run(network_of(ScriptedModel(), script(), "a"), "q?", router=router)


async def test_a_routers_own_error_fails_the_run(runner: Runner) -> None:
    """The engine does not wrap the error."""

    def router(context: RouterContext) -> None:
        raise LookupError("router")

    with pytest.raises(LookupError, match="router"):
        await runner.run(network_of(ScriptedModel(), router, "a"), "q?")


async def test_the_runs_router_overrides_the_networks(runner: Runner) -> None:
    """Tests and special cases use it."""
    model = ScriptedModel("one")
    run = await runner.run(network_of(model, script("b"), "a", "b"), "q?", router=script("a"))
    assert names(run) == ["a"]


# Why a run ends.


async def test_max_iter_ends_the_run_and_the_router_is_not_asked_again(
    runner: Runner,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log says so: a router that never ends is a mistake."""
    asked: list[int] = runner.again([])

    def router(context: RouterContext) -> list[str]:
        asked.append(context.call_count)
        return ["a", "a"]

    model = ScriptedModel("one", "two")
    with caplog.at_level(logging.WARNING, logger="agentkit_py"):
        run = await runner.run(network_of(model, router, "a", max_iter=2), "q?")
    assert (run.stop_reason, asked, len(run.results)) == ("max_iter", [0, 1], 2)
    assert "stopped after 2 agent turns (max_iter); 2 scheduled" in caplog.text
    model.assert_finished()


@pytest.mark.parametrize("max_iter", [0, None])
async def test_without_max_iter_a_run_continues_until_the_router_is_done(
    runner: Runner,
    max_iter: int | None,
) -> None:
    """The run may take more turns than the default allows."""
    model = ScriptedModel(*["x"] * 60)
    run = await runner.run(network_of(model, script(*["a"] * 60), "a", max_iter=max_iter), "q?")
    assert (run.stop_reason, len(run.results)) == ("done", 60)


async def test_a_run_ends_after_fifty_turns_by_default(runner: Runner) -> None:
    """Money is finite."""
    model = ScriptedModel(*["x"] * 50)
    run = await runner.run(network_of(model, script(*["a"] * 60), "a"), "q?")
    assert (run.stop_reason, len(run.results)) == ("max_iter", 50)
    model.assert_finished()


async def test_an_unknown_name_is_an_error_of_the_run(runner: Runner) -> None:
    """A run that ends without a word looks like one that had nothing to say."""
    model = ScriptedModel("one")
    with pytest.raises(RoutingError, match=r"its router returned 'nobody'.*not an agent"):
        await runner.run(network_of(model, script("a", "nobody"), "a"), "q?")
    model.assert_finished()


@pytest.mark.parametrize("sync", [True, False])
async def test_a_disabled_agent_ends_the_run_with_a_stop_reason(runner: Runner, sync: bool) -> None:
    """Enabled is asked when its turn comes."""

    def enabled(context: Any) -> bool:
        return context.state.data["open"]

    async def enabled_later(context: Any) -> bool:
        return enabled(context)

    def close(ctx: ToolContext) -> None:
        """Close the desk."""
        ctx.state.data["open"] = False

    desk = Agent(
        name="desk", system="S", lifecycle=Lifecycle(enabled=enabled if sync else enabled_later)
    )
    boss = Agent(name="boss", system="S", tools=[close], max_iter=1)
    model = ScriptedModel("open", tool_call("close"))
    network = Network(
        name="n", agents=[desk, boss], default_model=model, router=script("desk", "boss", "desk")
    )
    run = await runner.run(network, "q?", state=State({"open": True}))
    assert (run.stop_reason, run.stopped_at) == ("disabled_agent", "desk")
    assert names(run) == ["desk", "boss"]


async def test_a_network_whose_agents_are_all_disabled_cannot_run(runner: Runner) -> None:
    """No agent could answer."""
    off = Lifecycle(enabled=lambda context: False)
    with pytest.raises(RoutingError, match="no agent is enabled"):
        await runner.run(
            Network(
                name="n", agents=agents("a", "b", lifecycle=off), default_model=ScriptedModel()
            ),
            "q?",
        )


async def test_an_agents_own_max_iter_counts_inside_a_network(runner: Runner) -> None:
    """One turn of it may be several inferences; the network counts turns."""

    def look() -> str:
        """Look."""
        return "found"

    model = ScriptedModel(tool_call("look"), tool_call("look"), "done", tool_call("look"))
    patient = Agent(name="patient", system="S", tools=[look], max_iter=3)
    brief = Agent(name="brief", system="S", tools=[look], max_iter=1)
    network = Network(
        name="n", agents=[patient, brief], default_model=model,
        router=script("patient", "brief"), max_iter=2,
    )  # fmt: skip
    run = await runner.run(network, "q?")
    assert names(run) == ["patient"] * 3 + ["brief"]
    assert run.stop_reason == "max_iter"
    model.assert_finished()


# Scheduling.


async def test_a_tool_may_schedule_an_agent(runner: Runner) -> None:
    """Handing over; TypeScript's has no effect."""

    def hand_over(to: str, ctx: ToolContext) -> None:
        """Hand over."""
        assert ctx.network is not None
        ctx.network.schedule(to)

    model = ScriptedModel(tool_call("hand_over", {"to": "b"}), "from b")
    first, second = Agent(name="a", system="S", tools=[hand_over], max_iter=1), *agents("b")
    network = Network(name="n", agents=[first, second], default_model=model, router=script("a"))
    run = await runner.run(network, "q?")
    assert names(run) == ["a", "b"]
    model.assert_finished()


async def test_a_router_may_schedule_agents_too(runner: Runner) -> None:
    """They come before what it returns."""
    model = ScriptedModel("one", "two")
    (guest,) = agents("guest")

    def router(context: RouterContext) -> str | None:
        if context.call_count or context.stack:
            return None
        context.network.schedule(guest)
        return "a"

    run = await runner.run(network_of(model, router, "a"), "q?")
    assert names(run) == ["guest", "a"]


async def test_scheduling_in_a_tool_of_an_agent_by_itself_is_not_there(runner: Runner) -> None:
    """It has no network."""
    seen: list[Any] = []

    def look(ctx: ToolContext) -> None:
        """Look."""
        seen.append(ctx.network)

    model = ScriptedModel(tool_call("look"))
    await runner.run(Agent(name="a", system="S", tools=[look], model=model, max_iter=1), "q?")
    assert seen == [None]


# State.


async def test_agents_share_the_state(runner: Runner) -> None:
    """A tool's change of the state's data is in the next agent's system prompt."""

    def note(ctx: ToolContext) -> None:
        """Note."""
        ctx.state.data["noted"] = True

    model = ScriptedModel(tool_call("note"), "done")
    network = Network(
        name="n",
        agents=[
            Agent(name="a", system="S", tools=[note], max_iter=1),
            Agent(name="b", system=lambda context: str(context.state.data)),
        ],
        default_model=model,
        router=script("a", "b"),
    )
    run = await runner.run(network, "q?")
    assert run.state.data == {"noted": True}
    model.assert_saw("{'noted': True}")


async def test_the_default_state_is_copied_for_each_run(runner: Runner) -> None:
    """Nested data, too: TypeScript's leaks between runs."""

    def add(ctx: ToolContext) -> Any:
        """Add."""
        ctx.state.data["nested"]["list"].append(1)

    default = State[Any]({"nested": {"list": []}}, messages=[TextMessage("user", "seed")])
    model = ScriptedModel(tool_call("add"), tool_call("add"))
    network = Network(
        name="n",
        agents=[Agent(name="a", system="S", tools=[add], max_iter=1)],
        default_model=model,
        default_state=default, router=lambda c: None if c.call_count else "a",
    )  # fmt: skip
    for _ in range(2):
        run = await runner.run(network, "q?")
        assert run.state.data == {"nested": {"list": [1]}}
        assert [m.text for m in run.state.messages if m.type == "text"] == ["seed"]
    assert default.data == {"nested": {"list": []}}
    assert default.results == []


async def test_a_state_that_is_given_is_used_itself(runner: Runner) -> None:
    """The caller reads it after the run."""
    model = ScriptedModel("one", "two")
    state = State[Any]({"k": 1}, thread_id="t1")
    network = network_of(model, script("a", None, "a"), "a")
    first = await runner.run(network, "q?", state=state)
    second = await runner.run(network, "again?", state=state)
    assert first.state is second.state is state
    assert first.thread_id == "t1"
    assert [r.text for r in second.results] == ["two"]
    assert (len(state.results), len(state.transcript)) == (2, 4)


@dataclass
class Basket:
    """Typed data."""

    items: list[str] = field(default_factory=list[str])
    paid: bool = False


class OpenBasket(BaseModel):
    """Data that takes more than it declares."""

    model_config = ConfigDict(extra="allow")

    items: list[str] = []


def items_of(data: Any) -> list[str]:
    """Return the list of items in the data, whatever its kind."""
    return cast("dict[str, Any]", data)["items"] if isinstance(data, dict) else data.items


KINDS: list[Any] = [lambda: {"items": list[str]()}, Basket, OpenBasket]


@pytest.mark.parametrize("kind", KINDS, ids=["dict", "dataclass", "pydantic"])
async def test_tools_change_the_given_data(runner: Runner, kind: Any) -> None:
    """The caller reads the changes in its own object after the run."""

    def put(word: str, ctx: ToolContext) -> None:
        """Put it in."""
        items_of(ctx.state.data).append(word)

    data = kind()
    model = ScriptedModel(tool_call("put", {"word": "a"}), tool_call("put", {"word": "b"}))
    agent = Agent(name="a", system="S", tools=[put], model=model, max_iter=2)
    await runner.run(agent, "q?", state=State(data))
    assert items_of(data) == ["a", "b"]


def drop_key(data: Any) -> None:
    """Take it out of a dict."""
    del data["note"]


def drop_extra(data: Any) -> None:
    """Take it out of a model that does not declare it."""
    del data.note


@pytest.mark.parametrize(
    ("data", "drop"),
    [
        (lambda: {"items": ["a"], "note": "old"}, drop_key),
        (lambda: OpenBasket.model_validate({"items": ["a"], "note": "old"}), drop_extra),
    ],
    ids=["dict", "pydantic"],
)
async def test_a_key_that_a_tool_removes_from_the_data_is_gone(
    runner: Runner, data: Callable[[], Any], drop: Callable[[Any], None]
) -> None:
    """Fields that are there no more are not put back."""

    def forget(ctx: ToolContext) -> None:
        """Take it out."""
        drop(ctx.state.data)

    state = State(data())
    model = ScriptedModel(tool_call("forget"))
    await runner.run(
        Agent(name="a", system="S", tools=[forget], model=model, max_iter=1), "q?", state=state
    )
    assert state.dump() == {"items": ["a"]}


@dataclass(frozen=True)
class Fixed:
    """Data that cannot be changed, only replaced."""

    count: int = 0


async def test_data_that_a_tool_replaces_is_the_states(runner: Runner) -> None:
    """The data is frozen, so the tool must replace it."""

    def count(ctx: ToolContext) -> None:
        """Count."""
        ctx.state.data = Fixed(ctx.state.data.count + 1)

    model = ScriptedModel(tool_call("count"), tool_call("count"))
    state = State(Fixed())
    agent = Agent(name="a", system="S", tools=[count], model=model, max_iter=2)
    await runner.run(agent, "q?", state=state)
    assert state.data == Fixed(2)


async def test_a_result_that_a_tool_adds_is_kept_and_seen(runner: Runner) -> None:
    """The next inference and the caller get it."""

    def note(ctx: ToolContext) -> None:
        """Add one."""
        ctx.state.append_result(AgentResult("note", [TextMessage("assistant", "Noted.")]))

    model = ScriptedModel(tool_call("note"), "done")
    state = State[Any]()
    agent = Agent(name="a", system="S", tools=[note], model=model, max_iter=2)
    await runner.run(agent, "q?", state=state)
    assert [r.agent_name for r in state.results] == ["note", "a", "a"]
    model.assert_saw("Noted.", request=1)


async def test_results_that_tools_add_are_kept_where_agents_run_at_the_same_time(
    runner: Runner,
) -> None:
    """In the order of the agents."""

    def note(ctx: ToolContext) -> None:
        """Add one."""
        ctx.state.append_result(AgentResult("note", [TextMessage("assistant", "Noted.")]))

    pair = [
        Agent(name=name, system="S", tools=[note], model=ScriptedModel(tool_call("note"), name))
        for name in "ab"
    ]
    network = Network(
        name="n",
        agents=pair,
        router=lambda context: None if context.call_count else together("a", "b"),
    )
    run = await runner.run(network, "q?")
    names = [entry.agent_name for entry in run.state.transcript]
    assert names == ["user", "note", "a", "a", "note", "b", "b"]


async def test_a_result_without_an_id_that_a_hook_makes_is_one_of_the_run(
    runner: Runner,
) -> None:
    """Results of earlier runs that have no id are none of this run's."""

    def fresh(context: ResultContext) -> AgentResult:
        return AgentResult("a", [TextMessage("assistant", context.result.text.upper())])

    agent = Agent(
        name="a",
        system="S",
        model=ScriptedModel("new"),
        lifecycle=Lifecycle(on_response=fresh, on_finish=fresh),
    )
    network = Network(
        name="n", agents=[agent], router=lambda context: None if context.call_count else "a"
    )
    old = AgentResult("a", [TextMessage("assistant", "old")])
    run = await runner.run(network, "q?", state=State(results=[old]))
    assert [result.text for result in run.results] == ["NEW"]


async def test_a_plain_dict_as_state_keeps_its_thread_id(runner: Runner) -> None:
    """TypeScript loses it."""
    model = ScriptedModel("one")
    run = await runner.run(
        network_of(model, script("a"), "a"), "q?", state={"threadId": "t1", "data": {}}
    )
    assert run.thread_id == "t1"


# Models.


async def test_the_runs_model_comes_before_the_agents_and_that_before_the_networks(
    runner: Runner,
) -> None:
    """The order of precedence is TypeScript's."""
    own, default, given = ScriptedModel("own"), ScriptedModel("default"), ScriptedModel("x", "y")
    members = [Agent(name="a", system="S", model=own), *agents("b")]
    network = Network(name="n", agents=members, default_model=default)
    run = await runner.run(network, "q?", router=script("a", "b"))
    assert [r.text for r in run.results] == ["own", "default"]
    run = await runner.run(network, "q?", router=script("a", "b"), model=given)
    assert [r.text for r in run.results] == ["x", "y"]


async def test_an_agent_without_any_model_fails_the_run(runner: Runner) -> None:
    """It says whose model is missing."""
    with pytest.raises(MissingModelError, match="'a' has no model"):
        await runner.run(Network(name="n", agents=agents("a"), router=script("a")), "q?")


async def test_usage_adds_up_over_all_agents(runner: Runner) -> None:
    """Those of routing agents included."""
    usage = {"input_tokens": 10, "output_tokens": 1}

    def route(context: ResultContext) -> list[str] | None:
        return [context.result.text] if context.result.text else None

    routing = RoutingAgent(name="r", system="S", lifecycle=Lifecycle(on_route=route))
    model = ScriptedModel(text("a", usage=usage), text("hi", usage=usage), text("", usage=usage))
    run = await runner.run(network_of(model, routing, "a"), "q?")
    assert run.usage == Usage(30, 3)
    assert run.usage.total_tokens == 33


# What cannot be a network.


def test_two_agents_of_one_name_are_refused() -> None:
    """Routers could not say which they mean."""
    with pytest.raises(ConfigurationError, match="two agents called 'a'"):
        Network(name="n", agents=agents("a", "b", "a"))


def test_a_negative_max_iter_is_refused() -> None:
    """TypeScript's runs nothing, silently."""
    with pytest.raises(ConfigurationError, match="max_iter must be 0 or more"):
        Network(name="n", agents=agents("a"), max_iter=-1)


def test_create_network_has_the_signature_of_the_class_and_no_shared_prefix() -> None:
    """TypeScript's networks send each agent's requests with a beginning of its own."""
    assert signature(create_network) == signature(Network)
    assert create_network(name="n", agents=agents("a")).prefix == "own"


def test_run_sync_runs_a_network_in_a_script() -> None:
    """A script has no event loop."""
    model = ScriptedModel("one")
    assert network_of(model, script("a"), "a").run_sync("q?").text == "one"
