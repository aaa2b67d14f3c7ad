"""Somebody's own network under a recording: its agents, tools, processors and router.

The model's replies are the recorded ones. So are the tools' answers, unless live tools are asked
for: to replay a thousand conversations must not book a thousand flights. MCP servers are asked
which tools they have, and no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, cast

from agentkit_py._core.awaiting import resolve
from agentkit_py._engine.tool_source import SourceBook
from agentkit_py.agent import Agent, RoutingAgent
from agentkit_py.history.config import HistoryConfig
from agentkit_py.network import Network
from agentkit_py.routing import Routed, RouterContext
from agentkit_py.testing.replay.recording import Conversation
from agentkit_py.testing.replay.script import Script
from agentkit_py.tools import Tool, ToolContext


class OwnNetwork:
    """Makes a copy of a given network for each conversation; the given one stays as it is."""

    def __init__(
        self,
        given: Network | Agent,
        *,
        strip: bool = False,
        live_tools: bool = False,
    ) -> None:
        """Choose what is changed in the copy.

        Args:
            given: The network, or an agent alone.
            strip: Leave out all processors, those of agents and of its history too.
            live_tools: Call the tools really.
        """
        self._network: Network = (
            Network(name=given.name, agents=[given]) if isinstance(given, Agent) else given
        )
        self._strip = strip
        self._live = live_tools
        self._servers = _Servers()

    @property
    def has_processors(self) -> bool:
        """Whether anything changes what its agents see."""
        network = self._network
        configs = [network.history, *(agent.history for agent in network.agents)]
        chains = [network.chain, *(agent.chain for agent in network.agents)]
        return any([*chains, *(config.chain for config in configs if config is not None)])

    async def network(
        self,
        conversation: Conversation,  # noqa: ARG002 - what recorded networks are made of
        script: Script,
        history: HistoryConfig,
    ) -> Network:
        """The network for one conversation; its threads go to ``history``."""
        given = self._network
        adapt = _Adapter(script, self._servers, strip=self._strip, live=self._live)
        store = copy(history)
        if given.history is not None and not self._strip:
            store.processors, store.chain = given.history.processors, given.history.chain
        return replace(
            given,
            agents=[await adapt.agent(agent) for agent in given.agents],
            router=adapt.router(given),
            history=store,
            processors=() if self._strip else given.processors,
        )


class _Servers:
    """What tool servers have: each is asked once, for all conversations."""

    def __init__(self) -> None:
        self._book = SourceBook()
        self._one_at_a_time = asyncio.Lock()

    async def tools(self, agent: Agent) -> list[Tool]:
        """The agent's own tools, and those of its servers."""

        async def ask(look: Callable[[], Awaitable[Any]]) -> Any:
            return await look()

        async with self._one_at_a_time:
            found = await self._book.tools(agent.mcp_servers, agent.tool_map, ask)
        return list(found.values())


class _Adapter:
    """Turns agents, tools and router of one network into those of a replay."""

    def __init__(self, script: Script, servers: _Servers, *, strip: bool, live: bool) -> None:
        self._script = script
        self._servers = servers
        self._strip = strip
        self._live = live
        self._adapted: dict[int, tuple[Agent, Agent]] = {}

    async def agent(self, agent: Agent) -> Agent:
        """The agent with recorded tools, the same one for the same agent."""
        known = self._adapted.get(id(agent))
        if known is None:
            # The original is kept too: its id must not be given to another object.
            known = self._adapted[id(agent)] = (agent, await self._changed(agent))
        return known[1]

    async def _changed(self, agent: Agent) -> Agent:
        tools = await self._servers.tools(agent)
        # As tools of its own, so that who asks what it has also hears of those of servers.
        changes: dict[str, Any] = {"tools": tools, "mcp_servers": ()}
        if not self._live:
            changes["tools"] = [self._recorded(tool) for tool in tools]
        if self._strip:
            changes |= {"processors": (), "history": None}
        return replace(agent, **changes)

    def _recorded(self, tool: Tool) -> Tool:
        async def invoke(_arguments: object, context: ToolContext, /) -> str | None:
            return self._script.answer(context.call)

        return replace(tool, invoke=invoke, is_async=True, steps=False)

    def router(self, network: Network) -> Callable[[RouterContext], Awaitable[Routed]]:
        """The network's router; where a model would choose, the agent that has the next tools.

        A turn ends where the recording of it ends, whoever the router wants next.
        """

        async def route(context: RouterContext) -> Routed:
            if self._script.upcoming is None:
                return None
            chosen: Any = network.router
            if chosen is not None and not isinstance(chosen, Agent):
                chosen = await resolve(chosen(context))
                if not isinstance(chosen, RoutingAgent):
                    return await self._mine(chosen)
            return self._by_tools(context)

        return route

    async def _mine(self, chosen: Any) -> Routed:
        """What the router chose, with agents that it brought in adapted as the others are."""
        if isinstance(chosen, Agent):
            return await self.agent(chosen)
        if isinstance(chosen, Sequence) and not isinstance(chosen, str):
            return [await self._mine(item) for item in cast("Sequence[Any]", chosen)]  # type: ignore[misc] - each item is awaited
        return chosen

    def _by_tools(self, context: RouterContext) -> str:
        reply = self._script.upcoming
        wanted = {call.name for call in reply.calls} if reply is not None else set[str]()
        agents = [a for a in context.network.agents.values() if not isinstance(a, RoutingAgent)]
        fitting = [agent for agent in agents if wanted and wanted <= agent.tool_map.keys()]
        last = context.last_result
        if last is not None and not fitting:
            return last.agent_name  # who called the tools also says what came of it
        return (fitting or agents)[0].name
