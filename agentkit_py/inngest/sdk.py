"""What has to be looked up inside the SDK, which knows it and does not say; all in one place."""

from __future__ import annotations

import hashlib
from typing import Any

import inngest

DEFAULT_ATTEMPTS = 5
"""Attempts where the server does not say: Inngest's default of four retries."""


def max_attempts(ctx: inngest.Context) -> int:
    """How often the server tries, needed to know which attempt's error is final."""
    execution = getattr(ctx.step, "_execution", None)
    request = getattr(execution, "_request", None)
    found = getattr(getattr(request, "ctx", None), "max_attempts", None)
    return found if isinstance(found, int) else DEFAULT_ATTEMPTS


class Memos:
    """The remembered steps of this execution, needed to know which chunks are new."""

    def __init__(self, ctx: inngest.Context) -> None:
        """Look before any step is asked for."""
        execution: Any = getattr(ctx.step, "_execution", None)
        self._memos = getattr(execution, "_memos", None)
        found: Any = getattr(self._memos, "_memos", None) or ()
        self._ids: frozenset[str] = frozenset(found)
        self._asked = ""
        self._known = False

    def knows(self, step_id: str) -> bool:
        """Whether the step was done in an earlier execution."""
        if step_id != self._asked:  # the same is asked for twice: by the engine, and by the ledger
            digest = hashlib.sha1(step_id.encode()).hexdigest()  # noqa: S324 - the SDK's
            self._asked, self._known = step_id, digest in self._ids
        return self._known

    @property
    def left(self) -> int:
        """How many remembered steps have not been asked for yet."""
        found = getattr(self._memos, "size", 0)
        return found if isinstance(found, int) else 0
