"""Ids for Gemini's calls, which mostly have none."""

from __future__ import annotations


class CallIds:
    """Ids for calls that have none: computed, so that a replay gives the same.

    With the id of the response they are unique in a conversation. Without, the first call of a
    tool is called like the tool, as in TypeScript, and only further ones are numbered.
    """

    def __init__(self, response_id: str) -> None:
        """Begin a reply."""
        self._response_id = response_id
        self._count = 0
        self._names: dict[str, int] = {}

    def take(self, name: str) -> str:
        """The id of the next call, which is of the tool ``name``."""
        self._count += 1
        number = self._names[name] = self._names.get(name, 0) + 1
        if self._response_id:
            return f"{self._response_id}_{self._count}"
        return name if number == 1 else f"{name}_{number}"
