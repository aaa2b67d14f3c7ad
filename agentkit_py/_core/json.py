"""JSON types and the one way this library writes JSON."""

from __future__ import annotations

import json
import json.encoder
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

JsonValue: TypeAlias = (
    "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
)
"""What JSON can hold. Read-only on purpose: nobody changes a message's content in place."""

JsonObject: TypeAlias = Mapping[str, JsonValue]
"""A JSON object."""

_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _prepared() -> Callable[[Any, int], Sequence[str]] | None:
    """What `json.JSONEncoder.encode` makes anew for each text, made once: half of its time.

    None where Python has no encoder in C. Without markers for circles: who writes one gets the
    encoder's own error from `dumps`.
    """
    module: Any = json.encoder
    make, quote = getattr(module, "c_make_encoder", None), module.encode_basestring
    if make is None:
        return None
    return make(None, _compact.default, quote, None, ":", ",", False, False, False)  # noqa: FBT003 - positional in C


_write = _prepared()

quoted: Callable[[str], str] = json.encoder.encode_basestring
"""A text as a JSON string, as `dumps` writes it."""


def dumps(value: Any) -> str:
    """Compact JSON with non-ASCII text as it is, the form JavaScript's ``JSON.stringify`` gives.

    Raises:
        ValueError: ``value`` holds NaN or an infinity.
        TypeError: ``value`` holds something that JSON has no form for.
    """
    if _write is None:
        return _compact.encode(value)
    try:
        return "".join(_write(value, 0))
    except RecursionError:
        return _compact.encode(value)  # says whether it holds itself, or is just too deep


def as_object(value: object) -> dict[str, Any] | None:
    """``value`` as a dict if it is a JSON object, else None."""
    # No cast, which is a call: this is asked for every object of every answer.
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType] - anything may come


def as_list(value: object) -> list[Any] | None:
    """``value`` as a list if it is a JSON array, else None."""
    return value if isinstance(value, list) else None  # pyright: ignore[reportUnknownVariableType] - anything may come


def find_non_json(value: object, path: str = "") -> str | None:
    """Path of the first thing in ``value`` that JSON would lose or change, else None.

    Tuples, non-string keys, sets, NaN and foreign objects are found. ``path`` is the prefix of
    the returned one, e.g. ``data.user``.
    """
    return None if _is_json(value) else _find(value, path)


def _find(value: object, path: str) -> str | None:
    if value is None or isinstance(value, bool | int | str):
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else path
    if isinstance(value, list):
        items = cast("list[object]", value)
        found = (_find(item, f"{path}[{i}]") for i, item in enumerate(items))
        return next((p for p in found if p is not None), None)
    if isinstance(value, dict):
        return _find_in_dict(cast("dict[object, object]", value), path)
    return path


_PLAIN = frozenset({str, int, bool, type(None)})
_SCALAR = _PLAIN | {float}


def _is_json(value: Any) -> bool:
    """Whether ``value`` holds nothing but JSON; it says no to subclasses of its types."""
    kind: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType] - anything may come
    if kind in _PLAIN:
        return True
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str or not (type(item) in _PLAIN or _is_json(item)):
                return False
        return True
    if kind is list:
        return all(map(_is_json, value))
    return kind is float and math.isfinite(value)


def is_flat(value: Mapping[str, Any]) -> bool:
    """Whether an object holds nothing that can be changed: a shallow copy of it is a whole one."""
    return all(type(item) in _SCALAR for item in value.values())


def copied(value: Any) -> Any:
    """JSON with objects and arrays of its own; what is none of JSON's types is the same."""
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return {key: one if type(one) in _SCALAR else copied(one) for key, one in items}
    if isinstance(value, list):
        return [copied(one) for one in cast("list[Any]", value)]
    return value


def _find_in_dict(value: dict[object, object], path: str) -> str | None:
    for key, item in value.items():
        where = f"{path}.{key}" if path else str(key)
        if not isinstance(key, str):
            return where
        found = _find(item, where)
        if found is not None:
            return found
    return None
