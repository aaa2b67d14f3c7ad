"""SQLite: its dialect, a file with a pool of connections, a database in memory, errors by name.

The module loads when a store is first used.
"""

from __future__ import annotations

import atexit
import logging
import os
import sqlite3
import time
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Generic, TypeVar

from agentkit_py._core.databases import create_private, is_sqlite_busy, retried
from agentkit_py._core.untrusted import get_logger
from agentkit_py.errors import HistoryError, StoreVersionError
from agentkit_py.stores._schema import STEPS, migrate
from agentkit_py.stores._sql_session import TABLES, Dialect, Pattern, Session
from agentkit_py.stores.rows import as_text, now
from agentkit_py.stores.words import index_query

logger: logging.Logger = get_logger("agentkit_py.stores")

T = TypeVar("T")

APPLICATION_ID = 0x41674B74
"""Marks our files ("AgKt"), so that another program's file is not taken for ours."""

VERSION = len(STEPS)
"""The version of the tables; files say theirs in ``PRAGMA user_version``."""

_DIALECT = Dialect(
    {
        **{table: table for table in TABLES},
        "all": "-1",
        "index": Pattern("@"),
        "text": Pattern("@"),
        # As bytes: the driver would refuse a whole query over a damaged text.
        "bytes": Pattern("CAST(@ AS BLOB)"),
        "ids": "{ids}",
        "number": "rowid",
        "instr": "instr",
        "lease_clock": "unix_time()",
        "later": "unix_time() + ?",
        "serialize": "SELECT ?",  # writers wait for each other anyway
        "FOR_UPDATE": "",
        "KEY": "TEXT",
        "JSON": "TEXT",
        "TIME": "TEXT",  # UTC, fixed width: sorts by time
        "LEASE_TIME": "REAL",  # seconds since 1970
        "BYTES": "BLOB",
        "IDENTITY": "INTEGER PRIMARY KEY",
        "NUMBER": "",
        "THEN_NUMBER": "",
        # Not rowid in entries of the index: VACUUM changes it.
        "ITS_NUMBER": ", number",
        "NEXT_NUMBER": ", (SELECT COALESCE(MAX(number), 0) + 1 FROM threads)",
        "MAKE_WORDS": "ALTER TABLE threads ADD COLUMN number bigint",
        "NUMBER_THREADS": "UPDATE threads SET number = rowid",
        "INDEX_WORDS": "CREATE UNIQUE INDEX threads_by_number ON threads (number)",
        "add_words": (
            "INSERT INTO words (rowid, entry) SELECT number * 2147483648 + ?, ? FROM threads "
            "WHERE id = ?"
        ),
        "remove_words": (
            "INSERT INTO words (words, rowid, entry) "
            "SELECT 'delete', number * 2147483648 + ?, ? FROM threads WHERE id = ?"
        ),
        "remove_all_words": "INSERT INTO words (words) VALUES ('delete-all')",
        "found_words": (
            "w.rowid & 2147483647 AS position FROM words w "
            "JOIN threads t ON t.number = w.rowid >> 31 WHERE words MATCH ?"
        ),
        "IF_MISSING": "",
        "WITHOUT_ROWID": "WITHOUT ROWID",
    },
    "?",
)

_WORDS = (
    # Without the text and its order, which are in the results: a third of the space.
    "CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(entry, content = '', columnsize = 0, "
    "detail = none, tokenize = 'ascii')"
)
_NO_FTS5 = (
    "%s: this Python's SQLite has no FTS5, so searches read every message. With FTS5, "
    "agentkit threads index adds the messages stored meanwhile."
)

_OLDEST = (3, 35)
"""The first SQLite that drops columns, which a step of our tables does."""

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_MOST_IDS = 500
"""Ids in a query: SQLite bounds its parameters."""


class _PooledConnection(sqlite3.Connection):
    """A connection with the facts that its pool needs."""

    file: tuple[int, int] | None = None
    """Device and inode at opening: a file that was replaced has others."""

    full_text = False
    """True if it can use the index of words."""

    generation = 0
    moment = ""
    """The time of the transaction."""


class _SqliteSession:
    """A connection inside a transaction."""

    words_follow = False

    def __init__(self, connection: _PooledConnection) -> None:
        self._connection = connection

    @property
    def full_text(self) -> bool:
        return self._connection.full_text

    def word_query(self, terms: Sequence[tuple[str, bool]], user_id: str | None) -> str:
        return index_query(terms, user_id, quote='"@"', also=" AND ", either=" OR ")

    def execute(self, query: str, *values: Any) -> sqlite3.Cursor:
        return self._connection.execute(_DIALECT.query(query), _adapted(values))

    def execute_many(self, query: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self._connection.executemany(_DIALECT.query(query), map(_adapted, rows))

    def select_ids(self, query: str, *values: Any, ids: Sequence[str]) -> list[Any]:
        text = _DIALECT.query(query)
        found: list[Any] = []
        for start in range(0, len(ids), _MOST_IDS):
            some = ids[start : start + _MOST_IDS]
            among = f"IN ({', '.join('?' * len(some))})"
            found += self._connection.execute(text.format(ids=among), (*values, *some)).fetchall()
        return found

    def stream(self, query: str, *values: Any) -> Iterator[Any]:
        return self.execute(query, *values)

    def pipeline(self) -> AbstractContextManager[object]:
        return nullcontext()

    def given(self, stored: str) -> str:
        return stored


class _QueuedChange(Generic[T]):
    """A change in line."""

    def __init__(self, work: Callable[[Session], T]) -> None:
        self._work = work
        self._results: list[T] = []
        self.error: Exception | None = None
        self.done = False

    def make(self, connection: _PooledConnection) -> None:
        """Make it, or none of it."""
        connection.moment = now()
        connection.execute("SAVEPOINT change")
        try:
            self._results.append(self._work(_SqliteSession(connection)))
        finally:
            if connection.in_transaction:  # a full disk has ended it
                if not self._results:
                    connection.execute("ROLLBACK TO change")
                connection.execute("RELEASE change")

    def outcome(self) -> T:
        """Return the change's result, or raise its error."""
        if self.error is not None:
            raise self.error
        return self._results[0]


def _adapted(values: Sequence[Any]) -> list[Any]:
    return [as_text(value) if isinstance(value, datetime) else value for value in values]


class SqliteFile:
    """Connections to a file, each used by a single thread at a time."""

    def __init__(self, path: Path, busy_timeout: float, *, full_text: bool = True) -> None:
        """Remember the file.

        Args:
            path: The file.
            busy_timeout: Seconds to wait for other writers.
            full_text: Keep an index of words, where SQLite has FTS5.
        """
        self.path = path
        self._full_text = full_text
        self._busy_timeout = busy_timeout
        self._idle: list[_PooledConnection] = []
        self._generation = 0
        self._lock = Lock()
        self._writing = Lock()
        """Writers queue here: SQLite lets only a single connection write and has others poll."""

        self._waiting: list[_QueuedChange[Any]] = []
        """Changes in line. The next writer makes them all, with a single wait for the disk."""

        weakref.finalize(self, _close_own, self._idle, os.getpid())

    def transact(
        self, work: Callable[[Session], T], *, write: bool = False, repeatable: bool = True
    ) -> T:
        """Run ``work`` in a transaction; a reader sees the file at a single moment."""
        del repeatable  # nothing is done twice here
        if write:
            return self._write(work)
        with self._errors_named(), self._connection() as connection:
            connection.execute(f"PRAGMA busy_timeout = {round(1000 * self._busy_timeout)}")
            with _transaction(connection, "BEGIN"):
                return work(_SqliteSession(connection))

    def _write(self, work: Callable[[Session], T]) -> T:
        """Make all queued changes in a single commit."""
        change = _QueuedChange(work)
        asked = time.monotonic()
        with self._lock:
            self._waiting.append(change)
        with self._writing:
            if not change.done:
                with self._lock:
                    changes, self._waiting = self._waiting, []
                # A change that was in line for the whole time-out waits for no other process.
                patient = time.monotonic() - asked < self._busy_timeout
                self._commit(changes, round(1000 * self._busy_timeout) if patient else 0)
        return change.outcome()

    def _commit(self, changes: Sequence[_QueuedChange[Any]], milliseconds: int) -> None:
        committed = False
        try:
            with self._errors_named(), self._connection() as connection:
                connection.execute(f"PRAGMA busy_timeout = {milliseconds}")
                with _transaction(connection, "BEGIN IMMEDIATE"):
                    for change in changes:
                        with self._errors_of(change):
                            change.make(connection)
                        if change.error is not None and not connection.in_transaction:
                            raise change.error  # noqa: TRY301 - a full disk ends the whole transaction
            committed = True
        except Exception as error:  # noqa: BLE001 - it is that of all who wait for this commit
            for change in changes:
                change.error = change.error or error
        finally:
            for change in changes:
                if not committed:  # the thread that writes is stopped
                    change.error = change.error or HistoryError(
                        "The thread that writes was stopped, so nothing is stored. Try again."
                    )
                change.done = True

    @contextmanager
    def _errors_of(self, change: _QueuedChange[Any]) -> Generator[None, None, None]:
        try:
            with self._errors_named():
                yield
        except Exception as error:  # noqa: BLE001 - it is the caller's
            change.error = error

    def close(self) -> None:
        """Close all connections; those in use close when they are done."""
        with self._lock:
            self._generation += 1
            _close_all(self._idle)

    @contextmanager
    def _connection(self) -> Generator[_PooledConnection, None, None]:
        connection = self._take() or retried(
            self._connect, is_sqlite_busy, seconds=self._busy_timeout
        )
        try:
            yield connection
        finally:
            with self._lock:
                if connection.generation == self._generation:
                    self._idle.append(connection)
                else:
                    connection.close()

    def _take(self) -> _PooledConnection | None:
        file = _identity(self.path)
        with self._lock:
            while self._idle:
                connection = self._idle.pop()
                if connection.file == file:
                    return connection
                # The file was removed or replaced; our changes would go to the old file.
                connection.close()
        return None

    def _connect(self) -> _PooledConnection:
        create_private(self.path)
        connection = _open(self.path, self._busy_timeout)
        connection.generation = self._generation
        try:
            self._prepare(connection)
        except Exception:
            connection.close()
            raise
        connection.file = _identity(self.path)
        return connection

    def _prepare(self, connection: _PooledConnection) -> None:
        # Before anything is changed: it may be another program's file.
        with _transaction(connection, "BEGIN"):
            version = self._version(connection)
        # A file system that cannot do WAL keeps another mode, as safe but slower.
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        _add_functions(connection)
        connection.full_text = self._full_text and _has_fts5(connection)
        if self._full_text and not connection.full_text:
            logger.warning(_NO_FTS5, self.path)
        if version < VERSION or (connection.full_text and not _has_index(connection)):
            with _transaction(connection, "BEGIN IMMEDIATE"):
                # Read again inside the transaction: another process may have done it meanwhile.
                version = self._version(connection)
                if connection.full_text:
                    connection.execute(_WORDS)
                migrate(_SqliteSession(connection), version)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {VERSION}")

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

    @contextmanager
    def _errors_named(self) -> Generator[None, None, None]:
        try:
            yield
        except sqlite3.Error as error:
            raise HistoryError(self._explain(error)) from error
        except (UnicodeEncodeError, OverflowError) as error:
            raise _not_stored(error) from error

    def _explain(self, error: sqlite3.Error) -> str:
        code = _code(error)
        if code in _BUSY:
            return (
                f"{self.path} was locked by another writer for longer than busy_timeout="
                f"{self._busy_timeout:g} s; nothing was saved."
            )
        if code == sqlite3.SQLITE_CANTOPEN:
            return f"{self.path} cannot be opened: {_why_not(self.path)}"
        reasons = {
            sqlite3.SQLITE_NOTADB: "is not an SQLite database",
            sqlite3.SQLITE_READONLY: "is read-only; both the file and its folder must be writable",
            sqlite3.SQLITE_FULL: "cannot grow, the disk is full; nothing was saved",
            sqlite3.SQLITE_CORRUPT: "is damaged; restore it from a backup",
        }
        return f"{self.path} {reasons.get(code, 'failed')} ({error})"


class SqliteMemory:
    """A database in memory: a single connection, with a transaction at a time."""

    def __init__(self) -> None:
        """Make the tables."""
        self._connection = _in_memory()
        # Several event loops, each in its own thread, may share it.
        self._lock = Lock()
        weakref.finalize(self, self._connection.close)
        _empty().backup(self._connection)

    def transact(
        self, work: Callable[[Session], T], *, write: bool = False, repeatable: bool = True
    ) -> T:
        """Run ``work`` in a transaction."""
        del write, repeatable  # there are no concurrent writers, and nothing is repeated
        try:
            with self._lock, _transaction(self._connection, "BEGIN"):
                return work(_SqliteSession(self._connection))
        except sqlite3.Error as error:
            raise HistoryError(f"The store in memory failed ({error})") from error
        except (UnicodeEncodeError, OverflowError) as error:
            raise _not_stored(error) from error

    def close(self) -> None:
        """Keep the data: it would be gone."""


def check_version(version: tuple[int, ...]) -> None:
    """Raise HistoryError if this SQLite cannot make our tables: Python links the system's."""
    if version < _OLDEST:
        found, oldest = (".".join(map(str, numbers)) for numbers in (version, _OLDEST))
        raise HistoryError(
            f"This Python has SQLite {found}, threads need {oldest} or newer. Use a Python that "
            "brings its own (python.org, uv python install), or PostgresHistory."
        )


def _open(path: Path | str, timeout: float) -> _PooledConnection:
    check_version(sqlite3.sqlite_version_info)
    return sqlite3.connect(
        path,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,
        factory=_PooledConnection,
    )


def _in_memory() -> _PooledConnection:
    connection = _open(":memory:", 0)
    connection.execute("PRAGMA foreign_keys = ON")
    _add_functions(connection)
    return connection


@cache
def _empty() -> _PooledConnection:
    """Return a database of tables alone: copying it takes 0.3 ms, making the tables 14."""
    connection = _in_memory()
    atexit.register(connection.close)
    with _transaction(connection, "BEGIN"):
        migrate(_SqliteSession(connection), 0)
    return connection


def _not_stored(error: UnicodeEncodeError | OverflowError) -> HistoryError:
    if isinstance(error, OverflowError):
        return HistoryError(f"A number is too large for the database: {error}.")
    return HistoryError(f"{error.object!r:.80} is not valid Unicode.")


def _add_functions(connection: _PooledConnection) -> None:
    # As in PostgreSQL: all times of a transaction are equal.
    weak = weakref.ref(connection)
    for name in ("now", "clock_timestamp"):
        connection.create_function(name, 0, lambda: getattr(weak(), "moment", None))
    connection.create_function("unix_time", 0, time.time)


@contextmanager
def _transaction(connection: _PooledConnection, begin: str) -> Generator[None, None, None]:
    connection.execute(begin)
    connection.moment = now()
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _has_fts5(connection: sqlite3.Connection) -> bool:
    query = "SELECT 1 FROM pragma_module_list WHERE name = 'fts5'"
    return connection.execute(query).fetchone() is not None


def _has_index(connection: sqlite3.Connection) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE name = 'words'"
    return connection.execute(query).fetchone() is not None


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def _code(error: sqlite3.Error) -> int:
    # The low byte is the kind, the rest says more. Errors of the Python module have no code.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


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


def _close_own(idle: list[_PooledConnection], process: int) -> None:
    # A forked process inherits its parent's connections, and must not even close them.
    if os.getpid() == process:
        _close_all(idle)


def _close_all(idle: list[_PooledConnection]) -> None:
    while idle:
        idle.pop().close()
