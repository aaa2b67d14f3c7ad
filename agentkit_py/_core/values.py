"""Copies of frozen dataclasses, for paths that every message takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

_Setter: TypeAlias = Callable[[Any, Any], None]
_Plan: TypeAlias = tuple[
    Callable[[Any], tuple[Any, ...]], tuple[_Setter, ...], tuple[tuple[_Setter, Any], ...]
]


def changed(value: T, **changes: Any) -> T:
    """`dataclasses.replace` without running ``__init__`` again, in a fifth of its time.

    For slotted classes, and changes that need no check, since nothing is checked. Fields that
    ``__init__`` does not take are as in a new object if they have a default.
    """
    kind = type(value)
    read, slots, fresh = _plan(kind)
    made: Any = object.__new__(kind)
    for slot, old in zip(slots, read(value)):  # noqa: B905 - as many; to say so costs a third
        slot(made, old)
    for slot, default in fresh:
        slot(made, default)
    for name, new in changes.items():
        object.__setattr__(made, name, new)
    return made


@lru_cache(maxsize=256)
def _plan(kind: type[Any]) -> _Plan:
    """What is copied of objects of this class, and what is as in a new one."""
    found = fields(kind)
    names = [field.name for field in found if field.init]
    assert len(names) > 1, "attrgetter gives no tuple for one name"
    fresh = tuple(
        (getattr(kind, field.name).__set__, field.default)
        for field in found
        if not field.init and field.default is not MISSING
    )
    return attrgetter(*names), tuple(getattr(kind, name).__set__ for name in names), fresh
