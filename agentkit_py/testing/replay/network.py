"""The network that recordings are run through: four agents, and a router made of code.

A recording has one assistant with all tools. Here the tools are dealt out to three agents, and what
was said without a tool belongs to a fourth that has none, so that agents with different tools, or
none, follow each other as they do in real networks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from zlib import crc32

from agentkit_py.agent import Agent
from agentkit_py.history.config import HistoryConfig
from agentkit_py.network import Network
from agentkit_py.processors.base import Processor
from agentkit_py.processors.tool_results import ToolCallFilter
from agentkit_py.processors.windowing import TokenLimiter
from agentkit_py.routing import RouterContext
from agentkit_py.testing.replay.recording import Conversation
from agentkit_py.testing.replay.script import Script
from agentkit_py.testing.replay.tool_arguments import arguments_model
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

TOKEN_LIMIT = 2000
NO_SYSTEM = "You are a helpful assistant."
"""Where the recording has no system message."""


class RecordedNetwork:
    """Makes the network of a conversation: its tools, dealt out to agents by their names."""

    def __init__(self, *, filters: bool = False, processors: Sequence[Processor] = ()) -> None:
        """Choose what the agents may see.

        Args:
            filters: Whether each agent sees calls of its own tools only (`ToolCallFilter`).
            processors: Processors of the network.
        """
        self._filters = filters
        self._processors = tuple(processors)

    @classmethod
    def with_default_processors(cls) -> RecordedNetwork:
        """A filter per agent, and a limit of 2,000 tokens for all."""
        return cls(filters=True, processors=[TokenLimiter(TOKEN_LIMIT)])

    async def network(
        self, conversation: Conversation, script: Script, history: HistoryConfig
    ) -> Network:
        """The network for one conversation."""
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

    def _agent(self, conversation: Conversation, name: str, tools: list[Tool]) -> Agent:
        own = [tool.name for tool in tools]
        return Agent(
            name=name,
            system=conversation.system or NO_SYSTEM,
            tools=tools,
            processors=[ToolCallFilter(include=own)] if self._filters else (),
        )


def _tool(name: str, conversation: Conversation, script: Script) -> Tool:
    async def handler(_arguments: object, context: ToolContext) -> str | None:
        return script.answer(context.call)

    calls = [
        call.arguments
        for turn in conversation.turns
        for reply in turn.replies
        for call in reply.calls
        if call.name == name
    ]
    return create_tool(
        name=name,
        description="Answers as it did when it was recorded.",
        parameters=arguments_model(name, calls),
        handler=handler,
    )


def deal_out(conversation: Conversation) -> dict[str, str]:
    """Which agent has which tool of the conversation.

    Tools that one reply calls together go to one agent, the agent of the first of them.
    """
    owners: dict[str, str] = {}
    for group in _called_together(conversation):
        owners.update(dict.fromkeys(group, agent_of(group[0])))
    return owners


def _called_together(conversation: Conversation) -> list[list[str]]:
    groups: list[list[str]] = [[name] for name in conversation.tools]
    for turn in conversation.turns:
        for reply in turn.replies:
            names = {call.name for call in reply.calls}
            if len(names) > 1:
                groups = _joined(groups, names)
    return groups


def _joined(groups: Iterable[list[str]], names: set[str]) -> list[list[str]]:
    apart: list[list[str]] = []
    together: list[str] = []
    for group in groups:
        if names.isdisjoint(group):
            apart.append(group)
        else:
            together += group
    return [*apart, together]


def agent_of(tool: str) -> str:
    """The agent that a tool belongs to, by its name's first word.

    Unknown words are spread over the agents, always in the same way.
    """
    word = re.split(r"[_-]|(?<=[a-z0-9])(?=[A-Z])", tool.lstrip("_"), maxsplit=1)[0].lower()
    return _AGENT_OF_VERB.get(word) or AGENTS[crc32(tool.encode()) % len(AGENTS)]
