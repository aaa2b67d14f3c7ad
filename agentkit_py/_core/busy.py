"""Waiting for others who open the same SQLite file."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_PAUSE = 0.01
"""Seconds."""


def retried(work: Callable[[], T], is_busy: Callable[[Exception], bool], *, seconds: float) -> T:
    """Call ``work``, again for so many seconds while others use the file. Blocks.

    Processes that create one file at the same moment can be refused at once, without the usual
    waiting: SQLite does so where waiting could be a deadlock, in the change to WAL.

    Raises:
        Exception: It is none of ``is_busy``, or the time is over.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            return work()
        except Exception as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE)
