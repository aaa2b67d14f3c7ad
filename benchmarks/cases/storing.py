"""What a turn on a stored thread costs, on a file in the folder for temporary files."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from measuring import Case, Contender, Session, Timed
from problem import ANSWER, QUESTION, SYSTEM, Replies, text_reply
from workloads import model_of, results

from agentkit_py import Agent, AgentResult, MemoryHistory, SqliteHistory, TokenLimiter
from agentkit_py.stores import HistoryStore


def _sqlite(session: Session) -> SqliteHistory:
    store = SqliteHistory(_folder(session) / "threads.db")
    session.stack.callback(lambda: session.loop.run(store.close()))
    return store


def _folder(session: Session) -> Path:
    return Path(session.stack.enter_context(tempfile.TemporaryDirectory(prefix="agentkit-bench-")))


def _turn(
    make_store: Callable[[Session], HistoryStore], stored: int
) -> Callable[[Session], list[Contender]]:
    """One turn: create or load the thread, save the question, ask the model, save the answer."""

    def make(session: Session) -> list[Contender]:
        store = make_store(session)
        replies = Replies(text_reply())
        agent = Agent(
            name="support",
            system=SYSTEM,
            model=model_of(replies),
            history=store,
            processors=[TokenLimiter(2000)],
        )
        numbers, before = count(), results(stored)

        def thread() -> str:
            """A thread of its own for each turn, so that all are of the same length."""
            return session.loop.run(_stored(store, f"thread-{next(numbers)}", before))

        async def ours(thread_id: str) -> AgentResult:
            return await agent.run(QUESTION, thread_id=thread_id)

        def verify(result: AgentResult, runs: int) -> None:
            assert result.text == ANSWER
            assert replies.asked == runs
            rows = session.loop.run(store.load(f"thread-{runs - 1}"))
            assert len(rows) == len(before) + 2

        timed = Timed("ours", ours, session.loop, prepare=thread, verify=verify)
        return [timed, _raw_inserts(session)]

    return make


async def _stored(store: HistoryStore, thread_id: str, before: list[AgentResult]) -> str:
    await store.add_thread(thread_id)
    if before:
        await store.append(thread_id, before)
    return thread_id


def _raw_inserts(session: Session) -> Contender:
    """Two rows of the same size, each committed, in WAL mode with synchronous=FULL."""
    connection = sqlite3.connect(_folder(session) / "raw.db", isolation_level=None)
    session.stack.callback(connection.close)
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, thread TEXT, json TEXT)")
    question = AgentResult.from_user(QUESTION, id="x" * 36).to_dict()
    texts = [str(question), str({**question, "agentName": "support", "usage": "x" * 80})]

    def insert(_: object) -> int:
        for text in texts:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO rows (thread, json) VALUES (?, ?)", ("t", text))
            connection.execute("COMMIT")
        return connection.total_changes

    def verify(changes: int, done: int) -> None:
        assert changes == done * len(texts)

    return Timed("two raw inserts", insert, session.loop, verify=verify)


def _memory(_: Session) -> MemoryHistory:
    return MemoryHistory()


def _case(name: str, make: Any) -> Case:
    # A fixed number of turns: preparing a long thread takes longer than the turn.
    return Case(name, "µs", make, fixed_count=20)


CASES = [
    _case("stored turn, SQLite, new thread", _turn(_sqlite, 0)),
    _case("stored turn, SQLite, 100 messages", _turn(_sqlite, 100)),
    _case("stored turn, SQLite, 1,000 messages", _turn(_sqlite, 1000)),
    _case("stored turn, memory, 100 messages", _turn(_memory, 100)),
]
