"""Logs of code that runs again from its top: what comes again is compared, and not kept twice."""

from __future__ import annotations

from typing import TypeVar

from agentkit_py.inngest.overlap import inside_step

T = TypeVar("T")


class Log(list[T]):
    """A list that knows what a replay only repeats.

    What happens inside a step happens once. What happens between steps happens in each execution,
    and has to be the same each time.
    """

    def __init__(self) -> None:
        super().__init__()
        self._start: int | None = None
        self._at = 0
        self._inside: set[int] = set()
        self._problems: list[str] = []

    def mark(self) -> None:
        """Executions begin here."""
        self._start = self._at = len(self)

    def rewind(self) -> None:
        """An execution begins."""
        assert self._start is not None
        self._at = self._start

    def unmark(self) -> list[str]:
        """End the replays and return the differences between them."""
        found, self._problems = self._problems, []
        self._skip()
        if self._start is not None and self._at < len(self):
            found.append(f"the last execution left out {self[self._at]!r:.200}")
        self._start = None
        return found

    def append(self, item: T, /) -> None:
        """Append an item, or compare it with the first execution's."""
        if self._start is None:
            super().append(item)
            return
        if inside_step() is not None:
            self._inside.add(len(self))
            super().append(item)
            return
        self._skip()
        if self._at == len(self):
            super().append(item)
        elif self[self._at] != item:
            self._problems.append(f"a replay did {item!r:.200} instead of {self[self._at]!r:.200}")
        self._at += 1

    def sent(self, item: T, /) -> None:
        """Append a chunk: a replay does not send again what an earlier execution has sent."""
        if self._start is not None:
            self._inside.add(len(self))
        super().append(item)

    def once(self, item: T, /) -> None:
        """Append an item that a replay may leave out: a step, whose output is remembered."""
        if self._start is not None:
            if item in self[self._start :]:
                return
            self._inside.add(len(self))
        super().append(item)

    def _skip(self) -> None:
        while self._at in self._inside:
            self._at += 1
