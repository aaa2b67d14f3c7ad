"""No mistake of a developer is silent, and none is found later than it must be."""

from __future__ import annotations

import inspect

import pytest

from agentkit_py import HistoryConfig, MemoryHistory, SqliteHistory
from agentkit_py.routing import handoffs, mention_router
from agentkit_py.stores import ThreadLease

from . import setups
from .cases import TAKES, found, mistakes, parameters


def test_every_parameter_has_an_entry() -> None:
    """A new parameter says which kinds of values it takes."""
    assert {of: sorted(takes) for of, takes in TAKES.items()} == {
        of: sorted(names) for of, names in parameters().items()
    }


async def test_no_mistake_is_silent_or_late() -> None:
    """More than 1000 of them: names, types, missing pieces, swapped arguments."""
    outcomes = await found(mistakes())
    assert len(outcomes) > 1000
    assert {n: w for n, (w, _) in outcomes.items() if w in ("late", "silent")} == {}


async def test_no_mistake_beside_agents_is_silent_or_late() -> None:
    """Stores, leases, limits, routers, tools, handoffs, `resume` and `pending`."""
    outcomes = await found(setups.more())
    assert len(outcomes) > 500
    assert {n: w for n, (w, _) in outcomes.items() if w in ("late", "silent")} == {}


@pytest.mark.parametrize("made", [HistoryConfig, MemoryHistory, SqliteHistory, ThreadLease])
def test_every_parameter_of_a_store_has_an_entry(made: type) -> None:
    """A new parameter says which kinds of values it takes."""
    names = inspect.signature(made).parameters
    assert sorted(setups.TAKES[made.__name__]) == sorted(names)


@pytest.mark.parametrize("made", [handoffs, mention_router])
def test_every_parameter_of_a_router_has_an_entry(made: object) -> None:
    """A new parameter says which kinds of values it takes."""
    assert callable(made)
    assert sorted(setups.TAKES[made.__name__]) == sorted(inspect.signature(made).parameters)
