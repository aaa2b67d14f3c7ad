"""Measures how general the rules are: how many of a family's recordings need none of its own.

Leaves one family of recordings out after the other. One of its recordings passes if each divergence
that it needs is needed by a recording of another family, too.

Run:
    python -m tests.parity.families [--vectors DIR]…

More folders than the committed one may be named, such as what `tests.parity.fresh --keep` leaves:
the more scenarios a family shares with others, the fewer rules are its own.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections import defaultdict
from pathlib import Path

from .divergences import ALL_IDS
from .evidence import Documents
from .judge import applied, documents, models
from .reference.core import Unsupported
from .vectors import COMMITTED, Vector, load_folder

_SAME = {"inside": "durable", "served": "mcp"}
"""Families that are others' in other surroundings."""


def family_of(vector: Vector) -> str:
    """The family of a recording: the area's first word."""
    word = str(vector.data["area"]).partition("/")[0].partition("-")[0]
    name = vector.name.partition(".")[0]
    return _SAME.get(name, word)


def rules_of(vector: Vector) -> set[str]:
    """The divergences that a recording needs, by the model alone."""
    if vector.kind != "run":
        return set(applied(vector, documents(vector)))
    try:
        ours = models(vector, ALL_IDS)[1]
    except Unsupported:
        return set()
    return set(applied(vector, Documents({}, None, ours.document, {}, ours.asked)))


def main() -> None:
    """Print a line for each family, then the rules that only one family needs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--vectors", type=Path, action="append", default=[])
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    needed: dict[str, list[set[str]]] = defaultdict(list)
    for vector in (v for folder in given.vectors or [COMMITTED] for v in load_folder(folder)):
        if vector.not_applicable() is None:
            needed[family_of(vector)].append(rules_of(vector))
    for family, own in sorted(needed.items()):
        others = {one for name, sets in needed.items() if name != family for s in sets for one in s}
        passed = sum(rules <= others for rules in own)
        alone = sorted({one for rules in own for one in rules - others})
        share = f"{passed:4} of {len(own):4}  {passed / len(own):6.1%}"
        sys.stdout.write(f"{family:12} {share}  {' '.join(alone)}\n")


if __name__ == "__main__":
    main()
