"""Comparing two JSON documents, leaf by leaf."""

from __future__ import annotations

import math
from typing import TypeAlias

from .vectors import Json

Path: TypeAlias = tuple[str | int, ...]

MISSING = "(nothing)"


def differences(expected: Json, observed: Json, path: Path = ()) -> list[tuple[Path, Json, Json]]:
    """Return path, expected and observed value of each difference."""
    if expected is observed:
        return []
    if isinstance(expected, dict) and isinstance(observed, dict):
        found: list[tuple[Path, Json, Json]] = []
        for key in [*expected, *(key for key in observed if key not in expected)]:
            left = expected.get(key, MISSING)
            right = observed.get(key, MISSING)
            found += differences(left, right, (*path, key))
        return found
    if isinstance(expected, list) and isinstance(observed, list):
        found = []
        for index in range(max(len(expected), len(observed))):
            left = expected[index] if index < len(expected) else MISSING
            right = observed[index] if index < len(observed) else MISSING
            found += differences(left, right, (*path, index))
        return found
    return [] if same(expected, observed) else [(path, expected, observed)]


def same(expected: Json, observed: Json) -> bool:
    """Return whether two leaves are equal in JavaScript: one kind of number, but no truthiness."""
    if isinstance(expected, bool) or isinstance(observed, bool):
        return expected is observed
    if isinstance(expected, int | float) and isinstance(observed, int | float):
        return expected == observed or (math.isnan(expected) and math.isnan(observed))
    return type(expected) is type(observed) and expected == observed


def shown(found: list[tuple[Path, Json, Json]], limit: int = 12) -> str:
    """The differences as text."""
    lines = [f"/{'/'.join(map(str, p))}: expected {e!r:.300}, got {o!r:.300}" for p, e, o in found]
    more = [f"… and {len(lines) - limit} more"] if len(lines) > limit else []
    return "\n".join([*lines[:limit], *more])
