"""One SQLite file: opening and migrating it, a pool of connections, transactions, errors by name.

What touches the file blocks, so it is done in worker threads: one at a time writes, since SQLite
lets one connection write and has others poll, and a few read. The module loads when a store is
first used.
"""

from __future__ import annotations

import os
import sqlite3  # noqa: TID253 - this module itself loads lazily
import time
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TypeVar

from anyio import CapacityLimiter
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync

from agentkit_py._core.busy import retried
from agentkit_py.errors import HistoryError, StoreVersionError
from agentkit_py.stores._sqlite_schema import APPLICATION_ID, MIGRATIONS, VERSION

T = TypeVar("T")

_READERS = 8
"""Threads that read a file at the most: decoding needs Python's lock, so more would only wait."""

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


@dataclass(frozen=True, slots=True)
class _Pooled:
    connection: sqlite3.Connection
    file: tuple[int, int] | None
    """Device and inode at opening: a file that was replaced has others."""

    generation: int


@dataclass(frozen=True, slots=True)
class _Limits:
    """How many threads of one event loop may work on one file."""

    readers: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(_READERS))
    writer: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(1))


class SqliteFile:
    """Connections to one file, each used by one thread at a time."""

    def __init__(self, path: Path, busy_timeout: float) -> None:
        self.path = path
        self._busy_timeout = busy_timeout
        self._idle: list[_Pooled] = []
        self._generation = 0
        self._lock = Lock()
        weakref.finalize(self, _close_own, self._idle, os.getpid())

    async def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Run a query; it sees the file as of one moment."""
        return await run_sync(lambda: self._read(query), limiter=self._limits().readers)

    async def write(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """Run a change in a transaction: if it raises, or the process dies, nothing changed."""
        asked = time.monotonic()
        work = partial(self._write, change, asked)
        return await run_sync(work, limiter=self._limits().writer)

    async def close(self) -> None:
        """Close all connections; those in use close when they are done."""
        self._close()  # in no thread, since as the process ends none can be started

    def _limits(self) -> _Limits:
        files = _limits.get(None)
        if files is None:
            files = weakref.WeakKeyDictionary[SqliteFile, _Limits]()
            _limits.set(files)
        return files.setdefault(self, _Limits())

    def _read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        with (
            self._errors_named(),
            self._connection() as connection,
            _transaction(connection, "BEGIN"),
        ):
            return query(connection)

    def _write(self, change: Callable[[sqlite3.Connection], T], asked: float) -> T:
        with (
            self._errors_named(),
            self._connection() as connection,
            self._patience(connection, asked),
            _transaction(connection, "BEGIN IMMEDIATE"),
        ):
            return change(connection)

    def _close(self) -> None:
        with self._lock:
            self._generation += 1
            _close_all(self._idle)

    @contextmanager
    def _patience(
        self, connection: sqlite3.Connection, asked: float
    ) -> Generator[None, None, None]:
        """A change that has been in line for the whole time-out waits for no other process."""
        if time.monotonic() - asked < self._busy_timeout:
            yield
            return
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            yield
        finally:
            connection.execute(f"PRAGMA busy_timeout = {round(1000 * self._busy_timeout)}")

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection, None, None]:
        pooled = self._take() or self._open()
        try:
            yield pooled.connection
        finally:
            with self._lock:
                if pooled.generation == self._generation:
                    self._idle.append(pooled)
                else:
                    pooled.connection.close()

    def _take(self) -> _Pooled | None:
        file = _identity(self.path)
        with self._lock:
            while self._idle:
                pooled = self._idle.pop()
                if pooled.file == file:
                    return pooled
                # Somebody removed or replaced the file; what we wrote would go to the old one.
                pooled.connection.close()
        return None

    def _open(self) -> _Pooled:
        return retried(self._connect, _is_busy, seconds=self._busy_timeout)

    def _connect(self) -> _Pooled:
        connection = sqlite3.connect(
            self.path, timeout=self._busy_timeout, isolation_level=None, check_same_thread=False
        )
        try:
            self._prepare(connection)
        except Exception:
            connection.close()
            raise
        return _Pooled(connection, _identity(self.path), self._generation)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        # Before anything is changed: it may be somebody else's file.
        with _transaction(connection, "BEGIN"):
            version = self._version(connection)
        # A file system that cannot do WAL keeps another mode, as safe but slower.
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        if version < VERSION:
            with _transaction(connection, "BEGIN IMMEDIATE"):
                self._migrate(connection)

    def _version(self, connection: sqlite3.Connection) -> int:
        tables = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
        mark = _pragma(connection, "application_id")
        version = _pragma(connection, "user_version")
        if mark != APPLICATION_ID and (mark or version or tables):
            raise HistoryError(
                f"{self.path} is another program's SQLite database; "
                "give threads a file of their own."
            )
        if version > VERSION:
            raise StoreVersionError(str(self.path), found=version, supported=VERSION)
        return version

    def _migrate(self, connection: sqlite3.Connection) -> None:
        # Read again inside the transaction: another process may have done it meanwhile.
        for statements in MIGRATIONS[self._version(connection) :]:
            for statement in statements:
                if isinstance(statement, str):
                    connection.execute(statement)
                else:
                    statement(connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")

    @contextmanager
    def _errors_named(self) -> Generator[None, None, None]:
        try:
            yield
        except sqlite3.Error as error:
            raise HistoryError(self._explain(error)) from error
        except UnicodeEncodeError as error:
            raise HistoryError(f"{error.object!r:.80} is not valid Unicode.") from error

    def _explain(self, error: sqlite3.Error) -> str:
        code = _code(error)
        if code in _BUSY:
            return self._busy()
        if code == sqlite3.SQLITE_CANTOPEN:
            return f"{self.path} cannot be opened: {_why_not(self.path)}"
        reasons = {
            sqlite3.SQLITE_NOTADB: "is not an SQLite database",
            sqlite3.SQLITE_READONLY: "is read-only; both the file and its folder must be writable",
            sqlite3.SQLITE_FULL: "cannot grow, the disk is full; nothing was saved",
            sqlite3.SQLITE_CORRUPT: "is damaged; restore it from a backup",
        }
        return f"{self.path} {reasons.get(code, 'failed')} ({error})"

    def _busy(self) -> str:
        return (
            f"{self.path} was locked by another writer for longer than busy_timeout="
            f"{self._busy_timeout:g} s; nothing was saved."
        )


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str) -> Generator[None, None, None]:
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


_limits: RunVar[weakref.WeakKeyDictionary[SqliteFile, _Limits]] = RunVar("agentkit-sqlite-limits")
"""The limits of each file, one set for each event loop."""


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def _code(error: sqlite3.Error) -> int:
    # The low byte is the kind, the rest says more. Errors of the Python module have no code.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _is_busy(error: Exception) -> bool:
    return isinstance(error, sqlite3.OperationalError) and _code(error) in _BUSY


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _why_not(path: Path) -> str:
    if path.is_dir():
        return "it is a folder; name a file"
    if not path.parent.is_dir():
        return f"the folder {path.parent} does not exist"
    return "permission denied, or the folder is read-only"


def _close_own(pooled: list[_Pooled], process: int) -> None:
    # A forked process inherits its parent's connections, and must not even close them.
    if os.getpid() == process:
        _close_all(pooled)


def _close_all(pooled: list[_Pooled]) -> None:
    while pooled:
        pooled.pop().connection.close()
