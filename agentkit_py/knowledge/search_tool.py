"""The search that an agent has: a tool, a fixed filter, and its part of the system prompt.

It fails closed: the developer's filter is put before whatever the model says, a filter that is not
understood ends the search, and nothing is ever searched with less than was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, cast

from pydantic import BaseModel, Field, SkipValidation, model_validator

from agentkit_py._core.awaiting import resolve
from agentkit_py._core.json import JsonObject, JsonValue, as_list, as_object, dumps
from agentkit_py.errors import ConfigurationError, FilterError
from agentkit_py.knowledge.documents import Hit
from agentkit_py.knowledge.filters import (
    AND,
    COMPARISONS,
    EQ,
    IN,
    MAX_DEPTH,
    NOT,
    OPERATORS,
    OR,
    SOURCE,
    Comparison,
    FilterExpr,
    Scalar,
    as_filter,
    kind_of,
)
from agentkit_py.state import State
from agentkit_py.tools import Tool, ToolContext, create_tool

Precedence: TypeAlias = Literal["both", "user"]
_SearchRule: TypeAlias = FilterExpr | Callable[[State[Any]], Any]

NAME = "search_knowledge_base"
_DESCRIPTION = "Use this function to search the knowledge base for information about a query."
_GUIDE = (
    f"You have a knowledge base you can search using the {NAME} tool. Search before answering "
    "questions; don't assume you know the answer. For ambiguous questions, search first rather "
    "than asking for clarification."
)
_USE = (
    "Use the filters parameter when the question asks for documents of a single kind only, e.g. "
    '[{"key": "KEY", "op": "EQ", "value": "VALUE"}]. Leave it out if in doubt.'
)
_VALUES = 5
_KNOWN_VALUES = 50
"""Values of a key that are read to recognise its kind."""

_KINDS = {"text": "a text", "number": "a number", "bool": "true or false"}
_MAX_SHOWN = 40
_OPERANDS = {"key", "value", "values"}
_GROUPED = {"filters", "conditions", "condition"}


class Searchable(Protocol):
    """Documents that are searched: `Knowledge`."""

    async def search(self, query: str, *, filters: FilterExpr | None = None) -> list[Hit]:
        """Return the best chunks."""
        ...

    async def keys(
        self, filters: FilterExpr | None = None, values: int = 5
    ) -> dict[str, list[Scalar]]:
        """Return the metadata keys with some values."""
        ...


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

    @model_validator(mode="before")
    @classmethod
    def _keys_with_values(cls, given: Any) -> Any:
        """Take ``{"cuisine": "thai"}``, which many models write, as a group with that filter."""
        fields = as_object(given)
        if not fields or fields.keys() & {"op", *_OPERANDS, *_GROUPED}:
            return given
        return {"op": "AND", "filters": [fields]}


class _FilteredQuery(_Query):
    filters: list[_ModelFilter] | None = Field(
        None, description="What the documents must be like; all of these must hold."
    )


# The same to the model; its filters are not read, where the developer's count alone.
class _UnreadFilters(_Query):
    filters: SkipValidation[list[_ModelFilter] | None] = Field(
        None, description="What the documents must be like; all of these must hold."
    )


class SearchTool:
    """One agent's search."""

    def __init__(
        self, knowledge: Searchable, *, filters: Any, agentic: bool, precedence: Precedence
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
        ignored = precedence == "user" and bool(self._rules)
        filtered = _UnreadFilters if ignored else _FilteredQuery
        self.tool: Tool = create_tool(
            name=NAME,
            description=_DESCRIPTION,
            parameters=filtered if agentic else _Query,
            handler=self._handle,
            strict=False if agentic else None,
        )

    def confined_to(self, filters: Any) -> SearchTool:
        """Return this search with more filters: a document must pass its own and these.

        Raises:
            ConfigurationError: A filter is none.
        """
        return SearchTool(
            self._knowledge,
            filters=[*self._rules, *_rules(filters)] or None,
            agentic=self.agentic,
            precedence=self._precedence,
        )

    async def instructions(self, state: State[Any]) -> JsonValue:
        """Return the system prompt's part on the search: only of documents that may be found."""
        parts = [_GUIDE]
        if self.agentic:
            keys = await self._knowledge.keys(await self._own(state), _VALUES)
            if keys:
                parts.append(_listed(keys))
        return f"<knowledge_base>\n{chr(10).join(parts)}\n</knowledge_base>"

    async def _handle(self, given: _Query, ctx: ToolContext) -> JsonValue:
        own = await self._own(ctx.state)
        asked: FilterExpr | None = None
        if isinstance(given, _FilteredQuery) and given.filters:
            filters = [one.model_dump(exclude_none=True) for one in given.filters]
            asked = model_filter(filters, await self._knowledge.keys(own, 0))
        # Two separate lists of conditions: the model's words cannot change ours.
        joined = _Confined(own, asked) if own and asked else own or asked
        hits = await self._knowledge.search(given.query, filters=joined)
        if hits:
            return [hit.to_dict() for hit in hits]
        if asked is not None:
            known = await self._knowledge.keys(own, _KNOWN_VALUES)
            _check_kinds(asked, {SOURCE: [f"{SOURCE}.md"], **known})
        return "Nothing was found. Try other words."

    async def _own(self, state: State[Any]) -> FilterExpr | None:
        """Return the developer's filter for this state.

        Raises:
            ConfigurationError: A function gave no filter: nothing is searched then.
        """
        found: list[FilterExpr] = []
        for rule in self._rules:
            if isinstance(rule, FilterExpr):
                found.append(rule)
                continue
            made = await resolve(rule(state))
            try:
                found.extend(_made(made))
            except FilterError as error:
                raise ConfigurationError(
                    f"A function in knowledge_filters gave {made!r:.80}, so nothing was searched; "
                    "let it give EQ(key, value) and the like, {key: value}, or a list of them"
                ) from error
        try:
            return AND(*found) if len(found) > 1 else found[0] if found else None
        except FilterError as error:
            raise ConfigurationError(f"knowledge_filters: {error}") from error


class _Confined(AND):
    """The developer's filter and the model's: may be a level deeper than either."""

    __slots__ = ()

    def __init__(self, own: FilterExpr, asked: FilterExpr) -> None:
        object.__setattr__(self, "conditions", (own, asked))


def model_filter(given: Sequence[Any], keys: Collection[str]) -> FilterExpr:
    """Return a single filter of all that a model gave.

    Args:
        given: ``{"key", "op", "value"}``, or ``{"op": "AND" | "OR" | "NOT", "filters": […]}``; the
            form of `FilterExpr.to_dict` and ``{"cuisine": "thai"}`` are accepted, too.
        keys: The keys that documents have.

    Raises:
        FilterError: A key or operator is not known, or something else cannot be understood. Nothing
            is left out to make it fit.
    """
    found = AND(*(_filter_of(one, 1) for one in given))
    unknown = sorted(found.keys - {*keys, SOURCE})
    if unknown:
        valid = ", ".join([*sorted(set(keys) - {SOURCE}), SOURCE])
        raise FilterError(
            f"No document has the metadata key {unknown[0]!r}; valid keys: {valid}. "
            "Nothing was searched."
        )
    return found


def _filter_of(given: Any, depth: int) -> FilterExpr:
    fields = as_object(given)
    if fields is None:
        raise FilterError(f'{given!r:.80} is not a filter; give {{"key", "op", "value"}}')
    if depth > MAX_DEPTH:
        raise FilterError(f"A filter may be {MAX_DEPTH} deep; this filter is deeper")
    if fields and not fields.keys() & {"op", *_OPERANDS, *_GROUPED}:
        return _of_values(fields)
    strange = sorted(fields.keys() - _OPERANDS - _GROUPED - {"op"})
    if strange:
        raise FilterError(f"A filter has no field {strange[0]!r}; it has key, op and value")
    op = fields.get("op", "EQ")
    name = op.upper() if isinstance(op, str) else op
    if name in ("AND", "OR", "NOT"):
        return _group(name, fields, depth)
    if name not in COMPARISONS and name != "IN":
        valid = ", ".join(OPERATORS)
        raise FilterError(f"Unknown operator {op!r:.40}; valid operators: {valid}")
    value = fields.get("values", fields.get("value"))
    if "key" not in fields or value is None or fields.keys() & _GROUPED:
        raise FilterError(f"{name} needs a key and a value, and nothing else: {fields!r:.120}")
    return (IN if name == "IN" else COMPARISONS[name])(fields["key"], value)


def _of_values(fields: JsonObject) -> FilterExpr:
    """Return the filter that models mean by ``{"cuisine": "thai"}``: each key has its value."""
    found = [
        (IN if isinstance(value, list) else EQ)(key, cast("Any", value))
        for key, value in fields.items()
    ]
    return found[0] if len(found) == 1 else AND(*found)


def _group(name: str, fields: JsonObject, depth: int) -> FilterExpr:
    inner = next((fields[one] for one in sorted(fields.keys() & _GROUPED)), None)
    items = [inner] if as_object(inner) is not None else as_list(inner)
    if not items or fields.keys() & _OPERANDS:
        raise FilterError(f"{name} needs a list of filters, and nothing else: {fields!r:.120}")
    found = [_filter_of(one, depth + 1) for one in items]
    if name == "OR":
        return OR(*found)
    joined = found[0] if len(found) == 1 else AND(*found)
    return NOT(joined) if name == "NOT" else joined


def _rules(filters: Any) -> list[_SearchRule]:
    if filters is None:
        return []
    items: list[Any] = [filters]
    if isinstance(filters, Sequence) and not isinstance(filters, str | bytes):
        items = list(cast("Sequence[Any]", filters))
    if not items:
        raise ConfigurationError("knowledge_filters is empty; leave it out to search everything")
    try:
        return [one if callable(one) else as_filter(one) for one in items]
    except FilterError as error:
        raise ConfigurationError(
            f"knowledge_filters: {error}, or a function of the state"
        ) from error


def _made(given: object) -> list[FilterExpr]:
    """Return the filters that a function gave: a filter, or a list.

    Raises:
        FilterError: There is none.
    """
    several = cast("Sequence[object]", given) if isinstance(given, list | tuple) else [given]
    if not several:
        raise FilterError(f"{given!r} is not a filter")
    return [as_filter(one) for one in several]


def _check_kinds(filters: FilterExpr, known: Mapping[str, Sequence[Scalar]]) -> None:
    """Say why nothing was found where a value is of a kind that its key does not have.

    Raises:
        FilterError: A value is of another kind.
    """
    for child in filters.children:
        _check_kinds(child, known)
    if isinstance(filters, IN):
        values = filters.values
    elif isinstance(filters, Comparison):
        values = (filters.value,)
    else:
        return
    (key,) = filters.keys
    examples = known.get(key, ())
    kinds = {kind_of(one) for one in examples}
    for value in values:
        if kinds and kind_of(value) not in kinds:
            raise FilterError(
                f"Nothing was found: {dumps(value)} is {_KINDS[kind_of(value)]}, but {key!r} is "
                f"{' or '.join(_KINDS[kind] for kind in sorted(kinds))} in the documents, e.g. "
                f"{_short(examples[0])}."
            )


def _listed(keys: Mapping[str, Sequence[Scalar]]) -> str:
    lines = [
        "Its documents have these metadata keys, with some of their values:",
        *(
            f"- {key}: {', '.join(_short(value) for value in values)}"
            for key, values in keys.items()
        ),
        *(() if SOURCE in keys else (f"- {SOURCE}: the document's, as results name it",)),
        _USE,
    ]
    return "\n".join(lines)


def _short(value: Scalar) -> str:
    if isinstance(value, str) and len(value) > _MAX_SHOWN:
        return dumps(value[:_MAX_SHOWN] + "…")
    return dumps(value)
