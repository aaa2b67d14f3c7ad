"""What a MemoryHistory keeps beside threads: summaries."""

from __future__ import annotations

import time
from dataclasses import dataclass

from agentkit_py.processors.summaries import Summary


@dataclass(slots=True)
class _Kept:
    summary: Summary | None = None
    locked_by: str | None = None
    locked_until: float = 0.0


class Summaries:
    """Summaries in memory; whoever calls holds a lock."""

    def __init__(self) -> None:
        """Begin without any."""
        self._kept: dict[tuple[str, str], _Kept] = {}

    def load(self, thread_id: str, key: str) -> Summary | None:
        """The summary, if there is one."""
        kept = self._kept.get((thread_id, key))
        return None if kept is None else kept.summary

    def lock(self, thread_id: str, key: str, owner: str, seconds: float) -> bool:
        """Take the right to write, if nobody else has it."""
        kept = self._kept.setdefault((thread_id, key), _Kept())
        now = time.time()
        if kept.locked_by not in (None, owner) and kept.locked_until > now:
            return False
        kept.locked_by, kept.locked_until = owner, now + seconds
        return True

    def save(self, thread_id: str, key: str, summary: Summary, owner: str) -> bool:
        """Write, if ``owner`` has the right to, and give that back."""
        kept = self._kept.get((thread_id, key))
        if kept is None or kept.locked_by != owner:
            return False
        kept.summary, kept.locked_by = summary, None
        return True

    def unlock(self, thread_id: str, key: str, owner: str) -> None:
        """Give the right to write back."""
        kept = self._kept.get((thread_id, key))
        if kept is not None and kept.locked_by == owner:
            kept.locked_by = None

    def forget(self, thread_id: str) -> None:
        """Remove the summaries of a thread."""
        for found in [key for key in self._kept if key[0] == thread_id]:
            del self._kept[found]
