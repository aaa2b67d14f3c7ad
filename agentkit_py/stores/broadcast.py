"""Broadcasts: texts from a process to all others that use the same store.

The order of a sender's texts is kept. None is repeated, and none is lost unless `Receiver.lost`
reports it. Everything is called in the same event loop; databases are asked in threads.
"""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from selectors import EVENT_READ, BaseSelector, DefaultSelector
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from agentkit_py._core.databases import create_private, is_sqlite_busy, retried
from agentkit_py._core.untrusted import get_logger

if TYPE_CHECKING:
    import sqlite3

    import psycopg

logger: logging.Logger = get_logger("agentkit_py.stores")

FUNCTION_RUN = "run/"
"""Senders whose names begin so are runs of Inngest functions, which no process owns."""

STREAMS = "streams"
"""The mailbox that names the runs of functions whose streams are open."""

_PAUSE = 0.02
"""Seconds for which texts are collected, and between two looks into the file."""

_BUSY_SECONDS = 5.0
"""Seconds for which a process tries to open the file while others create it."""

_RETRY = 1.0
"""Seconds until a connection that was lost is tried again."""

_KEPT = 60
"""Seconds for which texts stay in the file."""

_PIECE = 1900
"""Characters of a notification: PostgreSQL takes less than 8,000 bytes."""


def stream_box(run_id: str) -> str:
    """Return the mailbox of the texts that an open stream of a function's run has sent."""
    return f"{STREAMS}/{run_id}"


class Receiver(Protocol):
    """Receives the texts of other processes."""

    def receive(self, text: str) -> None:
        """Take a text."""
        ...

    def lost(self) -> None:
        """Take note that texts may have been lost, both ways, also those that waited."""
        ...


class Broadcast:
    """Sends texts to all other processes that use a store, and receives theirs."""

    def __init__(self) -> None:
        """Prepare it; `open` begins."""
        self._sender = uuid4().hex
        self._waiting: list[tuple[str, bool]] = []
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self._listens = True
        self._is_posting = False

    async def open(self, receiver: Receiver) -> None:
        """Begin to receive: texts sent from now on."""
        self._closing = False
        await asyncio.to_thread(self._begin)
        self._task = asyncio.create_task(self._work(receiver))

    def send(self, text: str, *, lasting: bool = False) -> None:
        """Send a text; it never waits.

        Args:
            text: The text.
            lasting: It is sent again after a loss, perhaps twice; others are lost then.
        """
        self._waiting.append((text, lasting))

    async def post(self, texts: Sequence[str]) -> None:
        """Send texts at once, where this process receives none: instead of `open` and `send`."""
        self._listens = False
        try:
            if not self._is_posting:
                await asyncio.to_thread(self._begin)
                self._is_posting = True
            await self._exchange(texts)
        except Exception:
            self._is_posting = False
            with suppress(Exception):
                await asyncio.to_thread(self._end)
            raise

    async def close(self) -> None:
        """Send the waiting texts, and stop."""
        self._closing = True
        if self._task is not None:
            await self._task
        await asyncio.to_thread(self._end)

    async def _work(self, receiver: Receiver) -> None:
        last = broken = False
        while not last:
            last = self._closing
            sent = [] if broken else self._taken()
            try:
                found = await self._exchange([text for text, _ in sent])
            except Exception:
                self._waiting = _lasting([*sent, *self._waiting])
                if not broken:
                    logger.exception("Other processes cannot be reached; it is tried again")
                broken = True
                await self._again()
                continue
            if broken:
                broken = False
                # A part of a text is useless after a loss: the receiver starts again.
                lasting = _lasting(self._taken())
                receiver.lost()
                self._waiting += lasting
            for text in found:
                try:
                    receiver.receive(text)
                except Exception:
                    logger.exception("What another process sent could not be read; it is left out")
            if not last:
                await asyncio.sleep(_PAUSE)

    async def _again(self) -> None:
        with suppress(Exception):
            await asyncio.to_thread(self._end)
        await asyncio.sleep(0 if self._closing else _RETRY)
        with suppress(Exception):  # the next exchange says why
            await asyncio.to_thread(self._begin)

    def _taken(self) -> list[tuple[str, bool]]:
        taken, self._waiting = self._waiting, []
        return taken

    @abstractmethod
    def _begin(self) -> None:
        """Connect."""

    @abstractmethod
    async def _exchange(self, texts: Sequence[str]) -> Sequence[str]:
        """Send texts, and return those of others."""

    @abstractmethod
    def _end(self) -> None:
        """Disconnect."""


def _lasting(waiting: Sequence[tuple[str, bool]]) -> list[tuple[str, bool]]:
    return [one for one in waiting if one[1]]


class SqliteBroadcast(Broadcast):
    """Sends through a second file of a store, for processes of the same machine."""

    def __init__(self, path: Path) -> None:
        """Remember the file."""
        super().__init__()
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._version: Any = None
        self._read = 0

    def _begin(self) -> None:
        connection = retried(self._connect, is_sqlite_busy, seconds=_BUSY_SECONDS)
        query = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'sent'"
        (self._read,) = connection.execute(query).fetchone()  # also where texts were removed
        self._connection, self._version = connection, None

    def _connect(self) -> sqlite3.Connection:
        import sqlite3

        create_private(self._path)
        connection = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)
        try:
            # After a crash of the machine, no process reads the texts sent before.
            for pragma in ("journal_mode = WAL", "synchronous = OFF", "busy_timeout = 5000"):
                connection.execute(f"PRAGMA {pragma}")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS sent (id INTEGER PRIMARY KEY AUTOINCREMENT, "
                "sender TEXT NOT NULL, text TEXT NOT NULL, "
                "at REAL NOT NULL DEFAULT (strftime('%s', 'now')))"
            )
        except Exception:
            connection.close()
            raise
        return connection

    async def _exchange(self, texts: Sequence[str]) -> Sequence[str]:
        connection = self._connection
        if connection is None:
            raise ConnectionError(f"{self._path} is not open")
        version = connection.execute("PRAGMA data_version").fetchone()  # reads shared memory only
        if not texts and version == self._version:
            return ()
        self._version = version
        return await asyncio.to_thread(self._swap, connection, texts)

    def _swap(self, connection: sqlite3.Connection, texts: Sequence[str]) -> Sequence[str]:
        if texts:
            connection.execute("BEGIN IMMEDIATE")
            rows = [(self._sender, text) for text in texts]
            connection.executemany("INSERT INTO sent (sender, text) VALUES (?, ?)", rows)
            connection.execute("DELETE FROM sent WHERE at < strftime('%s', 'now') - ?", [_KEPT])
            connection.execute("COMMIT")
        if not self._listens:
            return ()
        found = connection.execute(
            "SELECT id, sender, text FROM sent WHERE id > ? ORDER BY id", [self._read]
        ).fetchall()
        if found and found[-1][0] - self._read != len(found):
            raise ConnectionError(f"{self._path}: texts were removed before this process read them")
        if found:
            self._read = found[-1][0]
        return [text for _, sender, text in found if sender != self._sender]

    def _end(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class PostgresBroadcast(Broadcast):
    """Sends by ``NOTIFY`` and receives by ``LISTEN``, for processes of any machines.

    It has a connection of its own, which a pooler must not share: sessions, not transactions.
    """

    def __init__(self, conninfo: str, channel: str) -> None:
        """Remember the database.

        Args:
            conninfo: Where it is.
            channel: The name under which the processes listen.
        """
        super().__init__()
        self._conninfo = conninfo
        self._channel = channel
        self._connection: psycopg.Connection[Any] | None = None
        self._selector: BaseSelector | None = None
        self._parts: dict[str, list[str]] = {}
        self._sent = 0

    def _begin(self) -> None:
        import psycopg
        from psycopg import sql

        connection = psycopg.connect(self._conninfo, autocommit=True)
        if self._listens:
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
        self._parts.clear()
        # Not select.select, which fails where a process has more than 1024 files open.
        self._connection, self._selector = connection, DefaultSelector()
        self._selector.register(connection.fileno(), EVENT_READ)

    async def _exchange(self, texts: Sequence[str]) -> Sequence[str]:
        connection, selector = self._connection, self._selector
        if connection is None or selector is None:
            raise ConnectionError("the database is not connected")
        if not texts and not selector.select(0):
            return ()
        return await asyncio.to_thread(self._swap, connection, texts)

    def _swap(self, connection: psycopg.Connection[Any], texts: Sequence[str]) -> Sequence[str]:
        pieces = [piece for text in texts for piece in self._pieces(text)]
        if pieces:
            connection.execute(
                "SELECT pg_notify(%s, piece) FROM unnest(%s::text[]) AS piece",
                [self._channel, pieces],
            )
        found: list[str] = []
        for notice in connection.notifies(timeout=0):
            sender, last, piece = notice.payload.split(":", 2)
            if sender == self._sender:
                continue
            parts = self._parts.setdefault(sender, [])
            parts.append(piece)
            if last.startswith("1"):
                found.append("".join(parts))
                del self._parts[sender]
        return found

    def _pieces(self, text: str) -> list[str]:
        """Return notifications; each has a number, since equal ones of a transaction are merged."""
        found: list[str] = []
        for start in range(0, len(text), _PIECE):
            self._sent += 1
            last = int(start + _PIECE >= len(text))
            found.append(f"{self._sender}:{last}{self._sent}:{text[start : start + _PIECE]}")
        return found

    def _end(self) -> None:
        connection, self._connection = self._connection, None
        selector, self._selector = self._selector, None
        if selector is not None:
            selector.close()
        if connection is not None:
            connection.close()
