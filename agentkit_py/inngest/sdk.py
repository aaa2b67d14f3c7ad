"""What has to be looked up inside the SDK, which knows it and does not say; all in one place."""

from __future__ import annotations

from typing import Any, cast

import inngest

from agentkit_py.inngest.ids import step_hash

DEFAULT_ATTEMPTS = 5
"""Attempts where the server does not say: Inngest's default of four retries."""


def max_attempts(ctx: inngest.Context) -> int:
    """How often the server tries, needed to know which attempt's error is final."""
    execution = getattr(ctx.step, "_execution", None)
    request = getattr(execution, "_request", None)
    found = getattr(getattr(request, "ctx", None), "max_attempts", None)
    return found if isinstance(found, int) else DEFAULT_ATTEMPTS


class Memos:
    """The remembered steps of this execution: which chunks are new, and what steps gave."""

    def __init__(self, ctx: inngest.Context) -> None:
        """Look before any step is asked for."""
        execution: Any = getattr(ctx.step, "_execution", None)
        self._memos: Any = getattr(execution, "_memos", None)
        found: Any = getattr(self._memos, "_memos", None)
        self._ids: frozenset[str] = frozenset(_dict_or_empty(found))
        counts: Any = getattr(getattr(ctx.step, "_step_id_counter", None), "_counts", None)
        self._counts: dict[str, int] = _dict_or_empty(counts)
        # Anything else is another SDK than the one that `take` was written for.
        self._takes: bool = (
            type(execution).__name__ == "ExecutionV0"
            and type(self._memos) is inngest.StepMemos
            and type(found) is dict
            and self._counts is counts
        )
        self._asked = ""
        self._digest = ""
        self._known = False

    def knows(self, step_id: str) -> bool:
        """Whether the step that comes next under this name was done in an earlier execution.

        A function's own steps may have had the name before; the SDK numbers those after them.
        """
        name = step_id if step_id not in self._counts else f"{step_id}:{self._counts[step_id]}"
        if name != self._asked:  # asked for by the engine, by the ledger, and by `take`
            self._digest = step_hash(name)
            self._asked, self._known = name, self._digest in self._ids
        return self._known

    def take(self, step_id: str) -> object | None:
        """What a remembered step gave, and the SDK forgets it, as with a step of its own.

        The SDK (0.5.19) describes each step to itself in full and copies all its memos before it
        gives one back: two fifths of what a remembered step took. None: ask the SDK. It must be
        asked for errors, for names that come twice, and for the last memo, with which it lets
        middleware know that what follows is new.
        """
        if not self._takes or not self.knows(step_id) or step_id in self._counts:
            return None
        memos: dict[str, Any] = self._memos._memos  # noqa: SLF001 - the SDK has no other way to it
        memo = memos.get(self._digest)
        if memo is None or memo.error is not None or memo.data is None or len(memos) == 1:
            return None
        self._counts[step_id] = 1
        del memos[self._digest]
        return memo.data

    @property
    def left(self) -> int:
        """How many remembered steps have not been asked for yet."""
        found = getattr(self._memos, "size", 0)
        return found if isinstance(found, int) else 0


def _dict_or_empty(found: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", found) if type(found) is dict else {}
