"""AgentTools: the tools of an agent in a run, and the rights to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentkit_py._core.awaiting import resolve
from agentkit_py._engine.knowledge import KnowledgeFilters, KnowledgeSearch
from agentkit_py._engine.tool_sources import AllowedTools, ToolSource, allowed_names, may_have
from agentkit_py.lifecycle.hooks import AgentContext
from agentkit_py.models.base import HostedTool, ToolChoice, ToolSpec
from agentkit_py.tools.definition import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTools:
    """The tools of an agent in a run, and its model's rights to them."""

    own: Mapping[str, Tool]
    """Its own tools by name. The tools of its servers are listed when it runs."""

    servers: Sequence[ToolSource]
    allowed: AllowedTools | None
    """The names of the tools that may be called, or a function that gives them; None: all."""

    choice: ToolChoice
    hosted: tuple[HostedTool, ...]
    """Tools that the provider runs."""

    knowledge: KnowledgeSearch | None
    in_parallel: bool
    """Calls of a reply run at the same time."""

    repair_arguments: bool = True
    """Arguments that are nearly right are repaired."""

    def __bool__(self) -> bool:
        """Return whether there are any tools, or may be."""
        return bool(self.own or self.servers or self.hosted)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """Definitions of the own tools, for models and routers."""
        return tuple([tool.spec for tool in self.own.values()])

    def may_have(self, name: str) -> bool:
        """Return whether there is an own tool of this name, or a server may have it."""
        return name in self.own or may_have(self.servers, name)

    def confined_to(self, filters: KnowledgeFilters) -> AgentTools:
        """Return the tools with more filters on the knowledge; without knowledge, as they are.

        Raises:
            ConfigurationError: A filter is none.
        """
        search = self.knowledge
        if search is None:
            return self
        confined = search.confined_to(filters)
        own = {n: confined.tool if t is search.tool else t for n, t in self.own.items()}
        return replace(self, knowledge=confined, own=own)

    async def permitted(
        self, tools: Mapping[str, Tool], context: AgentContext
    ) -> Mapping[str, Tool]:
        """Return those of ``tools`` that are offered to the model now, and may be called.

        Unknown names are ignored: a state may have names of other agents' tools.

        Raises:
            ConfigurationError: The function gave something other than a list of names.
        """
        rights: Any = self.allowed
        if callable(rights):
            rights = await resolve(rights(context))
        if rights is None:
            return tools
        names = allowed_names(context.agent.name, rights)
        return {name: tool for name, tool in tools.items() if name in names}
