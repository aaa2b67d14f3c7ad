"""One PostgreSQL database: a pool of connections in an event loop of its own, transactions, errors.

The pool has a loop and a thread to itself, so that one store serves event loops in several threads
and loops that come and go (`run_sync` begins a new one each time), and what a cancelled caller had
begun is finished. The module loads when a store is first used.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from threading import Thread
from typing import Any, LiteralString, TypeAlias, TypeVar

import psycopg
from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from agentkit_py.errors import HistoryError, StoreVersionError
from agentkit_py.stores._pg_schema import MIGRATIONS, VERSION, Tables

T = TypeVar("T")

_ATTEMPTS = 4
_LOCK = 0x41674B74
"""First half of the advisory lock under which tables are made: "AgKt"."""

_Pool: TypeAlias = AsyncConnectionPool[psycopg.AsyncConnection[Any]]


@dataclass(frozen=True, slots=True)
class Session:
    """A connection inside a transaction, and the names of the tables."""

    connection: psycopg.AsyncConnection[Any]
    tables: Tables

    async def run(self, text: LiteralString, *values: Any) -> psycopg.AsyncCursor[Any]:
        """Run a query."""
        return await self.connection.execute(self.tables.query(text), values)

    async def one(self, text: LiteralString, *values: Any) -> Any:
        """The first row; None if there is none."""
        return await (await self.run(text, *values)).fetchone()

    async def all(self, text: LiteralString, *values: Any) -> list[Any]:
        """All rows."""
        return await (await self.run(text, *values)).fetchall()

    async def many(self, text: LiteralString, rows: list[tuple[Any, ...]]) -> None:
        """Run one statement with each of ``rows``."""
        async with self.connection.cursor() as cursor:
            await cursor.executemany(self.tables.query(text), rows)


class PgServer:
    """Transactions on one database."""

    def __init__(self, conninfo: str, tables: Tables, connections: int, wait: float) -> None:
        self._tables = tables
        self._wait = wait
        self._where = where(conninfo)
        self._conninfo = conninfo
        self._loop = asyncio.SelectorEventLoop()  # psycopg cannot use that of Windows
        self._pool: _Pool = AsyncConnectionPool(
            conninfo,
            min_size=1,
            max_size=connections,
            timeout=wait,
            open=False,
            kwargs={"autocommit": True},
            reconnect_failed=_forget,
        )
        self._ready = False
        self._setup_lock = asyncio.Lock()
        self._jobs = set[asyncio.Task[Any]]()
        thread = Thread(
            target=_serve,
            args=(self._loop, self._pool, self._jobs),
            name="agentkit-pg",
            daemon=True,
        )
        thread.start()
        self.close_now = weakref.finalize(self, _stop, self._loop, thread)

    async def transact(
        self, work: Callable[[Session], Awaitable[T]], *, repeatable: bool = True
    ) -> T:
        """Run ``work`` in a transaction; one whose connection is lost is tried again.

        Args:
            work: Does the queries; called again with another connection if this one breaks.
            repeatable: Whether it may be done twice, where nobody can know if it was done once.
        """
        job = asyncio.run_coroutine_threadsafe(
            self._kept(self._attempts(work, repeatable=repeatable)), self._loop
        )
        try:
            # What was begun is finished, also when the caller is cancelled.
            return await asyncio.shield(asyncio.wrap_future(job))
        except (psycopg.Error, PoolTimeout) as error:
            raise HistoryError(f"{self._where} {_explain(error)}") from error

    async def _kept(self, job: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._jobs.add(task)
        try:
            return await job
        finally:
            self._jobs.discard(task)

    async def _attempts(self, work: Callable[[Session], Awaitable[T]], *, repeatable: bool) -> T:
        await self._set_up()
        for attempt in range(1, _ATTEMPTS + 1):
            progress = _Progress()
            try:
                return await self._once(work, progress)
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                if isinstance(error, PoolTimeout) or not _is_lost(error):
                    raise
                if progress.committing and not repeatable:
                    raise HistoryError(
                        f"{self._where}: the connection was lost while results without ids were "
                        "being saved; whether they were is not known."
                    ) from error
                if attempt == _ATTEMPTS:
                    raise
            await self._pool.check()  # the others may be broken, too
        raise AssertionError  # pragma: no cover - the last attempt returns or raises

    async def _once(self, work: Callable[[Session], Awaitable[T]], progress: _Progress) -> T:
        async with self._pool.connection() as connection:
            await connection.execute("BEGIN")
            try:
                done = await work(Session(connection, self._tables))
                progress.committing = True
                await connection.execute("COMMIT")
                return done
            finally:
                status = connection.info.transaction_status
                if not connection.closed and status is not TransactionStatus.IDLE:
                    await connection.rollback()

    async def _set_up(self) -> None:
        if self._ready:
            return
        async with self._setup_lock:
            if self._ready:
                return
            await self._pool.open()
            await self._connected()
            await self._once(self._migrate, _Progress())
            self._ready = True

    async def _connected(self) -> None:
        """Connect once by hand: the pool would only say that it waited in vain."""
        try:
            async with asyncio.timeout(self._wait):
                connection = await psycopg.AsyncConnection[Any].connect(self._conninfo)
        except TimeoutError:
            raise HistoryError(f"{self._where} did not answer for {self._wait:g} s.") from None
        await connection.close()

    async def _migrate(self, session: Session) -> None:
        if await self._version(session) == VERSION:
            return
        # Others wait here, and then find that it is done.
        lock = "SELECT pg_advisory_xact_lock(%s, hashtext(%s))"
        await session.run(lock, _LOCK, self._tables.schema)
        version = await self._version(session)
        if version is None:
            await self._make_schema(session)
            await session.run("CREATE TABLE {version} (version integer NOT NULL)")
            await session.run("INSERT INTO {version} VALUES (0)")
        for statements in MIGRATIONS[version or 0 :]:
            for statement in statements:
                if callable(statement):
                    await statement(session)
                else:
                    await session.run(statement)
        await session.run("UPDATE {version} SET version = %s", VERSION)

    async def _make_schema(self, session: Session) -> None:
        schema = self._tables.schema
        query = "SELECT 1 FROM pg_namespace WHERE nspname = %s"
        if await session.one(query, schema) is None:
            # Stores with other prefixes may be making it at this moment.
            make = sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema))
            await session.connection.execute(make)

    async def _version(self, session: Session) -> int | None:
        """The version of the tables; None: there are none."""
        # Not to_regclass: it may answer from a cache that is older than the lock waited for.
        found = await session.one(
            "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND c.relname = %s",
            self._tables.schema,
            f"{self._tables.prefix}version",
        )
        if found is None:
            return None
        version = (await session.one("SELECT version FROM {version}"))[0]
        if version > VERSION:
            raise StoreVersionError(self._where, found=version, supported=VERSION)
        return version


@dataclass(slots=True)
class _Progress:
    committing: bool = False


def _serve(loop: asyncio.AbstractEventLoop, pool: _Pool, jobs: set[asyncio.Task[Any]]) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(_end(pool, jobs))
        loop.close()


async def _end(pool: _Pool, jobs: set[asyncio.Task[Any]]) -> None:
    while jobs:
        await asyncio.wait(list(jobs))
    await pool.close()


def _stop(loop: asyncio.AbstractEventLoop, thread: Thread) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)
    thread.join()


def _forget(pool: _Pool) -> None:
    """The pool gave up connecting; it tries again when it is asked again."""


def _is_lost(error: psycopg.Error) -> bool:
    """Whether the connection is gone, so that another one may do better."""
    state = error.sqlstate
    return state is None or state.startswith("08") or state in ("57P01", "57P02", "57P03")


def where(conninfo: str) -> str:
    """The database's name and host, without secrets."""
    try:
        found = conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError:
        return "The PostgreSQL database"
    return (
        f"The PostgreSQL database {found.get('dbname', '')!r} at {found.get('host', 'localhost')}"
    )


def _explain(error: psycopg.Error | PoolTimeout) -> str:
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
