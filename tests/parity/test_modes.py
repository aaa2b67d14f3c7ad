"""Every recording as users get it: through the functions and the classes, in the default mode."""

from __future__ import annotations

import pytest

from .compare import shown
from .divergences import ALL_IDS
from .judge import documents, judge
from .modes import CLASSES, FUNCTIONS, Mode
from .vectors import Vector


@pytest.mark.parametrize("mode", [FUNCTIONS, CLASSES], ids=lambda mode: mode.name)
def test_recording_in_the_default_mode(vector: Vector, mode: Mode) -> None:
    """What TypeScript did, but for the order rule, kept user turns and what the page lists."""
    if vector.kind != "run":
        pytest.skip("it makes no agent")
    waiting = vector.not_applicable()
    if waiting is not None:
        pytest.skip(waiting)
    found = documents(vector, ALL_IDS, mode)
    verdict = judge(found)
    assert not found.problems
    assert not verdict.conflicts, f"not what is replaced:\n{shown(verdict.conflicts)}"
    assert not verdict.differences, shown(verdict.differences)
