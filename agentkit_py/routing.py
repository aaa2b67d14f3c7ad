"""Routing: the types of routers, and ready-made routers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache
from typing import Any, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

from agentkit_py._core.awaiting import resolve
from agentkit_py._core.json import dumps
from agentkit_py._core.validation import meant
from agentkit_py._engine.handoffs import Handoff
from agentkit_py._engine.network_loop import Routed, RouterContext, RouterFunction, Together
from agentkit_py._engine.option_checks import expect_bool, expect_context
from agentkit_py.agent import Agent, RoutingAgent
from agentkit_py.errors import ConfigurationError, RoutingError
from agentkit_py.lifecycle.hooks import AgentContext, Lifecycle, ResultContext
from agentkit_py.lifecycle.network_run import HandedOver, HandoffHistory
from agentkit_py.models.base import ToolSpec
from agentkit_py.state import StateT
from agentkit_py.tools.definition import ToolContext, create_tool

__all__ = [
    "HandedOver",
    "Handoff",
    "HandoffHistory",
    "Routed",
    "Router",
    "RouterContext",
    "RouterFunction",
    "Together",
    "get_default_routing_agent",
    "handoffs",
    "mention_router",
    "mentioned",
    "once",
    "sequence",
    "together",
]

Router: TypeAlias = RouterFunction[StateT] | RoutingAgent[StateT, Any]
"""A network's ``router``: a function, or a routing agent."""


def together(*agents: Agent[Any, Any] | str) -> Together:
    """Return a router's choice of several agents that run at the same time.

    Each gets its own copy of the state and sees the conversation as it was before. Results join
    the state in the order given here, and so do changes of state data; two agents that change the
    same key are an error (`StateConflictError`).
    """
    return Together(agents)


def check_router(network: str, router: object) -> None:
    """Refuse a value that cannot route.

    Raises:
        ConfigurationError: It is neither a function, a routing agent nor None.
    """
    if router is not None and not isinstance(router, RoutingAgent) and not callable(router):
        raise ConfigurationError(
            f"Network {network!r}: its router must be a function, a RoutingAgent or None, "
            f"got {router!r:.80}"
        )
    if not isinstance(router, RoutingAgent):
        expect_context(f"Network {network!r}", "router", router)


_NAMING: WeakKeyDictionary[Any, tuple[Any, ...]] = WeakKeyDictionary()
"""The agents, or their names, that ready-made routers were given."""

RouterT = TypeVar("RouterT", bound=Callable[..., Any])


def naming(router: RouterT, agents: Iterable[object]) -> RouterT:
    """Note whom a router may return, so that a network can check the names; return the router."""
    found: list[object] = []
    for agent in agents:
        found += agent.agents if isinstance(agent, Together) else [agent]
    _NAMING[router] = tuple(found)
    return router


def named_by(router: object) -> tuple[Any, ...]:
    """Return the agents, or their names, that a ready-made router may return."""
    return _NAMING.get(router, ()) if inspect.isfunction(router) else ()


def known_agents(agents: Iterable[Agent[Any, Any]], router: object) -> dict[str, Agent[Any, Any]]:
    """Return a network's agents by name, those that handoffs and its router bring along too."""
    waiting = list(agents)
    waiting += [cast("Agent[Any, Any]", one) for one in named_by(router) if isinstance(one, Agent)]
    known: dict[str, Agent[Any, Any]] = {}
    while waiting:
        agent = waiting.pop(0)
        if agent.name in known:
            continue
        known[agent.name] = agent
        for given in agent.handoffs:
            target: object = given.agent if isinstance(given, Handoff) else given
            if isinstance(target, Agent):
                waiting.append(cast("Agent[Any, Any]", target))
    return known


def agents_with(agents: Iterable[Agent[Any, Any]], router: object) -> list[Agent[Any, Any]]:
    """Return all agents that a run with this router may have, as far as they are known."""
    known = list(known_agents(agents, router).values())
    if isinstance(router, Agent):
        known.append(cast("Agent[Any, Any]", router))
    return known


def is_open(router: object) -> bool:
    """Return whether a router may bring agents along that are not known before."""
    return inspect.isfunction(router) and not named_by(router)


def check_names(network: str, agents: Iterable[Agent[Any, Any]], router: object) -> None:
    """Refuse names of agents, in a ready-made router or a handoff, that the network does not have.

    Raises:
        ConfigurationError: The agent does not exist.
    """
    known = known_agents(agents, router)
    wanted = [(name, "its router") for name in named_by(router) if isinstance(name, str)]
    for agent in known.values():
        targets = [one.agent for one in agent.handoffs if isinstance(one, Handoff)]
        wanted += [(one, f"a handoff of {agent.name!r}") for one in targets if isinstance(one, str)]
    for name, where in wanted:
        if name not in known:
            raise ConfigurationError(
                f"Network {network!r} has no agent {name!r}, which {where} names: "
                f"{meant(name, list(known))}"
            )


def once(agent: Agent[StateT, Any] | str) -> RouterFunction[StateT]:
    """Return a router that gives an agent a single turn."""
    return sequence(agent)


def sequence(*agents: Agent[StateT, Any] | Together | str) -> RouterFunction[StateT]:
    """Return a router that gives each agent a turn, in this order.

    Raises:
        ConfigurationError: There is no agent.
    """
    if not agents:
        raise ConfigurationError("sequence() needs agents or their names, at least one")

    def route(context: RouterContext[StateT]) -> Routed:
        return list(agents) if context.call_count == 0 else None

    return naming(route, agents)


def handoffs(start: Agent[StateT, Any] | str, *, stay: bool = False) -> RouterFunction[StateT]:
    """Return a router that begins with an agent; the agents' ``handoffs`` choose the next.

    The run ends with the agent who answers instead of handing over. Agents that hand over in
    circles end it with the stop reason ``"handoff_loop"``; see `Handoff`.

    Args:
        start: The first agent.
        stay: Whether later runs on a thread begin with the agent that gave its last answer, if
            the network has it and it is enabled, as OpenAI Agents' ``last_agent`` would.

    Raises:
        ConfigurationError: ``stay`` is neither True nor False.
    """
    expect_bool("handoffs()", "stay", stay)
    if not stay:
        return sequence(start)

    async def route(context: RouterContext[StateT]) -> Routed:
        if context.call_count:
            return None
        agents = {agent.name: agent for agent in await context.network.available_agents()}
        last = context.last_result
        return start if last is None else agents.get(last.agent_name, start)

    return naming(route, [start])


_BEFORE, _AFTER = r"(?<![\w@.])@", r"(?![\w-])(?!\.\w)"


def mention_router(
    fallback: Router[Any] | Agent[Any, Any] | str | None = None,
) -> Callable[[RouterContext], Awaitable[Routed]]:
    """A router that gives each agent mentioned as ``@name`` a turn, in the order of mention.

    Case does not matter; other names than those of the network's enabled agents are ignored.

    Args:
        fallback: The next agent without a mention: an agent or its name (a single turn), or a
            router, which then routes the whole run. None: the run ends.

    Raises:
        ConfigurationError: ``fallback`` is none of these.
    """
    given: Any = fallback
    if not isinstance(fallback, str | Agent):
        check_router("mention_router", given)

    async def route(context: RouterContext) -> Routed:
        agents = await context.network.available_agents()
        named = mentioned(context.input, [agent.name for agent in agents])
        if named:
            return named if context.call_count == 0 else None
        if isinstance(fallback, RoutingAgent):
            return given
        if isinstance(fallback, str | Agent):
            return given if context.call_count == 0 else None
        return None if fallback is None else await resolve(fallback(context))

    return naming(route, [given] if isinstance(fallback, str | Agent) else named_by(given))


def mentioned(text: str, names: Iterable[str]) -> list[str]:
    """Return those of ``names`` that ``text`` mentions, in the order of their first mention."""
    found: list[tuple[int, int, str]] = []
    for name in names:
        match = re.search(f"{_BEFORE}{re.escape(name)}{_AFTER}", text, re.IGNORECASE)
        if match is not None:
            found.append((match.start(), -len(name), name))
    places: dict[int, str] = {}
    for start, _, name in sorted(found):  # of two names at a place the longer counts
        places.setdefault(start, name)
    return list(places.values())


SELECT, DONE = "select_agent", "done"


@cache
def get_default_routing_agent() -> RoutingAgent:
    """The routing agent that asks a model for the next agent, or whether the request is fulfilled.

    The model gets each enabled agent's name, description and tools (name, description and JSON
    Schema of the arguments; no settings of servers), and two tools: ``select_agent`` and ``done``.
    An answer without a tool call ends the run.
    """
    from pydantic import BaseModel, Field  # noqa: PLC0415 - slow to load

    class Select(BaseModel):
        name: str = Field(description="Name of the next agent")
        reason: str | None = Field(default=None, description="Why this agent, in a sentence")

    class Done(BaseModel):
        summary: str | None = Field(default=None, description="The outcome, in a sentence")

    return RoutingAgent(
        name="Default routing agent",
        description="Chooses which agent is next",
        system=_system,
        tools=[
            create_tool(
                name=SELECT,
                description="Choose the agent that acts next",
                parameters=Select,
                handler=_select,
            ),
            create_tool(
                name=DONE,
                description="End the run: the user's request is fulfilled",
                parameters=Done,
                handler=_done,
            ),
        ],
        tool_choice="any",
        lifecycle=Lifecycle(on_route=_on_route),
    )


async def _select(chosen: Any, context: ToolContext) -> str:
    network = context.network
    if network is None or chosen.name not in network.agents:
        names = ", ".join(network.agents) if network is not None else ""
        raise LookupError(f"Unknown agent {chosen.name!r}. Agents: {names}")
    return chosen.name


async def _done(finished: Any) -> str:
    return finished.summary or ""


def _on_route(context: ResultContext) -> list[str] | None:
    if context.result.cut is not None:  # so the name may be cut off
        return None
    for result in context.result.tool_calls:
        if result.tool.name == DONE:
            return None
        if result.tool.name == SELECT and isinstance(result.tool.arguments, dict):
            # Also a name that is unknown: the run ends and says so.
            return [str(result.tool.arguments.get("name", ""))]
    return None


async def _system(context: AgentContext) -> str:
    network = context.network
    if network is None:
        raise ConfigurationError("The default routing agent can only run in a network")
    agents = await network.available_agents()
    if not agents:
        raise RoutingError("no agent is enabled", network=network.name)
    described = "\n".join(
        f"<agent>\n<name>{agent.name}</name>\n<description>{agent.description}</description>\n"
        f"<tools>{_tools(network.specs_of(agent))}</tools>\n</agent>"
        for agent in agents
    )
    return _PROMPT.format(agents=described)


def _tools(specs: Sequence[ToolSpec]) -> str:
    return dumps(
        [{"name": s.name, "description": s.description, "parameters": s.parameters} for s in specs]
    )


_PROMPT = """\
You direct a team of agents. You never answer the user yourself: you decide who acts next.

These agents are on the team:
<agents>
{agents}
</agents>

Read the conversation so far. If the user's latest request is answered, or waits for the user, \
call `done`. Otherwise call `select_agent` with the name of the one agent that is best able to \
take the next step. Do not send a task to an agent that has just finished it."""
