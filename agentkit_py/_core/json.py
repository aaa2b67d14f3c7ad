"""JSON types, and the only way this library writes and checks JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import Any, NoReturn, TypeAlias, cast

JsonValue: TypeAlias = (
    "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
)
"""Any JSON value. Read-only on purpose: no code changes a message's content in place."""

JsonObject: TypeAlias = Mapping[str, JsonValue]
"""A JSON object."""

_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_SURROGATE = re.compile("[\ud800-\udfff]")


def dumps(value: Any) -> str:
    """Return compact JSON with non-ASCII text as it is, like JavaScript's ``JSON.stringify``.

    Halves of surrogate pairs are escapes, so that UTF-8 can hold it.

    Raises:
        ValueError: ``value`` holds NaN, an infinity or itself.
        TypeError: ``value`` holds something that JSON has no form for.
    """
    text = _compact.encode(value)
    return text if text.isascii() else escape_surrogates(text)


class Growing(list[dict[str, Any]]):
    """JSON objects to which others are added; `to_bytes` writes each once for all copies of it.

    What is in an object that was written does not change.
    """

    def __init__(
        self,
        items: Iterable[dict[str, Any]] = (),
        written: list[tuple[object, bytes]] | None = None,
    ) -> None:
        """Begin; ``written``: the bytes already written of the objects of which this is a copy."""
        super().__init__(items)
        self.written: list[tuple[object, bytes]] = [] if written is None else written

    def __copy__(self) -> Growing:
        return Growing(self, self.written)

    def to_bytes(self) -> bytes:
        """Return the array as `dumps` writes it."""
        written = self.written
        for index, item in enumerate(self):
            if index == len(written):
                written.append((item, dumps(item).encode()))
            elif written[index][0] is not item:
                written[index] = item, dumps(item).encode()
        return b"[" + b",".join([text for _, text in written[: len(self)]]) + b"]"


def to_bytes(body: dict[str, Any]) -> bytes:
    """Return an object as `dumps` writes it, in UTF-8; only additions are written again."""
    members = [
        dumps(name).encode() + b":" + value.to_bytes()
        if isinstance(value, Growing)
        else dumps({name: value})[1:-1].encode()
        for name, value in body.items()
    ]
    return b"{" + b",".join(members) + b"}"


def escape_surrogates(text: str) -> str:
    """Return text with halves of surrogate pairs as JSON's escapes."""
    if text.isascii():
        return text
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def as_object(value: object) -> dict[str, Any] | None:
    """Return ``value`` if it is a JSON object, else None."""
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType] - `cast` would be a call


def as_list(value: object) -> list[Any] | None:
    """Return ``value`` if it is a JSON array, else None."""
    return value if isinstance(value, list) else None  # pyright: ignore[reportUnknownVariableType] - `cast` would be a call


def find_non_json(value: object, path: str = "") -> str | None:
    """Return the path of the first thing in ``value`` that JSON would lose or change, else None.

    Tuples, non-string keys, sets, NaN and foreign objects are found. ``path`` is the prefix of
    the returned path, e.g. ``data.user``.
    """
    if value is None or isinstance(value, _EXACT):
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else path
    if isinstance(value, list):
        items = cast("list[object]", value)
        found = (find_non_json(item, f"{path}[{i}]") for i, item in enumerate(items))
        return next((place for place in found if place is not None), None)
    if isinstance(value, dict):
        return _find_in_object(cast("dict[object, object]", value), path)
    return path


_EXACT = (str, int, bool)


def _find_in_object(value: dict[object, object], path: str) -> str | None:
    for key, item in value.items():
        if isinstance(key, str) and isinstance(item, _EXACT):
            continue
        place = f"{path}.{key}" if path else str(key)
        if not isinstance(key, str):
            return place
        found = find_non_json(item, place)
        if found is not None:
            return found
    return None


MAX_DEPTH = 100
"""The levels of objects and arrays that values of others may have."""


def is_too_deep(value: object) -> bool:
    """Return whether objects and arrays are nested in more than `MAX_DEPTH` levels."""
    level: list[Any] = [value] if isinstance(value, _CONTAINERS) else []
    for _ in range(MAX_DEPTH):
        # Each container once: a container that holds itself twice would double with every level.
        inside: dict[int, Any] = {id(one): one for one in level}
        items = [item for one in inside.values() for item in _items(one)]
        level = [item for item in items if isinstance(item, _CONTAINERS)]
        if not level:
            return False
    return True


_CONTAINERS = (dict, list, tuple)


def _items(container: Any) -> Iterable[Any]:
    fields = as_object(container)
    return container if fields is None else fields.values()


def strict_loads(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: It is no JSON, holds NaN, an infinity or a number too large for any (``1e999``),
            or is nested in more than `MAX_DEPTH` levels.
    """
    try:
        value = _strict.decode(text)
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
    if _may_be_too_deep(text) and is_too_deep(value):
        raise ValueError(_TOO_DEEP)
    return value


def _may_be_too_deep(text: str) -> bool:
    return text.count("{") + text.count("[") > MAX_DEPTH


_TOO_DEEP = f"nested in more than {MAX_DEPTH} levels"


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


class _TooLargeError(ValueError):
    """A number is too large for any."""


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _TooLargeError(f"{text} is too large for a number")
    return number


_strict = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)


def loads_tamed(text: str) -> Any:
    """Return the value of a JSON text from outside, `tamed`.

    Raises:
        ValueError: It is no JSON, or holds NaN or an infinity by name.
    """
    try:
        value = _strict.decode(text)
    except _TooLargeError:
        return tamed(json.loads(text, parse_constant=_refuse))
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
    return tamed(value) if _may_be_too_deep(text) else value


def tamed(body: Any) -> Any:
    """Return JSON from outside, without values that we could not write again.

    Objects under ``input`` and ``args`` (a model's arguments) become the text they were, so that
    they count as malformed. Elsewhere numbers that are not finite become texts, and values nested
    too deeply is left out.
    """
    return body if _is_tame(body) else _tamed(body, 0)


def _is_tame(value: Any) -> bool:
    """Return whether JSON can hold all numbers of a JSON value, in `MAX_DEPTH` levels."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH + 1):
        inside = dict[int, Any]()  # each container once, as in `is_too_deep`
        for item in level:
            if isinstance(item, (dict, list)):  # quicker than a union
                inside[id(cast("object", item))] = item
            elif isinstance(item, float) and not math.isfinite(item):
                return False
        if not inside:
            return True
        level = []
        for container in inside.values():
            level += container.values() if isinstance(container, dict) else container
    return False


_ARGUMENTS = ("input", "args")


def _tamed(value: Any, level: int) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)
    if not isinstance(value, dict | list):
        return value
    if level >= MAX_DEPTH:
        return f"({_TOO_DEEP})"
    if isinstance(value, list):
        return [_tamed(one, level + 1) for one in cast("list[Any]", value)]
    found = cast("dict[str, Any]", value)
    return {
        name: _text(one) if name in _ARGUMENTS and _is_wild(one) else _tamed(one, level + 1)
        for name, one in found.items()
    }


def _is_wild(value: Any) -> bool:
    return as_object(value) is not None and not _is_tame(value)


def _text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return f"({_TOO_DEEP})"


def camel(name: str) -> str:
    """Return a name of ours as the wire has it: ``asked_at`` is ``askedAt``."""
    head, *rest = name.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in rest)


def record_of(value: Any) -> Any:
    """Return a dataclass as JSON: its fields under camelCase names, times as ISO texts."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, tuple):
        return [record_of(one) for one in cast("tuple[Any, ...]", value)]
    if is_dataclass(value):
        return {camel(one.name): record_of(getattr(value, one.name)) for one in fields(value)}
    return value


def time_of(given: object) -> datetime:
    """Return the time (UTC) that `record_of` wrote.

    Raises:
        ValueError: It is none.
    """
    try:
        return datetime.fromisoformat(str(given)).astimezone(UTC)
    except OverflowError as error:  # a moment before the year 1 in UTC, or after 9999
        raise ValueError(f"{given!r:.80}: {error}") from error


def time_or_none(given: object) -> datetime | None:
    """Return the time that `record_of` wrote; None for null."""
    return None if given is None else time_of(given)


def copied(value: Any) -> Any:
    """Return JSON with objects and arrays of its own; anything else in it stays the same."""
    if isinstance(value, dict):
        fields = cast("dict[Any, Any]", value)
        return {k: one if isinstance(one, _EXACT) else copied(one) for k, one in fields.items()}
    if isinstance(value, list):
        return [copied(one) for one in cast("list[Any]", value)]
    return value
