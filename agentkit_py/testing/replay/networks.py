"""Networks to run recordings through: derived from a recording, or the user's own.

A recording has a single assistant with all tools. A `RecordedNetwork` distributes the tools over
three agents. Texts without a tool belong to a fourth agent without tools, so that agents
with different tools, or none, follow each other as they do in real networks.

An `OwnNetwork` keeps the user's agents, tools, processors and router. The model's replies are the
recorded ones. So are the tools' answers, unless live tools are asked for: to replay a thousand
conversations must not book a thousand flights. MCP servers are asked which tools they have, and no
more.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast
from zlib import crc32

from pydantic import BaseModel, ConfigDict, Field, create_model

from agentkit_py._core.awaiting import resolve
from agentkit_py._core.json import JsonObject, JsonValue
from agentkit_py._engine.tool_sources import SourceBook
from agentkit_py.agent import Agent, RoutingAgent
from agentkit_py.history.config import HistoryConfig
from agentkit_py.lifecycle import AgentContext
from agentkit_py.messages import ToolCall
from agentkit_py.network import Network, Target
from agentkit_py.processors.apply import ChosenProcessors
from agentkit_py.processors.base import HistoryProcessor, Level, Processor
from agentkit_py.processors.tool_results import ToolCallFilter
from agentkit_py.processors.windowing import TokenLimiter
from agentkit_py.routing import Routed, RouterContext
from agentkit_py.state import State
from agentkit_py.testing.provider import Reply, error
from agentkit_py.testing.replay.recording import (
    Conversation,
    RecordedCall,
    RecordedReply,
    RecordedTurn,
)
from agentkit_py.tools import Tool, ToolContext, create_tool

FRONT_DESK = "front_desk"
"""The agent without tools."""

_FAMILIES = {
    "lookups": "check count describe fetch find get list lookup query read retrieve search show",
    "changes": "add book buy cancel change create delete exchange modify order remove rent update",
    "service": "ask calculate contact escalate notify pay refund send think transfer verify",
}
_AGENT_OF_VERB = {verb: agent for agent, verbs in _FAMILIES.items() for verb in verbs.split()}
AGENTS = tuple(_FAMILIES)
"""The agents that have tools."""

_TOKEN_LIMIT = 2000
_NO_SYSTEM = "You are a helpful assistant."


class Script:
    """Plays the recorded turns in sequence: the model's replies, and the tools' answers.

    The provider's thread asks for replies and the run's for answers, but never at the same time: a
    run waits for its model.
    """

    def __init__(self) -> None:
        """Begin with nothing to say."""
        self._replies: deque[RecordedReply] = deque()
        self._calls: list[RecordedCall] = []

    def begin(self, turn: RecordedTurn) -> None:
        """Go to a turn, and discard the rest of the previous turn."""
        self._replies = deque(turn.replies)
        self._calls = []

    @property
    def upcoming(self) -> RecordedReply | None:
        """The model's next reply; None where the recorded turn ends."""
        return self._replies[0] if self._replies else None

    @property
    def remaining(self) -> int:
        """Number of recorded replies of this turn that the model was not asked for."""
        return len(self._replies)

    def reply(self) -> Reply:
        """Return the model's next reply, an error where the recording has none."""
        if not self._replies:
            return error(500, "The recording has no further reply in this turn.")
        reply = self._replies.popleft()
        self._calls = list(reply.calls)
        calls = [{"id": c.id, "name": c.name, "arguments": c.written} for c in reply.calls]
        content: dict[str, Any] = {"tool_calls": calls}
        return content if reply.text is None else {"text": reply.text, **content}

    def answer(self, call: ToolCall) -> JsonValue:
        """Return the first recorded answer not yet given to such a call of this reply.

        The id alone is not enough: models repeat ids, also within a turn.
        """
        for index, recorded in enumerate(self._calls):
            if (recorded.id, recorded.name) == (call.id, call.name):
                return self._calls.pop(index).result
        raise LookupError(f"The recording has no answer for this call of {call.name}")


class RecordedNetwork:
    """Makes the network of a conversation: its tools, dealt out to agents by their names."""

    def __init__(self, *, filters: bool = False, processors: Sequence[Processor] = ()) -> None:
        """Choose the history that the agents may see.

        Args:
            filters: Whether each agent sees calls of its own tools only (`ToolCallFilter`).
            processors: Processors of the network.
        """
        self._filters = filters
        self._processors = tuple(processors)

    @classmethod
    def with_default_processors(cls) -> RecordedNetwork:
        """Return a network with a filter per agent, and a limit of 2,000 tokens for all."""
        return cls(filters=True, processors=[TokenLimiter(_TOKEN_LIMIT)])

    async def network(
        self, conversation: Conversation, script: Script, history: HistoryConfig
    ) -> Network[Any, Any]:
        """Return the network for a conversation."""
        owners = deal_out(conversation)
        tools = {name: _tool(name, conversation, script) for name in owners}
        agents = [
            self._agent(conversation, name, [tools[t] for t in owners if owners[t] == name])
            for name in (FRONT_DESK, *AGENTS)
        ]

        def router(_context: RouterContext) -> str | None:
            reply = script.upcoming
            if reply is None:
                return None
            return owners[reply.calls[0].name] if reply.calls else FRONT_DESK

        return Network(
            name="replay",
            agents=agents,
            router=router,
            max_iter=None,
            history=history,
            processors=self._processors,
        )

    def _agent(self, conversation: Conversation, name: str, tools: list[Tool]) -> Agent[Any, Any]:
        return Agent(
            name=name,
            system=conversation.system or _NO_SYSTEM,
            tools=tools,
            processors=[ToolCallFilter(include="own")] if self._filters else (),
            max_iter=1,
        )


def _tool(name: str, conversation: Conversation, script: Script) -> Tool:
    async def handler(_arguments: object, context: ToolContext) -> JsonValue:
        return script.answer(context.call)

    return create_tool(
        name=name,
        description="Answers as it did when it was recorded.",
        parameters=_arguments_model(
            name, [call.arguments for call in conversation.calls if call.name == name]
        ),
        handler=handler,
    )


def deal_out(conversation: Conversation) -> dict[str, str]:
    """Return which agent has which tool of the conversation.

    Tools that a reply calls together go to the agent of the first of them.
    """
    groups: list[list[str]] = [[name] for name in conversation.tools]
    for reply in conversation.replies:
        names = {call.name for call in reply.calls}
        if len(names) > 1:
            apart = [group for group in groups if names.isdisjoint(group)]
            together = [one for group in groups if not names.isdisjoint(group) for one in group]
            groups = [*apart, together]
    return {name: agent_of(group[0]) for group in groups for name in group}


def agent_of(tool: str) -> str:
    """Return the agent that a tool belongs to, by its name's first word.

    Unknown words are spread over the agents, always in the same way.
    """
    word = re.split(r"[_-]|(?<=[a-z0-9])(?=[A-Z])", tool.lstrip("_"), maxsplit=1)[0].lower()
    return _AGENT_OF_VERB.get(word) or AGENTS[crc32(tool.encode()) % len(AGENTS)]


def _arguments_model(tool: str, calls: Sequence[JsonObject]) -> type[BaseModel]:
    """Return a model that all recorded calls of a tool fit, so that providers get a schema.

    What every call passes is required; values of several kinds may be anything.
    """
    fields: dict[str, Any] = {}
    for index, name in enumerate(dict.fromkeys(name for call in calls for name in call)):
        values = [call[name] for call in calls if name in call]
        default = ... if len(values) == len(calls) else None
        kind = _kind(values, optional=default is None)
        # By alias: a recorded name may be reserved by pydantic.
        fields[f"argument_{index}"] = (kind, Field(default, alias=name))
    return create_model(tool, __config__=ConfigDict(extra="forbid"), **fields)


def _kind(values: Iterable[object], *, optional: bool) -> Any:
    kinds: set[Any] = {type(value) for value in values}
    nullable = optional or type(None) in kinds
    kinds.discard(type(None))
    if kinds == {int, float}:
        kinds = {float}
    if len(kinds) != 1:
        return Any
    found = kinds.pop()
    kind: Any = {list: list[Any], dict: dict[str, Any]}.get(found, found)
    return kind | None if nullable else kind


class OwnNetwork:
    """Makes a copy of a given network for each conversation; the given network is unchanged."""

    def __init__(
        self,
        given: Target,
        *,
        strip: bool = False,
        live_tools: bool = False,
    ) -> None:
        """Choose the changes of the copy.

        Args:
            given: The network, or an agent alone.
            strip: Leave out all processors, those of agents and of its history too.
            live_tools: Call the tools really.
        """
        self._network: Network[Any, Any] = (
            Network(name=given.name, agents=[given]) if isinstance(given, Agent) else given
        )
        self._strip = strip
        self._live = live_tools
        self._book = SourceBook()
        self._one_at_a_time = asyncio.Lock()

    @property
    def has_processors(self) -> bool:
        """True if a processor changes the history that its agents see."""
        network = self._network
        configs = [network.history, *(agent.history for agent in network.agents)]
        chains = [network.chain, *(agent.chain for agent in network.agents)]
        return any([*chains, *(config.chain for config in configs if config is not None)])

    async def network(
        self,
        conversation: Conversation,
        script: Script,
        history: HistoryConfig,
    ) -> Network[Any, Any]:
        """Return the network for a conversation; its threads go to ``history``."""
        given = self._network
        adapt = _ReplayParts(script, self._tools, strip=self._strip, live=self._live)
        store = copy(history)
        if given.history is not None and not self._strip:
            store.processors = given.history.processors
        return replace(
            given,
            agents=[await adapt.agent(agent) for agent in given.agents],
            router=adapt.router(given),
            history=store,
            processors=() if self._strip else given.processors,
            isolation=None if self._strip else given.isolation,
        )

    async def _tools(self, agent: Agent[Any, Any]) -> list[Tool]:
        """Return the agent's own tools, and those of its servers, each of which is asked once."""

        async def ask(look: Callable[[], Awaitable[Any]]) -> Any:
            return await look()

        async with self._one_at_a_time:
            found = await self._book.tools(agent.mcp_servers, agent.tool_map, ask)
        return list(found.values())


class _ReplayParts:
    """Turns agents, tools and router of a network into those of a replay."""

    def __init__(
        self,
        script: Script,
        tools: Callable[[Agent[Any, Any]], Awaitable[list[Tool]]],
        *,
        strip: bool,
        live: bool,
    ) -> None:
        self._script = script
        self._tools = tools
        self._strip = strip
        self._live = live
        self._adapted: dict[int, tuple[Agent[Any, Any], Agent[Any, Any]]] = {}

    async def agent(self, agent: Agent[Any, Any]) -> Agent[Any, Any]:
        """Return the agent with recorded tools, cached by agent."""
        known = self._adapted.get(id(agent))
        if known is None:
            # The original is kept too: its id must not be given to another object.
            known = self._adapted[id(agent)] = (agent, await self._changed(agent))
        return known[1]

    async def _changed(self, agent: Agent[Any, Any]) -> Agent[Any, Any]:
        # Tools of servers become its own, so that a listing of its tools includes them.
        tools = await self._tools(agent)
        given = tools if self._live else [self._recorded(tool) for tool in tools]
        changes: dict[str, Any] = {"tools": given, "mcp_servers": ()}
        if self._strip:
            changes |= {"processors": (), "history": None}
        return replace(agent, **changes)

    def _recorded(self, tool: Tool) -> Tool:
        async def invoke(_arguments: object, context: ToolContext, /) -> JsonValue:
            return self._script.answer(context.call)

        return replace(tool, invoke=invoke, is_async=True, steps=False)

    def router(self, network: Network[Any, Any]) -> Callable[[RouterContext], Awaitable[Routed]]:
        """Return its router; where a model would choose, the agent that has the next tools.

        A turn ends where its recording ends, whichever agent the router chooses next.
        """

        async def route(context: RouterContext) -> Routed:
            if self._script.upcoming is None:
                return None
            chosen: Any = network.router
            if chosen is not None and not isinstance(chosen, Agent):
                chosen = await resolve(chosen(context))
                if not isinstance(chosen, RoutingAgent):
                    return await self._adapted_choice(chosen)
            return self._by_tools(context)

        return route

    async def _adapted_choice(self, chosen: Any) -> Routed:
        """Return the router's choice, with new agents adapted like the others."""
        if isinstance(chosen, Agent):
            return await self.agent(cast("Agent[Any, Any]", chosen))
        if isinstance(chosen, Sequence) and not isinstance(chosen, str):
            listed = cast("Sequence[Any]", chosen)
            return [await self._adapted_choice(item) for item in listed]  # type: ignore[misc] - each item is awaited
        return chosen

    def _by_tools(self, context: RouterContext) -> str:
        reply = self._script.upcoming
        wanted = {call.name for call in reply.calls} if reply is not None else set[str]()
        agents = [a for a in context.network.agents.values() if not isinstance(a, RoutingAgent)]
        fitting = [agent for agent in agents if wanted and wanted <= agent.tool_map.keys()]
        last = context.last_result
        if last is not None and not fitting:
            return last.agent_name  # the caller of the tools also reports their outcome
        return (fitting or agents)[0].name


Levels: TypeAlias = Sequence[tuple[Level, Sequence[Processor]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """An agent of recorded replies, with its history processors."""

    name: str
    tools: frozenset[str]
    levels: Levels
    has: Callable[[str], bool]
    """Returns whether a tool may be its own: servers say so only when they are asked."""


class Speakers:
    """Says which agent each reply of a conversation is of.

    A reply with calls belongs to the agent with the first of these tools. A text belongs to the
    agent that replied last, in the beginning to the first agent.

    Attributes:
        unknown: Tools that were called, and that no agent has.
    """

    def __init__(self, speakers: Sequence[Speaker], desk: str | None = None) -> None:
        """Take the agents.

        Args:
            speakers: The agents; the first begins.
            desk: The agent of all texts; None: the agent that replied last.
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
        """Return a single agent with all tools, or the four that share them."""
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
    async def of_network(cls, given: Target, processors: Sequence[Processor] = ()) -> Speakers:
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
                    tools=frozenset((*spec.tools.own, *hosted)),
                    levels=[*levels, ("run", processors)],
                    has=spec.tools.may_have,
                )
            )
        return cls(found)

    def begun(self) -> Speakers:
        """Return the same agents for another conversation; unknown ones are kept."""
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
