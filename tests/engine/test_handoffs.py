"""Agents hand the conversation over by tools, and the network follows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from agentkit_py import Agent, Lifecycle, MemoryHistory, Network, ToolCallFilter, tool
from agentkit_py.errors import ConfigurationError
from agentkit_py.processors import ByAuthor, MessageWindow, Redact
from agentkit_py.routing import Handoff, handoffs, once, sequence
from agentkit_py.testing import ScriptedModel, tool_call

from .runner import Runner


class Matter(BaseModel):
    """The matter of a handoff."""

    reason: str


def named(name: str, *replies: Any, **options: Any) -> Agent[Any, Any]:
    """An agent with a script."""
    return Agent(name=name, system=f"You are {name}.", model=ScriptedModel(*replies), **options)


def model_of(agent: Agent[Any, Any]) -> ScriptedModel:
    """The script of an agent."""
    assert isinstance(agent.model, ScriptedModel)
    return agent.model


async def test_ready_made_routers_give_each_agent_one_turn(runner: Runner) -> None:
    """`once` and `sequence` need no function."""
    a, b = named("a", "1", "3"), named("b", "2")
    run = await runner.run(Network(name="n", agents=[a, b], router=sequence(a, b)), "Hi")
    assert [r.text for r in run.results] == ["1", "2"]
    run = await runner.run(Network(name="n", agents=[a, b], router=once(a)), "Hi")
    assert [r.text for r in run.results] == ["3"]


@pytest.mark.parametrize("history", ["whole", "summary", "brief"])
async def test_a_handoff_ends_the_turn_and_carries_its_input_over(
    runner: Runner, history: Any
) -> None:
    """The target joins the network; its report says what it was shown."""
    heard: list[str] = []
    billing = named("billing", "Paid back.")
    give = Handoff(
        billing,
        input_type=Matter,
        history=history,
        on_handoff=lambda _ctx, matter: heard.append(matter.reason),
    )
    call = tool_call("transfer_to_billing", {"reason": "refund"})
    desk = named("desk", "I look into it.", call, handoffs=[give])
    network = Network(name="n", agents=[desk], router=sequence(desk, desk))
    run = await runner.run(network, "Pay me back")
    assert (run.output, run.stop_reason) == ("Paid back.", "done")
    assert [(h.source, h.target, h.input) for h in run.handoffs] == [
        ("desk", "billing", {"reason": "refund"})
    ]
    assert heard == ["refund"]
    seen = model_of(billing)
    seen.assert_saw("refund")
    (seen.assert_not_saw if history == "brief" else seen.assert_saw)("I look into it.")
    entries = [e.name for e in run.context[-1].entries if e.changed]
    assert entries == ([] if history == "whole" else ["handoff"])


@pytest.mark.parametrize("history", ["whole", "summary", "brief", ToolCallFilter()])
@pytest.mark.parametrize(
    ("network", "agent"),
    [
        ({"isolation": "own_tools"}, {}),
        ({"processors": [ToolCallFilter()]}, {}),
        ({"processors": [MessageWindow(1)]}, {}),
        ({}, {"processors": [ToolCallFilter(include="own")]}),
        ({}, {"processors": [ByAuthor(keep=["billing"])]}),
        ({}, {}),
    ],
)
async def test_the_input_of_a_handoff_reaches_its_target_whatever_is_filtered(
    runner: Runner, history: Any, network: dict[str, Any], agent: dict[str, Any]
) -> None:
    """It is given on purpose, and is at the same place in each request."""

    @tool
    def refund(order: str) -> str:
        """Refund an order."""
        return f"refunded {order}"

    billing = named(
        "billing", tool_call("refund", {"order": "x"}), "Done.", tools=[refund], **agent
    )
    give = Handoff(billing, input_type=Matter, history=history)
    call = tool_call("transfer_to_billing", {"reason": "order A-4711"})
    desk = named("desk", call, handoffs=[give])
    await runner.run(Network(name="n", agents=[desk], router=once(desk), **network), "Money back!")
    bodies = [body["messages"] for body in model_of(billing).bodies]
    assert all("A-4711" in str(messages) for messages in bodies)
    if not any("processors" in given for given in (network, agent)):
        assert bodies[1][: len(bodies[0])] == bodies[0]


@pytest.mark.parametrize("history", ["whole", "brief"])
@pytest.mark.parametrize(
    ("network", "agent"),
    [
        ({"isolation": "own_tools"}, {}),
        ({}, {"processors": [ToolCallFilter(include="own")]}),
        ({"processors": [MessageWindow(2)]}, {}),
        ({}, {}),
    ],
)
async def test_the_input_of_a_handoff_reaches_its_target_in_later_runs_too(
    runner: Runner, history: Any, network: dict[str, Any], agent: dict[str, Any]
) -> None:
    """The thread holds the call, which filters hide; of two handoffs the newer one counts."""
    billing = named("billing", "One.", "Two.", "Three.", "Four.", **agent)
    give = Handoff(billing, input_type=Matter, history=history)
    calls = (
        tool_call("transfer_to_billing", {"reason": f"order {order}"}) for order in ("A-1", "A-2")
    )
    desk = named("desk", *calls, handoffs=[give])
    router = handoffs(desk, stay=True)
    made = Network(name="n", agents=[desk], router=router, history=MemoryHistory(), **network)
    await runner.run(made, "Money back!", thread_id="t")
    await runner.run(made, "And when?", thread_id="t")
    first, second = (str(body["messages"]) for body in model_of(billing).bodies)
    assert "A-1" in first
    assert "A-1" in second
    assert second.index("A-1") < second.index("And when?")
    run = await runner.run(replace(made, router=once(desk)), "Another one!", thread_id="t")
    assert run.handoffs[0].input == {"reason": "order A-2"}
    third = str(model_of(billing).bodies[2]["messages"])
    assert "A-2" in third


async def test_the_input_of_a_handoff_is_masked_like_everything(runner: Runner) -> None:
    """It is given on purpose, and redaction still holds."""
    billing = named("billing", "Done.")
    give = Handoff(billing, input_type=Matter)
    call = tool_call("transfer_to_billing", {"reason": "card 4111 1111 1111 1111"})
    desk = named("desk", call, handoffs=[give])
    network = Network(
        name="n",
        agents=[desk],
        router=once(desk),
        isolation="own_tools",
        processors=[Redact(["card"])],
    )
    await runner.run(network, "Money back!")
    model_of(billing).assert_saw("card [card]")
    model_of(billing).assert_not_saw("4111")


class Spoken(TypedDict):
    """What a handoff says, as a dict."""

    reason: str


@dataclass
class Written:
    """What a handoff says, as a dataclass."""

    reason: str


@pytest.mark.parametrize(
    ("kind", "given", "heard"),
    [
        (Matter, {"reason": "r"}, Matter(reason="r")),
        (Spoken, {"reason": "r"}, {"reason": "r"}),
        (Written, {"reason": "r"}, Written("r")),
        (str, {"input": "r"}, "r"),
        (list[str], {"input": ["r"]}, ["r"]),
    ],
)
@pytest.mark.parametrize("wire", ["openai", "openai_responses", "anthropic", "gemini", "grok"])
async def test_a_handoff_s_arguments_are_the_fields_of_its_input(
    runner: Runner, kind: Any, given: dict[str, Any], heard: object, wire: Any
) -> None:
    """As at OpenAI Agents; what has no fields is the argument `input`. Strict hosts take both."""
    said: list[object] = []
    model = ScriptedModel(tool_call("transfer_to_billing", given), "Paid.", provider=wire)
    billing = Agent(name="billing", system="S")
    give = Handoff[Any](billing, input_type=kind, on_handoff=lambda _, what: said.append(what))
    desk = Agent(name="desk", system="S", handoffs=[give])
    network = Network(name="n", agents=[desk], router=handoffs(desk), default_model=model)
    run = await runner.run(network, "Pay me back")
    assert said == [heard]
    assert run.handoffs[0].input == (given if "reason" in given else given["input"])


async def test_a_thread_stays_with_the_agent_that_answered_last_if_the_router_says_so(
    runner: Runner,
) -> None:
    """A new thread, and an agent that is disabled, begin with the first one."""
    open_now = [True]
    hours = Lifecycle(enabled=lambda _: open_now[0])
    billing = named("billing", "Paid back.", "Twice.", "Hello.", lifecycle=hours)
    call = tool_call("transfer_to_billing")
    desk = named("desk", call, "No billing today.", call, handoffs=[billing])
    router = handoffs(desk, stay=True)
    network = Network(name="n", agents=[desk], router=router, history=MemoryHistory())

    async def answered(text: str, thread: str) -> list[str]:
        run = await runner.run(network, text, thread_id=thread)
        return [result.agent_name for result in run.results]

    assert await answered("Pay me back", "1") == ["desk", "billing"]
    assert await answered("Again", "1") == ["billing"]
    open_now[0] = False
    assert await answered("Once more", "1") == ["desk"]
    open_now[0] = True
    assert await answered("Hi", "2") == ["desk", "billing"]


async def test_agents_that_hand_over_in_circles_are_stopped_with_a_reason(runner: Runner) -> None:
    """Ping-pong costs a few calls, not fifty."""
    a, b = (
        named("a", *[tool_call("transfer_to_b")] * 9),
        named("b", *[tool_call("transfer_to_a")] * 9),
    )
    a.handoffs, b.handoffs = [b], [Handoff("a")]
    run = await runner.run(Network(name="n", agents=[a], router=handoffs(a)), "Hi")
    assert (run.stop_reason, run.stopped_at, run.call_count) == ("handoff_loop", "b", 5)


async def test_a_handoff_is_offered_only_where_another_turn_may_follow(runner: Runner) -> None:
    """Not alone, not where `when` says no, not to an agent that is disabled."""
    billing = named("billing", "x")
    desk = named("desk", "No", "No", handoffs=[Handoff(billing, when=lambda _: False)])
    await runner.run(Network(name="n", agents=[desk], router=handoffs(desk)), "Hi")
    await runner.run(desk, "Hi")
    assert all("tools" not in body for body in model_of(desk).bodies)


async def test_of_two_handoffs_in_one_reply_the_first_is_taken(runner: Runner) -> None:
    """The second is an error that the history keeps."""
    a, b = named("a", "A"), named("b", "B")
    both: dict[str, Any] = {
        "tool_calls": [
            {"id": "1", "name": "transfer_to_a", "arguments": {}},
            {"id": "2", "name": "transfer_to_b", "arguments": {}},
        ]
    }
    desk = named("desk", both, handoffs=[a, b])
    run = await runner.run(Network(name="n", agents=[desk], router=handoffs(desk)), "Hi")
    assert run.output == "A"
    assert "HandoffError" in str(run.results[0].tool_calls[1].content)


async def test_a_typed_agent_may_hand_over_instead_of_answering(runner: Runner) -> None:
    """Its output is the target's then."""
    other = named("other", '{"reason":"b"}', output_type=Matter)
    desk = named("desk", tool_call("transfer_to_other"), output_type=Matter, handoffs=[other])
    run = await runner.run(Network(name="n", agents=[desk], router=handoffs(desk)), "Hi")
    assert run.output == Matter(reason="b")
    assert run.output_of(desk) is None


def test_a_value_that_is_not_a_handoff_is_refused_at_once() -> None:
    """The message names the agent."""
    with pytest.raises(ConfigurationError, match="handoffs must be agents"):
        named("a", handoffs=["b"])
    b = named("b")
    with pytest.raises(ConfigurationError, match="two handoffs"):
        named("a", handoffs=[b, Handoff(b)])


async def test_on_handoff_gets_the_context_alone_without_an_input_type(runner: Runner) -> None:
    """As OpenAI Agents' users write it."""
    heard: list[str] = []
    billing = named("billing", "Paid back.")
    give = Handoff(billing, on_handoff=lambda ctx: heard.append(ctx.agent.name))
    desk = named("desk", tool_call("transfer_to_billing", {}), handoffs=[give])
    run = await runner.run(Network(name="n", agents=[desk], router=handoffs(desk)), "Pay me back")
    assert (run.output, heard) == ("Paid back.", ["desk"])


def takes_one(_: object) -> None:
    """Takes the context."""


def takes_two(_: object, __: object) -> None:
    """Takes the context and the input."""


class NoSchema:
    """A class of which no model can be told."""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"agent": 3}, "an agent's name; got 3"),
        ({"history": "short"}, "'whole', 'summary', 'brief' or a processor, got 'short'"),
        ({"max_repeats": -1}, "max_repeats must be 0 or more, got -1"),
        (
            {"input_type": str, "on_handoff": takes_one},
            r"with an input_type, write def on_handoff\(ctx, given\)",
        ),
        ({"on_handoff": takes_two}, r"with no input_type, write def on_handoff\(ctx\)"),
    ],
)
def test_a_handoff_that_would_go_wrong_later_is_refused_when_it_is_made(
    options: dict[str, Any], said: str
) -> None:
    """The message names the option, the value, and what to write."""
    given: dict[str, Any] = {"agent": named("b"), **options}
    with pytest.raises(ConfigurationError, match=said):
        Handoff(**given)


def test_an_input_type_without_a_schema_is_refused_with_advice() -> None:
    """Pydantic's own words say neither."""
    with pytest.raises(ConfigurationError, match=r"to_b.*NoSchema.*write a pydantic model"):
        named("a", handoffs=[Handoff(named("b"), input_type=NoSchema)])
