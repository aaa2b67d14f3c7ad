"""Time grows with the input, and the loop stays free: a few shapes here, all by `make attacks`."""

from __future__ import annotations

import pytest

from tests.attacks.entries import ENTRIES
from tests.attacks.growth import LOOP_SECONDS, SHAPES, SLOPE, measure, warm_up

SHAPES_IN_SHORT = 2
"""Of each entry; together the entries see all shapes."""

CASES = [
    (entry, list(SHAPES)[(SHAPES_IN_SHORT * number + place) % len(SHAPES)])
    for number, entry in enumerate(ENTRIES)
    for place in range(SHAPES_IN_SHORT)
]
CASES.append(("a message that begins an element", "spaces"))


@pytest.mark.parametrize(("entry", "shape"), CASES)
async def test_time_grows_with_the_input_and_the_loop_is_free(entry: str, shape: str) -> None:
    """From 64 kB to 1 MB, the best of up to five rounds."""
    await warm_up([entry])
    measured = await measure(entry, shape)
    assert measured.slope <= SLOPE, measured
    assert measured.loop_is_free, measured


def test_all_shapes_are_among_the_cases() -> None:
    """Forty and more."""
    assert len(SHAPES) >= 40
    assert {shape for _, shape in CASES} == set(SHAPES)


async def test_quadratic_work_and_a_held_loop_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The measure itself can fail."""

    async def quadratic(text: str) -> object:
        return sum(1 for _ in range((len(text) // 2**12) ** 2 * 1600))

    monkeypatch.setitem(ENTRIES, "bad", quadratic)
    measured = await measure("bad", "letters", rounds=1)
    assert not measured.fits
    assert measured.slope > SLOPE
    measured.used = dict.fromkeys(measured.used, 0.0)
    assert measured.slope == 0
    measured.loop[2**20] = LOOP_SECONDS * measured.pace + 1
    assert not measured.fits
