"""Random ids as the recordings have them: numbered by first occurrence."""

from __future__ import annotations

import re
from typing import Any

from .vectors import Json

_HEX = "[0-9a-f]"
_UUID = f"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"
# Run ids are of another form in TypeScript (time and random digits); one id is like another.
_ID = re.compile(
    rf"(?P<id>{_UUID}|<(?:uuid|gen):\d+>)|(?P<part>tool_[0-9a-z]{{8}}_\d{{8}}_[0-9a-z]+|<part:\d+>)"
)
_PLACEHOLDER = re.compile(r"<(uuid|gen|part):\d+>")
_IN_EVENTS = ("runId", "parentRunId", "messageId", "partId", "threadId")
_FIRST = ("events", "historyLog", "runs")


class _Numbering:
    """Gives each id its place in the order of first occurrence, per kind."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def see(self, value: Json) -> None:
        """Number the ids of ``value``, the members of an object in alphabetical order."""
        if isinstance(value, dict):
            for key in sorted(value):
                self.see(value[key])
        elif isinstance(value, list):
            for item in value:
                self.see(item)
        elif isinstance(value, str):
            found = _ID.fullmatch(value)
            if found is not None and value not in self._known:
                kind = str(found.lastgroup)
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


def normalised(document: dict[str, Any]) -> dict[str, Any]:
    """The document with ids numbered: events first, then history calls, runs, and the rest.

    Two documents whose keys stand in another order number alike.
    """
    numbering = _Numbering()
    for event in document.get("events", []):
        numbering.see([event["data"].get(key) for key in _IN_EVENTS])
    for name in (*_FIRST, *sorted(document.keys() - set(_FIRST))):
        numbering.see(document.get(name))
    return numbering.apply(document)
