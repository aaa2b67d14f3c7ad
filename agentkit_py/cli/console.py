"""The terminal: one console per command, and text that cannot do anything to it."""

from __future__ import annotations

import io
import sys
import unicodedata
from typing import Any

from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

_WIDEST = 100
"""Columns; longer lines are hard to read."""


class Commands(TyperGroup):
    """Commands whose help does not say of switches that they are of the type bool."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command; None if there is none of this name."""
        command: Any = super().get_command(ctx, cmd_name)
        if command is not None:
            for option in (*command.params, command.get_help_option(ctx)):
                if getattr(option, "is_bool_flag", False) and option.metavar is None:
                    option.metavar = ""
        return command


def make_console(*, no_color: bool = False) -> Console:
    """A console on standard output. The environment variable NO_COLOR is respected too."""
    stdout: object = sys.stdout
    if isinstance(stdout, io.TextIOWrapper):
        # What the terminal's encoding lacks becomes "?", which beats a traceback.
        stdout.reconfigure(errors="replace")
    console = Console(highlight=False, emoji=False, no_color=no_color or None)
    console.width = min(console.width, _WIDEST)
    return console


def clean(text: str) -> str:
    """``text`` without control characters: models and tools must not steer the terminal."""
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) != "Cc")


def shorten(text: str, width: int) -> str:
    """``text`` on one line of ``width`` columns."""
    line = Text(" ".join(clean(text).split()))
    line.truncate(max(width, 1), overflow="ellipsis")
    return line.plain


def wrap(console: Console, text: str, indent: int) -> list[str]:
    """``text`` as lines that fit the console after an indent."""
    whole = Text(clean(text).expandtabs(4))
    return [line.plain.rstrip() for line in whole.wrap(console, max(console.width - indent, 20))]


def rule(console: Console, title: str) -> None:
    """A line across the console, with a title."""
    console.print()
    console.rule(f"[bold]{title}[/]", style="dim", align="left")
