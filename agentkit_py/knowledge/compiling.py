"""Filters as SQL: every key and value is a parameter, never a part of the text. Pure functions."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from agentkit_py.errors import FilterError
from agentkit_py.knowledge.filters import (
    AND,
    CONTAINS,
    EQ,
    IN,
    NEQ,
    NOT,
    OR,
    STARTSWITH,
    Comparison,
    FilterExpr,
    Ordered,
)
from agentkit_py.knowledge.metadata import Scalar, fold, kind_of

Dialect: TypeAlias = Literal["sqlite", "postgres"]
Compiled: TypeAlias = tuple[str, list[Any]]

_POSITION = {"sqlite": "instr", "postgres": "strpos"}
_SIGNS = {"GT": ">", "GTE": ">=", "LT": "<", "LTE": "<="}
_HAS = "EXISTS (SELECT 1 FROM knowledge_facts f WHERE f.document = d.id AND f.key = ? AND "


def compiled(filters: FilterExpr | None, dialect: Dialect) -> Compiled:
    """A condition on ``knowledge_documents d``, and its parameters in order.

    Raises:
        FilterError: It is of a kind that is not known here; nothing is left out.
    """
    if filters is None:
        return "1 = 1", []
    match filters:
        case AND() | OR():
            found = [compiled(one, dialect) for one in filters.conditions]
            text = f" {filters.op} ".join(sql for sql, _ in found)
            return f"({text})", [value for _, values in found for value in values]
        case NOT():
            sql, values = compiled(filters.condition, dialect)
            return f"NOT {sql}", values
        case IN():
            return _any(filters)
        case Comparison():
            return _comparison(filters, dialect)
        case _:
            raise FilterError(f"{filters!r:.80} is no filter that can be searched with")


def _any(filters: IN) -> Compiled:
    if not filters.values:
        return "1 = 0", []
    tests = [_equal(value) for value in filters.values]
    text = " OR ".join(sql for sql, _ in tests)
    return f"{_HAS}({text}))", [filters.key, *(v for _, values in tests for v in values)]


def _comparison(one: Comparison, dialect: Dialect) -> Compiled:
    match one:
        case EQ():
            test, values = _equal(one.value)
        case NEQ():
            test, values = _equal(one.value)
            return f"NOT {_HAS}{test})", [one.key, *values]
        case Ordered():
            column, value = _column(one.value)
            test = f"f.in_list = 0 AND f.kind = ? AND f.{column} {_SIGNS[one.op]} ?"
            values = [kind_of(one.value), value]
        case CONTAINS():
            test, values = _contains(one.value, dialect)
        case STARTSWITH():
            test = "f.in_list = 0 AND f.kind = 'text' AND substr(f.text, 1, ?) = ?"
            values = [len(str(one.value)), one.value]
        case _:
            raise FilterError(f"{one!r:.80} is no filter that can be searched with")
    return f"{_HAS}{test})", [one.key, *values]


def _column(value: Scalar) -> tuple[str, Any]:
    return ("text", value) if isinstance(value, str) else ("number", float(value))


def _equal(value: Scalar, *, in_list: int = 0) -> Compiled:
    column, plain = _column(value)
    return f"(f.in_list = {in_list} AND f.kind = ? AND f.{column} = ?)", [kind_of(value), plain]


def _contains(value: Scalar, dialect: Dialect) -> Compiled:
    item, values = _equal(value, in_list=1)
    if not isinstance(value, str):
        return item, values
    inside = f"{_POSITION[dialect]}(f.folded, ?) > 0"
    return (
        f"({item} OR (f.in_list = 0 AND f.kind = 'text' AND {inside}))",
        [*values, fold(value)],
    )
