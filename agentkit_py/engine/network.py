"""Networks: agents that share a state, and a router that says who is next."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self, Unpack

from agentkit_py.engine.agent import Agent
from agentkit_py.engine.as_tool import AsToolOptions, Nested, NestedCall, names_of
from agentkit_py.engine.checking import check_network
from agentkit_py.engine.network_run import DONE, NetworkRun
from agentkit_py.engine.options import RunOptions, new_scope
from agentkit_py.engine.prompt import HistoryMode
from agentkit_py.engine.router import Router, check_router
from agentkit_py.engine.scope import RunScope
from agentkit_py.engine.stream import RunStream, watched
from agentkit_py.engine.sync import run_to_end
from agentkit_py.engine.tool import Tool
from agentkit_py.engine.tool_source import ToolSource, opened
from agentkit_py.errors import ConfigurationError
from agentkit_py.events.types import Observer
from agentkit_py.history.config import HistoryConfig
from agentkit_py.history.state import State
from agentkit_py.messages import UserMessage
from agentkit_py.models.base import Model
from agentkit_py.processors.apply import as_processor
from agentkit_py.processors.base import HistoryProcessor, Processor

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
