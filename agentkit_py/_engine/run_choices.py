"""RunChoices: the agents, processors and tools of a run, as they were chosen when it began."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from agentkit_py._engine.agent_spec import AgentSpec, NetworkSpec
from agentkit_py._engine.handoffs import HandedOverInput
from agentkit_py._engine.instrumentation import Chains
from agentkit_py._engine.knowledge import KnowledgeFilters
from agentkit_py._engine.prompt import HistoryMode
from agentkit_py._engine.shared_prefix import SharedPrefix, shared_prefix
from agentkit_py._engine.tool_sources import SourceBook
from agentkit_py.lifecycle.guardrails import NO_GUARDRAILS, GuardrailSpec
from agentkit_py.lifecycle.hooks import AgentContext
from agentkit_py.lifecycle.network_run import AgentLike, NetworkRun
from agentkit_py.models.base import ToolSpec
from agentkit_py.processors.apply import ChosenProcessors, is_bounded
from agentkit_py.processors.base import HistoryProcessor, Level


@dataclass(slots=True, kw_only=True)
class RunChoices:
    """The constants of a run; later assignments count for the next run."""

    mode: HistoryMode
    network: NetworkSpec | None = None
    chain: Sequence[HistoryProcessor] = ()
    """Processors that were given to `run`."""

    inherited: Chains = ()
    """Processors of the outer run, if this run inherits them."""

    knowledge_filters: KnowledgeFilters | None = None
    """Filters of each search of knowledge, in addition to the agents' own."""

    sources: SourceBook = field(default_factory=SourceBook)
    """The tools that servers of the agents have."""

    shared: SharedPrefix | None = None
    """The beginning that the requests of the network's agents share; None: they share none."""

    handed_over: dict[str, HistoryProcessor] = field(default_factory=dict[str, HistoryProcessor])
    """The part of a handed-over conversation that agents see, by their names."""

    _specs: dict[int, tuple[AgentLike, AgentSpec]] = field(
        default_factory=dict[int, tuple[AgentLike, AgentSpec]]
    )
    _chains: dict[int, Chains] = field(default_factory=dict[int, Chains])

    def fork(self) -> RunChoices:
        """Return the choices of an agent that runs in parallel to others."""
        return replace(self, sources=self.sources.copy())

    def spec_of(self, agent: AgentLike) -> AgentSpec:
        """Return the agent as it was when this run first knew it."""
        known = self._specs.get(id(agent))
        if known is None:
            spec = agent.resolve()
            if self.knowledge_filters is not None:
                spec = spec.confined_to(self.knowledge_filters)
            known = self._specs[id(agent)] = (agent, spec)
        return known[1]

    async def is_enabled(self, agent: AgentLike, run: NetworkRun, /) -> bool:
        """Return whether the agent's lifecycle lets it run now."""
        spec = self.spec_of(agent)
        if spec.lifecycle.enabled is None:
            return True
        return await spec.is_enabled(AgentContext(agent=agent, network=run, state=run.state))

    def known_tools(self, agent: AgentLike, /) -> Sequence[ToolSpec]:
        """Return an agent's tools as far as they are known without asking its servers."""
        spec = self.spec_of(agent)
        known = self.sources.known(spec.tools.servers, spec.tools.own)
        return [tool.spec for tool in known.values()]

    def guardrails_of(self, agent: AgentSpec) -> GuardrailSpec:
        """Return the guardrails of an agent's turn: its network's, then its own."""
        own = agent.guardrails
        return own if self.network is None else self.network.guardrails + own

    def may_have_guardrails(self, agent: AgentSpec) -> bool:
        """Return whether an agent's turn has guardrails; tools of servers may have some."""
        tools = agent.tools.own.values()
        return bool(
            self.guardrails_of(agent) is not NO_GUARDRAILS
            or agent.tools.servers
            or any(tool.guardrails is not NO_GUARDRAILS for tool in tools)
        )

    def share_prefix(self, agents: Sequence[AgentSpec]) -> None:
        """Decide whether the requests of these agents of a network begin alike."""
        network = self.network
        if network is None or network.prefix == "own" or self.mode == "typescript":
            return
        if len(agents) > 1:  # a single agent shares nothing
            chains = [(agent, self.chains_of(agent)) for agent in agents]
            self.shared = shared_prefix(chains, network)

    def are_bounded(self, agents: Sequence[AgentSpec]) -> bool:
        """Return whether a processor of these agents bounds the history."""
        return any(is_bounded(self.chains_of(agent)) for agent in agents)

    def chains_of(self, agent: AgentSpec) -> Chains:
        """Return the processors that an agent's history goes through, level by level.

        Those that a function chooses are there after `choose`.
        """
        known = self._chains.get(id(agent))
        if known is None:
            known = self._configured(agent)
            if not any(isinstance(one, ChosenProcessors) for _, chain in known for one in chain):
                self._chains[id(agent)] = known
        handed = self.handed_over.get(agent.name) if self.handed_over else None
        if handed is None or (isinstance(handed, HandedOverInput) and not known):
            return known  # without processors the agent sees the call itself
        return [("network", (handed,)), *known]

    def _configured(self, agent: AgentSpec) -> Chains:
        network = self.network
        shared = () if network is None or network.history is None else network.history.chain
        own = () if agent.history is None else agent.history.chain
        levels: list[tuple[Level, Sequence[HistoryProcessor]]] = [
            # This comes first, so that hidden content gets into no summary or text that processors
            # make.
            ("network", () if network is None else network.isolation),
            *self.inherited,
            ("history", shared),
            # A store that is wrapped for a user has the chain of the store itself.
            ("history", () if own is shared else own),
            ("network", () if network is None else network.chain),
            ("agent", agent.chain),
            ("run", self.chain),
        ]
        return [(level, chain) for level, chain in levels if chain]

    def has_own_chain(self, agent: AgentSpec) -> bool:
        """Return whether processors above its own level may be others than those of other agents.

        A function may choose others for each, and an agent in a network may have a history.
        """
        network, own = self.network, () if agent.history is None else agent.history.chain
        shared = () if network is None or network.history is None else network.history.chain
        if own and own is not shared and network is not None:
            return True
        chains = self._configured(agent)
        return any(isinstance(one, ChosenProcessors) for _, chain in chains for one in chain)

    def are_known(self, agent: AgentSpec) -> bool:
        """Return whether no function has to be asked for an agent's processors any more."""
        return id(agent) in self._chains or (not self.chains_of(agent) or id(agent) in self._chains)

    async def choose(self, agent: AgentSpec, context: AgentContext) -> Chains:
        """Ask functions for the processors that they choose for an agent, once in the run.

        Those of an agent whose processors `are_known` need not be asked for.

        Raises:
            ConfigurationError: A function gave something else than a list of processors.
        """
        chosen: list[tuple[Level, Sequence[HistoryProcessor]]] = []
        for level, chain in self._configured(agent):
            processors: list[HistoryProcessor] = []
            for one in chain:
                is_choice = isinstance(one, ChosenProcessors)
                processors += await one.choose(context) if is_choice else (one,)
            chosen.append((level, tuple(processors)))
        self._chains[id(agent)] = chosen
        return chosen
