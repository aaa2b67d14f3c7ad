"""Searchable documents as an agent takes them; `agentkit_py.knowledge` has them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from agentkit_py._core.json import JsonObject, JsonValue
from agentkit_py._engine.tool import Tool
from agentkit_py.errors import ConfigurationError
from agentkit_py.processors.base import ProcessorServices
from agentkit_py.state import State

if TYPE_CHECKING:
    from agentkit_py._engine.scope import RunScope
    from agentkit_py.agent import Agent


class FilterLike(Protocol):
    """A filter of `agentkit_py.knowledge`."""

    def to_dict(self) -> JsonObject:
        """The filter as JSON."""
        ...


FilterRule: TypeAlias = (
    FilterLike
    | Callable[
        [State[Any]],
        "FilterLike | Sequence[FilterLike] | Awaitable[FilterLike | Sequence[FilterLike]]",
    ]
)
"""A filter, or a function of the run's state that gives one or several, sync or async."""

KnowledgeFilters: TypeAlias = FilterRule | Sequence[FilterRule]

FilterPrecedence: TypeAlias = Literal["both", "user"]
"""``"both"``: a document must pass the developer's filters and the model's. ``"user"``: where the
developer has filters, the model's are ignored."""


class KnowledgeSearch(Protocol):
    """The search that one agent has."""

    @property
    def tool(self) -> Tool:
        """What the model calls."""
        ...

    @property
    def agentic(self) -> bool:
        """Whether its instructions are read from the store: in a step, once in a run."""
        ...

    async def instructions(self, state: State[Any], /) -> JsonValue:
        """What the system prompt says of it: a text."""
        ...


class KnowledgeBase(Protocol):
    """Documents that can be searched, e.g. `agentkit_py.knowledge.Knowledge`."""

    def search_for(
        self,
        *,
        filters: KnowledgeFilters | None,
        agentic: bool,
        precedence: FilterPrecedence,
    ) -> KnowledgeSearch:
        """The search, confined to ``filters``.

        Raises:
            ConfigurationError: A filter is none.
        """
        ...


def search_of(agent: Agent) -> KnowledgeSearch | None:
    """The search of the agent's knowledge, if it has one.

    Raises:
        ConfigurationError: There are filters and nothing to filter, or one is no filter.
    """
    filters = agent.knowledge_filters
    if agent.knowledge is None:
        if filters is not None or agent.enable_agentic_knowledge_filters:
            raise ConfigurationError(
                f"Agent {agent.name!r} has knowledge filters, but no knowledge=… to search"
            )
        return None
    if not agent.search_knowledge:
        return None
    return agent.knowledge.search_for(
        filters=filters,
        agentic=agent.enable_agentic_knowledge_filters,
        precedence=agent.filter_precedence,
    )


async def with_instructions(
    system: str,
    agent: Agent,
    scope: RunScope,
    tools: Mapping[str, Tool],
    host: ProcessorServices | None,
) -> str:
    """The system prompt and what the agent's search says of itself, if it may be used now."""
    search = agent.knowledge_search
    if search is None or search.tool.name not in tools:
        return system
    key = f"knowledge:{id(search)}"
    said = scope.memory.get(key)
    if said is None:
        if host is None or not search.agentic:
            said = await search.instructions(scope.state)
        else:
            said = await host.once(
                host.step_id("knowledge"), lambda: search.instructions(scope.state)
            )
        scope.memory[key] = said
    return f"{system}\n\n{said}" if system else str(said)
