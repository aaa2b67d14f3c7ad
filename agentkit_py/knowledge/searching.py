"""The search that an agent has: a tool, a fixed filter, and what the model is told of them.

Closed, not open: the developer's filter is put before whatever the model says, a filter that is not
understood ends the search, and nothing is ever searched with less than was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from pydantic import BaseModel, Field

from agentkit_py._core.awaiting import resolve
from agentkit_py._core.json import JsonValue, dumps
from agentkit_py.errors import ConfigurationError, FilterError
from agentkit_py.knowledge.filters import AND, FilterExpr
from agentkit_py.knowledge.metadata import Scalar
from agentkit_py.knowledge.model_filters import model_filter
from agentkit_py.state import State
from agentkit_py.tools import Tool, ToolContext, create_tool

if TYPE_CHECKING:
    from agentkit_py.knowledge.library import Knowledge

Precedence: TypeAlias = Literal["both", "user"]
Rule: TypeAlias = FilterExpr | Callable[[State[Any]], Any]

NAME = "search_knowledge_base"
_DESCRIPTION = "Use this function to search the knowledge base for information about a query."
_GUIDE = (
    f"You have a knowledge base you can search using the {NAME} tool. Search before answering "
    "questions; don't assume you know the answer. For ambiguous questions, search first rather "
    "than asking for clarification."
)
_USE = (
    "Use the filters parameter when the question asks for documents of one kind only, e.g. "
    '[{"key": "KEY", "op": "EQ", "value": "VALUE"}]. Leave it out if in doubt.'
)
_VALUES = 5
_SHOWN = 40


class _Query(BaseModel):
    query: str = Field(description="What to search for.")


class _ModelFilter(BaseModel):
    key: str | None = Field(None, description="The metadata key.")
    op: str = Field(
        "EQ",
        description="EQ, NEQ, GT, GTE, LT, LTE, IN, CONTAINS or STARTSWITH; or AND, OR, NOT of "
        "the filters in `filters`.",
    )
    value: str | float | bool | list[str | float | bool] | None = Field(
        None, description="What it is compared with; for IN, a list."
    )
    filters: list[dict[str, Any]] | None = Field(None, description="For AND, OR and NOT.")


class _FilteredQuery(_Query):
    filters: list[_ModelFilter] | None = Field(
        None, description="What the documents must be like; all of these must hold."
    )


class Search:
    """One agent's search."""

    def __init__(
        self, knowledge: Knowledge, *, filters: Any, agentic: bool, precedence: Precedence
    ) -> None:
        """Check the filters, and make the tool.

        Raises:
            ConfigurationError: A filter is none, or the precedence is not known.
        """
        if precedence not in ("both", "user"):
            raise ConfigurationError(f'filter_precedence={precedence!r} must be "both" or "user"')
        self.agentic = agentic
        self._knowledge = knowledge
        self._rules = _rules(filters)
        self._precedence: Precedence = precedence
        self.tool: Tool = create_tool(
            name=NAME,
            description=_DESCRIPTION,
            parameters=_FilteredQuery if agentic else _Query,
            handler=self._handle,
            strict=False if agentic else None,
        )

    async def instructions(self, state: State[Any]) -> JsonValue:
        """What the system prompt says of the search: only of documents that may be found."""
        parts = [_GUIDE]
        if self.agentic:
            keys = await self._knowledge.store.keys(await self._own(state), _VALUES)
            if keys:
                parts.append(_told(keys))
        return f"<knowledge_base>\n{chr(10).join(parts)}\n</knowledge_base>"

    async def _handle(self, given: _Query, ctx: ToolContext) -> JsonValue:
        own = await self._own(ctx.state)
        asked = await self._asked(given, own)
        hits = await self._knowledge.search(given.query, filters=self._joined(own, asked))
        if not hits:
            return "Nothing was found. Try other words."
        return [hit.to_dict() for hit in hits]

    def _joined(self, own: FilterExpr | None, asked: FilterExpr | None) -> FilterExpr | None:
        if own is None or asked is None:
            return own or asked
        # Two lists of conditions side by side: what the model says cannot reach into ours.
        return own if self._precedence == "user" else _Confined(own, asked)

    async def _asked(self, given: _Query, own: FilterExpr | None) -> FilterExpr | None:
        """The model's filter, every part of it checked.

        Raises:
            FilterError: A part cannot be used; nothing is searched then.
        """
        if not isinstance(given, _FilteredQuery) or not given.filters:
            return None
        keys = await self._knowledge.store.keys(own, 0)
        return model_filter([one.model_dump(exclude_none=True) for one in given.filters], keys)

    async def _own(self, state: State[Any]) -> FilterExpr | None:
        """The developer's filter for this state.

        Raises:
            ConfigurationError: A function gave no filter: nothing is searched then.
        """
        found: list[FilterExpr] = []
        for rule in self._rules:
            if isinstance(rule, FilterExpr):
                found.append(rule)
                continue
            made = await resolve(rule(state))
            items = cast("Sequence[Any]", made if isinstance(made, list | tuple) else [made])
            if not items or not all(isinstance(one, FilterExpr) for one in items):
                raise ConfigurationError(
                    f"A function in knowledge_filters gave {made!r:.80} and no filter; nothing "
                    "was searched"
                )
            found.extend(items)
        try:
            return AND(*found) if len(found) > 1 else found[0] if found else None
        except FilterError as error:
            raise ConfigurationError(f"knowledge_filters: {error}") from error


class _Confined(AND):
    """The developer's filter and the model's: may be one deeper than either."""

    __slots__ = ()

    def __init__(self, own: FilterExpr, asked: FilterExpr) -> None:
        object.__setattr__(self, "conditions", (own, asked))


def _rules(filters: Any) -> list[Rule]:
    if filters is None:
        return []
    if isinstance(filters, str | bytes | Mapping):
        items: list[Any] = [filters]
    else:
        several = isinstance(filters, Sequence)
        items = list(cast("Sequence[Any]", filters)) if several else [filters]
    for one in items:
        if not isinstance(one, FilterExpr) and not callable(one):
            raise ConfigurationError(
                f"knowledge_filters has {one!r:.80}; a filter is EQ(key, value) and the like "
                "(FilterExpr.from_dict makes one of JSON), or a function of the state"
            )
    if not items:
        raise ConfigurationError("knowledge_filters is empty; leave it out to search everything")
    return items


def _told(keys: Mapping[str, Sequence[Scalar]]) -> str:
    lines = [
        "Its documents have these metadata keys, with some of their values:",
        *(
            f"- {key}: {', '.join(_short(value) for value in values)}"
            for key, values in keys.items()
        ),
        _USE,
    ]
    return "\n".join(lines)


def _short(value: Scalar) -> str:
    if isinstance(value, str) and len(value) > _SHOWN:
        return dumps(value[:_SHOWN] + "…")
    return dumps(value)
