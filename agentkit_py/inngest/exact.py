"""Numbers that survive the Inngest server, which reads every number of JSON as a double.

An integer beyond 2^53 comes back as another one, and ``1.0`` as ``1``. What our own steps keep is
written in a form that survives; what others read or have written is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from agentkit_py.errors import ConfigurationError

MAX_EXACT = 2**53
"""The largest integer up to which a double holds each one."""

_NUMBER, _OBJECT = "$number", "$object"
_MAY_CHANGE = re.compile(r"\d{16}|\.0(?!\d)|\d[eE]")


def may_change(text: str) -> bool:
    """Return whether JSON text may hold a number that the server would change; quick."""
    return _MAY_CHANGE.search(text) is not None


def to_exact(value: Any, *, floats: bool = True) -> Any:
    """Return JSON in which numbers that the server would change are texts that say so.

    Args:
        value: JSON.
        floats: Also floats that would come back as integers, such as ``1.0``.
    """
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        made = {key: to_exact(one, floats=floats) for key, one in fields.items()}
        return {_OBJECT: made} if _NUMBER in fields or _OBJECT in fields else made
    if isinstance(value, list):
        return [to_exact(one, floats=floats) for one in cast("list[Any]", value)]
    if isinstance(value, float):
        return {_NUMBER: repr(value)} if floats and value.is_integer() else value
    large = isinstance(value, int) and abs(value) > MAX_EXACT
    return {_NUMBER: repr(value)} if large else value


def from_exact(value: Any) -> Any:
    """Return what `to_exact` was given."""
    if isinstance(value, list):
        return [from_exact(one) for one in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    if fields.keys() == {_NUMBER}:
        text = fields[_NUMBER]
        return int(text) if text.lstrip("-").isdigit() else float(text)
    if fields.keys() == {_OBJECT}:
        fields = fields[_OBJECT]
    return {key: from_exact(one) for key, one in fields.items()}


def find_rounded(value: object, path: str) -> tuple[str, int | float] | None:
    """Return path and value of the first number that a double may have rounded, else None."""
    if isinstance(value, int | float):
        whole = not isinstance(value, bool) and (isinstance(value, int) or value.is_integer())
        return (path, value) if whole and abs(value) >= MAX_EXACT else None
    if isinstance(value, list):
        items = cast("list[object]", value)
        places = [(f"{path}[{index}]", one) for index, one in enumerate(items)]
    elif isinstance(value, Mapping):
        fields = cast("Mapping[str, object]", value)
        places = [(f"{path}.{key}", one) for key, one in fields.items()]
    else:
        return None
    found = (find_rounded(one, place) for place, one in places)
    return next((one for one in found if one is not None), None)


def refuse_rounded(value: object, where: str) -> None:
    """Refuse a number that the Inngest server rounds.

    Raises:
        ConfigurationError: There is one; the message names it. No model can do anything about it.
    """
    found = find_rounded(value, where)
    if found is not None:
        raise ConfigurationError(
            f"{found[0]} is the number {found[1]!r}. The Inngest server keeps numbers as doubles, "
            f"which are exact up to {MAX_EXACT:,} only: send it as a text."
        )
