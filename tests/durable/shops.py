"""A shop in many versions, and what a run must leave however they were deployed under it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

from agentkit_py import Agent, Lifecycle, Network, RouterContext, ToolContext, tool
from agentkit_py.guardrails import Tripwire
from agentkit_py.lifecycle import AgentContext, ResultContext, Start
from agentkit_py.messages import Message, TextMessage
from agentkit_py.models import Model
from agentkit_py.processors import HistoryProcessor, Processor, ProcessorContext, RecentToolCalls
from agentkit_py.results import AgentResult
from agentkit_py.routing import once, together
from agentkit_py.stores import HistoryStore, ThreadLease
from agentkit_py.testing import tool_call, tool_calls


class Shop(Protocol):
    """Charges, a model, and a store of threads."""

    @property
    def store(self) -> HistoryStore:
        """The store."""
        ...

    def charge(self, key: str, ctx: ToolContext) -> str:
        """Charge once more."""
        ...

    def model(self, name: str) -> Model:
        """Return a model whose replies are `REPLIES`."""
        ...


REPLIES = {
    "first": [tool_calls(("charge", {"key": "a"}), ("charge", {"key": "b"})), "First is done."],
    "second": [tool_call("charge", {"key": "c"}), tool_call("rest", {}), "Second is done."],
    "third": [tool_call("charge", {"key": "d"}), "Third is done."],
    "front": [tool_call("shop", {"task": "Go."}), "All is done."],
    "extra": [tool_call("charge", {"key": "x"}), "Extra is done."],
}

Version: TypeAlias = Callable[[Shop], Network]


def make(
    shop: Shop,
    *,
    names: Sequence[str] = ("first", "second", "third"),
    renamed: dict[str, str] | None = None,
    charge: dict[str, Any] | None = None,
    stepped: bool = False,
    approve: bool = False,
    route: str = "in turn",
    max_iter: int = 4,
    hooks: Any = None,
    tool_name: str = "charge",
    without: bool = False,
    model: str = "gpt-4o",
    processors: Sequence[Processor] = (),
    parallel: bool = False,
    swapped: bool = False,
    lease: bool = False,
    wrapped: bool = False,
    agent_options: Mapping[str, Any] | None = None,
    network_options: Mapping[str, Any] | None = None,
) -> Network:
    """One version of the network."""
    options: dict[str, Any] = {"needs_approval": True} if approve else {}

    if stepped:

        @tool(name=tool_name, steps=True, **options)
        async def charge_in_steps(key: str, ctx: ToolContext) -> str:
            """Charge."""

            async def work() -> str:
                return shop.charge(key, ctx)

            ctx.state.data[f"charged {key}"] = True
            return await ctx.step.run("work", work)

        pay = charge_in_steps
    else:

        @tool(name=tool_name, **options)
        def charge_at_once(key: str, ctx: ToolContext) -> str:
            """Charge."""
            ctx.state.data[f"charged {key}"] = True
            return shop.charge(key, ctx)

        pay = charge_at_once

    @tool(steps=True)
    async def rest(ctx: ToolContext) -> str:
        """Rest."""
        await ctx.step.sleep("rest", 1000)
        return "rested"

    if swapped:
        pay, rest = replace(pay, name="rest"), replace(rest, name=tool_name)
    agents = {
        name: Agent(
            name=(renamed or {}).get(name, name),
            system=(agent_options or {}).get("system", name),
            tools=[rest] if without else [pay, rest],
            model=shop.model(model),
            max_iter=max_iter,
            lifecycle=hooks or Lifecycle(),
            processors=processors,
            parallel_tools=parallel,
            **{k: v for k, v in (agent_options or {}).items() if k != "system"},
        )
        for name in names
    }

    store = shop.store
    if lease:
        store = copy(store)
        store.lease = ThreadLease()
    network = Network(
        name="shop",
        agents=list(agents.values()),
        router=_router(route, list(agents.values())),
        history=store,
        **(network_options or {}),
    )
    return _wrapped(shop, network) if wrapped else network


def _router(route: str, agents: list[Agent]) -> Any:
    """A router that gives each agent a turn, in one of several ways."""

    def in_turn(context: RouterContext) -> Any:
        return agents[context.call_count] if context.call_count < len(agents) else None

    def by_name(context: RouterContext) -> Any:
        acted = {result.agent_name for result in context.network.results}
        return next((a for a in agents if a.name not in acted), None)

    def side_by_side(context: RouterContext) -> Any:
        return together(*agents) if context.call_count == 0 else None

    def planned(context: RouterContext) -> Any:
        return list(agents) if context.call_count == 0 else None

    ways = {"in turn": in_turn, "by name": by_name, "together": side_by_side, "planned": planned}
    return ways[route]


def _wrapped(shop: Shop, network: Network) -> Network:
    """The network as a tool of an agent."""
    front = Agent(
        name="front",
        system="front",
        tools=[network.as_tool(allowed_tools="own")],
        model=shop.model("gpt-4o"),
        max_iter=2,
    )
    return Network(name="shop", agents=[front], router=once(front), history=shop.store)


KIND = TextMessage("system", "Be kind.")


class Stepping(HistoryProcessor):
    """A processor that does something once."""

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """Do it in a step."""
        services = context.services
        if services is not None:

            async def work() -> str:
                return "done"

            await services.once(services.step_id("stepping"), work)
        return messages


def _no_weapons(said: str) -> Tripwire | None:
    return Tripwire("a weapon") if "weapon" in said else None


def _again(context: AgentContext) -> str:
    return f"{context.agent.name} again"


def _changed(context: ResultContext) -> AgentResult:
    """Another result, where there are no calls."""
    if context.result.text:
        return replace(context.result, stop_reason="changed")
    return context.result


VERSIONS: dict[str, Version] = {
    "the same": make,
    "an agent in front": lambda s: make(s, names=("extra", "first", "second", "third")),
    "an agent in front, chosen by name": lambda s: make(
        s, names=("extra", "first", "second", "third"), route="by name"
    ),
    "an agent behind": lambda s: make(s, names=("first", "second", "third", "extra")),
    "an agent less": lambda s: make(s, names=("first", "third")),
    "other order": lambda s: make(s, names=("second", "first", "third")),
    "renamed": lambda s: make(s, renamed={"first": "prima"}),
    "approval": lambda s: make(s, approve=True),
    "steps": lambda s: make(s, stepped=True),
    "steps and approval": lambda s: make(s, stepped=True, approve=True),
    "one inference": lambda s: make(s, max_iter=1),
    "together": lambda s: make(s, route="together"),
    "a tool's name": lambda s: make(s, tool_name="pay"),
    "a tool less": lambda s: make(s, without=True),
    "another model": lambda s: make(s, model="gpt-4.1"),
    "a processor": lambda s: make(s, processors=[RecentToolCalls(1)]),
    "a hook": lambda s: make(s, hooks=Lifecycle(on_response=lambda context: None)),
    "a hook at the end": lambda s: make(s, hooks=Lifecycle(on_finish=_changed)),
    "a hook at the start": lambda s: make(
        s, hooks=Lifecycle(on_start=lambda c: Start([*c.prompt, KIND], c.history))
    ),
    "a processor with steps": lambda s: make(s, processors=[Stepping()]),
    "a processor of the network": lambda s: make(
        s, network_options={"processors": [Stepping(), RecentToolCalls(1)]}
    ),
    "tools at once": lambda s: make(s, parallel=True),
    "tools at once in steps": lambda s: make(s, parallel=True, stepped=True),
    "tools swapped": lambda s: make(s, swapped=True),
    "another router": lambda s: make(s, route="planned"),
    "a lease": lambda s: make(s, lease=True),
    "a guardrail": lambda s: make(s, agent_options={"output_guardrails": [_no_weapons]}),
    "a guardrail of the input": lambda s: make(
        s, network_options={"input_guardrails": [_no_weapons]}
    ),
    "other prompts": lambda s: make(s, agent_options={"system": _again}),
    "an output type": lambda s: make(s, agent_options={"output_type": str}),
    "own tools only": lambda s: make(s, network_options={"isolation": "own_tools"}),
}


def check(
    charges: Sequence[str], rows: Sequence[AgentResult], charged: Sequence[str], error: str | None
) -> None:
    """Nothing happened twice; what is recorded is what happened, or the run says that it is not.

    Args:
        charges: What was charged.
        rows: The thread.
        charged: What the run's state says.
        error: What a run said that has failed.
    """
    doubled = {key: n for key, n in Counter(charges).items() if n > 1}
    assert doubled == {}, error
    assert len({row.id for row in rows}) == len(rows)
    texts = [row.text for row in rows if row.text]
    assert len(texts) == len(set(texts))
    if error is not None:
        assert "The code has changed since the run began" in error or "waiting runs" in error, error
        return
    told = [m.content for row in rows for m in row.tool_calls if m.type == "tool_result"]
    made = [str(c["data"]) for c in told if isinstance(c, dict) and "data" in c]
    assert sorted(one[8:] for one in made if one.startswith("charged ")) == sorted(charges)
    assert sorted(charged) == [f"charged {key}" for key in sorted(charges)]
