"""Networks: agents that share a state, and a router that says who is next."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import Any, Self, Unpack

from agentkit_py._engine.agent_run import AgentRun, choose_model, run_agent
from agentkit_py._engine.as_tool import Nested, NestedCall, names_of
from agentkit_py._engine.changes import Scheduled
from agentkit_py._engine.checking import check_network
from agentkit_py._engine.emitter import logger
from agentkit_py._engine.lanes import Lanes, place
from agentkit_py._engine.options import new_scope
from agentkit_py._engine.prompt import HistoryMode
from agentkit_py._engine.scope import RunScope
from agentkit_py._engine.stream import watched
from agentkit_py._engine.sync import run_to_end
from agentkit_py._engine.tool_source import ToolSource, opened
from agentkit_py._engine.view import View
from agentkit_py.agent import Agent
from agentkit_py.errors import ConfigurationError, RoutingError
from agentkit_py.events.types import (
    AgentsRouted,
    Observer,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
)
from agentkit_py.history.config import HistoryConfig
from agentkit_py.history.runs import RunRecord
from agentkit_py.messages import Usage, UserMessage
from agentkit_py.models.base import Model, ToolSpec
from agentkit_py.processors.apply import as_processor
from agentkit_py.processors.base import HistoryProcessor, Processor
from agentkit_py.processors.report import ContextReport
from agentkit_py.results import USER, AgentResult
from agentkit_py.routing import Router, RouterContext, check_router, route
from agentkit_py.runs import RunOptions, RunStream
from agentkit_py.state import State
from agentkit_py.tools import AsToolOptions, Tool

DEFAULT_MAX_ITER = 50
"""Agent turns per run where nobody says otherwise; a run that is stopped by it is logged."""


class NetworkOptions(RunOptions, total=False):
    """Options of a network's run."""

    router: Router | None
    """Another router than the network's."""


@dataclass(eq=False, kw_only=True)
class Network:
    """Agents that share a state, and a router that says who is next.

    A network is configuration: each `run` works on agents, state and stack of its own.
    """

    name: str
    agents: Sequence[Agent]
    description: str = ""
    default_model: Model | None = None
    """For agents that have none, and for the default routing agent."""

    router: Router | None = None
    """A function, a routing agent, or None: the default routing agent."""

    max_iter: int | None = DEFAULT_MAX_ITER
    """Agent turns in one run at the most; 0 or None: no limit."""

    default_state: State[Any] | None = None
    """Copied for each run that is given no state."""

    history: HistoryConfig | None = None
    """Where threads are kept, e.g. ``SqliteHistory("support.db")``."""

    processors: Sequence[Processor] = ()
    """What changes the history before any agent's model sees it; before the agents' own."""

    history_mode: HistoryMode = "chronological"
    """How prompt and history are joined; ``"typescript"``: as the TypeScript package does."""

    chain: tuple[HistoryProcessor, ...] = field(init=False, repr=False)
    _open: list[AsyncExitStack] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check what was given."""
        check_network(self, Agent)
        names = [agent.name for agent in self.agents]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigurationError(f"Network {self.name!r} has two agents called {twice[0]!r}")
        check_router(self.name, self.router)
        self.chain = tuple(as_processor(processor) for processor in self.processors)
        self._open = []

    def _sources(self) -> list[ToolSource]:
        found = {id(source): source for agent in self.agents for source in agent.mcp_servers}
        return list(found.values())

    async def __aenter__(self) -> Self:
        """Connect its agents' servers; without ``async with`` each connects when it is needed.

        Raises:
            ToolSourceError: A server that is needed cannot be reached.
        """
        self._open.append(await opened(self._sources()))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Disconnect its agents' servers."""
        await self._open.pop().aclose()

    def as_tool(self, **options: Unpack[AsToolOptions]) -> Tool:
        """This network as a tool of agents: each call is a run of its own; see `Agent.as_tool`.

        Raises:
            ConfigurationError: An option is not known, or a tool that is allowed is not there.
        """
        agents = list(self.agents)
        rights = options.get("allowed_tools", ())
        if rights != "own":
            tools = [name for agent in agents for name in agent.tool_map]
            names = names_of(self.name, rights, tools, self._sources())
            agents = [replace(a, allowed_tools={n for n in names if a.may_have(n)}) for a in agents]

        async def run(scope: RunScope, call: NestedCall) -> tuple[str, str | None]:
            network = replace(
                self,
                agents=agents,
                max_iter=call.max_iter,
                default_model=self.default_model or call.default_model,
                history=scope.history,
            )
            nested = NetworkRun(network, scope, router=self.router, model=call.model)
            await nested.execute()
            reason = nested.stop_reason
            return nested.text, None if reason == DONE else reason

        return Nested(
            name=self.name,
            description=self.description,
            run=run,
            history=self.history,
            mode=self.history_mode,
        ).tool(options)

    async def run(
        self,
        input: str | UserMessage,  # noqa: A002 - TypeScript's name
        **options: Unpack[NetworkOptions],
    ) -> NetworkRun:
        """Run the network until its router is done.

        Args:
            input: What the user says.
            options: See `NetworkOptions`.

        Returns:
            The run: its state, results, and why it ended (`NetworkRun.stop_reason`).

        Raises:
            MissingModelError: An agent has no model.
            ModelError: A model call failed for good.
            RoutingError: The router returned what is no agent, or no agent is enabled.
            HistoryError: The thread could not be loaded or saved.
        """
        return await self._run(input, options, tokens=False)

    def run_sync(
        self,
        input: str | UserMessage,  # noqa: A002 - TypeScript's name
        **options: Unpack[NetworkOptions],
    ) -> NetworkRun:
        """`run` for scripts without an event loop.

        Raises:
            ConfigurationError: An event loop is running here; await `run` instead.
        """
        return run_to_end(lambda: self._run(input, options, tokens=False))

    def stream(
        self,
        input: str | UserMessage,  # noqa: A002 - TypeScript's name
        **options: Unpack[NetworkOptions],
    ) -> RunStream[NetworkRun]:
        """`run` as an async iterator over its events, replies piece by piece among them."""

        def begin(observer: Observer) -> Awaitable[NetworkRun]:
            seen = watched(options.get("observer"), observer)
            return self._run(input, {**options, "observer": seen}, tokens=True)

        return RunStream(begin)

    async def _run(
        self, given: str | UserMessage, options: NetworkOptions, *, tokens: bool
    ) -> NetworkRun:
        router = options.get("router") or self.router
        check_router(self.name, router)
        scope = new_scope(
            self.name,
            given,
            options,
            history=self.history,
            mode=self.history_mode,
            default_state=self.default_state,
            tokens=tokens,
        )
        run = NetworkRun(self, scope, router=router, model=options.get("model"))
        await run.execute()
        return run


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
    from agentkit_py.routing import get_default_routing_agent  # noqa: PLC0415 - loads pydantic

    return get_default_routing_agent()


async def explain(
    target: Agent | Network,
    agent: str | None = None,
    *,
    thread_id: str | None = None,
    input: str | UserMessage = "",  # noqa: A002 - as in run()
    state: State[Any] | Mapping[str, Any] | None = None,
    model: Model | None = None,
) -> ContextReport:
    """What an agent would be sent now, level by level.

    The thread is loaded, and nothing saved. Processors, `on_start` and functions (system prompts,
    models, rights) run as they would; processors that would call a model or an embedder only say
    so in the report.

    Args:
        target: The agent, or the network it is in.
        agent: Which agent of the network.
        thread_id: The stored thread.
        input: What the user would say.
        state: State to go on with.
        model: Overrides the agent's.

    Raises:
        ConfigurationError: There is no such agent.
        MissingModelError: The agent has no model, whose name and window matter here.
        ThreadNotFoundError: There is no such thread.
    """
    scope = new_scope(
        target.name,
        input,
        {"state": state, "thread_id": thread_id},
        history=target.history,
        mode=target.history_mode,
        default_state=target.default_state if isinstance(target, Network) else None,
    )
    chosen, how = _chosen(target, agent, scope, model)
    agents = [target] if isinstance(target, Agent) else target.agents
    await scope.open(agents, dry=True)
    view = View(
        scope=scope,
        agent=chosen,
        model=await choose_model(scope, chosen, how),
        tools=await chosen.tools_now(scope),
        make_host=None,
    )
    return (await view.look()).report


def _chosen(
    target: Agent | Network, name: str | None, scope: RunScope, model: Model | None
) -> tuple[Agent, AgentRun]:
    if isinstance(target, Agent):
        if name not in (None, target.name):
            raise ConfigurationError(f"The agent is {target.name!r}, not {name!r}")
        return target, AgentRun("explain", model=model)
    run = NetworkRun(target, scope, router=target.router, model=model)
    names = ", ".join(run.agents)
    if name is None and len(run.agents) != 1:
        raise ConfigurationError(f"Which agent? Network {target.name!r} has {names}")
    found = next(iter(run.agents.values())) if name is None else run.agents.get(name)
    if found is None:
        raise ConfigurationError(f"Network {target.name!r} has no agent {name!r}, but {names}")
    return found, AgentRun("explain", model=model, default_model=target.default_model)


create_network = Network
