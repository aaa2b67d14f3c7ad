"""Work that a large text makes heavy, away from the event loop's thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

T = TypeVar("T")

MOST_CHARACTERS = 2**16
"""Work on more than so many goes to a thread of its own."""


async def off_loop(work: Callable[[], T], *texts: object) -> T:
    """Call ``work``, in a worker thread if the texts that it works on are long together.

    Args:
        work: It may not await.
        texts: Strings, JSON, or lists of both.
    """
    if _left_of(MOST_CHARACTERS, texts) > 0:
        return work()
    return await asyncio.to_thread(work)


def _left_of(most: int, value: object) -> int:
    """Return how many characters are left of a budget; it stops where none is."""
    if isinstance(value, str):
        return most - len(value)
    if isinstance(value, Mapping):
        found = cast("Mapping[object, object]", value)
        items: Iterable[Any] = (part for pair in found.items() for part in pair)
    elif isinstance(value, list | tuple):
        items = cast("Iterable[Any]", value)
    else:
        return most - 1
    for item in items:
        most = _left_of(most, item)
        if most <= 0:
            break
    return most
