"""No mistake of a developer is silent, and none is found later than it must be."""

from __future__ import annotations

from .cases import TAKES, found, parameters


def test_every_parameter_has_an_entry() -> None:
    """A new parameter says which kinds of values it takes."""
    assert {of: sorted(takes) for of, takes in TAKES.items()} == {
        of: sorted(names) for of, names in parameters().items()
    }


async def test_no_mistake_is_silent_or_late() -> None:
    """More than 1000 of them: names, types, missing pieces, swapped arguments."""
    outcomes = await found()
    assert len(outcomes) > 1000
    assert {n: w for n, (w, _) in outcomes.items() if w in ("late", "silent")} == {}
