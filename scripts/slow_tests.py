"""Print tests that take much processor time and are not listed in tests/slow.txt.

Fails if one takes more than two seconds. Processor time is that of the test's body and of processes
that it waited for: a busy machine does not lengthen it much.

Run:
    python -m pytest -n auto -m "not slow" --cpu-times=.cache/times.jsonl
    python scripts/slow_tests.py .cache/times.jsonl
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

SHOWN, REFUSED = 0.5, 2.0
"""Seconds."""


def main(file: str) -> int:
    """Print the tests, the slowest first."""
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    found = sorted(
        (seconds, name)
        for name, listed, seconds in map(json.loads, lines)
        if not listed and seconds > SHOWN
    )
    for seconds, name in reversed(found):
        print(f"{seconds:6.2f} s  {name}")
    refused = [name for seconds, name in found if seconds > REFUSED]
    print(f"{len(found)} tests above {SHOWN} s are not in tests/slow.txt, {len(refused)} above 2 s")
    return 1 if refused or not lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
