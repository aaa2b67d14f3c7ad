"""Servers of other tests end with those tests."""

from __future__ import annotations

import pytest

from .foreign import SERVERS


@pytest.fixture(autouse=True)
def no_servers() -> None:
    """Forget the servers of the test before, whose event loop is closed now."""
    SERVERS.clear()
