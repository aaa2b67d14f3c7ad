"""Many streams at once: a smaller version of tests/soak/server_streams.py."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "soak" / "server_streams.py"


def test_no_run_is_lost_and_no_event_out_of_order_whatever_readers_do() -> None:
    """The script checks that; here that it ran, and how much the server kept."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--users", "20", "--messages", "1", "--json"],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["runs stored whole"] == figures["runs"] == 20
    assert figures["breaks that were gone on from"] >= 2
    assert figures["readers left at the end"] == 0
    assert figures["kept in rings at most, KB"] <= 20 * 256
