"""Small programs in every order of deliveries, deaths, failures and answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from . import small_mistakes
from .small_states import FAULTS, Found, explore, explore_with

ALL_FAULTS = {**FAULTS, **small_mistakes.FAULTS}


async def holds(
    program: str, depth: int, record: Callable[[str, object], None], **how: Any
) -> None:
    """Explore, and say what is broken."""
    found: Found = await explore(program, depth, **how)
    assert not found.broken, found.broken[0]
    assert found.ends
    figures = {"states": found.states, "moves": found.moves, "ends": found.ends}
    record("figures: small states of durable runs", figures)


@pytest.mark.parametrize("kind", ["dies", "cancel", "twice", "deploy both"])
async def test_a_call_holds_whatever_happens_once(
    kind: str, record_property: Callable[[str, object], None]
) -> None:
    """One call, one disturbance."""
    await holds("call", 1, record_property, kinds=(kind,))


@pytest.mark.parametrize(
    ("program", "depth", "leased"),
    [
        ("call", 1, True),
        ("call", 1, False),
        ("approval", 1, True),
        ("small", 1, False),
        ("whole", 0, True),
    ],
)
async def test_a_small_program_holds_whatever_happens(
    program: str, depth: int, record_property: Callable[[str, object], None], *, leased: bool
) -> None:
    """The depth is the number of disturbances; `make explore` goes deeper.

    With a lease the two calls of "small" are "call" and "approval", each with every disturbance.
    """
    await holds(program, depth, record_property, leased=leased)


@pytest.mark.parametrize("name", ALL_FAULTS)
async def test_a_fault_that_is_put_back_is_found(name: str) -> None:
    """Else the exploration would show nothing."""
    found = await explore_with(ALL_FAULTS[name])
    assert found.broken


@pytest.mark.parametrize("name", small_mistakes.FAULTS)
async def test_a_mistake_that_is_refused_costs_nothing(name: str) -> None:
    """The program is then written as the refusal says."""
    found = await explore_with(small_mistakes.FAULTS[name], is_planted=False)
    assert not found.broken, found.broken[0]
    assert found.ends
