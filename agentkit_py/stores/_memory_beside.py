"""What a MemoryHistory keeps beside threads: summaries, leases and runs."""

from __future__ import annotations

import time
from dataclasses import dataclass

from agentkit_py.history.runs import RunRecord
from agentkit_py.processors.base import Summary
from agentkit_py.stores.records import decode_run, encode_run


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

    def of_thread(self, thread_id: str) -> dict[str, Summary]:
        """All summaries of a thread, by key."""
        return {
            key: kept.summary
            for (thread, key), kept in self._kept.items()
            if thread == thread_id and kept.summary is not None
        }


class Runs:
    """Leases and runs in memory; whoever calls holds a lock."""

    def __init__(self) -> None:
        """Begin without any."""
        self._leases: dict[str, tuple[str, float]] = {}
        self._runs: dict[str, dict[str, str]] = {}

    def lock(self, thread_id: str, owner: str, seconds: float) -> bool:
        """Take or prolong the lease of a thread."""
        now = time.time()
        other, until = self._leases.get(thread_id, (owner, 0.0))
        if other != owner and until > now:
            return False
        self._leases[thread_id] = (owner, now + seconds)
        return True

    def unlock(self, thread_id: str, owner: str) -> None:
        """Give the lease back."""
        if self._leases.get(thread_id, ("", 0.0))[0] == owner:
            del self._leases[thread_id]

    def save(self, thread_id: str, run: RunRecord) -> None:
        """Put a run in place of what was known of it."""
        self._runs.setdefault(thread_id, {})[run.id] = encode_run(run, thread_id)

    def of_thread(self, thread_id: str) -> tuple[RunRecord, ...]:
        """All runs of a thread, in order."""
        kept = self._runs.get(thread_id, {})
        return tuple(decode_run(thread_id, one, text) for one, text in kept.items())

    def load(self, thread_id: str, run_id: str | None) -> RunRecord | None:
        """A run, or the newest one with a state."""
        kept = self._runs.get(thread_id, {})
        wanted = reversed(kept) if run_id is None else (one for one in [run_id] if one in kept)
        found = (decode_run(thread_id, one, kept[one]) for one in wanted)
        return next((run for run in found if run_id is not None or run.state is not None), None)

    def forget(self, thread_id: str) -> None:
        """Remove what is known of a thread."""
        self._leases.pop(thread_id, None)
        self._runs.pop(thread_id, None)
