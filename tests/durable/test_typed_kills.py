"""Outputs, handoffs and guardrails: a durable run gives what a direct one does, also if killed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from os import environ
from typing import Any

import pytest
from pydantic import BaseModel

from agentkit_py import Agent, Network, State, ToolContext, tool
from agentkit_py.guardrails import Guardrail, Tripwire
from agentkit_py.lifecycle import AgentContext
from agentkit_py.output import ModelRetry, NativeOutput, PromptedOutput, ToolOutput
from agentkit_py.routing import Handoff, handoffs, once
from agentkit_py.testing import tool_call
from agentkit_py.testing.executor import Wait

from .world import Inference, Scenario, Stage, sweep

EVERY_KILL = bool(environ.get("TYPED_KILLS"))
"""Kill at each point of each run, not at some of them."""


class Matter(BaseModel):
    """Facts that are handed over."""

    reason: str


class Closed(BaseModel):
    """The end of a case."""

    summary: str
    refund: int


@dataclass
class Desk:
    """The state."""

    customer: str = "Ada"
    notes: list[str] = field(default_factory=list[str])


def close(summary: str, refund: int, ctx: AgentContext[Desk]) -> Closed:
    """Close the case."""
    ctx.state.data.notes.append(f"closed with {refund}")
    return Closed(summary=summary, refund=refund)


WAYS = {
    "native": NativeOutput(Closed),
    "tool": ToolOutput(close, name="final_result"),
    "prompted": PromptedOutput(Closed),
}


def typed_desk(way: str, *, needs_approval: bool = False) -> Callable[[Stage], Network]:
    """A desk that hands over to a clerk who pays and ends in an object, guarded everywhere."""

    def network(stage: Stage) -> Network:
        happen = stage.effects.happen

        def noted(name: str) -> Callable[[AgentContext[Desk], Any], None]:
            def note(ctx: AgentContext[Desk], _: Any) -> None:
                happen(name)
                ctx.state.data.notes.append(name)

            note.__name__ = name
            return note

        def asks(name: str, *, beside: bool = False) -> Guardrail[Any]:
            judge = Agent(name=name, system=name)
            return Guardrail(judge, trips=lambda said: said != "fine", run_in_parallel=beside)

        def handed(ctx: ToolContext[Desk], matter: Matter) -> None:
            happen(f"handed over: {matter.reason}")
            ctx.state.data.notes.append(matter.reason)

        @tool(
            needs_approval=needs_approval,
            tool_input_guardrails=[asks("judge-call")],
            tool_output_guardrails=[lambda _, result: happen(f"checked {result}")],
        )
        def pay(euros: int, ctx: ToolContext[Desk]) -> str:
            """Pay."""
            happen(f"paid {euros}")
            ctx.state.data.notes.append(f"paid {euros}")
            return f"{euros} paid"

        clerk = Agent(
            name="clerk", system="clerk", tools=[pay], output_type=WAYS[way], output_retries=2,
            state_type=Desk, output_guardrails=[noted("output")],
        )  # fmt: skip

        @clerk.output_validator
        def nothing_for_nothing(output: Closed) -> Closed:
            happen(f"validated {output.refund}")
            if output.refund > 9:
                raise ModelRetry("Too much.")
            return output.model_copy(update={"summary": output.summary.upper()})

        desk = Agent(
            name="desk", system="desk", state_type=Desk,
            handoffs=[Handoff(clerk, input_type=Matter, on_handoff=handed, history="brief")],
            input_guardrails=[noted("input"), asks("judge-before"),
                              asks("judge-beside", beside=True)],
        )  # fmt: skip
        return Network(
            name="bank", agents=[desk], router=handoffs(desk), state_type=Desk,
            output_type=Closed, history=stage.store,
        )  # fmt: skip

    return network


def replies(way: str) -> dict[str, list[Any]]:
    """Replies: an answer that does not fit, one that is refused, one that is taken."""
    answers = [{"summary": "Paid"}, {"summary": "Paid", "refund": 10}]
    answers.append({"summary": "Paid", "refund": 5})
    as_tool = way == "tool"
    said = [tool_call("final_result", one) if as_tool else _json(one) for one in answers]
    return {
        "judge-before": ["fine"],
        "judge-beside": ["fine"],
        "judge-call": ["fine"],
        "desk": [tool_call("transfer_to_clerk", {"reason": "twice"})],
        "clerk": [tool_call("pay", {"euros": 5}), *said],
    }


def _json(value: dict[str, Any]) -> str:
    return str(value).replace("'", '"')


@pytest.mark.parametrize(
    ("way", "inference", "first"),
    [("native", "offload", 0), ("tool", "local", 5), ("prompted", "local", 10)],
)
async def test_a_typed_network_is_the_same_directly_durably_and_killed(
    scenario: Callable[..., Scenario],
    way: str,
    inference: Inference,
    first: int,
    record_property: Callable[[str, object], None],
) -> None:
    """Output, handoffs, state, thread, requests and side effects."""
    typed = scenario(typed_desk(way), replies(way), state=lambda: State(Desk()))
    direct, durable = await typed.direct(), await typed.durable(inference)
    assert direct.error is None
    for one in (direct, durable):
        one.requests.sort(key=str)
    assert durable == direct
    assert direct.output == {"summary": "PAID", "refund": 5}
    assert direct.handoffs == ["desk clerk {'reason': 'twice'}"]
    assert set(direct.effects.values()) == {1}
    among = slice(None) if EVERY_KILL else slice(first, None, 25)
    points, _ = await sweep(typed, inference, record_property, among)
    assert points >= (60 if EVERY_KILL else 2)


def says_yes(wait: Wait) -> dict[str, Any]:
    """A person who approves."""
    found = re.fullmatch(r"async\.data\.approvalId == '([0-9a-f-]+)'", wait.expression or "")
    assert found is not None
    return {"approvalId": found[1], "approved": True}


async def test_a_typed_network_that_waits_for_a_person_is_the_same_after_it_resumes(
    scenario: Callable[..., Scenario], record_property: Callable[[str, object], None]
) -> None:
    """Guardrails, handoff and output on both sides of the question, killed on both sides."""
    typed = scenario(
        typed_desk("tool", needs_approval=True), replies("tool"),
        state=lambda: State(Desk()), answer=says_yes,
    )  # fmt: skip
    direct, durable = await typed.direct(), await typed.durable("local")
    for one in (direct, durable):
        one.requests.sort(key=str)
        one.chunks = []  # a direct run with an approver shows no question
    assert durable == direct
    assert direct.output == {"summary": "PAID", "refund": 5}
    among = slice(None) if EVERY_KILL else slice(-20, None, 18)
    assert (await sweep(typed, "local", record_property, among))[0] >= 2


async def test_a_guardrail_that_judges_otherwise_after_a_person_has_approved_ends_the_run(
    scenario: Callable[..., Scenario],
) -> None:
    """By name: a question is no step that could keep what `trips` had said."""
    asked: list[Wait] = []

    def network(stage: Stage) -> Network:
        judge = Agent(name="judge", system="judge")
        guardrail = Guardrail(judge, trips=lambda _: bool(asked))

        @tool(needs_approval=True, tool_input_guardrails=[guardrail])
        def pay() -> str:
            """Pay."""
            stage.effects.happen("paid")
            return "paid"

        desk = Agent(name="desk", system="desk", tools=[pay])
        return Network(name="bank", agents=[desk], router=once(desk))

    def answer(wait: Wait) -> dict[str, Any]:
        asked.append(wait)
        return says_yes(wait)

    said = {"judge": ["fine"], "desk": [tool_call("pay"), "Paid."]}
    waiting = scenario(network, said, answer=answer)
    durable = await waiting.durable("local", check=False)
    assert "ReplayError" in str(durable.error)
    assert "Guardrail 'judge', trips=" in str(durable.error)
    assert durable.effects["paid"] == 0


STAGES = ("input", "beside", "output", "tool_input", "tool_output")


@pytest.mark.parametrize("stage", STAGES)
async def test_a_tripwire_stops_a_killed_run_as_it_does_an_unharmed_one(
    scenario: Callable[..., Scenario], stage: str, record_property: Callable[[str, object], None]
) -> None:
    """With its reply; the reply of a model call beside it is dropped, from the thread, too."""

    def network(stage_: Stage) -> Network:
        @tool
        def pay() -> str:
            """Pay."""
            stage_.effects.happen("paid")
            return "paid"

        judge = Agent(name="judge", system="judge")
        guardrail = Guardrail(
            judge,
            trips=lambda said: Tripwire(said, reply="I may not."),
            run_in_parallel=stage == "beside",
        )
        option = "input" if stage == "beside" else stage
        guarded: dict[str, Any] = {f"{option}_guardrails": [guardrail]}
        desk = Agent(name="desk", system="desk", tools=[pay], **guarded)
        return Network(name="bank", agents=[desk], router=once(desk), history=stage_.store)

    said = "secret" if stage == "output" else tool_call("pay")
    tripped = scenario(network, {"judge": ["unsafe"], "desk": [said]})
    durable = await tripped.durable("local")
    assert (durable.output, durable.stop_reason) == ("I may not.", "guardrail")
    assert ("paid" in durable.effects) == (stage == "tool_output")
    assert "secret" not in str(durable.rows) + str(durable.chunks)
    direct = await tripped.direct()
    if stage == "beside":  # there the model call is cancelled, or was not even begun
        for one in (direct, durable):
            one.requests = []
    assert durable == direct
    among = slice(None) if EVERY_KILL else slice(STAGES.index(stage), None, 12)
    assert (await sweep(tripped, "local", record_property, among))[0] >= 1
