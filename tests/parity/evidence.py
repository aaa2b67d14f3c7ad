"""What is known of one recording before it is judged."""

from __future__ import annotations

from dataclasses import dataclass

from .vectors import Json


@dataclass(frozen=True, slots=True)
class Documents:
    """One recording in the form in which it is compared."""

    recorded: dict[str, Json]
    """What TypeScript did."""

    base: dict[str, Json] | None
    """What the reference model says it did; None: the model does not know the scenario."""

    other: dict[str, Json] | None
    """What the reference model says we must do."""

    observed: dict[str, Json]
    """What our library did."""

    asked: frozenset[str] = frozenset()
    """The divergences that the model came across."""

    problems: tuple[str, ...] = ()
    """What is wrong by our own rules, whatever TypeScript does."""
