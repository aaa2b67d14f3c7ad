"""Broadcasts of a store: processes that begin at the same moment."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agentkit_py import SqliteHistory
from agentkit_py.stores.broadcast import Broadcast

FILES = 60
"""Without waiting for each other, processes are refused at one file of about twenty."""


class Silent:
    """Receives texts."""

    def receive(self, text: str) -> None:
        """Do nothing."""

    def lost(self) -> None:
        """Do nothing."""


async def test_processes_that_create_the_file_of_streams_at_the_same_moment_all_begin(
    tmp_path: Path,
) -> None:
    """SQLite refuses the change to WAL at once where another process makes it."""
    for number in range(FILES):
        store = SqliteHistory(tmp_path / f"{number}.db")
        begun: list[Broadcast] = [store.broadcast() for _ in range(4)]
        await asyncio.gather(*(one.open(Silent()) for one in begun))
        await asyncio.gather(*(one.close() for one in begun))
        await store.close()
