"""A log of a run's events, for tests."""

from __future__ import annotations

from typing import TypeVar

from agentkit_py.events.types import Event

E = TypeVar("E")


class EventLog:
    """Records the events of runs: pass it as ``observer=``.

    Attributes:
        events: All events, in order.
    """

    def __init__(self) -> None:
        """Start without events."""
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        """Record ``event``."""
        self.events.append(event)

    def of(self, kind: type[E]) -> list[E]:
        """Return the events of one kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def story(self) -> list[str]:
        """The events, one line each: ``"RunStarted network support"``."""
        return [_line(event) for event in self.events]


def _line(event: Event) -> str:
    scope = getattr(event, "scope", None)
    return " ".join(filter(None, (type(event).__name__, scope, event.name)))
