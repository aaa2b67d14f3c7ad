"""What a tool's arguments look like, told from the calls that were recorded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from agentkit_py._core.json import JsonObject

_KINDS: dict[type[object], Any] = {
    bool: bool,
    int: int,
    float: float,
    str: str,
    list: list[Any],
    dict: dict[str, Any],
}


def arguments_model(tool: str, calls: Sequence[JsonObject]) -> type[BaseModel]:
    """A model that all recorded calls of a tool fit, so that providers get a schema.

    What every call passes is required; values of several kinds may be anything.
    """
    names = dict.fromkeys(name for call in calls for name in call)
    fields: dict[str, Any] = {}
    for index, name in enumerate(names):
        values = [call[name] for call in calls if name in call]
        default = ... if len(values) == len(calls) else None
        # By alias: a recorded name may be one that pydantic keeps to itself.
        fields[f"argument_{index}"] = (
            _kind(values, optional=default is None),
            Field(default, alias=name),
        )
    return create_model(tool, __config__=ConfigDict(extra="forbid"), **fields)


def _kind(values: Iterable[object], *, optional: bool) -> Any:
    kinds = {type(value) for value in values}
    nullable = optional or type(None) in kinds
    kinds.discard(type(None))
    if kinds == {int, float}:
        kinds = {float}
    if len(kinds) != 1:
        return Any
    kind = _KINDS[kinds.pop()]
    return kind | None if nullable else kind
