"""Marks for Claude's cache in requests that hold words of our own.

A mark stands where enough has been said, so its place depends on how long our words are, which the
model of TypeScript does not know. There the rule is checked on the request as it was sent, and both
sides are compared without marks. Elsewhere marks are compared like everything else.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator

from .reference.anthropic import least_cached
from .reference.js import stringify
from .vectors import Json

_OURS = ("<ours>", "<routing:", "<prose>")
_MARK = "cache_control"


def compared(ours: Json, seen: Json, sent: Json) -> tuple[Json, Json, list[str]]:
    """Return both documents as they are compared, and what breaks the rule.

    Args:
        ours: What we must do.
        seen: What we did, without our own words.
        sent: The same as it was sent.
    """
    ours, seen, problems = copy.copy(ours), copy.copy(seen), list[str]()
    for section in ("requests", "stepLog"):
        pairs = list(zip(ours[section], seen[section], sent[section], strict=False))
        held = [i for i, row in enumerate(pairs) if any(map(_holds_our_words, row[:2]))]
        for document in (ours, seen):
            document[section] = [
                _unmarked(each, plain=True) if i in held else each
                for i, each in enumerate(document[section])
            ]
        bodies = [(i, pairs[i][2].get("body")) for i in held]
        problems += [f"/{section}/{i}: {said}" for i, body in bodies for said in broken(body)]
    return ours, seen, problems


def _holds_our_words(request: Json) -> bool:
    said = json.dumps(request.get("body"))
    return _MARK in said and any(words in said for words in _OURS)


def broken(body: Json) -> Iterator[str]:
    """What the marks of a request break: they stand behind all that is long enough, and only there.

    A text of one block is sent as a text where nothing marks it, so its length lies between two.
    """
    most = least = 4 * least_cached(body["model"]) or math.inf
    parts: list[tuple[str, Json, bool]] = [
        (name, body[name], True) for name in ("tools", "system") if body.get(name)
    ]
    parts += [("a turn", turn["content"], turn["role"] == "user") for turn in body["messages"]]
    users = [i for i, (name, _, own) in enumerate(parts) if own and name == "a turn"]
    for index, (name, content, may) in enumerate(parts):
        least -= len(stringify(_unmarked(content)))
        most -= len(stringify(_unmarked(content, plain=True)))
        is_marked = _MARK in json.dumps(content)
        if is_marked and (least > 0 or not may):
            yield f"{name} is marked, and may not be"
        needed = name != "a turn" or index == (users or [-1])[-1]
        if needed and most <= 0 and not is_marked:
            yield f"{name} is not marked"


def _unmarked(value: Json, *, plain: bool = False) -> Json:
    """JSON without marks; ``plain``: a text of one block is the text."""
    if isinstance(value, dict):
        return {k: _unmarked(v, plain=plain) for k, v in value.items() if k != _MARK}
    if not isinstance(value, list):
        return value
    items = [_unmarked(item, plain=plain) for item in value]
    only = items[0] if plain and len(items) == 1 and isinstance(items[0], dict) else {}
    return only["text"] if only.keys() == {"type", "text"} else items
