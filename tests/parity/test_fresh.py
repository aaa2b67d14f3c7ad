"""Random scenarios: what the npm package does in Node, and what ours does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.typescript import NodeMissingError

from .fresh import ENDLESS, problem_of, recorded
from .modes import CLASSES, FUNCTIONS, TYPESCRIPT

COUNT = int(os.environ.get("PARITY_FRESH", "18"))
SEED = os.environ.get("PARITY_SEED", "ci")


def test_fresh_recordings_of_typescript_agree(tmp_path: Path) -> None:
    """But for the differences that the manifest names."""
    try:
        found = recorded(SEED, COUNT, tmp_path)
    except NodeMissingError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
    modes = (TYPESCRIPT, FUNCTIONS, CLASSES)
    problems = {(v.name, mode.name): problem_of(v, mode) for v in found for mode in modes}
    assert {
        where: problem for where, problem in problems.items() if problem not in ("", ENDLESS)
    } == {}
