"""Made-up values that fit a JSON Schema: arguments of tools, and answers of a type."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from agentkit_py._core.json import as_list, as_object

_DEEPEST = 6

_FORMATS = {
    "date": "2026-01-15",
    "date-time": "2026-01-15T09:30:00Z",
    "time": "09:30:00Z",
    "duration": "P1D",
    "email": "doctor@example.com",
    "idn-email": "doctor@example.com",
    "uri": "https://example.com/",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "binary": "doctor",
    "byte": "ZG9jdG9y",
    "base64url": "ZG9jdG9y",
}

_CLASSES = {"d": "1", "w": "a", "s": " ", "D": "a", "W": "-", "S": "a"}
"""A character of each class of a pattern."""

_CANDIDATES = "a1A-_ .@/"
"""Characters that a negated set is tried with."""


def sample(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments that fit a tool's schema, as far as a schema defines it."""
    return as_object(value_of(schema)) or {}


def value_of(schema: Mapping[str, Any]) -> Any:
    """Return a value that fits a schema, as far as a schema defines it."""
    return _value(schema, schema, 0)


def _value(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Any:
    if depth > _DEEPEST:
        return None
    if "$ref" in schema:
        return _value(_resolved(schema["$ref"], root), root, depth + 1)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("enum", "examples"):
        if schema.get(key):
            return schema[key][0]
    for key in ("anyOf", "oneOf", "allOf"):
        choices = [one for one in schema.get(key) or () if one.get("type") != "null"]
        if choices:
            return _value(choices[0], root, depth + 1)
    return _of_type(schema, root, depth)


def _of_type(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Any:
    kinds = as_list(schema.get("type", "object")) or [schema.get("type", "object")]
    name = next((str(kind).lower() for kind in kinds if kind != "null"), "null")
    if name == "object":
        fields: dict[str, Any] = schema.get("properties") or {}
        return {key: _value(value, root, depth + 1) for key, value in fields.items()}
    if name == "array":
        first: list[Any] = schema.get("prefixItems") or []
        item: dict[str, Any] = schema.get("items") or {}
        count = max(schema.get("minItems", 1) - len(first), 0)
        return [_value(one, root, depth + 1) for one in [*first, *[item] * count]]
    if name in ("integer", "number"):
        return _number(schema, is_whole=name == "integer")
    if name == "string":
        return _text(schema)
    return {"boolean": False}.get(name)


def _number(schema: Mapping[str, Any], *, is_whole: bool) -> float:
    """Return a number within bounds: the lowest, or the next above a bound that is excluded."""
    unit = schema.get("multipleOf", 1)
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    lowest, highest = schema.get("minimum"), schema.get("maximum", below)
    if lowest is not None:
        number = math.ceil(lowest / unit) * unit
    elif above is not None:
        number = (math.floor(above / unit) + 1) * unit
    else:
        number = unit if highest is None else min(unit, math.floor(highest / unit) * unit)
    if highest is None or (number <= highest and number != below):
        return number
    floor = lowest if lowest is not None else above
    if is_whole:
        return number - unit
    return highest - 1 if floor is None else (floor + highest) / 2


def _text(schema: Mapping[str, Any]) -> str:
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    pattern: str = schema.get("pattern", "")
    for more in (0, least) if pattern else ():
        text = matching(pattern, more)
        if text is not None and least <= len(text) <= (most or len(text)):
            return text
    known = _FORMATS.get(schema.get("format", ""))
    return known or "doctor".ljust(least, ".")[:most]


def _resolved(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Any = root
    for part in reference.removeprefix("#/").split("/"):
        found = found.get(part, {})
    return found


def matching(pattern: str, more: int = 0) -> str | None:
    """Return a text that a simple pattern matches; None: there is none that is easy to find.

    Args:
        pattern: A regular expression of sets, groups, choices and counts.
        more: Extra repetitions of parts that may be repeated without end.
    """
    try:
        made = _Pattern(pattern, more).choice()
        return made if re.search(pattern, made) else None
    except (IndexError, KeyError, ValueError, re.error):
        return None


class _Pattern:
    """Reads a pattern from left to right, and writes a text that it matches."""

    def __init__(self, pattern: str, more: int) -> None:
        self._left = list(pattern)
        self._more = more

    def choice(self) -> str:
        """Return the first of the alternatives up to the end of a group."""
        alternatives = [""]
        while self._left and self._left[0] != ")":
            if self._left[0] == "|":
                self._left.pop(0)
                alternatives.append("")
            else:
                alternatives[-1] += self._repeated(self._atom())
        return alternatives[0]

    def _atom(self) -> str:
        sign = self._left.pop(0)
        if sign == "(":
            self._skip_group_name()
            inner = self.choice()
            self._left.pop(0)
            return inner
        if sign == "[":
            return self._of_set()
        if sign == "\\":
            return self._escaped()
        return {"^": "", "$": "", ".": "a"}.get(sign, sign)

    def _escaped(self) -> str:
        sign = self._left.pop(0)
        return "" if sign in "bAZzB" else _CLASSES.get(sign, sign)

    def _skip_group_name(self) -> None:
        if self._left[0] != "?":
            return
        self._left.pop(0)
        kind = self._left.pop(0)
        if kind == "P":
            while self._left.pop(0) != ">":
                pass
        elif kind != ":":
            raise ValueError(kind)  # a condition on what stands before or after it

    def _of_set(self) -> str:
        inside = ""
        while self._left[0] != "]" or inside in ("", "^"):
            sign = self._left.pop(0)
            inside += sign
            if sign == "\\":
                inside += self._left.pop(0)
        self._left.pop(0)
        if inside.startswith("^"):
            return next(one for one in _CANDIDATES if re.match(f"[{inside}]", one))
        if inside[0] == "\\":
            return _CLASSES.get(inside[1], inside[1])
        return inside[0]

    def _repeated(self, atom: str) -> str:
        sign = self._left[0] if self._left else ""
        least, endless = 1, False
        if sign and sign in "*+?":
            self._left.pop(0)
            least, endless = int(sign == "+"), sign != "?"
        elif sign == "{":
            counts = ""
            while (sign := self._left.pop(0)) != "}":
                counts += sign
            least, endless = int(counts.split(",")[0].lstrip("{") or 0), counts.endswith(",")
        if self._left and self._left[0] == "?" and (endless or sign == "}"):
            self._left.pop(0)  # as few as possible
        return atom * (least + (self._more if endless else 0))
