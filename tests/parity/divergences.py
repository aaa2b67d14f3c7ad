"""Where we deliberately differ from the TypeScript package: one entry for each.

The rule of an entry is a switch of its name in the reference model (`tests/parity/reference`),
which is an executable description of TypeScript: switched off, the model does what the recordings
say; switched on, what we must do. Where the two differ, the recording has to say what the model
without the switch says, and our library has to do what the model with it says; everything else of
the recording is compared as it stands. So an entry applies to every recording, known or not, whose
scenario it makes a difference to, and to nothing else.
"""

from __future__ import annotations

from .divergence import Divergence
from .divergences_engine import ENGINE
from .divergences_models import MODELS

DIVERGENCES: tuple[Divergence, ...] = (*ENGINE, *MODELS)
"""The whole manifest."""

ALL_IDS = frozenset(each.id for each in DIVERGENCES)
"""The names of all switches."""

NOTATION = frozenset(
    {"results-have-ids", "no-kv", "no-function-key", "what-is-unchanged-stays-itself"}
)
"""Differences in what is written down, not in what happens."""
