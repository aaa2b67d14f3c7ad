"""Random ids as the recordings have them: numbered by first occurrence."""

from __future__ import annotations

import re
from typing import Any

from .vectors import Json

_PART = re.compile(r"tool_[0-9a-z]{8}_\d{8}_[0-9a-z]+")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_PLACEHOLDER = re.compile(r"<(uuid|gen|part):\d+>")
_IN_EVENTS = ("runId", "parentRunId", "messageId", "partId", "threadId")
_FIRST = ("events", "historyLog", "runs")


class _Numbering:
    """Gives each id its place in the order of first occurrence, per kind."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def see(self, value: Json) -> None:
        """Number the ids of ``value`` in the order of the document."""
        if isinstance(value, dict):
            for item in value.values():
                self.see(item)
        elif isinstance(value, list):
            for item in value:
                self.see(item)
        elif isinstance(value, str):
            kind = _kind(value)
            if kind is not None and value not in self._known:
                self._counts[kind] = self._counts.get(kind, 0) + 1
                self._known[value] = f"<{kind}:{self._counts[kind]}>"

    def apply(self, value: Json) -> Json:
        """``value`` with its ids numbered."""
        if isinstance(value, dict):
            return {key: self.apply(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.apply(item) for item in value]
        if not isinstance(value, str):
            return value
        if value in self._known or "<" not in value:
            return self._known.get(value, value)
        return _PLACEHOLDER.sub(lambda found: self._known.get(found[0], found[0]), value)


def _kind(value: str) -> str | None:
    if _UUID.fullmatch(value):
        return "id"
    if _PART.fullmatch(value):
        return "part"
    placeholder = _PLACEHOLDER.fullmatch(value)
    if placeholder is None:
        return None
    # Run ids are of another form in TypeScript (time and random digits); one id is like another.
    return "part" if placeholder[1] == "part" else "id"


def normalised(document: dict[str, Any]) -> dict[str, Any]:
    """The document with ids numbered: events first, then history calls, runs, and the rest.

    Within an object keys are taken in alphabetical order, so that two documents whose keys stand in
    another order number alike.
    """
    numbering = _Numbering()
    for event in document.get("events", []):
        numbering.see([event["data"].get(key) for key in _IN_EVENTS])
    for name in (*_FIRST, *sorted(document.keys() - set(_FIRST))):
        numbering.see(_ordered(document.get(name)))
    return numbering.apply(document)


def _ordered(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in sorted(value)}
    return [_ordered(item) for item in value] if isinstance(value, list) else value
