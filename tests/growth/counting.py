"""Counts of what a store does: transactions, statements, rows, and steps of SQLite's machine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from agentkit_py.stores import PostgresHistory, SqliteHistory, ThreadLease
from agentkit_py.stores._sql_session import Database, Session

T = TypeVar("T")


@dataclass
class Counts:
    """Counts of what was asked of a store."""

    transactions: int = 0
    writes: int = 0
    statements: int = 0
    rows: int = 0
    steps: int = 0
    """Instructions of SQLite's machine, also for rows that are read and not returned."""

    def reset(self) -> None:
        """Begin to count again."""
        self.transactions = self.writes = self.statements = self.rows = self.steps = 0

    def step(self) -> None:
        """Count an instruction."""
        self.steps += 1


class CountedStore(SqliteHistory):
    """An SQLite file that counts what is asked of it."""

    def __init__(self, path: Path, *, lease: ThreadLease | None = None) -> None:
        super().__init__(path, lease=lease)
        self.counts = Counts()

    def _make_database(self) -> Database:
        return _CountedDatabase(super()._make_database(), self.counts)


class ScannedPostgres(PostgresHistory):
    """A PostgreSQL store that counts the rows of a table which were read without an index."""

    table = "results"
    scanned = 0

    def _make_database(self) -> Database:
        return _ScannedDatabase(super()._make_database(), self)


class _ScannedDatabase:
    _READ = (
        "SELECT CAST(COALESCE(SUM(seq_tup_read), 0) AS bigint) FROM pg_stat_xact_user_tables "
        "WHERE starts_with(reverse(relname), reverse(?))"
    )

    def __init__(self, database: Database, store: ScannedPostgres) -> None:
        self._database = database
        self._store = store

    def _read(self, session: Session) -> int:
        return session.execute(self._READ, self._store.table).fetchone()[0]

    def transact(
        self, work: Callable[[Session], T], *, write: bool = False, repeatable: bool = True
    ) -> T:
        def watched(session: Session) -> T:
            before = self._read(session)  # the server has not taken note of all of it yet
            found = work(session)
            self._store.scanned += self._read(session) - before
            return found

        return self._database.transact(watched, write=write, repeatable=repeatable)

    def close(self) -> None:
        self._database.close()


class _CountedDatabase:
    def __init__(self, database: Database, counts: Counts) -> None:
        self._database = database
        self._counts = counts

    def transact(
        self, work: Callable[[Session], T], *, write: bool = False, repeatable: bool = True
    ) -> T:
        self._counts.transactions += 1
        self._counts.writes += write

        def counted(session: Any) -> T:
            session._connection.set_progress_handler(self._counts.step, 1)
            try:
                return work(_CountedSession(session, self._counts))
            finally:
                session._connection.set_progress_handler(None, 1)

        return self._database.transact(counted, write=write, repeatable=repeatable)

    def close(self) -> None:
        self._database.close()


class _CountedSession:
    def __init__(self, session: Session, counts: Counts) -> None:
        self._session = session
        self._counts = counts

    @property
    def full_text(self) -> bool:
        return self._session.full_text

    @property
    def words_follow(self) -> bool:
        return self._session.words_follow

    def word_query(self, terms: Any, user_id: str | None) -> str:
        return self._session.word_query(terms, user_id)

    def execute(self, query: str, *values: Any) -> Any:
        self._counts.statements += 1
        return _CountedCursor(self._session.execute(query, *values), self._counts)

    def execute_many(self, query: str, rows: Any) -> None:
        self._counts.statements += 1
        self._session.execute_many(query, rows)

    def select_ids(self, query: str, *values: Any, ids: Any) -> list[Any]:
        self._counts.statements += 1
        found = self._session.select_ids(query, *values, ids=ids)
        self._counts.rows += len(found)
        return found

    def stream(self, query: str, *values: Any) -> Any:
        self._counts.statements += 1
        for row in self._session.stream(query, *values):
            self._counts.rows += 1
            yield row

    def pipeline(self) -> AbstractContextManager[object]:
        return self._session.pipeline()

    def given(self, stored: str) -> str:
        return self._session.given(stored)


class _CountedCursor:
    def __init__(self, cursor: Any, counts: Counts) -> None:
        self._cursor = cursor
        self._counts = counts

    @property
    def rowcount(self) -> int:
        return self._cursor.rowcount

    def fetchone(self) -> Any:
        row = self._cursor.fetchone()
        self._counts.rows += row is not None
        return row

    def fetchall(self) -> list[Any]:
        rows = self._cursor.fetchall()
        self._counts.rows += len(rows)
        return rows
