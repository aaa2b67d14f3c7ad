"""The documents of one recording before it is judged."""

from __future__ import annotations

from dataclasses import dataclass

from .vectors import Json


@dataclass(frozen=True, slots=True)
class Documents:
    """One recording in the form in which it is compared."""

    recorded: dict[str, Json]
    """TypeScript's run."""

    base: dict[str, Json] | None
    """TypeScript's run by the reference model; None: the model does not support the scenario."""

    other: dict[str, Json] | None
    """Our run by the reference model: what we must do."""

    observed: dict[str, Json]
    """Our library's run."""

    asked: frozenset[str] = frozenset()
    """The divergences that the model came across."""

    problems: tuple[str, ...] = ()
    """Violations of our own rules, whatever TypeScript does."""
