"""JSON types, and the one way this library writes and checks JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

JsonValue: TypeAlias = (
    "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
)
"""Any JSON value. Read-only on purpose: nobody changes a message's content in place."""

JsonObject: TypeAlias = Mapping[str, JsonValue]
"""A JSON object."""

_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def dumps(value: Any) -> str:
    """Return compact JSON with non-ASCII text as it is, like JavaScript's ``JSON.stringify``.

    Raises:
        ValueError: ``value`` holds NaN, an infinity or itself.
        TypeError: ``value`` holds something that JSON has no form for.
    """
    return _compact.encode(value)


def as_object(value: object) -> dict[str, Any] | None:
    """Return ``value`` if it is a JSON object, else None."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def as_list(value: object) -> list[Any] | None:
    """Return ``value`` if it is a JSON array, else None."""
    return cast("list[Any]", value) if isinstance(value, list) else None


def find_non_json(value: object, path: str = "") -> str | None:
    """Return the path of the first thing in ``value`` that JSON would lose or change, else None.

    Tuples, non-string keys, sets, NaN and foreign objects are found. ``path`` is the prefix of
    the returned one, e.g. ``data.user``.
    """
    if value is None or isinstance(value, bool | int | str):
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else path
    if isinstance(value, list):
        items = cast("list[object]", value)
        found = (find_non_json(item, f"{path}[{i}]") for i, item in enumerate(items))
        return next((place for place in found if place is not None), None)
    if isinstance(value, dict):
        return _find_in_object(cast("dict[object, object]", value), path)
    return path


def _find_in_object(value: dict[object, object], path: str) -> str | None:
    for key, item in value.items():
        place = f"{path}.{key}" if path else str(key)
        if not isinstance(key, str):
            return place
        found = find_non_json(item, place)
        if found is not None:
            return found
    return None


def copied(value: Any) -> Any:
    """Return JSON with objects and arrays of its own; anything else in it stays the same."""
    if isinstance(value, dict):
        return {key: copied(one) for key, one in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list):
        return [copied(one) for one in cast("list[Any]", value)]
    return value
