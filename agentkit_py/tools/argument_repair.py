"""Repair of almost valid arguments, where a tool's schema allows a single reading.

Models write a list or an object as JSON text, a number as text, null where a value is optional, and
a single value where a list of values is required. Values that fit the schema are never changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from agentkit_py._core.json import JsonValue, as_list, as_object, strict_loads
from agentkit_py.errors import ToolDefinitionError
from agentkit_py.models.schema import Schema, accepts_null, resolved, types_of


@dataclass(frozen=True, slots=True)
class Reading:
    """A value that fits a schema, and how it was made of the value that was given."""

    value: Any
    notes: tuple[str, ...] = ()
    """The repairs in words, each with the path of the argument; empty: it fits as it was given."""


class _Several:
    """Stands for two readings or more, or for more than anybody wants to look for."""


SEVERAL: Final = _Several()

_Readings = Reading | _Several | None


def repaired(schema: Mapping[str, JsonValue] | None, arguments: JsonValue) -> Reading | None:
    """Return the only reading of ``arguments`` that fits ``schema``; None: none, or several.

    Keywords that only narrow the values (bounds, patterns, formats) are not checked: they can make
    a reading fail, which the caller's validation finds.
    """
    if schema is None:
        return Reading(arguments)
    try:
        found = _Reader(cast("dict[str, Any]", schema)).read(schema, arguments, "")
    except (ToolDefinitionError, RecursionError):  # a reference to nowhere, or nested too deeply
        return None
    return found if isinstance(found, Reading) else None


class _Reader:
    """Finds the readings of values, each value under each schema once."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._known: dict[tuple[int, int, str], tuple[object, object, _Readings]] = {}
        self._parsed: dict[str, Any] = {}

    def read(self, schema: Any, value: Any, path: str) -> _Readings:
        """Return the readings of a value at a path."""
        key = (id(schema), id(value), path)
        if key not in self._known:
            # A recursive schema would have endless readings. The schema and the value are kept with
            # the readings, so that their ids are not reused.
            self._known[key] = (schema, value, SEVERAL)
            self._known[key] = (schema, value, self._read(schema, value, path))
        return self._known[key][2]

    def _read(self, schema: Any, value: Any, path: str) -> _Readings:
        node = as_object(schema)
        if node is None:
            return None if schema is False else Reading(value)
        node = resolved(node, self._root)
        if _is_opaque(node):
            return Reading(value)
        if _UNIONS.isdisjoint(node):
            return self._read_plain(node, value, path)
        options = next(filter(None, map(as_list, map(node.get, _UNIONS))), ())
        return _joined(self.read(option, value, path) for option in options)

    def _read_plain(self, node: Schema, value: Any, path: str) -> _Readings:
        if "enum" in node or "const" in node:
            allowed = [node["const"]] if "const" in node else as_list(node["enum"]) or []
            if any(_is_equal(value, one) for one in allowed):
                return Reading(value)
            return self._from_text(node, value, path)
        kinds = types_of(node)
        if kinds and not _is_of_kinds(value, kinds):
            ways = [self._from_text(node, value, path)]
            if "array" in kinds:
                ways.append(self._as_list_of_one(node, value, path))
            return _joined(ways)
        if value is None or isinstance(value, str | int | float):
            return Reading(value)
        if isinstance(value, Mapping):
            return self._read_object(node, cast("Mapping[str, Any]", value), path)
        if isinstance(value, list):
            items = cast("list[Any]", value)
            whole = self._read_items(node, items, path)
            # A list whose items must be lists may itself be the only item.
            return _joined([whole, self._as_list_of_one(node, items, path)])
        return Reading(value)

    def _read_object(self, node: Schema, given: Mapping[str, Any], path: str) -> _Readings:
        properties = as_object(node.get("properties")) or {}
        required: list[Any] = as_list(node.get("required")) or []
        if any(name not in given for name in required):
            return None
        fields: dict[str, Any] = {}
        notes: list[str] = []
        several = False
        for name, item in given.items():
            schema = properties.get(name, node.get("additionalProperties", True))
            where = f"{path}.{name}" if path else name
            optional = name in properties and name not in required
            if item is None and optional and not accepts_null(schema, self._root):
                notes.append(f"{where}: null left out")
                continue
            found = self.read(schema, item, where)
            if found is None:
                return None
            if isinstance(found, _Several):
                several = True
            else:
                fields[name] = found.value
                notes += found.notes
        if several:
            return SEVERAL
        return Reading(fields, tuple(notes)) if notes else Reading(given)

    def _read_items(self, node: Schema, given: list[Any], path: str) -> _Readings:
        first = as_list(node.get("prefixItems")) or []
        rest = node.get("items", True)
        found = [
            self.read(first[index] if index < len(first) else rest, item, f"{path}[{index}]")
            for index, item in enumerate(given)
        ]
        if any(one is None for one in found):
            return None
        items = [one for one in found if isinstance(one, Reading)]
        if len(items) < len(found):
            return SEVERAL
        notes = tuple([note for one in items for note in one.notes])
        return Reading([one.value for one in items], notes) if notes else Reading(given)

    def _from_text(self, node: Schema, value: Any, path: str) -> _Readings:
        """Return the readings of a text as the JSON in it."""
        if not isinstance(value, str):
            return None
        if value not in self._parsed:
            self._parsed[value] = _json_in(value)
        parsed = self._parsed[value]
        if parsed is None:
            return None
        found = self.read(node, parsed, path)
        return _noted(found, f"{path or '(arguments)'}: text read as {_kind_name(parsed)}")

    def _as_list_of_one(self, node: Schema, value: Any, path: str) -> _Readings:
        """Return the readings of a value as the only item of a list."""
        if value is None or value == {} or "prefixItems" in node:
            return None
        if isinstance(value, str) and _MAY_BE_A_LIST.search(value):
            return None
        found = self.read(node.get("items", True), value, f"{path}[0]")
        note = f"{path or '(arguments)'}: single value put into a list"
        return _noted(found, note, lambda item: [item])


_MAY_BE_A_LIST = re.compile(
    r"""^\s*(null|none|nil|undefined)?\s*$|^\s*["'\[{(*•-]|[,;|\n\t]""", re.IGNORECASE
)
"""A text that may itself be meant as a list, as JSON or as nothing: it is not put into a list."""

_OPAQUE = frozenset(
    {
        *("not", "if", "patternProperties", "unevaluatedProperties", "unevaluatedItems"),
        *("$dynamicRef", "$recursiveRef"),
    }
)
_UNIONS = frozenset({"anyOf", "oneOf", "allOf"})
_STRUCTURE = frozenset({"type", "enum", "const", "properties", "items", "prefixItems", "required"})


def _is_opaque(node: Schema) -> bool:
    """Return whether only a validator can decide which values fit a schema."""
    if not _OPAQUE.isdisjoint(node):
        return True
    if _UNIONS.isdisjoint(node):
        return isinstance(node.get("items"), list)  # how older drafts write tuples
    several_parts = "allOf" in node and len(as_list(node["allOf"]) or []) != 1
    return not _STRUCTURE.isdisjoint(node) or len(_UNIONS & node.keys()) > 1 or several_parts


def _joined(ways: Iterable[_Readings]) -> _Readings:
    """Combine several readings of a value; a value that fits unchanged wins."""
    found: _Readings = None
    for way in ways:
        if isinstance(way, Reading) and not way.notes:
            return way
        if found is None or way is None:
            found = way if found is None else found
        elif (
            isinstance(found, _Several)
            or isinstance(way, _Several)
            or not _is_equal(found.value, way.value)
        ):
            found = SEVERAL
    return found


def _noted(found: _Readings, note: str, change: Callable[[Any], Any] | None = None) -> _Readings:
    """Return a reading with another repair."""
    if not isinstance(found, Reading):
        return found
    value = found.value if change is None else change(found.value)
    return Reading(value, (note, *found.notes))


def _json_in(text: str) -> Any:
    """Return the object, list, number or truth value that a text holds as JSON; None: none."""
    try:
        parsed: object = strict_loads(text)
        if isinstance(parsed, dict | list):
            json.loads(text, object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError):
        return None
    return None if isinstance(parsed, str) else cast("Any", parsed)


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of fields.

    Raises:
        ValueError: A name comes twice, so that there are two readings.
    """
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a name comes twice")
    return fields


_KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "array": list,
    "object": (dict, Mapping),
    "null": type(None),
}


def _is_of_kinds(value: object, kinds: Sequence[str]) -> bool:
    """Return whether a value is of one of the kinds; of a kind that JSON Schema lacks is any."""
    if isinstance(value, bool):
        return "boolean" in kinds
    if isinstance(value, float) and "integer" in kinds and value.is_integer():
        return True
    return isinstance(value, tuple([_KINDS.get(kind, object) for kind in kinds]))


def _is_equal(one: object, other: object) -> bool:
    """Return whether two JSON values are the same; True is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        fields = cast("Mapping[str, Any]", one)
        others = cast("Mapping[str, Any]", other)
        return fields.keys() == others.keys() and all(
            _is_equal(item, others[name]) for name, item in fields.items()
        )
    if isinstance(one, list) and isinstance(other, list):
        items, rest = cast("list[Any]", one), cast("list[Any]", other)
        return len(items) == len(rest) and all(map(_is_equal, items, rest))
    return one == other


def _kind_name(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    return "a list" if isinstance(value, list) else "an object"
