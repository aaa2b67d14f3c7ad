"""An observer that remembers."""

from __future__ import annotations

from typing import TypeVar

from agentkit_py.events.types import Event

E = TypeVar("E")


class EventLog:
    """Pass it as ``observer=`` and read what happened.

    Attributes:
        events: All events, in order.
    """

    def __init__(self) -> None:
        """Begin empty."""
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        """Remember ``event``."""
        self.events.append(event)

    def of(self, kind: type[E]) -> list[E]:
        """The events of one kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def story(self) -> list[str]:
        """What happened, one line each: ``"RunStarted network support"``."""
        return [_line(event) for event in self.events]


def _line(event: Event) -> str:
    scope = getattr(event, "scope", None)
    return " ".join(filter(None, (type(event).__name__, scope, event.name)))
