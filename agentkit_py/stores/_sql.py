"""SqlHistory: the queries of SQLite and PostgreSQL, written once.

A query is text with words in braces, for which each database's `Dialect` has its own (names of
tables, types, functions), and with ``?`` for values. It runs in a `Session`: a transaction of a
`Database`. Databases block, so transactions run in worker threads.
"""

# ruff: noqa: S608 - queries are put together from parts of our own
from __future__ import annotations

import logging
import os
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from threading import Lock
from typing import Any, Self, TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

from agentkit_py._core.json import JsonObject
from agentkit_py._core.untrusted import get_logger
from agentkit_py.codec import user_message_from_dict, user_message_to_dict
from agentkit_py.errors import HistoryError, ThreadBusyError, ThreadNotFoundError
from agentkit_py.history.leases import ThreadLease
from agentkit_py.history.mail import inbox_name
from agentkit_py.history.questions import Question, QuestionFilter
from agentkit_py.history.runs import Known, LeaseClaim, OpenedRun, RunRecord, Unfinished
from agentkit_py.history.staff import Takeover, TakeoverStatus
from agentkit_py.history.users import Fact, RefusedSpending, Spending, spending_scope
from agentkit_py.messages import UserMessage
from agentkit_py.processors.base import Extent, Processors, Summary
from agentkit_py.results import USER
from agentkit_py.search.vectors import Vector, nearest
from agentkit_py.stores import _sql_branches as branches
from agentkit_py.stores import _sql_records as records
from agentkit_py.stores import _sql_words as indexing
from agentkit_py.stores._sql_session import Database, FreeText, JsonText, Session
from agentkit_py.stores.base import HistoryStore
from agentkit_py.stores.records import Records
from agentkit_py.stores.rows import (
    ALL,
    Match,
    Row,
    StoredResult,
    StoreStats,
    ThreadInfo,
    at_most,
    decode_metadata,
    decode_result,
    decode_row,
    decode_run,
    encode_json,
    encode_metadata,
    encode_run,
    first_title,
    new_rows,
)
from agentkit_py.stores.thread_data import ThreadData, pack_vector, unpack_vector
from agentkit_py.stores.thread_records import ThreadRecords, ratings_in
from agentkit_py.stores.words import WordSearch

logger: logging.Logger = get_logger("agentkit_py.stores")

T = TypeVar("T")

_LACKING = (
    "%s: the index of words lacks %d results, so the search has read them all; "
    "agentkit threads index adds them."
)
_MOST_THREADS = 64
_limiter: RunVar[CapacityLimiter] = RunVar("agentkit_database_threads")


async def _in_thread(work: Callable[[], T]) -> T:
    """Run ``work`` in a worker thread. It finishes even if the caller is cancelled meanwhile."""
    try:
        limiter = _limiter.get()
    except LookupError:
        # Not anyio's default limiter: tools that block would keep stores from saving.
        limiter = CapacityLimiter(_MOST_THREADS)
        _limiter.set(limiter)
    return await to_thread.run_sync(work, limiter=limiter)


_COUNT = (
    "CASE WHEN t.branch IS NULL THEN t.@ ELSE "
    "(SELECT b.@ FROM {threads} b WHERE b.id = t.branch) END"
)
_THREAD = (
    "SELECT t.id, t.user_id, t.title, {text:t.metadata}, t.created_at, t.updated_at, "
    f"{_COUNT.replace('@', 'results')}, {_COUNT.replace('@', 'messages')}, t.origin, t.start "
    "FROM {threads} t WHERE NOT t.hidden"
)
_SUMMARY = (
    "SELECT key, text, covered, anchor, tokens, original_tokens, created_at, place "
    "FROM {summaries} WHERE text IS NOT NULL AND thread_id ="
)
_DROP_NOTES = "DELETE FROM {notes} WHERE thread_id = ? AND owner = ?"


class SqlHistory(ThreadRecords, HistoryStore):
    """Threads in an SQL database."""

    def __init__(
        self, *, processors: Processors, lease: ThreadLease | None, lazy: bool | None
    ) -> None:
        super().__init__(processors=processors, lease=lease, lazy=lazy)
        self._databases: dict[int, Database] = {}
        self._lock = Lock()
        self._owner: str | None = None
        """The user whose threads alone may be used; None: all."""

    def _does(self, *methods: str) -> bool:
        """Return whether methods are this class's own: no subclass has another way."""
        return all(getattr(type(self), one) is getattr(SqlHistory, one) for one in methods)

    def restricted_to(self, user_id: str) -> Self | None:
        """Return this store for a user; None for a subclass that keeps threads otherwise."""
        if not self._does("get_thread"):
            return None
        view = copy(self)
        view._owner = user_id  # noqa: SLF001 - a copy of this object
        return view

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
        self,
        work: Callable[[Session], T],
        *,
        thread_id: str | None = None,
        write: bool = False,
        repeatable: bool = True,
    ) -> T:
        """Run ``work`` in a transaction.

        Args:
            work: Runs the queries.
            thread_id: The thread of the work; it must be of the store's user, if it has one.
            write: Whether it changes anything.
            repeatable: As in `Database.transact`.

        Raises:
            ThreadNotFoundError: The thread is not of the store's user.
        """
        if self._owner is not None:
            work = partial(_of_owner, self._owner, thread_id, work)
        return await self._run(work, write=write, repeatable=repeatable)

    async def _run(
        self, work: Callable[[Session], T], *, write: bool = False, repeatable: bool = True
    ) -> T:
        transact = partial(self._database().transact, work, write=write, repeatable=repeatable)
        return await _in_thread(transact)

    async def _first(self, query: str, *values: Any, thread_id: str | None = None) -> Any:
        return await self._transact(
            lambda session: session.execute(query, *values).fetchone(), thread_id=thread_id
        )

    async def _change(
        self, query: str, *values: Any, thread_id: str | None = None, repeatable: bool = True
    ) -> bool:
        """Run a statement; return whether it changed anything."""
        return await self._transact(
            lambda session: session.execute(query, *values).rowcount > 0,
            thread_id=thread_id,
            write=True,
            repeatable=repeatable,
        )

    async def setup(self) -> None:
        """Create the tables, or bring them to this version.

        Raises:
            StoreVersionError: A newer version of the library made them.
            HistoryError: The database cannot be used.
        """
        await self._run(lambda session: session.execute("SELECT 1").fetchone())

    async def close(self) -> None:
        """Close the connections. A store that is used after that connects again."""
        close = self._database().close
        try:
            await _in_thread(close)
        except RuntimeError:  # the process ends, and starts no thread any more
            close()

    # Threads.

    async def insert_thread(self, thread: ThreadInfo) -> None:
        values = (
            thread.id,
            thread.user_id,
            thread.title.encode("utf-8", "replace").decode(),
            JsonText(encode_metadata(thread.metadata, thread.id)),
        )

        owner = self._owner  # not the store itself, which a thread would keep from being collected

        def insert(session: Session) -> None:
            made = session.execute(
                "INSERT INTO {threads} "
                "(id, user_id, title, metadata, created_at, updated_at{ITS_NUMBER}) "
                "VALUES (?, ?, ?, ?, now(), now(){NEXT_NUMBER}) ON CONFLICT (id) DO NOTHING",
                *values,
            )
            if made.rowcount > 0:
                branches.count(session, thread.user_id, 1)
            else:
                _is_known(session, thread.id, owner)

        await self._run(insert, write=True)

    async def thread_exists(self, thread_id: str) -> bool:
        return await self._run(partial(_is_known, thread_id=thread_id, owner=self._owner))

    async def get_thread(self, thread_id: str) -> ThreadInfo:
        found = await self._threads(f"{_THREAD} AND t.id = ?", thread_id, thread_id=thread_id)
        if not found:
            raise ThreadNotFoundError(thread_id)
        return found[0]

    async def select_threads(self, limit: int | None, user_id: str | None) -> list[ThreadInfo]:
        order = "ORDER BY t.updated_at DESC, t.{number} DESC LIMIT ?"
        most = at_most(limit)
        if user_id is None:
            return await self._threads(f"{_THREAD} {order}", most)
        return await self._threads(f"{_THREAD} AND t.user_id = ? {order}", user_id, most)

    async def forks(self, thread_id: str, *, limit: int | None = 50) -> list[ThreadInfo]:
        query = f"{_THREAD} AND t.origin = ? ORDER BY t.created_at, t.id LIMIT ?"
        return await self._threads(query, thread_id, at_most(limit), thread_id=thread_id)

    async def thread_page(
        self,
        limit: int,
        *,
        user_id: str | None = None,
        offset: int = 0,
        before: tuple[datetime, str] | None = None,
    ) -> tuple[list[ThreadInfo], int]:
        if not self._does("select_threads"):
            return await super().thread_page(limit, user_id=user_id, offset=offset, before=before)
        count, theirs = (
            "SELECT COALESCE(SUM(threads), 0) FROM {owners} WHERE user_id = ?",
            [user_id],
        )
        if user_id is None:
            count, theirs = "SELECT COUNT(*) FROM {threads} t WHERE NOT t.hidden", []
        query, values = _page_query(user_id, before)

        def read(session: Session) -> tuple[list[ThreadInfo], int]:
            rows = session.execute(query, *values, limit, offset).fetchall()
            total = session.execute(count, *theirs).fetchone()[0]
            return [_thread_info(session, row) for row in rows], int(total)

        return await self._transact(read)

    async def threads_before(self, before: tuple[datetime, str], limit: int) -> list[ThreadInfo]:
        if not self._does("thread_page", "select_threads"):
            return await super().threads_before(before, limit)
        query, values = _page_query(None, before)
        return await self._threads(query, *values, limit, 0)

    async def _threads(
        self, query: str, *values: Any, thread_id: str | None = None
    ) -> list[ThreadInfo]:
        def read(session: Session) -> list[ThreadInfo]:
            rows = session.execute(query, *values).fetchall()
            return [_thread_info(session, row) for row in rows]

        return await self._transact(read, thread_id=thread_id)

    async def set_times(self, thread_id: str, created_at: datetime, updated_at: datetime) -> None:
        query = "UPDATE {threads} SET created_at = ?, updated_at = ? WHERE id = ?"
        if not await self._change(query, created_at, updated_at, thread_id, thread_id=thread_id):
            raise ThreadNotFoundError(thread_id)

    async def remove_thread(self, thread_id: str) -> bool:
        def remove(session: Session) -> bool:
            # What refers to the thread's row goes with it.
            gone = branches.remove(session, thread_id)
            # There may be summaries and vectors of threads that are not in this database.
            for table in ("summaries", "vectors", "leases", "line", "notes", "mail", "records"):
                session.execute(f"DELETE FROM {{{table}}} WHERE thread_id = ?", thread_id)
            # Mail of earlier versions does not say which thread it is about.
            session.execute("DELETE FROM {mail} WHERE box = ?", inbox_name(thread_id))
            return gone

        return await self._transact(remove, write=True, thread_id=thread_id)

    async def insert_fork(
        self, thread_id: str, at: str | int | None, fork_id: str, title: str | None
    ) -> str:
        work = partial(branches.fork, thread_id=thread_id, at=at, new_id=fork_id, title=title)
        await self._transact(work, write=True, thread_id=thread_id)
        return fork_id

    async def rewind(self, thread_id: str, at: str | int) -> None:
        work = partial(branches.rewind, thread_id=thread_id, at=at)
        await self._transact(work, write=True, thread_id=thread_id, repeatable=False)

    async def stats(self, user_id: str | None = None) -> StoreStats:
        query = (
            "SELECT COUNT(*), COUNT(DISTINCT t.user_id), "
            "CAST(COALESCE(SUM(COALESCE(b.results, t.results)), 0) AS bigint), "
            "CAST(COALESCE(SUM(COALESCE(b.messages, t.messages)), 0) AS bigint) "
            "FROM {threads} t LEFT JOIN {threads} b ON b.id = t.branch WHERE NOT t.hidden"
        )
        if user_id is None:
            return StoreStats(*await self._first(query))
        return StoreStats(*await self._first(f"{query} AND t.user_id = ?", user_id))

    async def search(
        self, words: str, *, user_id: str | None = None, limit: int = 50
    ) -> list[Match]:
        sought, limit = WordSearch.parse(words), at_most(limit)

        def find(session: Session) -> tuple[list[Match], int]:
            whole = indexing.is_whole(session)
            found = indexing.find(session, sought, user_id=user_id, limit=limit, is_whole=whole)
            of_found = session.select_ids(f"{_THREAD} AND t.id {{ids}}", ids=list(found))
            threads = {one.id: one for one in (_thread_info(session, row) for row in of_found)}
            matches = [replace(match, thread=threads[key]) for key, match in found.items()]
            return matches, 0 if whole or not session.full_text else indexing.lacking(session)

        matches, lacking = await self._transact(find)
        if lacking:
            logger.warning(_LACKING, self, lacking)
        return matches

    async def index_words(self, most: int = 1000) -> int:
        return await self._transact(partial(indexing.catch_up, most=most), write=True)

    # Results.

    async def append_rows(self, thread_id: str, rows: Sequence[Row]) -> None:
        await self._add_rows(thread_id, rows, None)

    async def append_held(self, thread_id: str, rows: Sequence[Row], claim: LeaseClaim) -> bool:
        if not self._does("append_rows", "lock_thread"):
            return await super().append_held(thread_id, rows, claim)
        return await self._add_rows(thread_id, rows, claim)

    async def append_user_row(self, thread_id: str, row: Row, claim: LeaseClaim | None) -> bool:
        own = self._does("append_rows", "append_held", "lock_thread", "change_takeover")
        if not own:
            return await super().append_user_row(thread_id, row, claim)

        def append(session: Session) -> bool | None:
            if claim is not None and not _lock(session, thread_id, claim):
                return None
            with session.pipeline():
                _append(session, thread_id, [row])
            return records.staff_heard(session, thread_id=thread_id)

        found = await self._transact(
            append, thread_id=thread_id, write=True, repeatable=row.id is not None
        )
        if found is None:
            raise ThreadBusyError(thread_id)
        return found

    async def _add_rows(
        self, thread_id: str, rows: Sequence[Row], claim: LeaseClaim | None
    ) -> bool:
        # Rows without ids cannot be recognised, so they would be added twice.
        repeatable = all(row.id is not None for row in rows)

        def append(session: Session) -> bool:
            if claim is not None and not _lock(session, thread_id, claim):
                return False
            with session.pipeline():
                _append(session, thread_id, rows)
            return True

        return await self._transact(append, thread_id=thread_id, write=True, repeatable=repeatable)

    async def count_results(self, thread_id: str) -> int:
        query = f"SELECT {_COUNT.replace('@', 'results')} FROM {{threads}} t WHERE t.id = ?"
        found = await self._first(f"{query} AND NOT t.hidden", thread_id, thread_id=thread_id)
        if found is None:
            raise ThreadNotFoundError(thread_id)
        return found[0]

    async def stored_results(self, thread_id: str) -> list[StoredResult]:
        return (await self.newest(thread_id, ALL))[1]

    async def newest(self, thread_id: str, limit: int) -> tuple[int, list[StoredResult]]:
        read = partial(branches.newest, thread_id=thread_id, limit=limit)
        count, rows = await self._transact(read, thread_id=thread_id)
        return count, [_stored(thread_id, row) for row in rows]

    async def page(self, thread_id: str, before: int, limit: int) -> list[StoredResult]:
        read = partial(branches.page, thread_id=thread_id, before=before, limit=limit)
        rows = await self._transact(read, thread_id=thread_id)
        return [_stored(thread_id, row) for row in rows]

    # Summaries.

    async def load_summary(self, thread_id: str, key: str) -> Summary | None:
        read = partial(_load_summary, thread_id=thread_id, key=key)
        return await self._transact(read, thread_id=thread_id)

    async def lock_summary(self, thread_id: str, key: str, owner: str, seconds: float) -> bool:
        return await self._change(
            "INSERT INTO {summaries} AS s (thread_id, key, locked_by, locked_until) "
            f"VALUES ({branches.BRANCH}, ?, ?, {{later}}) ON CONFLICT (thread_id, key) DO UPDATE "
            "SET locked_by = excluded.locked_by, locked_until = excluded.locked_until "
            "WHERE s.locked_by IS NULL OR s.locked_by = excluded.locked_by "
            "OR s.locked_until <= {lease_clock}",
            *(thread_id, thread_id, key, owner, seconds),
            thread_id=thread_id,
        )

    async def save_summary(self, thread_id: str, key: str, summary: Summary, owner: str) -> bool:
        values = (
            FreeText(summary.text.encode("utf-8", "replace").decode()),
            summary.covered,
            summary.anchor,
            summary.tokens,
            summary.original_tokens,
            summary.created_at,
            summary.place,
        )

        def save(session: Session) -> bool:
            branch = branches.chain(session, thread_id)[0].id
            which = (branch, key, owner)
            query = "SELECT 1 FROM {summaries} WHERE thread_id = ? AND key = ? AND locked_by = ?"
            if session.execute(f"{query} {{FOR_UPDATE}}", *which).fetchone() is None:
                return False
            branches.pass_on(session, branch, key, _find_summary(session, thread_id, key)[0])
            session.execute(
                "UPDATE {summaries} SET text = ?, covered = ?, anchor = ?, tokens = ?, "
                "original_tokens = ?, created_at = ?, place = ?, locked_by = NULL, "
                "locked_until = NULL WHERE thread_id = ? AND key = ? AND locked_by = ?",
                *(*values, *which),
            )
            return True

        return await self._transact(save, write=True, thread_id=thread_id, repeatable=False)

    async def unlock_summary(self, thread_id: str, key: str, owner: str) -> None:
        await self._change(
            "UPDATE {summaries} SET locked_by = NULL, locked_until = NULL "
            f"WHERE thread_id = {branches.BRANCH} AND key = ? AND locked_by = ?",
            *(thread_id, thread_id, key, owner),
            thread_id=thread_id,
        )

    # Vectors.

    async def missing_vectors(self, thread_id: str, key: str, ids: Sequence[str]) -> list[str]:
        query = "SELECT id FROM {vectors} WHERE thread_id = ? AND key = ? AND id {ids}"

        def read(session: Session) -> list[str]:
            known = {
                session.given(row[0])
                for branch in branches.chain(session, thread_id)
                for row in session.select_ids(query, branch.id, key, ids=ids)
            }
            return [one for one in ids if one not in known]

        return await self._transact(read, thread_id=thread_id)

    async def add_vectors(self, thread_id: str, key: str, vectors: Mapping[str, Vector]) -> None:
        # Sorted, so that two writers cannot wait for each other.
        rows = [
            (thread_id, thread_id, key, one, pack_vector(v)) for one, v in sorted(vectors.items())
        ]
        query = (
            "INSERT INTO {vectors} (thread_id, key, id, vector) "
            f"VALUES ({branches.BRANCH}, ?, ?, ?) ON CONFLICT DO NOTHING"
        )
        await self._transact(
            lambda session: session.execute_many(query, rows), write=True, thread_id=thread_id
        )

    async def nearest_vectors(
        self, thread_id: str, key: str, vector: Vector, ids: Collection[str], k: int
    ) -> list[tuple[str, float]]:
        query = "SELECT id, vector FROM {vectors} WHERE thread_id = ? AND key = ? AND id {ids}"

        def read(session: Session) -> list[tuple[str, float]]:
            known = {
                session.given(one): unpack_vector(stored)
                for branch in branches.chain(session, thread_id)
                for one, stored in session.select_ids(query, branch.id, key, ids=list(ids))
            }
            return nearest(vector, known, k)

        return await self._transact(read, thread_id=thread_id)

    # Leases and runs.

    async def lock_thread(self, thread_id: str, owner: str, seconds: float) -> bool:
        return await self._transact(
            partial(records.lock_thread, thread_id=thread_id, owner=owner, seconds=seconds),
            write=True,
            thread_id=thread_id,
        )

    async def wait_in_line(self, thread_id: str, owner: str, seconds: float) -> bool:
        return await self._transact(
            partial(records.wait_for_thread, thread_id=thread_id, owner=owner, seconds=seconds),
            write=True,
            thread_id=thread_id,
        )

    async def unlock_thread(self, thread_id: str, owner: str) -> str | None:
        unlock = partial(records.unlock_thread, thread_id=thread_id, owner=owner)
        return await self._transact(unlock, write=True, thread_id=thread_id)

    async def note_calls(self, thread_id: str, owner: str, notes: Mapping[str, JsonObject]) -> bool:
        what = f"Thread {thread_id!r}: a note of a call cannot be saved"
        texts = {key: JsonText(encode_json(note, what)) for key, note in notes.items()}
        note = partial(records.add_note, thread_id=thread_id, owner=owner, texts=texts)
        return await self._transact(note, write=True, thread_id=thread_id)

    async def notes_of(self, thread_id: str, owner: str) -> Mapping[str, JsonObject]:
        read = partial(records.find_notes, thread_id=thread_id, owner=owner)
        return await self._transact(read, thread_id=thread_id)

    async def drop_notes(self, thread_id: str, owner: str) -> None:
        await self._change(_DROP_NOTES, thread_id, owner, thread_id=thread_id)

    async def stop_execution(self, execution: str) -> list[Unfinished]:
        return await self._transact(partial(records.stop_run, execution=execution), write=True)

    async def is_stopped(self, execution: str) -> bool:
        return await self._transact(partial(records.is_execution_stopped, execution=execution))

    async def save_run(self, thread_id: str, run: RunRecord) -> None:
        save = partial(_save_run, thread_id=thread_id, run=run, text=encode_run(run, thread_id))
        await self._transact(save, thread_id=thread_id, write=True)

    async def load_run(self, thread_id: str, run_id: str | None = None) -> RunRecord | None:
        read = partial(_load_run, thread_id=thread_id, run_id=run_id)
        return await self._transact(read, thread_id=thread_id)

    async def open_run(
        self, thread_id: str, claim: LeaseClaim, run_id: str, limit: int
    ) -> OpenedRun | None:
        if not self._does("lock_thread", "load_run", "newest"):
            return await super().open_run(thread_id, claim, run_id, limit)

        def take(session: Session) -> tuple[RunRecord | None, RunRecord | None, Any] | None:
            if not _lock(session, thread_id, claim):
                return None
            own = _load_run(session, thread_id=thread_id, run_id=run_id)
            previous = _load_run(session, thread_id=thread_id, run_id=None)
            return own, previous, branches.newest(session, thread_id, limit)

        found = await self._transact(take, thread_id=thread_id, write=True)
        if found is None:
            return None
        own, previous, (count, rows) = found
        return _opened(thread_id, own, previous, count, rows)

    async def open_unleased(self, thread_id: str, limit: int) -> OpenedRun:
        if not self._does("load_run", "newest"):
            return await super().open_unleased(thread_id, limit)

        def read(session: Session) -> tuple[RunRecord | None, tuple[int, Any]]:
            found = branches.newest(session, thread_id, limit)
            return _load_run(session, thread_id=thread_id, run_id=None), found

        run, (count, rows) = await self._transact(read, thread_id=thread_id)
        return _opened(thread_id, None, run, count, rows)

    async def look_up(self, thread_id: str, run_id: str, user_id: str, most: int) -> Known:
        if not self._does("load_run", "list_questions"):
            return await super().look_up(thread_id, run_id, user_id, most)

        def read(session: Session) -> Known:
            own, previous = [
                _load_run(session, thread_id=thread_id, run_id=one) for one in (run_id, None)
            ]
            asked = records.find_questions(
                session, thread_id=None, user_id=user_id, status="open", limit=most
            )
            return Known(own=own, previous=previous, questions=len(asked))

        return await self._transact(read)

    async def end_run(self, thread_id: str, owner: str, run: RunRecord) -> str | None:
        if not self._does("save_run", "drop_notes", "unlock_thread"):
            return await super().end_run(thread_id, owner, run)
        text = encode_run(run, thread_id)

        def end(session: Session) -> str | None:
            _save_run(session, thread_id=thread_id, run=run, text=text)
            session.execute(_DROP_NOTES, thread_id, owner)
            return records.unlock_thread(session, thread_id=thread_id, owner=owner)

        return await self._transact(end, thread_id=thread_id, write=True)

    # Questions.

    async def save_question(self, question: Question) -> None:
        save = partial(records.save_question, question=question)
        await self._transact(save, thread_id=question.thread_id, write=True)

    async def change_question(
        self, question_id: str, change: Callable[[Question], Question | None]
    ) -> Question | None:
        made = partial(records.change_question, question_id=question_id, make=change)
        return await self._transact(made, write=True)

    async def change_run(
        self, thread_id: str, run_id: str, change: Callable[[RunRecord], RunRecord | None]
    ) -> RunRecord | None:
        made = partial(records.change_run, thread_id=thread_id, run_id=run_id, make=change)
        return await self._transact(made, thread_id=thread_id, write=True)

    async def load_question(self, question_id: str) -> Question | None:
        return await self._transact(partial(records.load_question, question_id=question_id))

    async def put_mail(
        self, box: str, mail_id: str, content: JsonObject, *, thread_id: str | None = None
    ) -> None:
        text = JsonText(encode_json(content, f"Mail {mail_id!r} cannot be kept"))
        put = partial(records.put_mail, box=box, mail_id=mail_id, text=text, thread_id=thread_id)
        await self._transact(put, thread_id=thread_id, write=True)

    async def take_mail(self, box: str, taker: str) -> JsonObject | None:
        return await self._transact(partial(records.take_mail, box=box, taker=taker), write=True)

    async def list_mail(self, box: str) -> list[tuple[str, JsonObject]]:
        return await self._transact(partial(records.list_mail, box=box))

    async def remove_mail(self, box: str, mail_id: str | None = None) -> bool:
        if mail_id is None:
            return await self._change("DELETE FROM {mail} WHERE box = ?", box)
        return await self._change("DELETE FROM {mail} WHERE box = ? AND id = ?", box, mail_id)

    async def put_message(
        self, thread_id: str, message: UserMessage, *, interrupts: bool = False
    ) -> None:
        posted = {"message": user_message_to_dict(message), "interrupts": interrupts}
        text = JsonText(encode_json(posted, f"The message {message.id!r} cannot be kept"))
        box = inbox_name(thread_id)

        def put(session: Session) -> None:
            session.execute("{serialize}", box)
            if not _is_known(session, thread_id, None):
                raise ThreadNotFoundError(thread_id)
            mail_id = message.id or ""
            records.put_mail(session, box=box, mail_id=mail_id, text=text, thread_id=thread_id)

        await self._transact(put, thread_id=thread_id, write=True)

    async def take_messages(
        self, thread_id: str, taker: str, *, at_work: bool = False
    ) -> list[UserMessage] | None:
        box = inbox_name(thread_id)
        look = partial(records.has_mail, box=box, taker=taker)
        if not await self._transact(look, thread_id=thread_id):
            return []
        take = partial(records.take_all_mail, box=box, taker=taker, at_work=at_work)
        found = await self._transact(take, thread_id=thread_id, write=True)
        if found is None:
            return None
        where = f"The inbox of {thread_id!r}"
        return [user_message_from_dict(one["message"], where=where) for one in found]

    async def add_fact(self, fact: Fact) -> bool:
        text = JsonText(encode_json(fact.to_dict(), f"The fact {fact.id!r} cannot be kept"))
        return await self._transact(partial(records.add_fact, fact=fact, text=text), write=True)

    async def list_facts(
        self, tenant: str, user_id: str, *, replaced: bool = False, limit: int | None = None
    ) -> list[Fact]:
        whose: dict[str, Any] = {"tenant": tenant, "user_id": user_id}
        return await self._transact(
            partial(records.find_facts, **whose, replaced=replaced, limit=limit)
        )

    async def remove_facts(
        self, user_id: str, *, tenant: str | None = None, fact_id: str | None = None
    ) -> int:
        which: dict[str, Any] = {"user_id": user_id, "tenant": tenant, "fact_id": fact_id}
        return await self._transact(partial(records.remove_facts, **which), write=True)

    async def list_questions(
        self,
        *,
        thread_id: str | None = None,
        user_id: str | None = None,
        status: QuestionFilter | None = "open",
        limit: int | None = 50,
    ) -> list[Question]:
        facts: dict[str, Any] = {"thread_id": thread_id, "user_id": user_id}
        return await self._transact(
            partial(records.find_questions, **facts, status=status, limit=limit)
        )

    async def load_takeover(self, thread_id: str) -> Takeover | None:
        read = partial(records.load_takeover, thread_id=thread_id)
        return await self._transact(read, thread_id=thread_id)

    async def change_takeover(
        self, thread_id: str, change: Callable[[Takeover], Takeover | None]
    ) -> Takeover:
        made = partial(records.change_takeover, thread_id=thread_id, make=change)
        return await self._transact(made, thread_id=thread_id, write=True)

    async def list_takeovers(
        self,
        *,
        status: TakeoverStatus | None = None,
        user_id: str | None = None,
        limit: int | None = 50,
    ) -> list[Takeover]:
        which: dict[str, Any] = {"status": status, "user_id": user_id, "limit": limit}
        return await self._transact(partial(records.find_takeovers, **which))

    async def spend(self, spendings: Sequence[Spending]) -> RefusedSpending | None:
        """Add amounts to counters of budgets, or none where a counter has no room."""
        work = partial(records.spend, spendings=spendings)
        try:
            await self._transact(work, write=True, repeatable=False)
        except records.NoRoomError as error:
            return error.refused
        return None

    async def spent(self, scope: str) -> Mapping[tuple[str, str], float]:
        """Return the counters of a scope."""
        return await self._transact(partial(records.spent, scope=scope))

    async def transact(self, work: Callable[[Records], T]) -> T:
        """Return the result of ``work`` on records, in a transaction of its own."""
        within = partial(_on_records, self._owner, work)
        return await self._run(within, write=True)

    async def _about(self, thread_id: str, work: Callable[[Records], T]) -> T:
        if not self._does("get_thread", "remove_thread"):
            return await super()._about(thread_id, work)

        def within(session: Session) -> T:
            query = "SELECT 1 FROM {threads} WHERE id = ? {FOR_UPDATE}"
            if session.execute(query, thread_id).fetchone() is None:
                raise ThreadNotFoundError(thread_id)
            return _on_records(self._owner, work, session)

        return await self._transact(within, thread_id=thread_id, write=True)

    async def delete_user(self, user_id: str) -> int:
        count = await super().delete_user(user_id)
        forget = partial(records.remove_spending, scope=spending_scope("user", user_id))
        await self._transact(forget, write=True)
        return count

    async def thread_data(self, thread_id: str) -> ThreadData:
        return await self._transact(partial(_thread_data, thread_id=thread_id), thread_id=thread_id)


def _on_records(owner: str | None, work: Callable[[Records], T], session: Session) -> T:
    """Do work on all records, or on those of a user."""
    from agentkit_py.stores._sql_kinds import TableRecords  # noqa: PLC0415 - few need them
    from agentkit_py.stores._wrapped_records import OwnRecords  # noqa: PLC0415 - few need them

    rows = TableRecords(session)
    return work(rows if owner is None else OwnRecords(rows, owner))


def _page_query(user_id: str | None, before: tuple[datetime, str] | None) -> tuple[str, list[Any]]:
    """Return the query of a page of threads, and its values but for limit and offset."""
    query, values = _THREAD, list[Any]()
    if user_id is not None:
        query, values = f"{query} AND t.user_id = ?", [user_id]
    if before is not None:
        query += " AND t.updated_at <= ? AND (t.updated_at < ? OR t.id < ?)"
        values += [before[0], *before]
    return f"{query} ORDER BY t.updated_at DESC, t.id DESC LIMIT ? OFFSET ?", values


def _of_owner(
    owner: str, thread_id: str | None, work: Callable[[Session], T], session: Session
) -> T:
    """Do work on a thread of a user, and on no other."""
    if thread_id is None:
        raise HistoryError("A store of a single user can only be asked for that user's threads.")
    if not _is_known(session, thread_id, owner):
        raise ThreadNotFoundError(thread_id)
    return work(session)


def _is_known(session: Session, thread_id: str, owner: str | None) -> bool:
    """Return whether a thread exists.

    Raises:
        ThreadNotFoundError: It is not the owner's, if an owner is given.
    """
    query = "SELECT user_id FROM {threads} WHERE id = ? AND NOT hidden"
    row = session.execute(query, thread_id).fetchone()
    if row is None or owner is None:
        return row is not None
    if row[0] is None or session.given(row[0]) != owner:
        raise ThreadNotFoundError(thread_id)
    return True


def _lock(session: Session, thread_id: str, claim: LeaseClaim) -> bool:
    return records.lock_thread(
        session, thread_id=thread_id, owner=claim.owner, seconds=claim.seconds
    )


def _load_summary(session: Session, *, thread_id: str, key: str) -> Summary | None:
    own = session.execute(f"{_SUMMARY} {branches.BRANCH} AND key = ?", thread_id, thread_id, key)
    row = own.fetchone()
    if row is None:
        _, row = _find_summary(session, thread_id, key)
    return None if row is None else _summary(row)


def _find_summary(session: Session, thread_id: str, key: str) -> tuple[str | None, Any]:
    """Return the nearest summary of nothing but the thread's own messages, and its branch."""
    most = ALL
    for branch in branches.chain(session, thread_id):
        row = session.execute(f"{_SUMMARY} ? AND key = ?", branch.id, key).fetchone()
        if row is not None and (row[2] if row[7] is None else row[7]) <= most:
            return branch.id, row
        most = min(most, branch.messages)
    return None, None


def _save_run(session: Session, *, thread_id: str, run: RunRecord, text: str) -> None:
    saved = session.execute(
        "INSERT INTO {runs} (thread_id, id, json, has_state, position, updated_at) "
        f"SELECT COALESCE(t.branch, t.id), ?, ?, ?, {_COUNT.replace('@', 'results')}, "
        "clock_timestamp() FROM {threads} t WHERE t.id = ? AND NOT t.hidden "
        "ON CONFLICT (thread_id, id) DO UPDATE SET json = excluded.json, position = "
        "excluded.position, has_state = excluded.has_state, updated_at = excluded.updated_at",
        *(run.id, JsonText(text), run.state is not None, thread_id),
    )
    if not saved.rowcount:
        raise ThreadNotFoundError(thread_id)


def _load_run(session: Session, *, thread_id: str, run_id: str | None) -> RunRecord | None:
    """Return a run of the thread, or an ended run that it shares with other threads."""
    which, one = ("AND has_state", []) if run_id is None else ("AND id = ?", [run_id])
    query = "SELECT id, {text:json} FROM {runs} WHERE thread_id = "
    last = "ORDER BY number DESC LIMIT 1"
    own = f"{query}{branches.BRANCH} {which} {last}"
    row = session.execute(own, thread_id, thread_id, *one).fetchone()
    if row is None:
        query = f"{query}? {which} AND has_state AND position <= ? {last}"
        end = ALL
        for child, parent in pairwise(branches.chain(session, thread_id)):
            end = min(end, child.start)
            row = session.execute(query, parent.id, *one, end).fetchone()
            if row is not None:
                break
    return None if row is None else decode_run(thread_id, session.given(row[0]), row[1])


def _thread_data(session: Session, *, thread_id: str) -> ThreadData:
    """Return all data of a thread; of shared results only data made of these alone."""
    given = session.given
    known = branches.chain(session, thread_id)
    summaries: dict[str, Summary] = {}
    vectors: dict[str, dict[str, Vector]] = {}
    runs: list[RunRecord] = []
    end = most = ALL
    for number, branch in enumerate(known):
        for row in session.execute(f"{_SUMMARY} ? ORDER BY key", branch.id).fetchall():
            if (row[2] if row[7] is None else row[7]) <= most:
                summaries.setdefault(given(row[0]), _summary(row))
        query = (
            "SELECT id, {text:json} FROM {runs} WHERE thread_id = ? AND position <= ? "
            f"{'AND has_state' if number else ''} ORDER BY number"
        )
        rows = session.execute(query, branch.id, end).fetchall()
        runs = [*(decode_run(thread_id, given(one), text) for one, text in rows), *runs]
        query = "SELECT key, id, vector FROM {vectors} WHERE thread_id = ? ORDER BY key, id"
        for key, one, packed in session.execute(query, branch.id).fetchall():
            vectors.setdefault(given(key), {}).setdefault(given(one), unpack_vector(packed))
        end, most = min(end, branch.start), min(most, branch.messages)
    asked = records.find_questions(
        session, thread_id=thread_id, user_id=None, status=None, limit=None
    )
    return ThreadData(
        summaries=summaries,
        vectors=vectors,
        runs=tuple(runs),
        questions=tuple(asked),
        takeover=records.load_takeover(session, thread_id=thread_id),
        ratings=_on_records(None, partial(ratings_in, thread_id=thread_id), session),
    )


def _append(session: Session, thread_id: str, rows: Sequence[Row]) -> None:
    """Add the rows that are new at the end of a thread.

    The thread's row is locked first, so that writers wait for each other and each sees the
    additions before it.
    """
    columns = "results, messages, size, system, indexed"
    query = (
        f"SELECT {columns}, title, user_id, branch, parent FROM {{threads}} "
        "WHERE id = ? AND NOT hidden {FOR_UPDATE}"
    )
    found = session.execute(query, thread_id).fetchone()
    if found is None:
        raise ThreadNotFoundError(thread_id)
    first, *extent, indexed = found[:5]
    title, user_id, other, parent = found[5:]
    branch = thread_id
    if other is not None:
        branch = session.given(other)
        query = f"SELECT {columns} FROM {{threads}} WHERE id = ? {{FOR_UPDATE}}"
        first, *extent, indexed = session.execute(query, branch).fetchone()
    shared = other is not None or parent is not None
    known = branches.chain(session, thread_id) if shared else [branches.Branch(branch, 0, 0)]
    ids = [row.id for row in rows if row.id is not None]
    existing = branches.with_ids(session, known, ids)
    stored = {session.given(one): _as_str(text) for one, text in existing}
    new = new_rows(thread_id, stored, rows)
    if not new:
        return
    title = session.given(title) or _title(session, known, first, new)
    total = Extent(*extent)
    values: list[tuple[Any, ...]] = []
    for position, row in enumerate(new, first):
        values.append(_values(branch, position, row, total))
        total += row.extent
    session.execute_many(
        "INSERT INTO {results} (thread_id, position, id, agent_name, json, metadata, tokens, "
        "messages, size, system) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        values,
    )
    if session.full_text and indexed == first:  # else `index_words` has to add older ones first
        owner = None if user_id is None else session.given(user_id)
        indexing.add(session, branch, owner, enumerate((row.json for row in new), first))
        indexed += len(new)
    counts = (first + len(new), total.messages, total.size, total.system, indexed)
    query = "results = ?, messages = ?, size = ?, system = ?, indexed = ?"
    changed = "title = ?, updated_at = clock_timestamp() WHERE id = ?"
    if branch == thread_id:
        session.execute(f"UPDATE {{threads}} SET {query}, {changed}", *(*counts, title, thread_id))
    else:
        session.execute(f"UPDATE {{threads}} SET {query} WHERE id = ?", *counts, branch)
        session.execute(f"UPDATE {{threads}} SET {changed}", title, thread_id)


def _title(session: Session, known: Sequence[branches.Branch], end: int, new: Sequence[Row]) -> str:
    """Return a title for a thread that has none, unless an earlier user message gave none."""
    title = first_title(new)
    if not title:
        return ""
    query = (
        "SELECT 1 FROM {results} WHERE thread_id = ? AND agent_name = ? "
        "AND position >= ? AND position < ? LIMIT 1"
    )
    for branch, first, last in branches.pieces(known, 0, end):
        if session.execute(query, branch, USER, first, last).fetchone() is not None:
            return ""
    return title


def _values(thread_id: str, position: int, row: Row, before: Extent) -> tuple[Any, ...]:
    return (
        thread_id,
        position,
        row.id,
        row.agent_name,
        JsonText(row.json),
        None if row.metadata is None else JsonText(row.metadata),
        None if row.tokens is None else JsonText(row.tokens),
        before.messages,
        before.size,
        before.system,
    )


def _stored(thread_id: str, row: Sequence[Any]) -> StoredResult:
    position, text, metadata, tokens, *before = row
    return decode_row(thread_id, position, text, metadata, tokens, Extent(*before))


def _opened(
    thread_id: str,
    own: RunRecord | None,
    previous: RunRecord | None,
    count: int,
    rows: Sequence[Sequence[Any]],
) -> OpenedRun:
    results = [
        decode_result(thread_id, position, text, tokens) for position, text, _, tokens, *_ in rows
    ]
    before = Extent(*rows[0][4:]) if rows else None
    return OpenedRun(own=own, previous=previous, count=count, results=results, before=before)


def _thread_info(session: Session, row: Sequence[Any]) -> ThreadInfo:
    key, user_id, title, metadata, created, updated, results, messages, origin, start = row
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
        forked_from=None if origin is None else session.given(origin),
        forked_at=None if origin is None else start,
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
