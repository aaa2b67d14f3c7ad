"""The input of a run of the reference model."""

from __future__ import annotations

from dataclasses import dataclass

from ..vectors import Json
from .js import date


@dataclass(frozen=True, slots=True)
class Input:
    """The user's message."""

    given: Json
    id: Json

    @property
    def content(self) -> Json:
        return self.given if isinstance(self.given, str) else self.given["content"]

    @property
    def text(self) -> str:
        content = self.content
        return content if isinstance(content, str) else "".join(p["text"] for p in content)

    @property
    def system_prompt(self) -> str | None:
        return None if isinstance(self.given, str) else self.given.get("systemPrompt")

    def stored(self) -> dict[str, Json]:
        """The message as appendUserMessage gets it."""
        given = {"content": self.given} if isinstance(self.given, str) else self.given
        return {
            "id": given.get("id", self.id),
            "content": given["content"],
            "role": "user",
            "timestamp": date(given["clientTimestamp"]) if "clientTimestamp" in given else "<now>",
        }
