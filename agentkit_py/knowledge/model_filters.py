"""Filters as models write them, checked as a whole. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from agentkit_py._core.json import JsonObject, as_list, as_object
from agentkit_py.errors import FilterError
from agentkit_py.knowledge.filters import AND, COMPARISONS, MAX_DEPTH, OPERATORS, FilterExpr

_FIELDS = {"op", "key", "value", "values", "filters", "conditions", "condition"}


def model_filter(given: Sequence[Any], keys: Collection[str]) -> FilterExpr:
    """One filter of all that a model gave.

    Args:
        given: ``{"key", "op", "value"}``, or ``{"op": "AND" | "OR" | "NOT", "filters": […]}``; the
            form of `FilterExpr.to_dict` is taken, too.
        keys: The keys that documents have.

    Raises:
        FilterError: A key or operator is not known, or something else cannot be understood. Nothing
            is left out to make it fit.
    """
    found = AND(*(FilterExpr.from_dict(_plain(one, 1)) for one in given))
    unknown = sorted(found.keys - set(keys))
    if unknown:
        valid = ", ".join(sorted(keys)) or "none"
        raise FilterError(
            f"No document has the metadata key {unknown[0]!r}; valid keys: {valid}. "
            "Nothing was searched."
        )
    return found


def _plain(given: Any, depth: int) -> JsonObject:
    """The filter as `FilterExpr.from_dict` takes it."""
    fields = as_object(given)
    if fields is None:
        raise FilterError(f'{given!r:.80} is no filter; give {{"key", "op", "value"}}')
    if depth > MAX_DEPTH:
        raise FilterError(f"A filter may be {MAX_DEPTH} deep; this one is deeper")
    strange = sorted(fields.keys() - _FIELDS)
    if strange:
        raise FilterError(f"A filter has no field {strange[0]!r}; it has key, op and value")
    op = fields.get("op", "EQ")
    name = op.upper() if isinstance(op, str) else op
    if name in ("AND", "OR", "NOT"):
        return _group(name, fields, depth)
    if name not in COMPARISONS and name != "IN":
        valid = ", ".join(OPERATORS)
        raise FilterError(f"There is no operator {op!r:.40}; valid operators: {valid}")
    return _comparison(name, fields)


def _comparison(name: str, fields: Mapping[str, Any]) -> JsonObject:
    field = "values" if name == "IN" else "value"
    value = fields.get(field, fields.get("value"))
    rest = fields.keys() - {"op", "key", field, "value"}
    if "key" not in fields or value is None or rest:
        raise FilterError(f"{name} needs a key and a value, and nothing else: {fields!r:.120}")
    return {"op": name, "key": fields["key"], field: value}


def _group(name: str, fields: Mapping[str, Any], depth: int) -> JsonObject:
    rest = fields.keys() - {"op", "filters", "conditions", "condition"}
    inner = fields.get("filters", fields.get("conditions", fields.get("condition")))
    items = [inner] if as_object(inner) is not None else as_list(inner)
    if rest or not items:
        raise FilterError(f"{name} needs a list of filters, and nothing else: {fields!r:.120}")
    found = [_plain(one, depth + 1) for one in items]
    if name != "NOT":
        return {"op": name, "conditions": found}
    whole: JsonObject = found[0] if len(found) == 1 else {"op": "AND", "conditions": found}
    return {"op": "NOT", "condition": whole}
