"""Digests of code and settings, by which a change of them is noticed after a deploy."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from types import CodeType, FunctionType
from typing import Any, cast

from typing_extensions import Protocol, runtime_checkable  # quicker checks than Python 3.11's

from agentkit_py._core.json import JsonValue, dumps


@runtime_checkable
class Fingerprinted(Protocol):
    """A value that describes its own parts."""

    @property
    def fingerprint(self) -> JsonValue:
        """Its kind and settings as JSON; a different value where it behaves differently."""
        ...


def short_digest(value: Any) -> str:
    """Return a short digest of JSON."""
    return blake2b(dumps(value).encode("utf-8", "replace"), digest_size=6).hexdigest()


def code_of(code: CodeType) -> list[Any]:
    """Return a function's own code as JSON; not the functions it calls."""
    consts = [code_of(c) if isinstance(c, CodeType) else _const(c) for c in code.co_consts]
    return [code.co_code.hex(), consts, *map(list, (code.co_names, code.co_varnames))]


def _const(value: object) -> str:
    if isinstance(value, frozenset):  # its order differs between processes
        return repr(sorted(map(repr, cast("frozenset[object]", value))))
    return repr(value)


def settings_of(value: object) -> JsonValue:
    """Return a setting as JSON: functions by their code, other objects by their kind."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Fingerprinted):
        return value.fingerprint
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return sorted(([str(key), settings_of(one)] for key, one in items), key=dumps)
    if isinstance(value, set | frozenset):
        return sorted(map(settings_of, cast("Iterable[object]", value)), key=dumps)
    if isinstance(value, list | tuple):
        return [settings_of(one) for one in cast("Iterable[object]", value)]
    if isinstance(value, re.Pattern):
        return [str(cast("Any", value).pattern), value.flags]
    return _callable(value) or fields_of(value)


def _callable(value: object) -> JsonValue:
    """Return a function by its code and its captured values; None: it is not a function."""
    if isinstance(value, functools.partial):
        part = cast("functools.partial[object]", value)
        return [settings_of(one) for one in (part.func, part.args, part.keywords)]
    function: Any = value if hasattr(value, "__code__") else vars(type(value)).get("__call__")
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    owner = [] if function is value else [fields_of(value)]
    return [*code_of(code), *owner, *_held(function)]


def _held(function: Any) -> list[JsonValue]:
    """Return a function's captured values; numbers and mutable values may be its memory."""
    found: list[JsonValue] = []
    for cell in function.__closure__ or ():
        try:
            value: object = cell.cell_contents
        except ValueError:  # it is not known yet
            continue
        if isinstance(value, str | tuple | frozenset | re.Pattern | Fingerprinted):
            found.append(settings_of(cast("object", value)))
        elif isinstance(value, FunctionType):
            found.append(code_of(value.__code__))
    return found


def fields_of(value: object) -> JsonValue:
    """Return an object's kind, with its fields where it is a dataclass."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if not dataclasses.is_dataclass(value):
        return [kind]
    fields = [one for one in dataclasses.fields(value) if one.init and one.repr]  # no secrets
    return [kind, *([one.name, settings_of(getattr(value, one.name))] for one in fields)]
