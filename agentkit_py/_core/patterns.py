"""Regular expressions of users, searched in time that is linear in the text and limited.

Python's `re` cannot be stopped, and takes exponential time for some expressions. The package
`regex` (which tiktoken needs, too) means the same by them, and stops after some time.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

LONGEST_MATCH = 4_000
"""Characters of the longest match that is sure to be found in a long text."""

SECONDS = 0.5
"""Processor time that an expression may take for a text."""


class BoundedPattern:
    """A regular expression whose search takes limited time.

    Texts of more than 8,000 characters are searched in overlapping windows, since an expression may
    take the square of a text's length.

    Raises:
        re.error: The expression is none.
    """

    def __init__(self, pattern: str | re.Pattern[str]) -> None:
        compiled = re.compile(pattern)
        self.pattern: str = compiled.pattern
        self._flags = compiled.flags
        self._engine: Any = self._compiled()

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield starts and ends of the matches.

        Raises:
            TimeoutError: It took longer than `SECONDS`.
        """
        search = _TextSearch(self._engine)
        if len(text) <= 2 * LONGEST_MATCH:
            for match in search.all(text, 0, len(text)):
                yield match.span()
            return
        start, extends = 0, True
        while start < len(text):
            middle, end = start + LONGEST_MATCH, start + 2 * LONGEST_MATCH
            start = middle
            for match in search.all(text, middle - LONGEST_MATCH, end):
                if match.start() >= middle:
                    break
                stop = match.end()
                if stop == end < len(text) and extends:
                    # Reading on succeeds as often as it likes: characters it takes are not read
                    # again.
                    longer = search.here(text, match.start())
                    extends = longer is not None and longer.end() > stop
                    stop = longer.end() if longer is not None and extends else stop
                yield match.start(), stop
                start = max(middle, stop)

    def _compiled(self) -> Any:
        import regex  # noqa: PLC0415 - takes time, and few programs have patterns of their own

        same = {
            re.IGNORECASE: regex.IGNORECASE,
            re.MULTILINE: regex.MULTILINE,
            re.DOTALL: regex.DOTALL,
            re.VERBOSE: regex.VERBOSE,
            re.ASCII: regex.ASCII,
        }
        flags = regex.VERSION0
        for ours, theirs in same.items():
            flags |= theirs if self._flags & ours else 0
        try:
            return regex.compile(self.pattern, flags)
        except regex.error as error:
            raise re.error(str(error), self.pattern) from error


class _TextSearch:
    """The searches of a text, which share a limit."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._ends = time.thread_time() + SECONDS

    def all(self, text: str, start: int, end: int) -> Iterator[Any]:
        """Yield the matches."""
        return self._engine.finditer(text, start, end, timeout=self._left())

    def here(self, text: str, start: int) -> Any:
        """Return the match that begins here."""
        return self._engine.match(text, start, timeout=self._left())

    def _left(self) -> float:
        left = self._ends - time.thread_time()
        if left <= 0:
            raise TimeoutError
        return left
