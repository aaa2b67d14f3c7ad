"""NetworkRun: one run of a network, as routers, tools and hooks see it and as it ended."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from agentkit_py.engine.agent import Agent
from agentkit_py.engine.agent_run import AgentRun, run_agent
from agentkit_py.engine.changes import Scheduled
from agentkit_py.engine.emitter import logger
from agentkit_py.engine.lanes import Lanes, place
from agentkit_py.engine.router import Router, RouterContext, route
from agentkit_py.engine.scope import RunScope
from agentkit_py.errors import RoutingError
from agentkit_py.events.types import (
    AgentsRouted,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
)
from agentkit_py.history.result import USER, AgentResult
from agentkit_py.history.runs import RunRecord
from agentkit_py.history.state import State
from agentkit_py.messages import Usage
from agentkit_py.models.base import Model, ToolSpec
from agentkit_py.processors.report import ContextReport

if TYPE_CHECKING:
    from agentkit_py.engine.network import Network

DONE = "done"


class NetworkRun:
    """One run of a network.

    Attributes:
        network: The network's configuration.
        agents: The agents of this run by name: the network's, and those a router brought in.
        stack: Names of the agents that are scheduled, the next one first; a tuple of names where
            several run at the same time.
        stop_reason: Why the run ended: ``"done"`` (the router had nobody), ``"max_iter"``,
            ``"unknown_agent"``, ``"disabled_agent"``, or the name of a limit; None while it runs.
        limit_reached: The limit because of which a routing agent was not asked.
        stopped_at: The agent name that was unknown or disabled.
        routing_results: What routing agents answered; it is no part of the state.
    """

    def __init__(
        self, network: Network, scope: RunScope, *, router: Router | None, model: Model | None
    ) -> None:
        """Begin; `execute` does the work."""
        self.network = network
        self.scope = scope
        self.model = model
        self.agents: dict[str, Agent] = {agent.name: agent for agent in network.agents}
        self.stack: list[Scheduled] = []
        self.counter: int = 0
        self.routings = 0
        self.limit_reached: str | None = None
        self.stop_reason: str | None = None
        self.stopped_at: str | None = None
        self.last_result: AgentResult | None = None
        self.routing_results: list[AgentResult] = []
        self.run_id: str = scope.runtime.new_id(f"{scope.prefix}/run")
        self._router = router
        self._first = 0
        self._places: list[tuple[int, ...]] = []
        scope.network = self
        scope.thread.network = self
        scope.changes.network = self

    @property
    def name(self) -> str:
        """The network's name."""
        return self.network.name

    @property
    def state(self) -> State[Any]:
        """The run's state."""
        return self.scope.state

    @property
    def thread_id(self) -> str | None:
        """The thread that the run belongs to."""
        return self.state.thread_id

    @property
    def results(self) -> list[AgentResult]:
        """The results of this run, in order."""
        return self.state.get_results_from(self._first)

    @property
    def text(self) -> str:
        """What the last agent said."""
        return self.last_result.text if self.last_result is not None else ""

    @property
    def usage(self) -> Usage:
        """Tokens of all model calls of this run, those of routing agents included."""
        return self.scope.meter.usage

    @property
    def context(self) -> list[ContextReport]:
        """What each inference of this run was allowed to see, in order."""
        return [result.context for result in self.results if result.context is not None]

    def schedule(self, agent: str | Agent) -> None:
        """Put an agent at the end of the stack; tools and hooks hand over with this."""
        self.stack.append(agent if isinstance(agent, str) else self.add_agent(agent))
        self._places.append(place())

    def part(self) -> int:
        """Several begin to run at the same time; what it gives is passed to `join`."""
        if not place():
            self._places.clear()
        return len(self.stack)

    def join(self, mark: int) -> None:
        """They have ended: put what they scheduled in their order, not that of who was quicker."""
        added = self.stack[mark:]
        # Where a replay has put it there, it is in that order already.
        if not place() and len(added) == len(self._places):
            order = sorted(range(len(added)), key=self._places.__getitem__)
            self.stack[mark:] = [added[index] for index in order]

    def add_agent(self, agent: Agent) -> str:
        """Add an agent to this run, unless one of its name is there; returns the name."""
        self.agents.setdefault(agent.name, agent)
        return agent.name

    async def available_agents(self) -> list[Agent]:
        """The agents that are enabled now."""
        return [agent for agent in self.agents.values() if await agent.is_enabled(self.scope)]

    def specs_of(self, agent: Agent) -> Sequence[ToolSpec]:
        """An agent's tools as far as they are known: servers are asked when it is its turn."""
        if not agent.mcp_servers:
            return agent.specs
        known = self.scope.sources.known(agent.mcp_servers, agent.tool_map)
        return [tool.spec for tool in known.values()]

    def router_context(self) -> RouterContext:
        """What a router function decides by."""
        return RouterContext(
            input=self.scope.input.text,
            user_message=self.scope.input.message,
            network=self,
            stack=tuple(self.stack),
            call_count=self.counter,
            last_result=self.last_result or self._earlier_result(),
        )

    def _earlier_result(self) -> AgentResult | None:
        """What an agent last gave before this run: a router may go on from there."""
        results = reversed(self.state.results)
        return next((result for result in results if result.agent_name != USER), None)

    def shift(self, count: int) -> None:
        """So many older results were loaded: those of this run stand further back."""
        self._first += count

    async def execute(self) -> None:
        """Open the thread, run agents until the router is done, save what is not saved."""
        await self.scope.open(self.agents.values())
        self._first = self.state.result_count
        if self.scope.thread.outcome is not None:
            self._repeat(self.scope.thread.outcome)
            return
        scope_facts: dict[str, Any] = {
            "run_id": self.run_id,
            "name": self.name,
            "scope": "network",
            "message_id": self.run_id,
        }
        if self.scope.is_heard:
            user_id = self.scope.user_id
            started = RunStarted(**scope_facts, thread_id=self.thread_id, user_id=user_id)
            await self.scope.tell(started)
        try:
            with self.scope.measured(self.run_id):
                self.stop_reason = await self._loop()
            await self.scope.thread.save_results()
            await self.scope.thread.end(stop_reason=self.stop_reason)
        except CancelledError as error:
            await self.scope.settle(error)
            if self.scope.runtime.is_final(error):
                await self.scope.tell(RunInterrupted(**scope_facts))
            raise
        except Exception as error:
            await self.scope.settle(error)
            if self.scope.runtime.is_final(error):
                await self.scope.tell(RunFailed(**scope_facts, error=error))
            self.scope.raise_outward(error)
            raise
        if self.scope.is_heard:
            await self.scope.tell(RunCompleted(**scope_facts, stop_reason=self.stop_reason))

    def _repeat(self, outcome: RunRecord) -> None:
        """Stand there as the run for the same user message did that came before this one."""
        self.stop_reason = outcome.stop_reason or DONE
        self._first -= len(outcome.results)
        if outcome.results:
            self.last_result = self.scope.earlier_result()

    async def _loop(self) -> str:
        if not await self.available_agents():
            raise RoutingError("no agent is enabled", network=self.name)
        await self._ask_router()
        while self.stack:
            stop = await self._blocked(self.stack.pop(0))
            if stop is not None:
                return stop
            await self._ask_router()
        return self.limit_reached or DONE

    async def _blocked(self, scheduled: Scheduled) -> str | None:
        """Run who is scheduled, or say why the run ends instead (also right after it)."""
        names = (scheduled,) if isinstance(scheduled, str) else scheduled
        for name in names:
            agent = self.agents.get(name)
            if agent is None or not await agent.is_enabled(self.scope):
                self.stopped_at = name
                return "unknown_agent" if agent is None else "disabled_agent"
        agents = [self.agents[name] for name in names]
        if len(agents) == 1:
            self.last_result = await run_agent(self.scope, agents[0], self._how(agents[0], 0))
        else:
            await self._run_together(agents)
        self.counter += len(agents)
        return self._limit()

    def _how(self, agent: Agent, index: int) -> AgentRun:
        return AgentRun(
            f"{self.scope.prefix}.{agent.name}.{self.counter + index}",
            model=self.model,
            default_model=self.network.default_model,
            parent_run_id=self.run_id,
        )

    async def _run_together(self, agents: Sequence[Agent]) -> None:
        """Run agents at the same time, each on its own fork; join in the order given."""
        first = self.state.result_count
        lanes = Lanes(self.scope.emitter, len(agents))
        forks = [self.scope.fork(lane) for lane in lanes.lanes]
        turns = [
            partial(lanes.run, index, partial(run_agent, fork, agent, self._how(agent, index)))
            for index, (agent, fork) in enumerate(zip(agents, forks, strict=True))
        ]
        mark = self.part()
        outcomes = await self.scope.runtime.parallel(turns)
        self.join(mark)
        self.scope.meter.join([fork.meter for fork in forks])
        results = [result for fork in forks for result in fork.state.get_results_from(first)]
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                for result in results:  # also of those beside one that failed
                    self.scope.keep(result)
                raise outcome
            self.last_result = outcome
        for result in results:
            await self.scope.add(result)
        named = zip(agents, forks, strict=True)
        self.state.merge([(agent.name, fork.state) for agent, fork in named])

    def _limit(self) -> str | None:
        reached = self.scope.meter.reached(
            lambda: self.scope.runtime.now(f"{self.scope.prefix}.{self.counter}/limit")
        )
        if reached is not None:
            return reached
        if self.network.max_iter and self.counter >= self.network.max_iter:
            logger.warning(
                "Network %r was stopped after %d agent turns (max_iter); %d scheduled",
                self.name,
                self.counter,
                len(self.stack),
            )
            return "max_iter"
        return None

    async def _ask_router(self) -> None:
        scheduled = await route(self, self._router or _default_router())
        self.stack.extend(scheduled)
        if not self.scope.emitter.is_heard:
            return
        names = [n for item in scheduled for n in ((item,) if isinstance(item, str) else item)]
        event = AgentsRouted(run_id=self.run_id, name=self.name, agents=tuple(names))
        await self.scope.emitter.emit(event)


def _default_router() -> Router:
    from agentkit_py.engine.default_router import get_default_routing_agent  # noqa: PLC0415 - loads pydantic

    return get_default_routing_agent()
