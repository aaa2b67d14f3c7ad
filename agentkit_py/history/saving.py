"""ThreadSaves: which results of a run are saved, and which are not yet."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from agentkit_py.history.thread_steps import ThreadSteps
from agentkit_py.results import AgentResult
from agentkit_py.state import State


@dataclass(slots=True)
class ThreadSaves:
    """The results of a run: saved and unsaved."""

    state: State[Any]
    ids: list[str] = field(default_factory=list[str])
    """Ids of the run's results that are saved."""

    _counts: dict[str, int] = field(default_factory=dict[str, int], init=False)
    """The number of times that results were saved, by the author of the first of them."""

    _saved: int = field(default=0, init=False)
    _last: AgentResult | None = field(default=None, init=False)
    """The last result that is saved, or was there before, at `_saved` - 1."""

    _made: list[AgentResult] = field(default_factory=list[AgentResult], init=False)
    """Results of the run that are not saved yet."""

    _refused: bool = field(default=False, init=False)
    """True if the store refused the last results."""

    def track(self, result: AgentResult) -> None:
        """Note a result of the run: it is saved even if hooks take it out of the state."""
        self._made.append(result)

    def unsaved(self) -> Sequence[AgentResult]:
        """Return the results of this run that are not saved yet."""
        transcript = self.state.transcript
        last = transcript[self._saved - 1] if 0 < self._saved <= len(transcript) else None
        if _is_same(last, self._last):
            return transcript[self._saved :]
        # A tool or hook put other results in place of those that were saved, so the place where
        # the new results begin is lost; but the run's own results are known.
        return tuple(self._made)

    async def save(
        self,
        append: Callable[[Sequence[AgentResult]], Awaitable[Any]],
        steps: ThreadSteps,
        *,
        lost: bool,
    ) -> None:
        """Save all results that are not saved yet.

        Args:
            append: Appends results to the thread.
            steps: The steps of the thread.
            lost: The run has failed for good: there is nothing left to remember it for.
        """
        new = self.unsaved()
        if not new or (lost and self._refused):  # the store was asked: that is why the run failed
            return
        author = new[0].agent_name
        count = self._counts.get(author, 0)
        call = partial(append, new)
        self._refused = True
        await (call() if lost else steps.once(f"append-results.{author}.{count}", call))
        self._refused = False
        self.ids += [result.id for result in new if result.id is not None]
        self._counts[author] = count + 1
        self.remember()

    def remember(self) -> None:
        """Take all results of the state for saved."""
        self._made.clear()
        transcript = self.state.transcript
        self._saved = len(transcript)
        self._last = transcript[-1] if transcript else None

    def shift(self, count: int) -> None:
        """Note that older results were loaded before those of the state."""
        self._saved += count


def _is_same(one: AgentResult | None, other: AgentResult | None) -> bool:
    """Return whether two results differ in the side of their messages at most."""
    if one is other or one is None or other is None:
        return one is other
    return one.id == other.id and one.on_side(past=True) == other.on_side(past=True)
