"""Searchable documents as an agent takes them; `agentkit_py.knowledge` has them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, Self, TypeAlias

from agentkit_py._core.json import JsonObject, JsonValue
from agentkit_py.state import State
from agentkit_py.tools.definition import Tool


class FilterLike(Protocol):
    """A filter of `agentkit_py.knowledge`."""

    def to_dict(self) -> JsonObject:
        """The filter as JSON."""
        ...


Values: TypeAlias = Mapping[str, Any]
"""A filter as a dict: each key has this value, or any of a list of values."""

_Filter: TypeAlias = FilterLike | Values
_Given: TypeAlias = _Filter | Sequence[_Filter]

FilterRule: TypeAlias = (
    _Filter
    | Callable[
        [State[Any]],
        "_Given | Awaitable[_Given]",
    ]
)
"""A filter, or a function of the run's state that returns filters, sync or async."""

KnowledgeFilters: TypeAlias = FilterRule | Sequence[FilterRule]
"""One or several, of which a document must pass all; a filter may be a dict of values by key,
``{"cuisine": "thai"}``."""


def described(filters: KnowledgeFilters | None) -> JsonValue:
    """Return filters as JSON, by which a resumed run is compared; functions by their names."""
    given: Any = filters
    items: list[Any] = [*given] if isinstance(given, list | tuple) else [given]
    return [_described(one) for one in items]


def _described(one: Any) -> JsonValue:
    if hasattr(one, "to_dict"):
        return one.to_dict()
    if callable(one):
        return f"function {getattr(one, '__name__', type(one).__name__)}"
    return one


FilterPrecedence: TypeAlias = Literal["both", "user"]
"""``"both"``: a document must pass the developer's filters and the model's. ``"user"``: where the
developer has filters, the model's are ignored."""


class KnowledgeSearch(Protocol):
    """The search of an agent."""

    @property
    def tool(self) -> Tool:
        """The tool that the model calls."""
        ...

    @property
    def agentic(self) -> bool:
        """True if its instructions are read from the store, in a step and once in a run."""
        ...

    def confined_to(self, filters: KnowledgeFilters, /) -> Self:
        """Return the same search with more filters, all of which a document must pass.

        Raises:
            ConfigurationError: A filter is none.
        """
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
