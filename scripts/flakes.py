"""Run the tests again and again beside busy processes, and list those that did not always pass.

Run:
    python scripts/flakes.py                              # everything, ten times
    python scripts/flakes.py --count 25 tests/server -k cancel
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

BUSY = "while True: pass"


def failed(junit: Path) -> list[str]:
    """Return the tests of a report that did not pass; a report that is missing counts as one."""
    if not junit.exists():
        return ["(pytest ended before it wrote its report)"]
    cases = ElementTree.parse(junit).iter("testcase")  # noqa: S314 - our own file
    return [
        f"{case.get('classname')}::{case.get('name')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]


def main() -> int:
    """Print each run's failures, then how often each test failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=10, help="how many runs (10)")
    parser.add_argument("--busy", type=int, default=2, help="how many busy processes (2)")
    given, selection = parser.parse_known_args()
    options = ["-q", "-n", "auto", "--dist", "worksteal", *selection]
    command = [sys.executable, "-m", "pytest", *options]
    load = [
        subprocess.Popen([sys.executable, "-c", BUSY])  # noqa: S603 - our own interpreter
        for _ in range(given.busy)
    ]
    found = Counter[str]()
    broken = 0
    try:
        with tempfile.TemporaryDirectory(prefix="agentkit-flakes-") as folder:
            for number in range(1, given.count + 1):
                junit = Path(folder) / f"{number}.xml"
                done = subprocess.run(  # noqa: S603 - our own interpreter
                    [*command, f"--junitxml={junit}"], capture_output=True, text=True, check=False
                )
                names = failed(junit)
                found.update(names)
                broken += bool(done.returncode or names)
                closing = (done.stdout.strip() or done.stderr.strip()).rpartition("\n")[2]
                print(f"run {number}: {closing}", *names, sep="\n  ", flush=True)
    finally:
        for process in load:
            process.kill()
            process.wait()
    for name, times in found.most_common():
        print(f"did not pass in {times} of {given.count} runs: {name}")
    print(f"{given.count - broken} of {given.count} runs passed")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
