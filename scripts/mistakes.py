"""Make every generated mistake of a developer, and count those that are found late or never.

Usage: python scripts/mistakes.py [--table]

Prints how many mistakes are found at once, before a model call, late and never, and lists the last
two. With ``--table`` it prints every parameter with what it takes, and when its mistakes are found.
The cases are those of `tests/mistakes`.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.mistakes import setups
from tests.mistakes.cases import TAKES, VALUES, found, mistakes


def main() -> int:
    """Count; return 1 if a mistake is silent or late."""
    logging.disable(logging.CRITICAL)
    outcomes = asyncio.run(found([*mistakes(), *setups.more()]))
    if "--table" in sys.argv:
        print("| parameter | takes | mistakes are found |\n| --- | --- | --- |")
        for of, parameters in (TAKES | setups.TAKES).items():
            for parameter, kinds in parameters.items():
                own = [f"{of}: {parameter} is a {kind}" for kind in VALUES]
                when = Counter(outcomes[name][0] for name in own if name in outcomes)
                said = ", ".join(f"{count} {word}" for word, count in when.most_common())
                print(f"| `{of}.{parameter}` | {kinds or 'values of its own type'} | {said} |")
    for name, (when, error) in outcomes.items():
        if when in ("late", "silent"):
            print(f"{when}: {name} {error[:100]}")
    counts = Counter(when for when, _ in outcomes.values())
    print(f"{len(outcomes)} mistakes: " + ", ".join(f"{n} {when}" for when, n in counts.items()))
    return 1 if counts["late"] or counts["silent"] else 0


if __name__ == "__main__":
    sys.exit(main())
