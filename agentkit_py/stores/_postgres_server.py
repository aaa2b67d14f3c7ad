"""One PostgreSQL database: its dialect, a pool of connections, transactions, errors by name.

The module loads when a store is first used.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from math import ceil
from threading import Lock
from typing import Any, TypeAlias, TypeVar

import psycopg
from psycopg import errors
from psycopg.types.json import Json
from psycopg_pool import ConnectionPool, PoolTimeout

from agentkit_py._core.databases import database_name
from agentkit_py.errors import ConfigurationError, HistoryError, StoreVersionError
from agentkit_py.stores._schema import STEPS, migrate
from agentkit_py.stores._sql_session import TABLES, Dialect, FreeText, JsonText, Pattern, Session
from agentkit_py.stores.words import index_query

T = TypeVar("T")

_Pool: TypeAlias = "ConnectionPool[psycopg.Connection[Any]]"

_STEPS_OF_VERSION_1 = 3
"""The first tables in PostgreSQL were those that SQLite's third version had."""

VERSION = len(STEPS) - _STEPS_OF_VERSION_1 + 1
"""The version of the tables; a database says its own in the table ``version``."""

_ATTEMPTS = 4
_LOCK = 0x41674B74
"""First half of the advisory lock under which tables are made: "AgKt"."""

_ESCAPE = "\x1a"

_WORDS = {
    "index": Pattern(""),
    "text": Pattern("@::text"),
    "bytes": Pattern("@::text"),
    "ids": "= ANY(?)",
    "number": "number",
    "instr": "strpos",
    "lease_clock": "clock_timestamp()",
    "later": "clock_timestamp() + make_interval(secs => ?)",
    "serialize": "SELECT pg_advisory_xact_lock(hashtextextended(?, 1097296756))",  # "AgKt"
    "FOR_UPDATE": "FOR UPDATE",
    "KEY": 'text COLLATE "C"',
    "JSON": "json",
    "TIME": "timestamptz",
    "LEASE_TIME": "timestamptz",
    "BYTES": "bytea",
    "IDENTITY": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "NUMBER": "number bigint GENERATED ALWAYS AS IDENTITY,",  # in the order of creation
    "THEN_NUMBER": ", number",
    "IF_MISSING": "IF NOT EXISTS",
    "WITHOUT_ROWID": "",
    "all": "ALL",
    "ITS_NUMBER": "",
    "NEXT_NUMBER": "",
    "NUMBER_THREADS": "SELECT 1",  # they have numbers
}
_WORD_INDEX = {
    "MAKE_WORDS": (
        'CREATE TABLE {words} (thread_id text COLLATE "C" NOT NULL '
        "REFERENCES {threads} (id) ON DELETE CASCADE, position bigint NOT NULL, "
        "words tsvector NOT NULL, PRIMARY KEY (thread_id, position))"
    ),
    # What is new is found as quickly as the rest: no list of pending entries.
    "INDEX_WORDS": "CREATE INDEX ON {words} USING gin (words) WITH (fastupdate = off)",
    "add_words": (
        "INSERT INTO {words} (position, words, thread_id) "
        "VALUES (?, array_to_tsvector(string_to_array(?, ' ')), ?)"
    ),
    "cut_words": "DELETE FROM {words} WHERE thread_id = ? AND position >= ?",
    "found_words": (
        "w.position FROM {words} w JOIN {threads} t ON t.id = w.thread_id "
        "WHERE w.words @@ ?::tsquery"
    ),
}


class _PostgresSession:
    """A connection inside a transaction."""

    full_text = True
    words_follow = True

    def __init__(self, connection: psycopg.Connection[Any], dialect: Dialect) -> None:
        self._connection = connection
        self._dialect = dialect

    def execute(self, query: str, *values: Any) -> psycopg.Cursor[Any]:
        return self._connection.execute(self._query(query), list(map(_adapted, values)))

    def execute_many(self, query: str, rows: Sequence[tuple[Any, ...]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(self._query(query), [tuple(map(_adapted, row)) for row in rows])

    def select_ids(self, query: str, *values: Any, ids: Sequence[str]) -> list[Any]:
        return self.execute(query, *values, list(map(_adapted, ids))).fetchall()

    def stream(self, query: str, *values: Any) -> Iterator[Any]:
        # A cursor of the server's: there may be a million rows.
        with self._connection.cursor(name="agentkit") as cursor:
            yield from cursor.execute(self._query(query), list(map(_adapted, values)))

    def word_query(self, terms: Sequence[tuple[str, bool]], user_id: str | None) -> str:
        return index_query(terms, user_id, quote="'@':", also=" & ", either=" | ")

    def pipeline(self) -> AbstractContextManager[object]:
        return self._connection.pipeline()

    def given(self, stored: str) -> str:
        return stored.replace(f"{_ESCAPE}0", "\0").replace(f"{_ESCAPE}1", _ESCAPE)

    def _query(self, query: str) -> bytes:
        return self._dialect.query(query).encode()


def _adapted(value: Any) -> Any:
    match value:
        case JsonText():
            return Json(value, dumps=str)
        case FreeText():
            return Json(value)
        case str():
            # PostgreSQL's texts cannot hold U+0000; it is written as an escape.
            return value.replace(_ESCAPE, f"{_ESCAPE}1").replace("\0", f"{_ESCAPE}0")
        case _:
            return value


class PostgresServer:
    """Transactions on a database."""

    def __init__(
        self,
        conninfo: str,
        schema: str,
        prefix: str,
        *,
        connections: int,
        wait: float,
        others: Mapping[str, str] | None = None,
        prepare: Callable[[Session], None] | None = None,
    ) -> None:
        """Remember the database.

        Args:
            conninfo: Where it is.
            schema: The schema of the tables.
            prefix: The beginning of their names.
            connections: How many connections there are at the most.
            wait: Seconds to wait for a connection.
            others: Names of tables that are not the library's own.
            prepare: Called once, after the tables have been made.
        """
        self._conninfo = conninfo
        self._schema = schema
        self._prefix = prefix
        self._connections = connections
        self._wait = wait
        self._where = database_name(conninfo)
        tables = {name: f'"{schema}"."{prefix}{name}"' for name in (*TABLES, "version")}
        words = {name: text.format_map(tables) for name, text in _WORD_INDEX.items()}
        self._dialect = Dialect({**_WORDS, **tables, **words, **(others or {})}, "%s")
        self._prepare = prepare
        self._pool: _Pool | None = None
        self._close_pool: Callable[[], object] | None = None
        self._lock = Lock()

    def transact(
        self, work: Callable[[Session], T], *, write: bool = False, repeatable: bool = True
    ) -> T:
        """Run ``work`` in a transaction; if its connection is lost, it is tried again.

        A reader sees the database at a single moment, a writer all that was committed before it.
        """
        isolation = None if write else psycopg.IsolationLevel.REPEATABLE_READ
        attempts = 0
        try:
            while True:
                attempts += 1
                pool = self._ready()
                committing = False
                try:
                    with pool.connection() as connection:
                        connection.isolation_level = isolation
                        done = work(_PostgresSession(connection, self._dialect))
                        committing = True
                    return done
                except psycopg.Error as error:
                    if isinstance(error, PoolTimeout) or not _is_lost(error):
                        raise
                    if committing and not repeatable:
                        raise HistoryError(
                            f"{self._where}: the connection was lost while results without ids "
                            "were being saved; whether they were is not known."
                        ) from error
                    if attempts == _ATTEMPTS:
                        raise
                if not pool.closed:
                    pool.check()  # the others may be broken, too
        except psycopg.Error as error:
            raise HistoryError(f"{self._where} {_explain(error)}") from error

    def close(self) -> None:
        """Close all connections; those in use close when they are done."""
        with self._lock:
            self._pool = None
            close, self._close_pool = self._close_pool, None
        if close is not None:
            close()

    def _ready(self) -> _Pool:
        """Return the pool; the first time, it is made and the tables with it."""
        with self._lock:
            if self._pool is None:
                self._pool = self._open()
                self._close_pool = weakref.finalize(self, _close_own, self._pool, os.getpid())
            return self._pool

    def _open(self) -> _Pool:
        # Once by hand: the pool would only say that it waited in vain.
        psycopg.connect(self._conninfo, connect_timeout=max(1, ceil(self._wait))).close()
        pool: _Pool = ConnectionPool(
            self._conninfo,
            min_size=1,
            max_size=self._connections,
            timeout=self._wait,
            open=True,
            reconnect_failed=_forget,
        )
        try:
            with pool.connection() as connection:
                session = _PostgresSession(connection, self._dialect)
                self._set_up(session)
                if self._prepare is not None:
                    self._prepare(session)
        except Exception:
            pool.close()
            raise
        return pool

    def _set_up(self, session: Session) -> None:
        if self._version(session) == VERSION:
            return
        # Others wait here, and then find that it is done.
        session.execute("SELECT pg_advisory_xact_lock(?, hashtext(?))", _LOCK, self._schema)
        version = self._version(session)
        if version is None:
            self._refuse_foreign(session)
            self._make_schema(session)
            session.execute("CREATE TABLE {version} (version integer NOT NULL)")
            session.execute("INSERT INTO {version} VALUES (0)")
        migrate(session, version + _STEPS_OF_VERSION_1 - 1 if version else 0)
        session.execute("UPDATE {version} SET version = ?", VERSION)

    def _refuse_foreign(self, session: Session) -> None:
        query = (
            "SELECT 1 FROM information_schema.columns "
            "WHERE table_schema = ? AND table_name = ? AND column_name = 'thread_id'"
        )
        name = f"{self._prefix}threads"
        if session.execute(query, self._schema, name).fetchone() is not None:
            raise ConfigurationError(
                f"{self._where}: {self._schema}.{name} is a table of AgentKit for TypeScript. "
                "PostgresHistory(…, layout='typescript') reads and writes it; another prefix=… "
                "makes its own tables in that schema."
            )

    def _make_schema(self, session: Session) -> None:
        query = "SELECT 1 FROM pg_namespace WHERE nspname = ?"
        if session.execute(query, self._schema).fetchone() is None:
            # Stores with other prefixes may be making it at this moment.
            session.execute(f'CREATE SCHEMA IF NOT EXISTS "{self._schema}"')

    def _version(self, session: Session) -> int | None:
        """Return the version of the tables; None: there are none."""
        # Not to_regclass: it may answer from a cache that is older than the lock waited for.
        found = session.execute(
            "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = ? AND c.relname = ?",
            self._schema,
            f"{self._prefix}version",
        ).fetchone()
        if found is None:
            return None
        version: int = session.execute("SELECT version FROM {version}").fetchone()[0]
        if version > VERSION:
            raise StoreVersionError(self._where, found=version, supported=VERSION)
        return version


def _close_own(pool: _Pool, process: int) -> None:
    # A forked process must not use its parent's connections.
    if os.getpid() == process:
        pool.close()


def _forget(pool: _Pool) -> None:
    """Accept that the pool gave up connecting; it tries again when it is asked again."""


def _is_lost(error: psycopg.Error) -> bool:
    """Return whether the connection is gone, so that another may succeed."""
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    state = error.sqlstate
    return state is None or state.startswith("08") or state in ("57P01", "57P02", "57P03")


def _explain(error: psycopg.Error) -> str:
    match error:
        case PoolTimeout():
            return "had no free connection in time; nothing was saved."
        case errors.ReadOnlySqlTransaction() | errors.InsufficientPrivilege():
            return f"may not be written: {error}"
        case errors.DiskFull():
            return f"cannot grow, the disk is full; nothing was saved: {error}"
        case psycopg.OperationalError():
            return f"cannot be reached: {error}"
        case _:
            return f"failed: {type(error).__name__}: {error}"
