"""No mistake of a developer is silent, and none is found later than it must be."""

from __future__ import annotations

from . import setups
from .cases import found, mistakes


async def test_no_mistake_is_silent_or_late() -> None:
    """More than 1000 of them: names, types, missing pieces, swapped arguments."""
    outcomes = await found(mistakes())
    assert len(outcomes) > 1000
    assert {n: w for n, (w, _) in outcomes.items() if w in ("late", "silent")} == {}


async def test_no_mistake_in_stores_and_routers_is_silent_or_late() -> None:
    """Stores, leases, limits, routers, tools, handoffs, `resume` and `pending`."""
    outcomes = await found(setups.more())
    assert len(outcomes) > 500
    assert {n: w for n, (w, _) in outcomes.items() if w in ("late", "silent")} == {}
