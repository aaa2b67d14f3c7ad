"""The terminal: text that cannot steer it, and bars."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from typing import Self

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from agentkit_py._core.untrusted import clean

TYPING_DELAY = 0.012
"""Seconds between two words in a terminal."""

_WIDEST = 100
"""Columns; longer lines are hard to read."""


class CleanConsole(Console):
    """A console whose texts cannot steer the terminal; its own styles stay."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Return the printed text, cleaned."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=clean(segment.text))


def make_console(*, no_color: bool = False, stderr: bool = False) -> Console:
    """Return a console on standard output; the environment variable NO_COLOR counts too."""
    stdout: object = sys.stdout
    if isinstance(stdout, io.TextIOWrapper):
        # What the terminal's encoding lacks becomes "?", which beats a traceback.
        stdout.reconfigure(errors="replace")
    console = CleanConsole(highlight=False, emoji=False, no_color=no_color or None, stderr=stderr)
    console.width = min(console.width, _WIDEST)
    return console


class Terminal:
    """The options that all commands share."""

    def __init__(self, console: Console, *, debug: bool, no_color: bool) -> None:
        self.console = console
        self.debug = debug
        self.flags: list[str] = [
            flag for flag, given in (("--debug", debug), ("--no-color", no_color)) if given
        ]

    def delay(self, *, wanted: bool) -> float:
        """Return the seconds between words: 0 without a terminal."""
        return TYPING_DELAY if wanted and self.console.is_terminal else 0.0


def shorten(text: str, width: int) -> str:
    """Return ``text`` on a line of ``width`` columns."""
    line = Text(" ".join(clean(text).split()))
    line.truncate(max(width, 1), overflow="ellipsis")
    return line.plain


def counted(count: int, what: str) -> str:
    """Return a number with its noun: ``1 thread``, ``2 threads``."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


class ProgressBar:
    """A bar on standard error, if that is a terminal. Use with ``with``."""

    def __init__(self, what: str, total: float | None) -> None:
        from rich import progress  # noqa: PLC0415 - slow to load

        console = make_console(stderr=True)
        self._bar = progress.Progress(
            progress.TextColumn(what),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> Self:
        """Show the bar."""
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take the bar away."""
        self._bar.stop()

    def advance(self, done: float = 1) -> None:
        """Go on by so much."""
        self._bar.advance(self._task, done)

    def print(self, line: str) -> None:
        """Print a line above the bar.

        Raises:
            BrokenPipeError: The reader of the output is gone.
        """
        try:
            self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)
        except SystemExit as error:  # Rich's word for it, at which an event loop would hang
            raise BrokenPipeError("the output was closed") from error


def wrap(console: Console, text: str, indent: int) -> list[str]:
    """Return ``text`` as lines that fit the console after an indent."""
    width = max(console.width - indent, 20)
    found: list[str] = []
    for given in clean(text).split("\n"):  # whole, it takes too long
        line = given.expandtabs(4)
        if len(line) <= width and line.isascii():
            found.append(line.rstrip())
        else:
            pieces = Text(line).wrap(console, width)
            found += [piece.plain.rstrip() for piece in pieces]
    return found
