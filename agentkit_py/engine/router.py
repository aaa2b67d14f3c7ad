"""Routers: who is next."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from agentkit_py._core.awaiting import resolve
from agentkit_py.engine.agent import Agent, RoutingAgent
from agentkit_py.engine.agent_run import AgentRun, run_agent
from agentkit_py.engine.changes import Scheduled
from agentkit_py.engine.limits import LIMITS
from agentkit_py.errors import ConfigurationError, RoutingError
from agentkit_py.history.result import AgentResult
from agentkit_py.messages import UserMessage

if TYPE_CHECKING:
    from agentkit_py.engine.network_run import NetworkRun


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterContext:
    """What a router function decides by."""

    input: str
    """The text of the user's message."""

    user_message: UserMessage
    network: NetworkRun
    stack: Sequence[Scheduled]
    """Names of the agents that are already scheduled."""

    call_count: int
    """How many agent turns there were in this run."""

    last_result: AgentResult | None
    """The last agent's last result; before the first turn of this run, that of an earlier one."""


@dataclass(frozen=True, slots=True)
class Together:
    """Agents that run at the same time; see `together`."""

    agents: tuple[Agent | str, ...]


def together(*agents: Agent | str) -> Together:
    """For routers: let these agents run at the same time.

    Each gets its own copy of the state and sees the conversation as it was before. Results join
    the state in the order given here, and so do changes of state data; two agents that change the
    same key are an error (`StateConflictError`).
    """
    return Together(agents)


Routed: TypeAlias = Agent | str | Together | Sequence[Agent | str | Together] | None
"""Agents, or their names; None or empty: the run is done. A routing agent is asked."""

RouterFunction: TypeAlias = Callable[[RouterContext], Routed | Awaitable[Routed]]

Router: TypeAlias = RouterFunction | RoutingAgent
"""What a network's ``router`` may be."""


def check_router(network: str, router: object) -> None:
    """Refuse what cannot route.

    Raises:
        ConfigurationError: It is neither a function, a routing agent nor None.
    """
    if router is not None and not isinstance(router, RoutingAgent) and not callable(router):
        raise ConfigurationError(
            f"Network {network!r}: its router must be a function, a RoutingAgent or None, "
            f"got {router!r:.80}"
        )


async def route(run: NetworkRun, router: Router) -> list[Scheduled]:
    """Names of the agents that are next; agents that are new to the network join it."""
    chosen: Any = router
    if not isinstance(router, Agent):
        chosen = await resolve(router(run.router_context()))
    if isinstance(chosen, RoutingAgent):
        chosen = await _ask(run, chosen)
    return [_join(run, item) for item in _as_list(run, chosen)]


async def _ask(run: NetworkRun, agent: RoutingAgent) -> Sequence[str]:
    how = AgentRun(
        f"{run.scope.prefix}.route.{run.routings}",
        model=run.model,
        default_model=run.network.default_model,
        parent_run_id=run.run_id,
        keep=False,
    )
    run.routings += 1
    result = await run_agent(run.scope, agent, how)
    run.routing_results.append(result)
    if result.stop_reason in LIMITS and not result.output:
        run.limit_reached = result.stop_reason  # it was not asked, so it has not said "nobody"
        return ()
    return await agent.route(run.scope, result)


def _as_list(run: NetworkRun, chosen: object) -> list[object]:
    if chosen is None:
        return []
    if isinstance(chosen, Agent | str | Together):
        return [chosen]
    if isinstance(chosen, Sequence):
        return list(cast("Sequence[object]", chosen))
    raise RoutingError(
        f"its router returned {chosen!r:.80}; expected agents, names, a routing agent or None",
        network=run.name,
    )


def _join(run: NetworkRun, item: object) -> Scheduled:
    if isinstance(item, Together):
        return tuple(_join_one(run, agent) for agent in item.agents)
    return _join_one(run, item)


def _join_one(run: NetworkRun, item: object) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, RoutingAgent):
        raise RoutingError(
            f"its router returned the routing agent {item.name!r} in a list; return it alone",
            network=run.name,
        )
    if not isinstance(item, Agent):
        raise RoutingError(f"its router returned {item!r:.80} in a list", network=run.name)
    run.agents.setdefault(item.name, item)
    return item.name
