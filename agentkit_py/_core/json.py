"""JSON types and the one way this library writes JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

JsonValue: TypeAlias = (
    "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
)
"""What JSON can hold. Read-only on purpose: nobody changes a message's content in place."""

JsonObject: TypeAlias = Mapping[str, JsonValue]
"""A JSON object."""

_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def dumps(value: Any) -> str:
    """Compact JSON with non-ASCII text as it is, the form JavaScript's ``JSON.stringify`` gives.

    Raises:
        ValueError: ``value`` holds NaN or an infinity.
        TypeError: ``value`` holds something that JSON has no form for.
    """
    return _compact.encode(value)


def as_object(value: object) -> dict[str, Any] | None:
    """``value`` as a dict if it is a JSON object, else None."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def as_list(value: object) -> list[Any] | None:
    """``value`` as a list if it is a JSON array, else None."""
    return cast("list[Any]", value) if isinstance(value, list) else None


def find_non_json(value: object, path: str = "") -> str | None:
    """Path of the first thing in ``value`` that JSON would lose or change, else None.

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
        return next((p for p in found if p is not None), None)
    if isinstance(value, dict):
        return _find_in_dict(cast("dict[object, object]", value), path)
    return path


def _find_in_dict(value: dict[object, object], path: str) -> str | None:
    for key, item in value.items():
        where = f"{path}.{key}" if path else str(key)
        if not isinstance(key, str):
            return where
        found = find_non_json(item, where)
        if found is not None:
            return found
    return None
