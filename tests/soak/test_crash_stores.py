"""The crash test in short; `make crash` runs it with a thousand kills."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("crash_stores.py")


@pytest.mark.skipif(sys.platform == "win32", reason="it forks")
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_nothing_that_was_acknowledged_is_lost_when_writers_are_killed(store: str) -> None:
    """Nothing is doubled either, though each successor repeats its predecessor's last save."""
    command = [sys.executable, str(SCRIPT), "--kills", "25", "--store", store]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    figures = json.loads(done.stdout)
    assert (figures["lost"], figures["doubled"], figures["gaps"], figures["invalid"]) == (0,) * 4
    assert figures["found"] >= figures["acknowledged"] > 0
