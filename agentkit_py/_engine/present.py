"""The messages of a run so far, made of its results when somebody looks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentkit_py.messages import Message, as_present
from agentkit_py.results import AgentResult


class Present:
    """What the agents of a run have said so far; each message is made only once."""

    __slots__ = ("_ends", "_messages", "_said")

    def __init__(self) -> None:
        """Begin with nothing."""
        # Not the results, which may know what their call saw, and so this.
        self._said: list[tuple[Sequence[Message], Sequence[Message]]] = []
        self._messages: list[Message] = []
        self._ends: list[int] = []
        """How many messages there are with each result that was looked at."""

    def __len__(self) -> int:
        return len(self._said)

    def add(self, results: Iterable[AgentResult]) -> None:
        """Results have been completed."""
        self._said += [(result.output, result.tool_calls) for result in results]

    def first(self, count: int) -> Sequence[Message]:
        """The messages of the first ``count`` results."""
        for output, tool_calls in self._said[len(self._ends) : count]:
            self._messages += map(as_present, output)
            self._messages += map(as_present, tool_calls)
            self._ends.append(len(self._messages))
        return self._messages[: self._ends[count - 1]] if count else []

    def copy(self) -> Present:
        """The same, to go on by itself."""
        found = Present()
        found._said = list(self._said)
        found._messages = list(self._messages)
        found._ends = list(self._ends)
        return found
