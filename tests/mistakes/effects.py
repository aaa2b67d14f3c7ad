"""What each parameter of `Agent`, `Network` and `run` changes, by a conversation with and without.

A row is an `Effect`: the value that is tried, and what both conversations need beside it. `seen`
tells what anybody can see of a conversation: requests, events, the result, the error.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentkit_py import (
    Agent,
    Lifecycle,
    MemoryHistory,
    Network,
    RunLimits,
    State,
    ToolContext,
    tool,
)
from agentkit_py._core.awaiting import run_in_thread
from agentkit_py.budgets import Budgets, UsageLimit
from agentkit_py.errors import AgentKitError
from agentkit_py.knowledge import Knowledge, SqliteKnowledge
from agentkit_py.output import ToolOutput
from agentkit_py.routing import sequence
from agentkit_py.runs import StreamingConfig
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.stores import ThreadLease
from agentkit_py.testing import EventLog, HashingEmbedder, Raw, ScriptedModel, tool_call, tool_calls

Make = Callable[[], Any]
THREE = '{"response": 3}'


@dataclass(frozen=True)
class Effect:
    """A value of a parameter, made for each conversation, and what it needs to change something."""

    value: Make
    needs: Make = dict
    """Options of the agent or network beside it."""

    replies: Make = lambda: ["Hello.", "Goodbye."]
    turns: int = 1
    run: Make = dict
    """Options of each run."""

    instead: Make | None = None
    """The value it is compared with, where the parameter cannot be left out."""


@dataclass
class Customer:
    """Data of a state."""

    name: str = "nobody"


@tool
def pay(order: str, ctx: ToolContext) -> str:
    """Pay an order back."""
    ctx.state.data["paid"] = order
    return f"paid {order}"


@tool
async def look() -> str:
    """Look an order up."""
    await asyncio.sleep(0)
    return "found"


@tool(needs_approval=True)
def refund() -> str:
    """Pay money back."""
    return "paid"


class Source:
    """A server of one tool."""

    name = "shop"

    async def listing(self) -> dict[str, Any]:
        """Return nothing that its tools need."""
        return {}

    def tools(self, *_: object) -> list[Any]:
        """Return the tool."""
        return [look]

    async def open(self) -> None:
        """Connect to nothing."""

    async def close(self) -> None:
        """Disconnect from nothing."""


def library() -> Knowledge:
    """Documents of two cities."""
    made = Knowledge(store=SqliteKnowledge(":memory:"), embedder=HashingEmbedder())
    for city in ("Rome", "Oslo"):
        run_in_thread(made.add(f"Opening hours of {city}", metadata={"city": city}))
    return made


def searching(**filters: Any) -> list[Any]:
    """Return replies of a model that searches the documents."""
    given: dict[str, Any] = {"query": "opening hours", **filters}
    return [tool_call("search_knowledge_base", given), "Done."]


def filtered() -> list[Any]:
    """Return replies of a model that filters the documents itself."""
    return searching(filters={"city": "Oslo"})


def calling(name: str = "pay", **arguments: Any) -> Make:
    """Return replies of a model that calls a tool."""
    return lambda: [tool_call(name, arguments or {"order": "A1"}), "Done.", "Done."]


def with_pay() -> dict[str, Any]:
    """Return a tool that pays."""
    return {"tools": [pay]}


def stop(_given: object) -> str:
    """Refuse everything."""
    return "not allowed"


def silent(context: Any) -> Any:
    """Leave a reply out."""
    return context.result.with_messages([])


def unchanged(_context: object) -> None:
    """Leave a reply as it is."""


def data_of(context: Any) -> str:
    """Show the state's data in a prompt."""
    return str(context.state.data)


def kind_of_data(context: Any) -> str:
    """Show the type of the state's data in a prompt."""
    return type(context.state.data).__name__


def allow(_request: object) -> bool:
    """Answer a question."""
    return True


def nobody(_context: object) -> None:
    """Route to no agent."""


def counted(_context: object) -> dict[str, int]:
    """Give a network's output."""
    return {"n": 3}


def forget(_messages: Sequence[Any]) -> list[Any]:
    """Leave the history out."""
    return []


def number(value: int) -> int:
    """Change an output."""
    return value + 1


def leading() -> dict[str, Any]:
    """Return a store, for more than a single run."""
    return {"history": MemoryHistory()}


def clerk(name: str = "clerk", **options: Any) -> Agent[Any, Any]:
    """Return an agent whose replies are its own."""
    replies = options.pop("replies", ["Hello.", "Goodbye.", "Anything else?"])
    given: dict[str, Any] = {"name": name, "system": "S", "model": ScriptedModel(*replies)}
    return Agent(**{**given, **options})


def numbers() -> dict[str, Any]:
    """Return a type of outputs."""
    return {"output_type": int}


def responses() -> dict[str, Any]:
    """Return a model whose provider has tools of its own."""
    return {"model": ScriptedModel("Hello.", "Goodbye.", provider="openai_responses")}


def with_numbers() -> dict[str, Any]:
    """Return an agent whose output is a number, and an agent that has the last word."""
    ann = clerk("ann", output_type=int, replies=[THREE])
    return {"agents": [ann, clerk("bob")], "router": sequence("ann", "bob")}


AGENT: Mapping[str, Effect] = {
    "name": Effect(lambda: "bob", instead=lambda: "ann"),
    "system": Effect(lambda: "Be kind.", instead=lambda: "Be brief."),
    "instructions": Effect(lambda: "Be kind."),
    "markdown": Effect(lambda: True),
    "description": Effect(lambda: "Sells hats."),
    "assistant": Effect(lambda: "Well,"),
    "tools": Effect(lambda: [pay]),
    "mcp_servers": Effect(lambda: [Source()]),
    "knowledge": Effect(library),
    "search_knowledge": Effect(lambda: False, lambda: {"knowledge": library()}),
    "knowledge_filters": Effect(
        lambda: {"city": "Rome"}, lambda: {"knowledge": library()}, searching
    ),
    "enable_agentic_knowledge_filters": Effect(lambda: True, lambda: {"knowledge": library()}),
    "filter_precedence": Effect(
        lambda: "user",
        lambda: {
            "knowledge": library(),
            "knowledge_filters": {"city": "Rome"},
            "enable_agentic_knowledge_filters": True,
        },
        filtered,
    ),
    "tool_choice": Effect(lambda: "any", with_pay, calling()),
    "lifecycle": Effect(lambda: Lifecycle(on_response=silent)),
    "output_type": Effect(lambda: int, replies=lambda: [THREE]),
    "output_retries": Effect(lambda: 0, numbers, lambda: ["none", THREE]),
    "output_validators": Effect(lambda: [number], numbers, lambda: [THREE]),
    "end_strategy": Effect(
        lambda: "exhaustive",
        lambda: {"output_type": ToolOutput(int), **with_pay()},
        lambda: [
            tool_calls(("final_result", {"response": 3}), ("pay", {"order": "A1"})),
            "Done.",
        ],
    ),
    "handoffs": Effect(lambda: [clerk()]),
    "input_guardrails": Effect(lambda: [stop]),
    "output_guardrails": Effect(lambda: [stop]),
    "tool_input_guardrails": Effect(lambda: [stop], with_pay, calling()),
    "tool_output_guardrails": Effect(lambda: [stop], with_pay, calling()),
    "state_type": Effect(lambda: Customer, lambda: {"system": kind_of_data}),
    "model": Effect(lambda: ScriptedModel("Another."), instead=lambda: ScriptedModel("This.")),
    "allowed_tools": Effect(list, with_pay),
    "history": Effect(MemoryHistory),
    "processors": Effect(lambda: [forget], leading, turns=2),
    "max_iter": Effect(lambda: 1, with_pay, calling()),
    "stream_before_response": Effect(
        lambda: True, lambda: {"lifecycle": Lifecycle(on_response=unchanged)}
    ),
    "hosted_tools": Effect(lambda: [{"type": "web_search_preview"}], responses),
    "keep_cut_replies": Effect(
        lambda: False,
        leading,
        lambda: [Raw(reply="It is a long story. " * 90, cut_after=1500), "Hello."],
        2,
    ),
    "parallel_tools": Effect(
        lambda: True,
        lambda: {"tools": [look]},
        lambda: [tool_calls(("look", {}), ("look", {})), "Done."],
    ),
    "repair_arguments": Effect(
        lambda: False, lambda: {"tools": [count]}, calling("count", orders="A1")
    ),
    "history_mode": Effect(lambda: "typescript", leading, turns=2),
    "token_counter": Effect(lambda: len),
}


@tool
def count(orders: list[str]) -> int:
    """Count orders."""
    return len(orders)


def both() -> dict[str, Any]:
    """Return a network's second agent, and a router of both."""
    return {"agents": [clerk("ann"), clerk("bob")], "router": sequence("ann", "bob")}


def private() -> dict[str, Any]:
    """Return two agents, of which the first has called a tool."""
    ann = clerk("ann", tools=[pay], replies=calling()())
    return {**both(), "agents": [ann, clerk("bob")]}


def paying() -> dict[str, Any]:
    """Return an agent that calls a tool."""
    return {"agents": [clerk("ann", tools=[pay], replies=calling()())], "router": sequence("ann")}


def telling() -> dict[str, Any]:
    """Return an agent whose prompt shows the state."""
    ann = clerk("ann", system=data_of)
    return {"agents": [ann], "router": sequence("ann")}


def without_model() -> dict[str, Any]:
    """Return an agent without a model."""
    return {"agents": [Agent(name="ann", system="S")], "router": sequence("ann")}


NETWORK: Mapping[str, Effect] = {
    "name": Effect(lambda: "shop", instead=lambda: "desk"),
    "agents": Effect(lambda: [clerk("ann")], instead=lambda: [clerk("ann", replies=["Hm."])]),
    "description": Effect(lambda: "Sells hats."),
    "default_model": Effect(lambda: ScriptedModel("Hello."), without_model),
    "router": Effect(lambda: nobody, instead=lambda: sequence("ann")),
    "max_iter": Effect(lambda: 1, both),
    "default_state": Effect(lambda: State({"name": "Ada"}), telling),
    "state_type": Effect(lambda: Customer, telling),
    "output": Effect(lambda: counted),
    "history": Effect(MemoryHistory),
    "processors": Effect(lambda: [forget], leading, turns=2),
    "isolation": Effect(lambda: "own_tools", private),
    "history_mode": Effect(lambda: "typescript", leading, turns=2),
    "output_type": Effect(lambda: int, with_numbers),
    "input_guardrails": Effect(lambda: [stop]),
    "output_guardrails": Effect(lambda: [stop]),
    "tool_input_guardrails": Effect(lambda: [stop], paying),
    "tool_output_guardrails": Effect(lambda: [stop], paying),
    "prefix": Effect(lambda: "shared", both),
}


PUBLISHED: list[Any] = []
"""The chunks of the run that streams."""


class Measured:
    """An instrument that says that it was asked."""

    def of_run(self, *_: object, **__: object) -> Any:
        """Note it, and fail."""
        PUBLISHED.append("measured")
        raise RuntimeError("measured")


class Numbering(DirectRuntime):
    """A runtime whose ids are known."""

    def new_id(self, key: str) -> str:
        """Return the key."""
        return f"of {key}"


def spent() -> Any:
    """Return the budget of a user who has none left."""
    plans = {"user": UsageLimit(runs=0, per="day")}
    return Budgets(MemoryHistory(), plans).of(user="ada")


def refunding() -> dict[str, Any]:
    """Return an agent whose tool needs a person."""
    ann = clerk("ann", tools=[refund], replies=[tool_call("refund", {}), "Done."])
    return {"agents": [ann], "router": sequence("ann")}


def reading() -> dict[str, Any]:
    """Return an agent that searches."""
    ann = clerk("ann", knowledge=library(), replies=searching())
    return {"agents": [ann], "router": sequence("ann")}


RUN: Mapping[str, Effect] = {
    "input": Effect(lambda: "Hello", instead=lambda: "Hi"),
    "state": Effect(lambda: {"data": {"name": "Ada"}}, telling),
    "thread_id": Effect(lambda: "t", leading, turns=2),
    "model": Effect(lambda: ScriptedModel("Another.")),
    "budget": Effect(spent),
    "max_iter": Effect(lambda: 1, both),
    "router": Effect(lambda: nobody),
    "limits": Effect(lambda: RunLimits(max_inferences=1), paying),
    "runtime": Effect(Numbering, leading),
    "ctx": Effect(object),
    "require_durable": Effect(lambda: True),
    "approver": Effect(lambda: allow, refunding),
    "observer": Effect(EventLog),
    "streaming": Effect(lambda: StreamingConfig(publish=PUBLISHED.append)),
    "processors": Effect(lambda: [forget], leading, turns=2, run=lambda: {"thread_id": "t"}),
    "knowledge_filters": Effect(lambda: {"city": "Rome"}, reading),
    "on_busy": Effect(lambda: "steer", lambda: {"history": MemoryHistory(lease=ThreadLease())}),
    "tracing": Effect(Measured),
}


_ID = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|call_\w+|key': '\w+'"
)
_SHOWN = ("text", "stop_reason", "thread_id", "output", "results")


async def conversation(target: Any, effect: Effect, options: dict[str, Any]) -> list[str]:
    """Return what the caller sees of a conversation: events, results and errors."""
    lines: list[str] = []

    async def turn(text: Any) -> None:
        observer = options.get("observer")
        try:
            async with target.stream(text, **options) as stream:
                async for event in stream:
                    delta = getattr(event, "delta", "")
                    lines.append(f"{type(event).__name__} {getattr(event, 'name', '')} {delta}")
                    lines.append(str(getattr(getattr(event, "result", None), "content", "")))
            result: Any = stream.result
            lines.append(str(result) + str(getattr(result, "context", "")))
            lines.extend(f"{name}: {getattr(result, name, None)!r:.200}" for name in _SHOWN)
            lines.append(str(getattr(getattr(result, "state", None), "data", "")))
        except (AgentKitError, AssertionError, RuntimeError) as error:
            lines.append(f"{type(error).__name__}: {error}")
        lines.append(str(getattr(observer, "story", "")))

    texts = [options.pop("input", "Hi"), "Bye"]
    for text in texts[: effect.turns]:
        await turn(text)
    return lines


async def seen(of: str, effect: Effect, given: dict[str, Any]) -> str:
    """Return all that can be seen of a conversation, without ids that are made up."""
    PUBLISHED.clear()
    models: list[Any] = []
    options: dict[str, Any] = effect.run()
    if effect.turns > 1 and of != "run":
        options["thread_id"] = "t"
    if of == "run":
        options |= given
    try:
        target: Any = _target(of, effect, given)
        lines = [str(target.as_tool().description)]
        agents: list[Any] = [target] if of == "Agent" else list(target.agents)
        models = [agent.model for agent in agents] + [getattr(target, "default_model", None)]
        lines += await conversation(target, effect, options)
        if of == "Agent" and effect.turns == 1:
            select = ScriptedModel(tool_call("select_agent", {"name": target.name}), "Done.")
            beside: list[Any] = [target, *target.handoffs]
            network: Any = Network(name="n", agents=beside, default_model=select, max_iter=1)
            models.append(select)
            lines += await conversation(network, effect, {})
    except (AgentKitError, AssertionError) as error:
        lines = [f"{type(error).__name__}: {error}"]
    requests = [str(model.bodies) for model in models if isinstance(model, ScriptedModel)]
    return _ID.sub("ID", "\n".join([*requests, *lines, str(len(PUBLISHED))]))


def _target(of: str, effect: Effect, given: dict[str, Any]) -> Any:
    """Return the agent or network that runs."""
    base: dict[str, Any]
    if of == "Agent":
        base = {"name": "ann", "system": "S", "model": ScriptedModel(*effect.replies())}
        return Agent(**{**base, **effect.needs(), **given})
    base = {"name": "desk", "agents": [clerk("ann", tools=[pay])], "router": sequence("ann")}
    return Network(**{**base, **effect.needs(), **(given if of == "Network" else {})})
