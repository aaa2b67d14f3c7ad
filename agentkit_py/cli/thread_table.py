"""Threads as a table in the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentkit_py.cli.console import clean, shorten
from agentkit_py.stores import ThreadInfo


def print_threads(console: Console, threads: Iterable[ThreadInfo]) -> None:
    """A table of threads with the number of their messages.

    Where it is too narrow titles are cut, not ids: those are what other commands are given.
    """
    table = Table(box=None, pad_edge=False)
    for name in ("thread", "user", "messages", "changed"):
        table.add_column(name, justify="right" if name == "messages" else "left", no_wrap=True)
    table.add_column("title")  # the only column that may become narrower
    for thread in threads:
        changed = thread.updated_at.strftime("%Y-%m-%d %H:%M")
        count = "-" if thread.messages is None else f"{thread.messages:,}"
        cells = [clean(thread.id), shorten(thread.user_id or "-", 40), count, changed]
        title = Text(shorten(thread.title, 40), no_wrap=True, overflow="ellipsis")
        table.add_row(*map(Text, cells), title)
    console.print(table)
