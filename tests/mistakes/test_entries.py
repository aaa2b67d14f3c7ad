"""Every parameter has an entry in the tables of mistakes; quick, so that a new one is noticed."""

from __future__ import annotations

import inspect

import pytest

from agentkit_py import HistoryConfig, MemoryHistory, RunLimits, SqliteHistory
from agentkit_py.routing import handoffs, mention_router
from agentkit_py.stores import ThreadLease

from . import setups
from .cases import TAKES, parameters

ADVICE = "add it to TAKES in tests/mistakes/cases.py, with the kind of value that it takes"


def test_every_parameter_has_an_entry() -> None:
    """A new parameter says which kinds of values it takes."""
    names = {of: set(known) for of, known in parameters().items()}
    assert set(TAKES) == set(names)
    missing = {(of, name) for of, known in names.items() for name in known - set(TAKES[of])}
    assert missing == set(), ADVICE
    gone = {(of, name) for of, known in names.items() for name in set(TAKES[of]) - known}
    assert gone == set()


@pytest.mark.parametrize(
    "made", [HistoryConfig, MemoryHistory, SqliteHistory, ThreadLease, RunLimits]
)
def test_every_parameter_of_stores_and_limits_has_an_entry(made: type) -> None:
    """A new parameter says which kinds of values it takes."""
    names = inspect.signature(made).parameters
    assert sorted(setups.TAKES[made.__name__]) == sorted(names)


@pytest.mark.parametrize("made", [handoffs, mention_router])
def test_every_parameter_of_a_router_has_an_entry(made: object) -> None:
    """A new parameter says which kinds of values it takes."""
    assert callable(made)
    assert sorted(setups.TAKES[made.__name__]) == sorted(inspect.signature(made).parameters)
