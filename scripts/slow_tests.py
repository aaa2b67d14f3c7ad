"""Print tests that take much processor time and are not listed in tests/slow.txt.

Fails if one takes more than two seconds, also when it is run again by itself: on a busy machine a
test that polls takes more time the longer it waits. Processor time is that of the test's body and
of processes that it waited for.

Run:
    python -m pytest -n auto -m "not slow" --cpu-times=.cache/times.jsonl
    python scripts/slow_tests.py .cache/times.jsonl
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHOWN, REFUSED = 0.5, 2.0
"""Seconds."""


def measured(file: Path) -> dict[str, float]:
    """Return the seconds of the tests that are not listed as slow, by name."""
    lines = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return {name: seconds for name, is_listed, seconds in lines if not is_listed}


def measured_again(names: Sequence[str]) -> dict[str, float]:
    """Run tests one after another; return the seconds of each."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "times.jsonl"
        command = [sys.executable, "-m", "pytest", "-q", *names, f"--cpu-times={file}"]
        subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.DEVNULL)  # noqa: S603
        return measured(file) if file.is_file() else {}


def main(file: str) -> int:
    """Print the tests, the slowest first."""
    times = measured(Path(file))
    found = {name: seconds for name, seconds in times.items() if seconds > SHOWN}
    above = [name for name, seconds in found.items() if seconds > REFUSED]
    again = measured_again(above) if above else {}
    for name, seconds in sorted(found.items(), key=lambda pair: -pair[1]):
        print(f"{seconds:6.2f} s  {name}")
        if name in again:
            print(f"{again[name]:6.2f} s  when it was run again by itself")
    refused = [name for name in above if again.get(name, REFUSED + 1) > REFUSED]
    print(f"{len(found)} tests above {SHOWN} s are not in tests/slow.txt, {len(refused)} above 2 s")
    return 1 if refused or not times else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
