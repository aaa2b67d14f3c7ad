"""The ways in which a program makes agents and networks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mode:
    """How a scenario's agents and networks are made."""

    name: str
    by_function: bool = False
    """By `create_agent` and `create_network`; else by the classes."""

    chronological: bool = True
    """The history before the question, and user turns kept."""

    inferences: int = 1
    """An agent's inferences in one turn, unless a run says otherwise."""


TYPESCRIPT = Mode("typescript", chronological=False)
FUNCTIONS = Mode("functions", by_function=True)
CLASSES = Mode("classes", inferences=10)
