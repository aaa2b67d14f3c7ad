"""The messages of a run so far, made of its results when somebody looks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentkit_py.history.result import AgentResult
from agentkit_py.messages import Message, as_present


class Present:
    """What the agents of a run have said so far; each message is made only once."""

    __slots__ = ("_ends", "_messages", "_results")

    def __init__(self) -> None:
        """Begin with nothing."""
        self._results: list[AgentResult] = []
        self._messages: list[Message] = []
        self._ends: list[int] = []
        """How many messages there are with each result that was looked at."""

    def __len__(self) -> int:
        return len(self._results)

    def add(self, results: Iterable[AgentResult]) -> None:
        """Results have been completed."""
        self._results.extend(results)

    def first(self, count: int) -> Sequence[Message]:
        """The messages of the first ``count`` results."""
        for result in self._results[len(self._ends) : count]:
            self._messages += map(as_present, result.output)
            self._messages += map(as_present, result.tool_calls)
            self._ends.append(len(self._messages))
        return self._messages[: self._ends[count - 1]] if count else []

    def copy(self) -> Present:
        """The same, to go on by itself."""
        found = Present()
        found._results = list(self._results)
        found._messages = list(self._messages)
        found._ends = list(self._ends)
        return found
