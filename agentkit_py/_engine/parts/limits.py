"""Limits of a run: time, tokens, cost and inferences end its turns."""

from __future__ import annotations

from functools import partial

from agentkit_py._engine.parts.base import Inference, Part


class Limits(Part):
    """Ends a turn where the run has reached a limit."""

    async def begin(self) -> str | None:
        """Return the limit that the run has reached before the turn."""
        return self._reached("0")

    def ends_after(self, inference: Inference) -> str | None:
        """Return the limit that the run has reached with an inference."""
        return self._reached(f"{inference.number}.after")

    def _reached(self, name: str) -> str | None:
        now = partial(self.run.runtime.now, f"{self.turn.path}.{name}/limit")
        return self.run.spending.meter.reached(now)
