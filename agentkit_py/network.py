"""Networks: agents that share a state, and a router that says who is next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

from agentkit_py._engine.agent_loop import TurnOptions, choose_model, offered_tools
from agentkit_py._engine.agent_spec import NetworkSpec, Turn
from agentkit_py._engine.checks import HISTORY, MODEL, expect, expect_count, expect_list
from agentkit_py._engine.model_input import ModelInputBuilder
from agentkit_py._engine.nested_runs import AsToolOptions, Nested, NestedCall, names_of
from agentkit_py._engine.network_loop import NetworkLoop
from agentkit_py._engine.network_run import DONE, NetworkRun
from agentkit_py._engine.prompt import HistoryMode
from agentkit_py._engine.run_context import RunContext, RunOptions, begin_run
from agentkit_py._engine.tool import Tool
from agentkit_py._engine.tool_sources import ToolSource
from agentkit_py.agent import Agent
from agentkit_py.errors import ConfigurationError
from agentkit_py.history.config import HistoryConfig
from agentkit_py.messages import UserMessage
from agentkit_py.models.base import Model
from agentkit_py.processors.apply import as_processor
from agentkit_py.processors.base import HistoryProcessor, Processor
from agentkit_py.processors.report import ContextReport
from agentkit_py.routing import Router, check_router, get_default_routing_agent
from agentkit_py.runs import Runnable
from agentkit_py.state import State

__all__ = ["DEFAULT_MAX_ITER", "Network", "NetworkRun", "create_network", "explain"]

DEFAULT_MAX_ITER = 50
"""Agent turns per run where nobody says otherwise; a run that is stopped by it is logged."""


@dataclass(eq=False, kw_only=True)
class Network(Runnable[NetworkRun]):
    """Agents that share a state, and a router that says who is next.

    A network is configuration: each `run` works on agents, state and stack of its own. What is
    assigned or appended to it counts from the next run on.
    """

    name: str
    agents: Sequence[Agent]
    description: str = ""
    default_model: Model | None = None
    """The model of agents that have none, and of the default routing agent."""

    router: Router | None = None
    """A function, a routing agent, or None: the default routing agent."""

    max_iter: int | None = DEFAULT_MAX_ITER
    """Agent turns in one run at the most; 0 or None: no limit."""

    default_state: State[Any] | None = None
    """Copied for each run that is given no state."""

    history: HistoryConfig | None = None
    """Where threads are kept, e.g. ``SqliteHistory("support.db")``."""

    processors: Sequence[Processor] = ()
    """Processors of the history sent to any agent's model; they run before the agents' own."""

    history_mode: HistoryMode = "chronological"
    """The order of prompt and history; ``"typescript"``: as in the TypeScript package."""

    _opened: list[AsyncExitStack] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check what was given."""
        self._opened = []
        self.resolve()
        check_router(self.name, self.router)

    @property
    def chain(self) -> tuple[HistoryProcessor, ...]:
        """Its processors, functions among them made processors."""
        return tuple(as_processor(processor) for processor in self.processors)

    def resolve(self, options: RunOptions | None = None) -> NetworkSpec:
        """Return the network as it is now, ready to run.

        Raises:
            ConfigurationError: It cannot run like this.
        """
        where = f"Network {self.name!r}"
        expect_list(where, "agents", self.agents)
        for agent in self.agents:
            expect(where, "each of agents", agent, Agent, "an Agent")
        expect(where, "default_model", self.default_model, Model, MODEL)
        expect(where, "default_state", self.default_state, State, "a State(…)")
        expect(where, "history", self.history, HistoryConfig, HISTORY)
        expect_list(where, "processors", self.processors)
        expect_count(where, "max_iter", self.max_iter)
        names = [agent.name for agent in self.agents]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigurationError(f"{where} has two agents called {twice[0]!r}")
        options = options or {}
        given = options.get("max_iter")
        return NetworkSpec(
            name=self.name,
            model=options.get("model"),
            default_model=self.default_model,
            max_iter=self.max_iter if given is None else given,
            history=self.history,
            chain=self.chain,
        )

    def as_tool(self, **options: Unpack[AsToolOptions]) -> Tool:
        """Return this network as a tool of agents: each call is a run of its own.

        See `Agent.as_tool`.

        Raises:
            ConfigurationError: An option is not known, or a tool that is allowed is not there.
        """
        rights, names = options.get("allowed_tools", ()), None
        if rights != "own":
            tools = [name for agent in self.agents for name in agent.resolve().tools]
            names = names_of(self.name, rights, tools, list(self._servers()))

        async def run(context: RunContext, call: NestedCall) -> tuple[str, str | None]:
            agents = list(self.agents)
            if names is not None:
                agents = [
                    replace(a, allowed_tools={n for n in names if a.may_have(n)}) for a in agents
                ]
            network = replace(
                self,
                agents=agents,
                max_iter=call.max_iter,
                default_model=self.default_model or call.default_model,
                history=context.history,
            )
            done = await _loop(network, context, {"model": call.model}).run_to_end()
            return done.text, None if done.stop_reason == DONE else done.stop_reason

        return Nested(
            name=self.name,
            description=self.description,
            run=run,
            history=self.history,
            mode=self.history_mode,
        ).tool(options)

    def _servers(self) -> Iterable[ToolSource]:
        return {id(s): s for agent in self.agents for s in agent.mcp_servers}.values()

    async def _run(
        self, given: str | UserMessage, options: RunOptions, *, tokens: bool
    ) -> NetworkRun:
        check_router(self.name, options.get("router"))
        context = _begin(self, given, options, tokens=tokens)
        return await _loop(self, context, options).run_to_end()


def _begin(
    network: Network, given: str | UserMessage, options: RunOptions, *, tokens: bool = False
) -> RunContext:
    return begin_run(
        network.name,
        given,
        options,
        history=network.history,
        mode=network.history_mode,
        default_state=network.default_state,
        tokens=tokens,
    )


def _loop(network: Network, context: RunContext, options: RunOptions) -> NetworkLoop:
    router = options.get("router") or network.router or get_default_routing_agent()
    return NetworkLoop(network, network.resolve(options), context, router)


async def explain(
    target: Agent | Network,
    agent: str | None = None,
    *,
    thread_id: str | None = None,
    input: str | UserMessage = "",  # noqa: A002 - as in run()
    state: State[Any] | Mapping[str, Any] | None = None,
    model: Model | None = None,
) -> ContextReport:
    """Return what an agent would be sent now, level by level.

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
    options: RunOptions = {"state": state, "thread_id": thread_id, "model": model}
    chosen = _chosen(target, agent)
    if isinstance(target, Network):
        context = _begin(target, input, options)
        agents, default = target.agents, target.default_model
        _loop(target, context, options)
    else:
        mode = target.history_mode
        context = begin_run(target.name, input, options, history=target.history, mode=mode)
        agents, default = [target], None
    await context.open(agents, dry=True)
    spec = context.spec_of(chosen)
    found = await choose_model(context, spec, TurnOptions("explain", model, default))
    turn = Turn(spec, found, "explain", "explain", "explain")
    tools = await offered_tools(context, spec, "explain.tools")
    return (await ModelInputBuilder(run=context, turn=turn, tools=tools).build()).report


def _chosen(target: Agent | Network, name: str | None) -> Agent:
    if isinstance(target, Agent):
        if name not in (None, target.name):
            raise ConfigurationError(f"The agent is {target.name!r}, not {name!r}")
        return target
    agents = {agent.name: agent for agent in target.agents}
    names = ", ".join(agents)
    if name is None and len(agents) != 1:
        raise ConfigurationError(f"Which agent? Network {target.name!r} has {names}")
    found = next(iter(agents.values())) if name is None else agents.get(name)
    if found is None:
        raise ConfigurationError(f"Network {target.name!r} has no agent {name!r}, but {names}")
    return found


create_network = Network
