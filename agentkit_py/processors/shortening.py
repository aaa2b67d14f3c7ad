"""Shortening of texts and JSON values that keeps their shape recognisable."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from agentkit_py._core.json import JsonValue

LEFT_OUT = " … [{count} characters left out] … "


def head_and_tail(text: str, chars: int) -> str:
    """Return the beginning and the end of ``text``, at most ``chars`` characters with a note.

    With less room than the note needs, the text is cut off.
    """
    return _cut_text(text, chars, LEFT_OUT, with_tail=True)


def head_only(text: str, chars: int) -> str:
    """Return the beginning of ``text``, at most ``chars`` characters with a note."""
    return _cut_text(text, chars, LEFT_OUT.rstrip("… "), with_tail=False)


def _cut_text(text: str, chars: int, note: str, *, with_tail: bool) -> str:
    if len(text) <= chars:
        return text
    # The number in between may have as many digits as the length has.
    room = chars - len(note.format(count=len(text)))
    if room < 1:
        return text[: max(chars - 1, 0)] + "…"
    tail = room // 3 if with_tail else 0
    end = text[len(text) - tail :]
    return f"{text[: room - tail]}{note.format(count=len(text) - room)}{end}"


@dataclass(frozen=True, slots=True)
class Shape:
    """Limits to which a JSON value is shortened."""

    first: int
    """Items at the beginning of a list."""

    last: int
    """Items at its end."""

    chars: int
    """Characters of a string."""

    depth: int
    """Levels of lists and objects."""

    keys: int
    """Keys of an object."""


SHAPES = (Shape(2, 2, 100, 3, 10), Shape(1, 1, 60, 2, 8), Shape(1, 0, 40, 2, 5))
"""From the first, which is the seed system's (first and last two items, strings of 100 characters,
depth 3, 10 keys), to little more than counts."""


IMPORTANT = (
    "success", "ok", "error", "message", "status", "total", "count", "id", "title", "name", "type",
    "start", "start_time",
)  # fmt: skip
"""Keys that stay first when an object has too many."""


_RANKS = {key: rank for rank, key in enumerate(IMPORTANT)}


def shortened(value: JsonValue, shape: Shape) -> JsonValue:
    """Return ``value`` with lists, objects and strings shortened; itself if all of it fits."""
    return _shortened(value, shape, shape.depth)


def _shortened(value: JsonValue, shape: Shape, depth: int) -> JsonValue:
    if isinstance(value, str):
        return head_and_tail(value, shape.chars)
    if isinstance(value, Mapping):
        found = cast("Mapping[str, JsonValue]", value)
        return _object(found, shape, depth) if found else value
    if isinstance(value, Sequence):
        return _list(value, shape, depth) if value else value
    return value


def _object(value: Mapping[str, JsonValue], shape: Shape, depth: int) -> JsonValue:
    if depth <= 0:
        return f"{{… {len(value)} keys …}}"
    if len(value) <= shape.keys:
        return {key: _shortened(item, shape, depth - 1) for key, item in value.items()}
    ranked = sorted(value, key=lambda key: _RANKS.get(key, len(_RANKS)))
    chosen = set(ranked[: shape.keys])
    kept = {key: _shortened(item, shape, depth - 1) for key, item in value.items() if key in chosen}
    left_out = [key for key in value if key not in chosen]
    note = head_and_tail(", ".join(left_out), shape.chars)
    return {**kept, "…": f"{len(left_out)} more keys: {note}"}


def _list(value: Sequence[JsonValue], shape: Shape, depth: int) -> JsonValue:
    if depth <= 0:
        return f"[… {len(value)} items …]"
    first, last = shape.first, shape.last
    if len(value) <= first + last + 1:
        return [_shortened(item, shape, depth - 1) for item in value]
    head = [_shortened(item, shape, depth - 1) for item in value[:first]]
    tail = [_shortened(item, shape, depth - 1) for item in value[len(value) - last :]]
    return [*head, f"… {len(value) - first - last} of {len(value)} items left out …", *tail]


def parsed(value: JsonValue) -> JsonValue:
    """Return the list or object that a string holds as JSON; every other value as it is."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        found: object = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return cast("JsonValue", found) if isinstance(found, list | dict) else value
