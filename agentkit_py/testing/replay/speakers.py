"""Speakers of a recording: one agent, those of a `RecordedNetwork`, or a network's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from agentkit_py.agent import Agent
from agentkit_py.lifecycle import AgentContext
from agentkit_py.network import Network
from agentkit_py.processors.apply import ChosenProcessors
from agentkit_py.processors.base import HistoryProcessor, Level, Processor
from agentkit_py.state import State
from agentkit_py.testing.replay.networks import FRONT_DESK, deal_out
from agentkit_py.testing.replay.recording import Conversation, RecordedReply

Levels: TypeAlias = Sequence[tuple[Level, Sequence[Processor]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """An agent that recorded replies are of, and what it sees the history through."""

    name: str
    tools: frozenset[str]
    levels: Levels
    has: Callable[[str], bool]
    """Returns whether a tool may be its own: servers say so only when they are asked."""


class Speakers:
    """Says which agent each reply of a conversation is of.

    A reply with calls is of the agent that has the first tool of them, a text of the agent that
    spoke last, in the beginning of the first one.

    Attributes:
        unknown: Tools that were called, and that no agent has.
    """

    def __init__(self, speakers: Sequence[Speaker], desk: str | None = None) -> None:
        """Take the agents.

        Args:
            speakers: The agents; the first one begins.
            desk: The agent that says all texts; None: who spoke last.
        """
        self.unknown: set[str] = set()
        self._speakers = list(speakers)
        self._desk = next((one for one in self._speakers if one.name == desk), None)
        self._last = self._speakers[0]

    def of(self, reply: RecordedReply) -> Speaker:
        """Return the agent of the next reply."""
        if reply.calls:
            tool = reply.calls[0].name
            having = [one for one in (self._last, *self._speakers) if one.has(tool)]
            if not having:
                self.unknown.add(tool)
            self._last = having[0] if having else self._last
        elif self._desk is not None:
            self._last = self._desk
        return self._last

    @classmethod
    def recorded(
        cls, conversation: Conversation, processors: Sequence[Processor], *, network: bool
    ) -> Speakers:
        """Return one agent with all tools, or the four that they are dealt out to."""
        owners = deal_out(conversation) if network else dict.fromkeys(conversation.tools, "agent")
        desk = FRONT_DESK if network else "agent"
        names = dict.fromkeys([desk, *owners.values()])
        tools = {
            name: frozenset(t for t, owner in owners.items() if owner == name) for name in names
        }
        made = [
            Speaker(
                name=name,
                tools=tools[name],
                levels=[("chain", processors)],
                has=tools[name].__contains__,
            )
            for name in names
        ]
        return cls(made, desk)

    @classmethod
    async def of_network(
        cls, given: Network[Any, Any] | Agent[Any, Any], processors: Sequence[Processor] = ()
    ) -> Speakers:
        """Return a network's agents with their own processors, level by level, and some more.

        Functions that choose processors are asked with the network's default state.

        Raises:
            ConfigurationError: It cannot run like this.
        """
        agents, network = (
            ([given], None) if isinstance(given, Agent) else (list(given.agents), given)
        )
        default = None if network is None else network.default_state
        found: list[Speaker] = []
        for agent in agents:
            spec = agent.resolve()
            history = None if network is None else network.history
            chains: list[tuple[Level, Sequence[HistoryProcessor]]] = [
                ("history", () if history is None else history.chain),
                ("history", () if agent.history in (None, history) else agent.history.chain),
                ("network", () if network is None else network.chain),
                ("agent", spec.chain),
            ]
            state: State[Any] = State() if default is None else default.clone()
            context = AgentContext(agent=agent, network=None, state=state)
            levels: list[tuple[Level, Sequence[Processor]]] = [
                (level, await _chosen(chain, context)) for level, chain in chains
            ]
            hosted = [one for one in agent.hosted_tools if isinstance(one, str)]
            found.append(
                Speaker(
                    name=agent.name,
                    tools=frozenset((*spec.tools, *hosted)),
                    levels=[*levels, ("run", processors)],
                    has=spec.may_have,
                )
            )
        return cls(found)

    def begun(self) -> Speakers:
        """Return the same agents for another conversation; what is unknown stays."""
        fresh = Speakers(self._speakers, None if self._desk is None else self._desk.name)
        fresh.unknown = self.unknown
        return fresh


async def _chosen(
    chain: Sequence[HistoryProcessor], context: AgentContext[Any]
) -> list[HistoryProcessor]:
    found: list[HistoryProcessor] = []
    for one in chain:
        found += await one.choose(context) if isinstance(one, ChosenProcessors) else (one,)
    return found
