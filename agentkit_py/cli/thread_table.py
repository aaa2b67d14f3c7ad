"""Threads as a table in the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentkit_py.cli.console import shorten
from agentkit_py.stores import ThreadInfo


def print_threads(console: Console, threads: Iterable[ThreadInfo]) -> None:
    """A table of threads with the number of their messages."""
    table = Table(box=None, pad_edge=False)
    for name in ("thread", "user", "messages", "changed", "title"):
        table.add_column(name, justify="right" if name == "messages" else "left", no_wrap=True)
    for thread in threads:
        changed = thread.updated_at.strftime("%Y-%m-%d %H:%M")
        count = "-" if thread.messages is None else f"{thread.messages:,}"
        cells = [thread.id, thread.user_id or "-", count, changed, thread.title]
        table.add_row(*(Text(shorten(cell, 40)) for cell in cells))
    console.print(table)
