"""Searchable documents as an agent takes them; `agentkit_py.knowledge` has them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from agentkit_py._core.json import JsonObject, JsonValue
from agentkit_py._engine.tool import Tool
from agentkit_py.state import State


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
        """The tool that the model calls."""
        ...

    @property
    def agentic(self) -> bool:
        """True if its instructions are read from the store, in a step and once in a run."""
        ...

    async def instructions(self, state: State[Any], /) -> JsonValue:
        """Return the system prompt's text about the knowledge base."""
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
