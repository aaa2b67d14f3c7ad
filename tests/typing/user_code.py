"""A user's program as pyright and mypy see it: what has which type, and which mistakes are errors.

Nothing here runs. The gate's pyright is a test: an expected error that is none any more makes its
``pyright: ignore`` unnecessary, which is an error itself (``reportUnnecessaryTypeIgnoreComment``).
`tests/typing/test_mypy.py` compares what mypy finds with the same comments.
"""

# ruff: noqa: B018 - expressions are there for their types

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, assert_type

from pydantic import BaseModel

import agentkit_py
from agentkit_py import (
    Agent,
    AgentResult,
    Lifecycle,
    Message,
    Network,
    NetworkRun,
    RouterContext,
    State,
    Tool,
    ToolContext,
    events,
    models,
    processors,
    stores,
    testing,
    tool,
    tools,
)
from agentkit_py.guardrails import Guardrail, Tripwire
from agentkit_py.lifecycle import AgentContext, ResultContext
from agentkit_py.output import AgentRunResult, ModelRetry, ToolOutput
from agentkit_py.processors.base import ProcessorContext
from agentkit_py.routing import HandedOver, Handoff, handoffs, sequence


@dataclass
class Desk:
    """The state."""

    customer: str
    refunded: int = 0


class Closed(BaseModel):
    """The end of a case."""

    summary: str
    refund: int


class Judged(BaseModel):
    """A judge's answer."""

    unsafe: bool


# Names that are loaded on first use.

agentkit_py.Agnet  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
events.RunStartd  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
models.AnthropicSetings  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
processors.TokenLimits  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
stores.SqliteHistry  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
testing.ReplayExcutor  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
tools.creat_tool  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]

# Outputs.

plain = Agent(name="plain", system="…", state_type=Desk)
closing = Agent(name="closing", system="…", state_type=Desk, output_type=Closed)
listing = Agent(name="listing", system="…", output_type=list[Closed])
choosing = Agent[Any, Closed | str](name="choosing", system="…", output_type=[Closed, str])
unsubscripted = Agent(name="unsubscripted", system="…", output_type=[Closed, str])
chosen: Agent[Any, Closed | str] = unsubscripted
by_tool = Agent(name="by_tool", system="…", output_type=ToolOutput(Closed, name="close"))


async def outputs() -> None:
    """A run's output is of the agent's type."""
    assert_type(await plain.run("…"), AgentResult)
    result = await closing.run("…")
    assert_type(result, AgentRunResult[Closed])
    assert_type(result.output.refund, int)
    result.output.refunds  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    wrong: str = result.output  # pyright: ignore[reportAssignmentType]
    del wrong
    assert_type((await listing.run("…")).output, list[Closed])
    assert_type((await choosing.run("…")).output, Closed | str)
    assert_type((await by_tool.run("…")).output, Closed)
    assert_type(closing.run_sync("…").output, Closed)


@closing.output_validator
def has_a_summary(ctx: AgentContext[Desk], output: Closed) -> Closed:
    """A validator gets the context and the output, and gives the output."""
    if not output.summary or not ctx.state.data.customer:
        raise ModelRetry("Write a summary.")
    return output


@closing.output_validator  # pyright: ignore[reportArgumentType]
def of_another_type(output: str) -> str:
    """It is no validator of this agent."""
    return output


# State: inferred from state_type, or annotated.

inferred = Agent(
    name="inferred",
    system=lambda ctx: f"You help {ctx.state.data.customer}.",
    state_type=Desk,
    lifecycle=Lifecycle(enabled=lambda ctx: ctx.state.data.refunded < 3),
    allowed_tools=lambda ctx: ["refund"] if ctx.state.data else [],
)
misspelled = Agent(
    name="misspelled",
    system=lambda ctx: f"{ctx.state.data.custmer}",  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    state_type=Desk,
)


@tool
def refund(euros: int, ctx: ToolContext[Desk]) -> str:
    """Tools, hooks, routers and processors know the state."""
    ctx.state.data.refunded += euros
    ctx.state.data.refund  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    return ctx.state.data.customer


@tool(needs_approval=True)
async def look_up(order: str, limit: int = 3) -> list[str]:
    """Tools keep the signature of their function, for tests that call them."""
    return [order][:limit]


async def calls_of_tools(ctx: ToolContext[Desk]) -> None:
    """A call with wrong arguments is an error."""
    assert_type(refund(3, ctx), str)
    assert_type(await look_up("A1", limit=2), list[str])
    refund("3", ctx)  # pyright: ignore[reportArgumentType]
    refund(3)  # pyright: ignore[reportCallIssue]
    await look_up(order="A1", most=2)  # pyright: ignore[reportCallIssue]


mixed: list[Tool] = [refund, look_up]


def note(ctx: ResultContext[Desk]) -> None:
    """A hook."""
    assert_type(ctx.state.data, Desk)
    ctx.state.data.customer = 3  # pyright: ignore[reportAttributeAccessIssue]


hooked = Agent(name="hooked", system="…", state_type=Desk, lifecycle=Lifecycle(on_finish=note))


@dataclass
class Other:
    """Another state."""

    name: str


other_hooks: Lifecycle[Other] = Lifecycle(on_finish=note)  # pyright: ignore[reportAssignmentType]


async def state() -> None:
    """A run's state is of the network's type."""
    run = await network.run("…", state=State(Desk("Ada")))
    assert_type(run, NetworkRun[Desk, Closed])
    assert_type(run.state.data.customer, str)
    assert_type(run.output, Closed)
    run.output.total  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    run.state.data.desk  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


async def a_desk_that_talks() -> None:
    """It has a closed case, or a text, for its output; a run stands for its thread."""
    run = await talking.run("…")
    assert_type(run.output, Closed | str)
    words: str = run.output  # pyright: ignore[reportAssignmentType]
    del words
    assert_type(await talking.resume(run, {}), NetworkRun[Desk, Closed | str])
    await talking.resume(run.thread_id, {question.id: True for question in run.pending})
    assert_type(run.state.data, Desk)
    await talking.pending(run.thread_id)
    await talking.resume(3)  # pyright: ignore[reportArgumentType]


# Networks, routers and handoffs.


def route(ctx: RouterContext[Desk]) -> Agent[Desk, Closed] | None:
    """A router reads the state, and outputs of their agents' types."""
    assert_type(ctx.state.data, Desk)
    assert_type(ctx.network.state.data.refunded, int)
    assert_type(ctx.output_of(closing), Closed | None)
    assert_type(ctx.output_of(plain), str | None)
    ctx.state.data.refunds  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    return None if ctx.call_count else closing


def route_others(ctx: RouterContext[Other]) -> None:
    """A router of networks with another state."""


network = Network(
    name="n", agents=[plain, closing], router=route, state_type=Desk, output_type=Closed
)
talking = Network[Desk, Closed | str](
    name="n", agents=[plain, closing], router=route, state_type=Desk, output_type=[Closed, str]
)
annotated: Network[Desk, Closed] = Network(name="n", agents=[closing], output=closing)
ordered = Network(name="n", agents=[plain, closing], router=sequence(plain, closing))
wrong_router = Network(
    name="n",
    agents=[closing],
    router=route_others,  # pyright: ignore[reportArgumentType]
    state_type=Desk,
)
wrong_output: Network[Desk, str] = Network(  # pyright: ignore[reportAssignmentType]
    name="n", agents=[closing], output=closing
)
handing = Agent(
    name="handing",
    system="…",
    state_type=Desk,
    handoffs=[closing, Handoff(plain, input_type=Judged, on_handoff=lambda _, said: said.unsafe)],
)
handed = Network(name="n", agents=[handing], router=handoffs(handing), state_type=Desk)
assert_type(handed.run_sync("…").handoffs, list[HandedOver])
told = Handoff(plain, on_handoff=lambda ctx: ctx.agent.name)
assert_type(told, Handoff[None])
misread = Handoff(
    plain,
    input_type=Judged,
    on_handoff=lambda _, said: said.safe,  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownLambdaType]
)


# Processors and guardrails.


def newest(messages: Sequence[Message], context: ProcessorContext) -> Sequence[Message]:
    """A processor."""
    assert_type(context.agent, str)
    context.agents  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    return messages[-10:]


def polite(ctx: AgentContext[Desk], text: str) -> Tripwire | None:
    """A guardrail."""
    ctx.state.data.custmer  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    return Tripwire("rude", reply=f"Please, {ctx.state.data.customer}!") if "!" in text else None


judging = Agent(name="judge", system="…", output_type=Judged)
words = Agent(name="words", system="…")
guarded = Agent(
    name="guarded",
    system="…",
    state_type=Desk,
    processors=[newest],
    input_guardrails=[
        polite,
        lambda text: "long" if len(text) > 9 else None,
        Guardrail(judging, trips=lambda found: found.unsafe),
        Guardrail(words, trips=lambda said: said.startswith("unsafe")),
    ],
)
misjudged = Guardrail(
    judging,
    trips=lambda found: found.safe,  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownLambdaType]
)
