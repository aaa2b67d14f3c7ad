"""The queries of the index of words; each function runs inside a transaction.

Entries are removed with their words, which are computed again from the stored result: SQLite's
index keeps no copy of them, so it takes a third of the space.
"""

# ruff: noqa: S608 - queries are put together from parts of our own
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agentkit_py.errors import InvalidRecordError
from agentkit_py.messages import text_of
from agentkit_py.stores._sql_session import Session
from agentkit_py.stores.rows import Match, decode_row, find_words
from agentkit_py.stores.words import WordSearch, index_entry

_BATCH = 1000
_LACKING = "indexed < results"
_SHARING = (
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM {threads} WHERE parent IS NOT NULL) "
    "OR EXISTS (SELECT 1 FROM {threads} WHERE branch IS NOT NULL)"
)
_REACH = (
    # Rows of threads that hold the results found: the branch's own, and those that share from it.
    "reach (holder, branch, position) AS (SELECT branch, branch, position FROM found UNION ALL "
    "SELECT t.id, r.branch, r.position FROM reach r "
    "JOIN {threads} t ON t.parent = r.holder AND r.position < t.start)"
)
_OF_THREADS = (
    "SELECT t.id, t.updated_at, t.{number} AS number, r.branch, r.position FROM reach r "
    "JOIN {threads} t ON t.id = r.holder AND t.branch IS NULL AND NOT t.hidden UNION ALL "
    "SELECT t.id, t.updated_at, t.{number}, r.branch, r.position FROM reach r "
    "JOIN {threads} t ON t.branch = r.holder AND NOT t.hidden"
)
_RESULTS = (
    "SELECT position, {bytes:json} FROM {results} WHERE thread_id = ? AND position >= ? "
    "AND position < ? ORDER BY position"
)


def add(
    session: Session, thread_id: str, user_id: str | None, rows: Iterable[tuple[int, str | bytes]]
) -> None:
    """Add results to the index.

    Args:
        session: The transaction.
        thread_id: The thread.
        user_id: The user who owns it.
        rows: Position and JSON of each result. A damaged result has no matches.
    """
    entries: list[tuple[int, str, str]] = []
    for position, text in rows:
        try:
            entry = _entry(thread_id, user_id, position, text)
        except InvalidRecordError:
            continue
        entries.append((position, entry, thread_id))
    session.execute_many("{add_words}", entries)


def remove(session: Session, thread_id: str, begin: int | None = None) -> None:
    """Remove a thread's results from the index, before they are removed themselves.

    Args:
        session: The transaction.
        thread_id: The thread; where entries go with its row, nothing is done for all of it.
        begin: The position of the first result to remove; None: all.
    """
    if session.words_follow:
        if begin is not None:
            session.execute("{cut_words}", thread_id, begin)
        return
    query = "SELECT indexed, user_id, start FROM {threads} WHERE id = ?"
    found = session.execute(query, thread_id).fetchone()
    if found is None:
        return
    for first in range(found[2] if begin is None else begin, found[0], _BATCH):
        end = min(first + _BATCH, found[0])
        rows = session.execute(_RESULTS, thread_id, first, end).fetchall()
        try:
            entries = [(n, _entry(thread_id, found[1], n, text), thread_id) for n, text in rows]
        except InvalidRecordError:
            # Unknown words cannot be taken out, and none may stay: the index is built again.
            session.execute("{remove_all_words}")
            session.execute("UPDATE {threads} SET indexed = start")
            return
        session.execute_many("{remove_words}", entries)


def catch_up(session: Session, most: int, thread_id: str | None = None) -> int:
    """Add results that the index lacks; return how many it lacks then."""
    if not session.full_text:
        return 0
    which, one = ("", []) if thread_id is None else (" AND id = ?", [thread_id])
    query = f"SELECT id, user_id, indexed, results FROM {{threads}} WHERE {_LACKING}{which} LIMIT ?"
    for key, user, indexed, results in session.execute(query, *one, most).fetchall():
        if most <= 0:
            break
        branch, user_id = session.given(key), None if user is None else session.given(user)
        end = min(results, indexed + most)
        add(session, branch, user_id, session.execute(_RESULTS, branch, indexed, end).fetchall())
        session.execute("UPDATE {threads} SET indexed = ? WHERE id = ?", end, branch)
        most -= end - indexed
    return lacking(session, thread_id)


def lacking(session: Session, thread_id: str | None = None) -> int:
    """Return the number of results that the index lacks."""
    which, one = ("", []) if thread_id is None else (" AND id = ?", [thread_id])
    query = (
        "SELECT CAST(COALESCE(SUM(results - indexed), 0) AS bigint) FROM {threads} "
        f"WHERE {_LACKING}{which}"
    )
    return session.execute(query, *one).fetchone()[0]


def is_whole(session: Session) -> bool:
    """Return whether the index has all results."""
    # In the order of the index of such threads, since PostgreSQL takes a third of all for such.
    query = f"SELECT id FROM {{threads}} WHERE {_LACKING} ORDER BY id LIMIT 1"
    return session.full_text and session.execute(query).fetchone() is None


def fill(session: Session, thread_id: str | None = None) -> None:
    """Index results that are not in the index: of a thread, or of all."""
    while catch_up(session, _BATCH, thread_id):
        pass


def find(
    session: Session, search: WordSearch, *, user_id: str | None, limit: int, is_whole: bool
) -> dict[str, Match]:
    """Return the first match of each thread, by thread, last changed first.

    Args:
        session: The transaction.
        search: The words.
        user_id: The user whose threads are searched; None: all.
        limit: The most threads.
        is_whole: The index has all results.
    """
    # With the empty text, the index of users is not asked: it would read every thread of the user.
    theirs, user = ("", []) if user_id is None else (" AND t.user_id || '' = ?", [user_id])
    found = "SELECT t.id, t.updated_at, t.{number} AS number, t.id AS branch, "
    terms = search.terms() if session.full_text else []
    parts: list[str] = []
    values: list[Any] = []
    if terms:
        parts.append(f"{found}{{found_words}}{theirs}")
        values += [session.word_query(terms, user_id), *user]
    if not terms or not is_whole:
        # What the index lacks is read; without an index, or a word, that is everything.
        lacks = "t.indexed < t.results AND r.position >= t.indexed" if terms else "true"
        parts.append(
            f"{found}r.position FROM {{threads}} t JOIN {{results}} r ON r.thread_id = t.id "
            f"WHERE {lacks} AND {{instr}}(lower({{text:r.json}}), ?) > 0{theirs}"
        )
        values += [search.plain_part(), *user]
    candidates = " UNION ALL ".join(parts)
    first = ""
    if session.execute(_SHARING).fetchone() is not None:
        first = f"WITH RECURSIVE found AS ({candidates}), {_REACH} "
        candidates = _OF_THREADS
    # The rows are read singly and in order, as long as more threads are asked for.
    query = (
        f"{first}SELECT c.id, c.position, (SELECT {{bytes:r.json}} FROM {{results}} r "
        "WHERE r.thread_id = c.branch AND r.position = c.position) "
        f"FROM (SELECT * FROM ({candidates}) f "
        "ORDER BY updated_at DESC, number DESC, position LIMIT {all}) c"
    )
    matches: dict[str, Match] = {}
    for key, position, text in session.stream(query, *values):
        if len(matches) >= limit:
            break
        thread_id = session.given(key)
        if thread_id not in matches and text is not None:
            stored = decode_row(thread_id, position, text, None)
            match = find_words(stored, thread_id, search)
            matches.update({} if match is None else {thread_id: match})
    return matches


def _entry(thread_id: str, user_id: str | None, position: int, text: str | bytes) -> str:
    messages = decode_row(thread_id, position, text, None).result.messages
    return index_entry(map(text_of, messages), user_id)
