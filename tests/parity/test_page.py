"""The page on parity says what the manifest says, and names what there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from .names import NAMES, exists
from .page import page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "parity.md"


def test_the_page_is_up_to_date() -> None:
    """`python scripts/parity_docs.py` writes it."""
    assert PAGE.read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("name", NAMES)
def test_each_python_name_is_there(name: str) -> None:
    """A missing name has a note that says why."""
    assert exists(NAMES[name]), NAMES[name]
