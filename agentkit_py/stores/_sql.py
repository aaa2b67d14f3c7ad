"""SqlHistory: the queries of SQLite and PostgreSQL, written once.

A query is text with words in braces, for which each database's `Dialect` has its own (names of
tables, types, functions), and with ``?`` for values. It runs in a `Session`: one transaction of a
`Database`. Databases block, so transactions run in worker threads.
"""

# ruff: noqa: S608 - queries are put together from parts of our own
from __future__ import annotations

import os
import re
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import partial
from threading import Lock
from typing import Any, Protocol, TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

from agentkit_py.errors import ThreadNotFoundError
from agentkit_py.history.leases import ThreadLease
from agentkit_py.history.runs import RunRecord
from agentkit_py.processors.base import Extent, Processor, Summary
from agentkit_py.processors.vectors import Vector, nearest
from agentkit_py.results import USER
from agentkit_py.stores.base import HistoryStore
from agentkit_py.stores.rows import (
    Match,
    Row,
    StoredResult,
    StoreStats,
    ThreadInfo,
    decode_metadata,
    decode_row,
    decode_run,
    encode_metadata,
    encode_run,
    find_words,
    first_title,
    new_rows,
)
from agentkit_py.stores.thread_data import ThreadData, pack_vector, unpack_vector

T = TypeVar("T")

TABLES = ("threads", "results", "summaries", "vectors", "leases", "runs")

_ALL = 2**63 - 1
"""The limit of a query that returns all rows."""

_MOST_THREADS = 64
_limiter: RunVar[CapacityLimiter] = RunVar("agentkit_database_threads")


class JsonText(str):
    """A value that is JSON already; it is stored as it is."""

    __slots__ = ()


class FreeText(str):
    """A value that may hold any character, in a column that is never searched."""

    __slots__ = ()


class Dialect:
    """The words of one database."""

    def __init__(self, words: Mapping[str, Any], placeholder: str) -> None:
        self._words = words
        self._placeholder = placeholder
        self._queries: dict[str, str] = {}

    def query(self, text: str) -> str:
        """Return a query with its words and placeholders filled in."""
        found = self._queries.get(text)
        if found is None:
            found = text.format_map(self._words).replace("?", self._placeholder)
            self._queries[text] = found
        return found


class Pattern:
    """A word with an argument: ``{text:json}`` is the pattern of ``text`` for ``json``."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern

    def __format__(self, argument: str) -> str:
        return self._pattern.replace("@", argument)


class Session(Protocol):
    """A transaction."""

    def execute(self, query: str, *values: Any) -> Any:
        """Run a query; return the driver's cursor."""
        ...

    def execute_many(self, query: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run one statement with each of ``rows``."""
        ...

    def select_ids(self, query: str, *values: Any, ids: Sequence[str]) -> list[Any]:
        """Run a query that ends in ``{ids}``: one of ``ids``, however many there are."""
        ...

    def stream(self, query: str, *values: Any) -> Iterator[Any]:
        """Yield the rows of a query that may have very many."""
        ...

    def pipeline(self) -> AbstractContextManager[object]:
        """Send statements without waiting, until rows are fetched; `rowcount` is not known then."""
        ...

    def given(self, stored: str) -> str:
        """Return the text that was stored as ``stored``."""
        ...


class Database(Protocol):
    """A database. Its methods block, and may be called in several threads."""

    def transact(
        self, work: Callable[[Session], T], *, write: bool = False, repeatable: bool = True
    ) -> T:
        """Run ``work`` in a transaction.

        Args:
            work: Runs the queries; called again with another session if a connection is lost.
            write: Whether it changes anything.
            repeatable: Whether it may run again if a lost connection leaves unknown whether it was
                committed.
        """
        ...

    def close(self) -> None:
        """Close the connections; those in use are closed after their transactions."""
        ...


async def _in_thread(work: Callable[[], T]) -> T:
    """Run ``work`` in a worker thread. It finishes even if the caller is cancelled meanwhile."""
    try:
        limiter = _limiter.get()
    except LookupError:
        # Not anyio's default one: tools that block would keep stores from saving.
        limiter = CapacityLimiter(_MOST_THREADS)
        _limiter.set(limiter)
    return await to_thread.run_sync(work, limiter=limiter)


_ROW = (
    "r.position, {bytes:r.json}, {bytes:r.metadata}, {bytes:r.tokens}, r.messages, r.size, r.system"
)
_THREAD = (
    "SELECT id, user_id, title, {text:metadata}, created_at, updated_at, results, messages "
    "FROM {threads}"
)
_SUMMARY = (
    "SELECT key, text, covered, anchor, tokens, original_tokens, created_at, place "
    "FROM {summaries} WHERE thread_id = ? AND text IS NOT NULL"
)


class SqlHistory(HistoryStore):
    """Threads in an SQL database."""

    def __init__(
        self, *, processors: Sequence[Processor], lease: ThreadLease | None, lazy: bool | None
    ) -> None:
        super().__init__(processors=processors, lease=lease, lazy=lazy)
        self._databases: dict[int, Database] = {}
        self._lock = Lock()

    @abstractmethod
    def _make_database(self) -> Database:
        """Return the database, not connected yet."""

    def _database(self) -> Database:
        # A forked process must not touch its parent's connections, not even to close them: they
        # stay in the dictionary, unused.
        process = os.getpid()
        with self._lock:
            if process not in self._databases:
                self._databases[process] = self._make_database()
            return self._databases[process]

    async def _transact(
        self, work: Callable[[Session], T], *, write: bool = False, repeatable: bool = True
    ) -> T:
        transact = partial(self._database().transact, work, write=write, repeatable=repeatable)
        return await _in_thread(transact)

    async def _first(self, query: str, *values: Any) -> Any:
        return await self._transact(lambda session: session.execute(query, *values).fetchone())

    async def _change(self, query: str, *values: Any, repeatable: bool = True) -> bool:
        """Run one statement; return whether it changed anything."""
        return await self._transact(
            lambda session: session.execute(query, *values).rowcount > 0,
            write=True,
            repeatable=repeatable,
        )

    async def setup(self) -> None:
        """Create the tables, or bring them to this version.

        Raises:
            StoreVersionError: A newer version of the library made them.
            HistoryError: The database cannot be used.
        """
        await self._first("SELECT 1")

    async def close(self) -> None:
        """Close the connections. A store that is used after that connects again."""
        close = self._database().close
        try:
            await _in_thread(close)
        except RuntimeError:  # the process ends, and starts no thread any more
            close()

    # Threads.

    async def insert_thread(self, thread: ThreadInfo) -> None:
        await self._change(
            "INSERT INTO {threads} (id, user_id, title, metadata, created_at, updated_at) "
            "VALUES (?, ?, ?, ?, now(), now()) ON CONFLICT (id) DO NOTHING",
            thread.id,
            thread.user_id,
            thread.title.encode("utf-8", "replace").decode(),
            JsonText(encode_metadata(thread.metadata, thread.id)),
        )

    async def thread_exists(self, thread_id: str) -> bool:
        return await self._first("SELECT 1 FROM {threads} WHERE id = ?", thread_id) is not None

    async def get_thread(self, thread_id: str) -> ThreadInfo:
        found = await self._threads(f"{_THREAD} WHERE id = ?", thread_id)
        if not found:
            raise ThreadNotFoundError(thread_id)
        return found[0]

    async def select_threads(self, limit: int | None, user_id: str | None) -> list[ThreadInfo]:
        order = "ORDER BY updated_at DESC, {number} DESC LIMIT ?"
        most = _ALL if limit is None else min(limit, _ALL)
        if user_id is None:
            return await self._threads(f"{_THREAD} {order}", most)
        return await self._threads(f"{_THREAD} WHERE user_id = ? {order}", user_id, most)

    async def _threads(self, query: str, *values: Any) -> list[ThreadInfo]:
        def read(session: Session) -> list[ThreadInfo]:
            rows = session.execute(query, *values).fetchall()
            return [_thread_info(session, row) for row in rows]

        return await self._transact(read)

    async def set_times(self, thread_id: str, created_at: datetime, updated_at: datetime) -> None:
        query = "UPDATE {threads} SET created_at = ?, updated_at = ? WHERE id = ?"
        if not await self._change(query, created_at, updated_at, thread_id):
            raise ThreadNotFoundError(thread_id)

    async def remove_thread(self, thread_id: str) -> bool:
        def remove(session: Session) -> bool:
            gone = session.execute("DELETE FROM {threads} WHERE id = ?", thread_id)
            # Results and runs refer to the thread and go with it.
            session.execute("DELETE FROM {summaries} WHERE thread_id = ?", thread_id)
            session.execute("DELETE FROM {vectors} WHERE thread_id = ?", thread_id)
            session.execute("DELETE FROM {leases} WHERE thread_id = ?", thread_id)
            return gone.rowcount > 0

        return await self._transact(remove, write=True)

    async def stats(self, user_id: str | None = None) -> StoreStats:
        query = (
            "SELECT COUNT(*), COUNT(DISTINCT user_id), "
            "CAST(COALESCE(SUM(results), 0) AS bigint), "
            "CAST(COALESCE(SUM(messages), 0) AS bigint) FROM {threads}"
        )
        if user_id is None:
            return StoreStats(*await self._first(query))
        return StoreStats(*await self._first(f"{query} WHERE user_id = ?", user_id))

    async def search(
        self, words: str, *, user_id: str | None = None, limit: int = 50
    ) -> list[Match]:
        condition = "" if user_id is None else "AND t.user_id = ?"
        query = (
            "SELECT r.thread_id, r.position, {bytes:r.json} FROM {threads} t "
            "JOIN {results} r ON r.thread_id = t.id "
            f"WHERE {{instr}}(lower({{text:r.json}}), ?) > 0 {condition} "
            "ORDER BY t.updated_at DESC, t.{number} DESC, r.position"
        )
        values = (_search_key(words),) if user_id is None else (_search_key(words), user_id)

        def find(session: Session) -> list[Match]:
            found: dict[str, Match] = {}
            for key, position, json in session.stream(query, *values):
                if len(found) >= limit:
                    break
                thread_id = session.given(key)
                if thread_id not in found:
                    stored = decode_row(thread_id, position, json, None)
                    match = find_words(stored, thread_id, words)
                    found.update({} if match is None else {thread_id: match})
            return list(found.values())

        return await self._transact(find)

    # Results.

    async def append_rows(self, thread_id: str, rows: Sequence[Row]) -> None:
        # Rows without ids cannot be recognised, so they would be added twice.
        repeatable = all(row.id is not None for row in rows)

        def append(session: Session) -> None:
            with session.pipeline():
                _append(session, thread_id, rows)

        await self._transact(append, write=True, repeatable=repeatable)

    async def count_results(self, thread_id: str) -> int:
        found = await self._first("SELECT results FROM {threads} WHERE id = ?", thread_id)
        if found is None:
            raise ThreadNotFoundError(thread_id)
        return found[0]

    async def stored_results(self, thread_id: str) -> list[StoredResult]:
        return (await self.newest(thread_id, _ALL))[1]

    async def newest(self, thread_id: str, limit: int) -> tuple[int, list[StoredResult]]:
        # One query, so that the count and the results are of one moment.
        query = (
            f"SELECT t.results, {_ROW} FROM {{threads}} t LEFT JOIN {{results}} r "
            "ON r.thread_id = t.id AND r.position >= t.results - ? AND r.position < t.results "
            "WHERE t.id = ? ORDER BY r.position"
        )

        def read(session: Session) -> tuple[int, list[StoredResult]]:
            rows = session.execute(query, limit, thread_id).fetchall()
            if not rows:
                raise ThreadNotFoundError(thread_id)
            return rows[0][0], [_stored(thread_id, row[1:]) for row in rows if row[1] is not None]

        return await self._transact(read)

    async def page(self, thread_id: str, before: int, limit: int) -> list[StoredResult]:
        # A range, not LIMIT: positions have no gaps, and a planner without statistics might sort
        # the whole thread for LIMIT.
        query = (
            f"SELECT {_ROW} FROM {{results}} r WHERE r.thread_id = ? AND r.position >= ? "
            "AND r.position < ? ORDER BY r.position"
        )

        def read(session: Session) -> list[StoredResult]:
            rows = session.execute(query, thread_id, before - limit, before).fetchall()
            return [_stored(thread_id, row) for row in rows]

        return await self._transact(read)

    # Summaries.

    async def load_summary(self, thread_id: str, key: str) -> Summary | None:
        row = await self._first(f"{_SUMMARY} AND key = ?", thread_id, key)
        return None if row is None else _summary(row)

    async def lock_summary(self, thread_id: str, key: str, owner: str, seconds: float) -> bool:
        return await self._change(
            "INSERT INTO {summaries} AS s (thread_id, key, locked_by, locked_until) "
            "VALUES (?, ?, ?, {later}) ON CONFLICT (thread_id, key) DO UPDATE "
            "SET locked_by = excluded.locked_by, locked_until = excluded.locked_until "
            "WHERE s.locked_by IS NULL OR s.locked_by = excluded.locked_by "
            "OR s.locked_until <= {lease_clock}",
            *(thread_id, key, owner, seconds),
        )

    async def save_summary(self, thread_id: str, key: str, summary: Summary, owner: str) -> bool:
        return await self._change(
            "UPDATE {summaries} SET text = ?, covered = ?, anchor = ?, tokens = ?, "
            "original_tokens = ?, created_at = ?, place = ?, locked_by = NULL, "
            "locked_until = NULL WHERE thread_id = ? AND key = ? AND locked_by = ?",
            FreeText(summary.text.encode("utf-8", "replace").decode()),
            summary.covered,
            summary.anchor,
            summary.tokens,
            summary.original_tokens,
            summary.created_at,
            summary.place,
            *(thread_id, key, owner),
            repeatable=False,
        )

    async def unlock_summary(self, thread_id: str, key: str, owner: str) -> None:
        await self._change(
            "UPDATE {summaries} SET locked_by = NULL, locked_until = NULL "
            "WHERE thread_id = ? AND key = ? AND locked_by = ?",
            *(thread_id, key, owner),
        )

    # Vectors.

    async def missing_vectors(self, thread_id: str, key: str, ids: Sequence[str]) -> list[str]:
        query = "SELECT id FROM {vectors} WHERE thread_id = ? AND key = ? AND id {ids}"

        def read(session: Session) -> list[str]:
            rows = session.select_ids(query, thread_id, key, ids=ids)
            known = {session.given(row[0]) for row in rows}
            return [one for one in ids if one not in known]

        return await self._transact(read)

    async def add_vectors(self, thread_id: str, key: str, vectors: Mapping[str, Vector]) -> None:
        # Sorted, so that two writers cannot wait for each other.
        rows = [(thread_id, key, one, pack_vector(v)) for one, v in sorted(vectors.items())]
        query = (
            "INSERT INTO {vectors} (thread_id, key, id, vector) VALUES (?, ?, ?, ?) "
            "ON CONFLICT DO NOTHING"
        )
        await self._transact(lambda session: session.execute_many(query, rows), write=True)

    async def nearest_vectors(
        self, thread_id: str, key: str, vector: Vector, ids: Collection[str], k: int
    ) -> list[tuple[str, float]]:
        query = "SELECT id, vector FROM {vectors} WHERE thread_id = ? AND key = ? AND id {ids}"

        def read(session: Session) -> list[tuple[str, float]]:
            rows = session.select_ids(query, thread_id, key, ids=list(ids))
            known = {session.given(one): unpack_vector(stored) for one, stored in rows}
            return nearest(vector, known, k)

        return await self._transact(read)

    # Leases and runs.

    async def lock_thread(self, thread_id: str, owner: str, seconds: float) -> bool:
        return await self._change(
            "INSERT INTO {leases} AS l (thread_id, owner, until) VALUES (?, ?, {later}) "
            "ON CONFLICT (thread_id) DO UPDATE SET owner = excluded.owner, "
            "until = excluded.until WHERE l.owner = excluded.owner OR l.until <= {lease_clock}",
            *(thread_id, owner, seconds),
        )

    async def unlock_thread(self, thread_id: str, owner: str) -> None:
        query = "DELETE FROM {leases} WHERE thread_id = ? AND owner = ?"
        await self._change(query, thread_id, owner)

    async def save_run(self, thread_id: str, run: RunRecord) -> None:
        saved = await self._change(
            "INSERT INTO {runs} (thread_id, id, json, has_state, updated_at) "
            "SELECT id, ?, ?, ?, clock_timestamp() FROM {threads} WHERE id = ? "
            "ON CONFLICT (thread_id, id) DO UPDATE SET json = excluded.json, "
            "has_state = excluded.has_state, updated_at = excluded.updated_at",
            run.id,
            JsonText(encode_run(run, thread_id)),
            run.state is not None,
            thread_id,
        )
        if not saved:
            raise ThreadNotFoundError(thread_id)

    async def load_run(self, thread_id: str, run_id: str | None = None) -> RunRecord | None:
        query = "SELECT id, {text:json} FROM {runs} WHERE thread_id = ?"

        def read(session: Session) -> RunRecord | None:
            if run_id is None:
                newest = f"{query} AND has_state ORDER BY number DESC LIMIT 1"
                row = session.execute(newest, thread_id).fetchone()
            else:
                row = session.execute(f"{query} AND id = ?", thread_id, run_id).fetchone()
            return None if row is None else decode_run(thread_id, session.given(row[0]), row[1])

        return await self._transact(read)

    async def thread_data(self, thread_id: str) -> ThreadData:
        def read(session: Session) -> ThreadData:
            given = session.given
            summaries = session.execute(f"{_SUMMARY} ORDER BY key", thread_id).fetchall()
            query = "SELECT id, {text:json} FROM {runs} WHERE thread_id = ? ORDER BY number"
            runs = session.execute(query, thread_id).fetchall()
            vectors: dict[str, dict[str, Vector]] = {}
            query = "SELECT key, id, vector FROM {vectors} WHERE thread_id = ? ORDER BY key, id"
            for key, one, packed in session.execute(query, thread_id).fetchall():
                vectors.setdefault(given(key), {})[given(one)] = unpack_vector(packed)
            return ThreadData(
                summaries={given(row[0]): _summary(row) for row in summaries},
                vectors=vectors,
                runs=tuple(decode_run(thread_id, given(one), text) for one, text in runs),
            )

        return await self._transact(read)


def _append(session: Session, thread_id: str, rows: Sequence[Row]) -> None:
    """Add the rows that are new at the end of a thread.

    The thread's row is locked first, so that writers come one after another and each sees what the
    one before has added.
    """
    query = "SELECT results, title, messages, size, system FROM {threads} WHERE id = ? {FOR_UPDATE}"
    found = session.execute(query, thread_id).fetchone()
    if found is None:
        raise ThreadNotFoundError(thread_id)
    query = "SELECT id, {bytes:json} FROM {results} WHERE thread_id = ? AND id {ids}"
    ids = [row.id for row in rows if row.id is not None]
    existing = session.select_ids(query, thread_id, ids=ids)
    stored = {session.given(one): _as_str(text) for one, text in existing}
    new = new_rows(thread_id, stored, rows)
    if not new:
        return
    first, title = found[0], session.given(found[1]) or _title(session, thread_id, new)
    total = Extent(*found[2:])
    values: list[tuple[Any, ...]] = []
    for position, row in enumerate(new, first):
        values.append(_values(thread_id, position, row, total))
        total += row.extent
    session.execute_many(
        "INSERT INTO {results} (thread_id, position, id, agent_name, created_at, json, metadata, "
        "tokens, messages, size, system) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        values,
    )
    session.execute(
        "UPDATE {threads} SET title = ?, results = ?, messages = ?, size = ?, system = ?, "
        "updated_at = clock_timestamp() WHERE id = ?",
        *(title, first + len(new), total.messages, total.size, total.system, thread_id),
    )


def _title(session: Session, thread_id: str, new: Sequence[Row]) -> str:
    """Return a title for a thread that has none, unless an earlier user message gave none."""
    title = first_title(new)
    if not title:
        return ""
    query = "SELECT 1 FROM {results} WHERE thread_id = ? AND agent_name = ? LIMIT 1"
    return title if session.execute(query, thread_id, USER).fetchone() is None else ""


def _values(thread_id: str, position: int, row: Row, before: Extent) -> tuple[Any, ...]:
    return (
        thread_id,
        position,
        row.id,
        row.agent_name,
        row.created_at,
        JsonText(row.json),
        None if row.metadata is None else JsonText(row.metadata),
        None if row.tokens is None else JsonText(row.tokens),
        before.messages,
        before.size,
        before.system,
    )


def _search_key(words: str) -> str:
    """Return a part of ``words`` that any JSON text with them contains, both in lower case.

    The database selects rows by it; `find_words` then compares the decoded texts.
    """
    return max(re.findall("[a-z0-9 ]+", words.lower()), key=len, default="")


def _stored(thread_id: str, row: Sequence[Any]) -> StoredResult:
    position, text, metadata, tokens, *before = row
    return decode_row(thread_id, position, text, metadata, tokens, Extent(*before))


def _thread_info(session: Session, row: Sequence[Any]) -> ThreadInfo:
    key, user_id, title, metadata, created, updated, results, messages = row
    thread_id = session.given(key)
    return ThreadInfo(
        id=thread_id,
        user_id=None if user_id is None else session.given(user_id),
        title=session.given(title),
        metadata=decode_metadata(metadata, thread_id),
        created_at=_time(created),
        updated_at=_time(updated),
        result_count=results,
        message_count=messages,
    )


def _summary(row: Sequence[Any]) -> Summary:
    _, text, covered, anchor, tokens, original, created, place = row
    return Summary(
        text=text,
        covered=covered,
        anchor=anchor,
        tokens=tokens,
        original_tokens=original,
        created_at=_time(created),
        place=place,
    )


def _time(stored: datetime | str) -> datetime:
    found = stored if isinstance(stored, datetime) else datetime.fromisoformat(stored)
    return found.astimezone(UTC)


def _as_str(text: str | bytes) -> str:
    return text if isinstance(text, str) else text.decode(errors="replace")
