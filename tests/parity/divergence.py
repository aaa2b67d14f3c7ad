"""Entries of the manifest of divergences."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Divergence:
    """One deliberate difference.

    Attributes:
        id: Name of the switch in the reference model.
        source: What in TypeScript's source makes it so: a file and what it declares; of another
            package or of the proposal with processors, the name of that.
        difference: What we do, in one sentence.
        why: Why.
        recorded_as: Recordings that show it and are not in the folder that we have.
    """

    id: str
    source: str
    difference: str
    why: str
    recorded_as: str = ""
