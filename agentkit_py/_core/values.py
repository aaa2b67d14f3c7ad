"""Copies of frozen dataclasses, for paths that every message takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import lru_cache
from typing import Any, TypeVar

from agentkit_py._core.quick_init import can_thaw, function_of, thawed

T = TypeVar("T")

_set = object.__setattr__


def new_list() -> list[Any]:
    """For ``default_factory``: ``list[str]`` there takes five times as long as a list does."""
    return []


def new_dict() -> dict[Any, Any]:
    """The same for dicts."""
    return {}


def changed(value: T, **changes: Any) -> T:
    """`dataclasses.replace` without running ``__init__`` again, in less than half its time.

    For slotted classes, and changes that need no check, since nothing is checked. Fields that
    ``__init__`` does not take are as in a new object if they have a default.
    """
    kind = type(value)
    made = _copier(kind)(value)
    for name, new in changes.items():
        _set(made, name, new)
    _set(made, "__class__", kind)
    return made


@lru_cache(maxsize=256)
def _copier(kind: type[Any]) -> Callable[[Any], Any]:
    """What makes a copy that is thawed still, if it can be; see `agentkit_py._core.quick_init`."""
    thaws = can_thaw(kind)
    write = "  made.{0} = {1}" if thaws else "  _set(made, {0!r}, {1})"
    names: dict[str, Any] = {"_new": object.__new__, "_set": _set}
    names["_kind"] = thawed(kind) if thaws else kind
    lines = ["def copy(value):", "  made = _new(_kind)"]
    for field in fields(kind):
        if field.init:
            lines.append(write.format(field.name, f"value.{field.name}"))
        elif field.default is not MISSING:
            names[f"_default_{field.name}"] = field.default
            lines.append(write.format(field.name, f"_default_{field.name}"))
    return function_of("\n".join([*lines, "  return made"]), names)
