"""Typed state data: dict, dataclass or pydantic model, to JSON and back, forked and merged.

A run's state must survive being written as JSON and read again unchanged, or a replay would
decide otherwise than the first run did. What would not survive is found here, and named.
"""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar, cast

from agentkit_py._core.json import JsonValue, find_non_json
from agentkit_py.errors import StateError

if TYPE_CHECKING:
    from pydantic import BaseModel, TypeAdapter

D = TypeVar("D")


def _is_model(data: object) -> TypeGuard[BaseModel]:
    """Whether ``data`` is a pydantic model; pydantic is not loaded to say no."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(data, pydantic.BaseModel)


def check_kind(data: object) -> None:
    """Refuse data that is no dict, dataclass instance or pydantic model.

    Raises:
        StateError: It is something else.
    """
    if isinstance(data, dict) or _is_model(data):
        return
    if dataclasses.is_dataclass(data) and not isinstance(data, type):
        return
    raise StateError(
        f"State data must be a dict, a dataclass instance or a pydantic model, got {data!r:.80}"
    )


def clone_data(data: D) -> D:
    """A deep copy, so that nothing nested leaks between runs.

    Raises:
        StateError: Something in it cannot be copied; the message names the key.
    """
    try:
        return copy.deepcopy(data)
    except Exception as error:
        key = _first_failing(data, copy.deepcopy)
        raise StateError(f"State key {key!r} cannot be copied: {error}") from error


def dump_data(data: object) -> dict[str, JsonValue]:
    """The data as JSON.

    Raises:
        StateError: Something in it would be lost or changed by JSON; the message names the key.
    """
    dumped = cast("object", data) if isinstance(data, dict) else _dump_typed(data)
    path = find_non_json(dumped, "data")
    if path is not None:
        raise StateError(
            f"State at {path!r} is not plain JSON; store strings, numbers, lists or dicts"
        )
    if not isinstance(data, dict):
        _check_round_trip(data, dumped)
    return copy.deepcopy(cast("dict[str, JsonValue]", dumped))


def _dump_typed(data: object) -> object:
    from pydantic.errors import PydanticSchemaGenerationError  # noqa: PLC0415 - loads pydantic
    from pydantic_core import PydanticSerializationError, to_jsonable_python  # noqa: PLC0415 - loads pydantic

    try:
        return _adapter(type(data)).dump_python(cast("Any", data), mode="json")
    except (PydanticSchemaGenerationError, PydanticSerializationError) as error:
        key = _first_failing(data, to_jsonable_python)
        raise StateError(
            f"State of type {type(data).__name__} cannot be stored as JSON, "
            f"its field {key!r} cannot: {error}"
        ) from error


def _first_failing(data: object, attempt: Callable[[Any], object]) -> str:
    for key, value in fields_of(data).items():
        try:
            attempt(value)
        except Exception:  # noqa: BLE001 - values of users may raise anything
            return key
    return "(unknown)"


def _check_round_trip(data: object, dumped: object) -> None:
    again = _adapter(type(data)).validate_python(dumped)
    if again == data:
        return
    before, after = fields_of(data), fields_of(again)
    lost = [key for key in before if before[key] != after.get(key)] or [
        "(a private or excluded field)"
    ]
    names = ", ".join(map(repr, lost))
    raise StateError(
        f"State of type {type(data).__name__} does not survive JSON: {names} would change. "
        "Use JSON types, or give the field a pydantic serializer."
    )


def load_data(like: D, dumped: JsonValue) -> D:
    """Data of the type of ``like`` from what `dump_data` gave.

    Raises:
        StateError: It does not fit the type; the message names the field.
    """
    if isinstance(like, dict):
        check_kind(dumped)
        return cast("D", copy.deepcopy(dumped))
    from pydantic import ValidationError  # noqa: PLC0415 - loads pydantic

    try:
        return cast("D", _adapter(type(like)).validate_python(dumped))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "(whole)"
        raise StateError(
            f"Stored state does not fit {type(like).__name__}, field {field!r}: {first['msg']}"
        ) from error


def put_back(data: D, dumped: JsonValue) -> D:
    """``data`` as `dump_data` gave it: itself where it can be changed, since others may hold it.

    Raises:
        StateError: What was dumped does not fit the type; the message names the field.
    """
    found = load_data(data, dumped)
    if isinstance(data, dict):
        held = cast("dict[str, Any]", data)
        held.clear()
        held.update(cast("dict[str, Any]", found))
        return cast("D", held)
    try:
        for key in changed_keys(data, found):
            take_key(data, found, key)
    except (AttributeError, ValueError):  # it is frozen, or checks what it is given
        return found
    return data if data == found else found


@lru_cache(maxsize=256)
def _adapter(kind: type) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter  # noqa: PLC0415 - loads pydantic

    return TypeAdapter(kind)


def fields_of(data: object) -> dict[str, Any]:
    """The top-level keys or fields and their values."""
    if isinstance(data, Mapping):
        return dict(cast("Mapping[str, Any]", data))
    if _is_model(data):
        return {**dict(data), **(data.model_extra or {})}
    assert dataclasses.is_dataclass(data)
    return {field.name: getattr(data, field.name) for field in dataclasses.fields(data)}


def changed_keys(base: object, fork: object) -> list[str]:
    """Keys whose values differ between two versions of the same data."""
    before, after = fields_of(base), fields_of(fork)
    keys = [*before, *(key for key in after if key not in before)]
    missing = object()
    return [key for key in keys if differs(before.get(key, missing), after.get(key, missing))]


def differs(one: Any, other: Any) -> bool:
    """Whether two values are not the same JSON: Python takes 0, 0.0 and False for equal."""
    kinds: set[type] = {type(one), type(other)}
    if len(kinds) == 1 and kinds <= _ROWS:
        return len(one) != len(other) or any(map(differs, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        # With their order, which is seen by whoever writes them into a prompt.
        return differs([*cast("Any", one).items()], [*cast("Any", other).items()])
    return one != other or (len(kinds) == 2 and kinds <= _NUMBERS)  # noqa: PLR2004 - two values


_ROWS: frozenset[type] = frozenset({list, tuple})
_NUMBERS: frozenset[type] = frozenset({bool, int, float})


def take_key(target: Any, source: object, key: str) -> None:
    """Copy one key of ``source`` into ``target``; a key that is gone is removed."""
    values = fields_of(source)
    if isinstance(target, dict):
        if key in values:
            target[key] = values[key]
        else:
            cast("dict[str, Any]", target).pop(key, None)
    elif key in values:
        setattr(target, key, values[key])
