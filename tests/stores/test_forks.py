"""Threads are forked and rewound at a cost that does not depend on their length."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from agentkit_py import Agent, ToolContext, UserMessage, tool
from agentkit_py.errors import (
    ConfigurationError,
    MessageNotFoundError,
    ThreadBusyError,
    ThreadNotFoundError,
)
from agentkit_py.events import ApprovalRequest
from agentkit_py.history.leases import ThreadLease
from agentkit_py.history.questions import Question, QuestionStore
from agentkit_py.history.runs import RunRecord, RunStore
from agentkit_py.messages import TextMessage
from agentkit_py.processors import Summary
from agentkit_py.processors.base import SummaryStore
from agentkit_py.results import AgentResult
from agentkit_py.stores import (
    HistoryStore,
    MemoryHistory,
    PostgresHistory,
    SqliteHistory,
    for_user,
    redacted,
)
from agentkit_py.stores import _sql_branches as branches
from agentkit_py.stores._sql_session import Database, Session
from agentkit_py.testing import ScriptedModel, tool_call
from tests.stores.forking import delete_all, walk

NONE = RunRecord(id="none", status="none")

STEPS = int(os.environ.get("AGENTKIT_FORK_OPERATIONS", "0"))
"""Operations of each walk; 10⁵ of them take some minutes."""


@dataclass
class Written:
    """Statements of a store, and the rows that they wrote."""

    statements: int = 0
    rows: int = 0


class CountingSession:
    """Counts what is asked of a session."""

    def __init__(self, session: Session, written: Written) -> None:
        self._session, self._written = session, written

    def execute(self, query: str, *values: Any) -> Any:
        found = self._session.execute(query, *values)
        self._written.statements += 1
        if query.startswith(("INSERT", "UPDATE", "DELETE")):
            self._written.rows += found.rowcount
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


class Counting:
    """Counts what is asked of a database."""

    def __init__(self, database: Database) -> None:
        self.written = Written()
        self._database = database

    def transact(self, work: Callable[[Any], Any], **options: Any) -> Any:
        counted = CountingSession
        return self._database.transact(
            lambda session: work(counted(session, self.written)), **options
        )

    def close(self) -> None:
        self._database.close()


class CountedFile(SqliteHistory):
    """An SQLite file that counts."""

    counting: Counting

    def _make_database(self) -> Database:
        self.counting = Counting(super()._make_database())
        return self.counting


class CountedServer(PostgresHistory):
    """A PostgreSQL database that counts."""

    counting: Counting

    def _make_database(self) -> Database:
        self.counting = Counting(super()._make_database())
        return self.counting


Counted: TypeAlias = CountedFile | CountedServer


class InterruptedSession(CountingSession):
    """Lets something happen after a reader has asked which branches a thread has."""

    happens: Callable[[], object]

    def execute(self, query: str, *values: Any) -> Any:
        found = self._session.execute(query, *values)
        if query.startswith("WITH RECURSIVE chain"):
            rows = found.fetchall()
            self.happens()
            return SimpleNamespace(fetchall=lambda: rows)
        return found


class InterruptedServer(PostgresHistory):
    """A PostgreSQL database in which a thread is deleted while another is read."""

    def _make_database(self) -> Database:
        database, other = super()._make_database(), super()._make_database()

        class Interrupted(Counting):
            def transact(self, work: Callable[[Any], Any], **options: Any) -> Any:
                def interrupted(session: Session) -> Any:
                    asked = InterruptedSession(session, self.written)
                    remove = partial(branches.remove, thread_id="t")
                    asked.happens = lambda: other.transact(remove, write=True)
                    return work(session if options.get("write") else asked)

                return database.transact(interrupted, **options)

            def close(self) -> None:
                database.close()
                other.close()

        return Interrupted(database)


@pytest.fixture(params=["sqlite", "postgres"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Counted]:
    """A store of each database."""
    made: Counted
    if request.param == "sqlite":
        made = CountedFile(tmp_path / "threads.db")
    else:
        url = request.getfixturevalue("postgres_url")
        schema = request.getfixturevalue("postgres_schema")
        made = CountedServer(url, schema=schema, connections=4)
    yield made
    await made.close()


def left(store: Counted) -> dict[str, int]:
    """Return how many rows of threads and of what belongs to them a database has."""
    tables = ["threads", "results", "runs", "summaries", "vectors"]
    counts = {one: f"SELECT COUNT(*) FROM {{{one}}}" for one in tables}
    counts["words"] = "SELECT COUNT(*) FROM {words}"
    if isinstance(store, SqliteHistory):
        # Of an index without contents only a search says what it has.
        counts["words"] += " WHERE words MATCH 'parcel* OR refund* OR question*'"

    def count(session: Session) -> dict[str, int]:
        return {one: session.execute(text).fetchone()[0] for one, text in counts.items()}

    return store.counting.transact(count)


@pytest.mark.parametrize("seed", range(3))
async def test_forks_and_rewinds_are_equal_to_naive_copies(database: Counted, seed: int) -> None:
    """Whatever is done with threads, forks of forks, and rewound and deleted ones among them."""
    world = await walk(database, f"forks:{seed}", STEPS or 120)
    await delete_all(world)
    assert not any(left(database).values()), "what no thread has is deleted"
    if STEPS:
        print(f"\n{database}: {world.done}")  # noqa: T201 - figures of the long run


@pytest.mark.parametrize("seed", range(3))
async def test_forks_in_memory_are_equal_to_naive_copies(seed: int) -> None:
    """Random walks, as above."""
    await walk(MemoryHistory(), f"forks:{seed}", STEPS or 120)


def talk(turns: int) -> list[AgentResult]:
    """Return results of a conversation: a question and its answer, again and again."""
    found: list[AgentResult] = []
    for n in range(turns):
        answer = TextMessage("assistant", f"answer {n}")
        found += [
            AgentResult.from_user(f"question {n}", id=f"q{n}"),
            AgentResult("desk", [answer], id=f"a{n}"),
        ]
    return found


async def test_forks_write_as_many_rows_for_long_threads_as_for_short_ones(
    database: Counted,
) -> None:
    """A fork writes a row and the number of the user's threads, a rewind two rows.

    Statements do not depend on the length either.
    """
    costs: list[list[Written]] = []
    await database.setup()
    for turns in (2, 2000):
        await database.add_thread(f"t{turns}", user_id="ann")
        await database.append(f"t{turns}", talk(turns))
        costs.append([])
        for change in (database.fork, database.rewind):
            database.counting.written = Written()
            await change(f"t{turns}", f"q{turns - 1}")
            costs[-1].append(replace(database.counting.written))
    assert costs[0] == costs[1]
    assert [one.rows for one in costs[0]] == [2, 2]


async def test_forks_are_found_by_one_statement_however_long_the_thread_is(
    database: Counted,
) -> None:
    """Through the index of where threads come from; no results are read."""
    costs: list[int] = []
    for turns in (2, 500):
        thread = f"t{turns}"
        await database.add_thread(thread, user_id="ann")
        await database.append(thread, talk(turns))
        made = [await database.fork(thread, f"q{turns - 1}") for _ in range(2)]
        database.counting.written = Written()
        assert [one.id for one in await database.forks(thread)] == made
        costs.append(database.counting.written.statements)
    assert costs == [1, 1]


async def test_the_forks_of_a_thread_are_those_that_are_still_there(store: HistoryStore) -> None:
    """The oldest first, with the place; those of another fork are its own."""
    await store.add_thread("t", user_id="ann")
    await store.append("t", talk(3))
    forks = [await store.fork("t", place) for place in ("q1", None, "q2")]
    inner = await store.fork(forks[0])
    await store.delete_thread(forks[2])
    await store.rewind("t", "q1")
    found = [(one.id, one.forked_at) for one in await store.forks("t")]
    assert found == [(forks[0], 2), (forks[1], 6)]
    assert [one.id for one in await store.forks(forks[0])] == [inner]
    assert [one.id for one in await store.forks("t", limit=1)] == forks[:1]
    mine, others = for_user(store, "ann"), for_user(store, "bob")
    assert [one.id for one in await mine.forks("t")] == forks[:2]
    with pytest.raises(ThreadNotFoundError):
        await others.forks("t")
    assert await store.forks("nope") == []


async def test_a_fork_and_its_thread_continue_independently(store: HistoryStore) -> None:
    """Neither sees what the other is told later."""
    await store.add_thread("t", user_id="ann", metadata={"shop": 1})
    await store.append("t", talk(3))
    fork = await store.fork("t", "q1")
    await store.append(fork, [AgentResult.from_user("in the fork", id="f")])
    await store.append("t", [AgentResult.from_user("in the thread", id="f")])
    assert [one.id for one in await store.load(fork)] == ["q0", "a0", "f"]
    assert [one.id for one in await store.load("t")][-2:] == ["a2", "f"]
    info = await store.get_thread(fork)
    assert (info.user_id, info.title, info.metadata) == ("ann", "question 0", {"shop": 1})
    assert (info.forked_from, info.forked_at, info.result_count) == ("t", 2, 3)


async def test_messages_of_the_deleted_thread_alone_are_found_nowhere(store: HistoryStore) -> None:
    """Its fork keeps what it shares, and nothing after it."""
    await store.add_thread("t")
    await store.append("t", talk(3))
    fork = await store.fork("t", "q1")
    await store.delete_thread("t")
    assert [one.id for one in await store.load(fork)] == ["q0", "a0"]
    assert [match.thread_id for match in await store.search('"question 0"')] == [fork]
    assert await store.search('"question 1"') == []
    assert (await store.get_thread(fork)).forked_from is None


async def test_later_messages_of_a_thread_are_not_found_in_its_fork(store: HistoryStore) -> None:
    """Nor in the thread what was taken back; what both share is found in both."""
    await store.add_thread("t")
    await store.append("t", talk(3))
    fork = await store.fork("t", "q1")
    found = [await store.search(f'"question {n}"') for n in (0, 2)]
    assert [[match.thread_id for match in some] for some in found] == [[fork, "t"], ["t"]]
    await store.rewind("t", "q2")
    assert [match.thread_id for match in await store.search('"question 1"')] == ["t"]
    assert await store.search('"question 2"') == []


async def test_each_deleted_fork_removes_the_messages_that_it_alone_shared(
    database: Counted,
) -> None:
    """Nothing stays that no thread has."""
    await database.add_thread("t")
    await database.append("t", talk(3))
    early, late = await database.fork("t", "q1"), await database.fork("t", "q2")
    rows: list[int] = []
    for thread in ("t", late, early):
        await database.delete_thread(thread)
        rows.append(left(database)["results"])
    assert rows == [4, 2, 0]


async def test_a_new_thread_of_a_deleted_ones_id_is_empty(store: HistoryStore) -> None:
    """Though a fork of the deleted one lives."""
    await store.add_thread("t", user_id="ann")
    await store.append("t", talk(2))
    fork = await store.fork("t")
    await store.delete_thread("t")
    await store.add_thread("t", user_id="bob")
    await store.append("t", [AgentResult.from_user("hello", id="q0")])
    assert [len(await store.load(one)) for one in ("t", fork)] == [1, 4]
    await store.delete_user("ann")
    assert [one.id for one in await store.list_threads()] == ["t"]


async def test_forks_that_are_deleted_at_once_leave_nothing(database: Counted) -> None:
    """The last one takes along what they shared."""
    await database.add_thread("t", user_id="ann")
    await database.append("t", talk(3))
    forks = [await database.fork("t", f"q{n % 3}") for n in range(6)]
    forks += [await database.fork(one) for one in forks]
    await database.delete_thread("t")
    await asyncio.gather(*(database.delete_thread(one) for one in forks))
    assert not any(left(database).values())


async def test_a_fork_is_read_whole_while_its_thread_is_deleted(
    postgres_url: str, postgres_schema: str
) -> None:
    """Shared results move to another row meanwhile; a reader sees one moment."""
    async with InterruptedServer(postgres_url, schema=postgres_schema) as store:
        await store.add_thread("t")
        await store.append("t", talk(3))
        fork = await store.fork("t", "q2")
        await store.append(fork, [AgentResult.from_user("more", id="more")])
        found = [one.id for one in await store.load(fork)]
        assert found == ["q0", "a0", "q1", "a1", "more"]
        assert not await store.thread_exists("t")


@pytest.mark.parametrize("work", ["delete", "fork", "rewind"])
async def test_a_thread_is_deleted_while_its_fork_changes(
    postgres_url: str, postgres_schema: str, work: str
) -> None:
    """Neither waits for the other for ever, and what the fork or its own fork has stays."""
    named = make_conninfo(postgres_url, application_name=postgres_schema)
    query = f"UPDATE \"{postgres_schema}\".agentkit_threads SET title = '' WHERE id = 'f'"
    with (
        psycopg.connect(postgres_url, autocommit=True) as watching,
        psycopg.connect(postgres_url) as holding,
    ):

        async def wait_for(count: int) -> None:
            waits = "wait_event_type = 'Lock' AND application_name = %s"
            asked = f"SELECT count(*) FROM pg_stat_activity WHERE {waits}".encode()
            while watching.execute(asked, [postgres_schema]).fetchone() != (count,):  # noqa: ASYNC110 - a lock in a database sets no event
                await asyncio.sleep(0.005)

        async with PostgresHistory(named, schema=postgres_schema) as store:
            await store.add_thread("t", user_id="ann")
            await store.append("t", talk(3))
            await store.fork("t", "q2", fork_id="f")
            changes: dict[str, Callable[[], Any]] = {
                "delete": lambda: store.delete_thread("f"),
                "fork": lambda: store.fork("f", "q1", fork_id="g"),
                "rewind": lambda: store.rewind("f", "q1"),
            }
            holding.execute(query.encode())
            change = asyncio.create_task(changes[work]())
            await wait_for(1)
            deletion = asyncio.create_task(store.delete_thread("t"))
            await wait_for(2)
            holding.commit()
            await asyncio.gather(change, deletion)
            if work != "delete":
                found = await store.load("g" if work == "fork" else "f")
                assert [one.id for one in found] == ["q0", "a0"]
            assert not await store.thread_exists("t")


async def test_threads_change_while_they_are_forked_and_rewound(database: Counted) -> None:
    """Each fork has the beginning of the thread as it was at one moment."""
    await database.add_thread("t")
    await database.append("t", talk(2))

    async def add(number: int) -> None:
        await database.append("t", [AgentResult.from_user("more", id=f"more {number}")])

    async def fork(number: int) -> None:
        await database.fork("t", fork_id=f"f{number}")

    changes = [work(n) for n in range(12) for work in (add, fork)]
    await asyncio.gather(*changes, database.rewind("t", "q1"))
    ids = [one.id for one in await database.load("t")]
    assert ids[:2] == ["q0", "a0"]
    for number in range(12):
        found = [one.id for one in await database.load(f"f{number}")]
        assert found[:2] == ["q0", "a0"]
        assert len(found) == len(set(found))


async def test_a_thread_is_not_rewound_while_a_run_works_on_it(store: HistoryStore) -> None:
    """Nor while a question of it waits for a person; it can be forked."""
    assert isinstance(store, RunStore)
    assert isinstance(store, QuestionStore)
    await store.add_thread("t")
    await store.append("t", talk(2))
    await store.lock_thread("t", "run", 60)
    with pytest.raises(ThreadBusyError):
        await store.rewind("t", "q1")
    assert len(await store.load(await store.fork("t", "q1"))) == 2
    await store.unlock_thread("t", "run")
    asked = ApprovalRequest(id="open", agent="desk", timeout=60, asked_at=datetime.now(UTC))
    question = Question(request=asked, thread_id="t")
    await store.save_question(question)
    with pytest.raises(ThreadBusyError):
        await store.rewind("t", "q1")


@pytest.mark.parametrize("at", [-1, 6 + 1, 2**63, "none"])
async def test_a_position_that_a_thread_has_not_is_not_found(store: HistoryStore, at: Any) -> None:
    """However far it is."""
    await store.add_thread("t")
    await store.append("t", talk(3))
    for work in (store.fork, store.rewind):
        with pytest.raises(MessageNotFoundError):
            await work("t", at)


async def test_another_users_thread_can_be_neither_forked_nor_rewound(store: HistoryStore) -> None:
    """It is not found."""
    await store.add_thread("t", user_id="ann")
    await store.append("t", talk(2))
    for call in (for_user(store, "bob").fork("t"), for_user(store, "bob").rewind("t", "q1")):
        with pytest.raises(ThreadNotFoundError):
            await call
    fork = await for_user(store, "ann").fork("t", "q1")
    await for_user(store, "ann").rewind("t", "q1")
    assert [len(await store.load(one)) for one in ("t", fork)] == [2, 2]


async def test_the_title_of_a_fork_is_masked(store: HistoryStore) -> None:
    """As that of a thread is."""
    masked = redacted(store, {"number": r"\d{4}"})
    await masked.add_thread("t")
    fork = await masked.fork("t", title="order 1234")
    assert "1234" not in (await store.get_thread(fork)).title


async def test_an_edited_message_is_answered_from_the_messages_before_it(
    store: HistoryStore,
) -> None:
    """Fork before a message, and ask otherwise: messages, state and summaries are of that place."""
    store.lease = ThreadLease()

    @tool
    def count(ctx: ToolContext) -> str:
        """Count."""
        ctx.state.data["n"] = ctx.state.data.get("n", 0) + 1
        return str(ctx.state.data["n"])

    replies = [reply for _ in range(4) for reply in (tool_call("count", {}), "counted")]
    model = ScriptedModel(*replies)
    desk = Agent(name="desk", system="S", model=model, tools=[count], history=store, max_iter=3)
    for number in range(3):
        message = UserMessage(f"question {number}", f"m{number}")
        await desk.run(message, thread_id="t")
    fork = await store.fork("t", "m1")
    await desk.run(UserMessage("another question", "other"), thread_id=fork)
    assert isinstance(store, RunStore)
    asked = [one.output[0] for one in await store.load(fork) if one.agent_name == "user"]
    assert [m.text for m in asked if m.type == "text"] == ["question 0", "another question"]
    assert "question 1" not in str(model.requests[-1].body)
    states = [(await store.load_run(one) or NONE).state for one in ("t", fork)]
    assert states == [{"n": 3}, {"n": 2}]
    await desk.run(UserMessage("question 0", "m0"), thread_id=fork)
    assert len(await store.load(fork)) == 6, "a message that was answered before is not asked again"


async def test_a_rewound_thread_continues_with_the_earlier_state(store: HistoryStore) -> None:
    """Also where the same message is sent once more."""
    assert isinstance(store, RunStore)
    await store.add_thread("t")
    for number, result in enumerate(talk(3)):
        await store.append("t", [result])
        if number % 2:
            run = RunRecord(id=f"q{number // 2}", status="completed", state={"n": number})
            await store.save_run("t", run)
    await store.rewind("t", "q1")
    assert (await store.load_run("t") or NONE).state == {"n": 1}
    assert await store.load_run("t", "q1") is None
    await store.append("t", [AgentResult.from_user("once more", id="q1")])
    assert [one.id for one in await store.load("t")] == ["q0", "a0", "q1"]


async def test_a_summary_of_the_shared_part_is_not_lost_when_the_thread_is_summarized_further(
    store: HistoryStore,
) -> None:
    """The fork keeps the one it began with."""
    assert isinstance(store, SummaryStore)
    await store.add_thread("t")
    await store.append("t", talk(4))

    async def summarize(text: str, covered: int) -> None:
        made = Summary(
            text=text,
            covered=covered,
            anchor="00",
            tokens=1,
            original_tokens=9,
            created_at=datetime(2026, 1, 1, tzinfo=UTC),
        )
        assert isinstance(store, SummaryStore)
        await store.lock_summary("t", "k", "me", 60)
        await store.save_summary("t", "k", made, "me")

    await summarize("early", 2)
    late, early = await store.fork("t", "q2"), await store.fork("t", "q0")
    await summarize("later", 6)
    found = [await store.load_summary(one, "k") for one in ("t", late, early)]
    assert [None if one is None else one.text for one in found] == ["later", "early", None]


class Plain(MemoryHistory):
    """A store of one's own that has no way to share results."""

    insert_fork = HistoryStore.insert_fork
    rewind = HistoryStore.rewind


async def test_a_store_of_ones_own_copies(store: HistoryStore) -> None:
    """It has forks without doing anything for them, and says that it cannot rewind."""
    del store
    own = Plain()
    await own.add_thread("t", user_id="ann")
    await own.append("t", talk(3))
    fork = await own.fork("t", "q2", title="Other")
    assert [one.id for one in await own.load(fork)] == ["q0", "a0", "q1", "a1"]
    assert (await own.get_thread(fork)).user_id == "ann"
    with pytest.raises(ConfigurationError, match="Plain: this store's threads cannot be rewound"):
        await own.rewind("t", "q1")
