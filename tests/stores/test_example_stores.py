"""Stores that examples show, made through the public interface alone, keep every promise."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest

from agentkit_py import Agent, SqliteHistory, UserMessage, tool
from agentkit_py.errors import ThreadNotFoundError
from agentkit_py.history.mail import MAIL_SECONDS
from agentkit_py.history.users import Fact, Spending
from agentkit_py.stores import Records, ThreadLease, for_user, redacted
from agentkit_py.testing import ScriptedModel, tool_call
from agentkit_py.testing.store_conformance import StoreCheck, checks_for
from tests.stores.record_store import LmdbHistory, record_store

T = TypeVar("T")


def test_a_store_of_records_is_checked_for_all_that_the_library_keeps() -> None:
    """Eleven methods are enough for every promise of the stores of the library."""
    names = [str(check) for check in checks_for(LmdbHistory)]
    assert names == [str(check) for check in checks_for(SqliteHistory)]


@pytest.mark.parametrize("check", checks_for(LmdbHistory), ids=str)
async def test_the_lmdb_store_keeps_every_promise(check: StoreCheck, tmp_path: Path) -> None:
    """Those of each store of the library."""
    store = record_store(tmp_path)
    await check(store)
    await store.close()


class Repeating(LmdbHistory):
    """A database that begins each transaction of records twice, as after a conflict."""

    async def transact(self, work: Callable[[Records], T]) -> T:
        """Do the work, take it back, and do it again."""
        parent: Any = super()

        def undone(records: Records) -> None:
            work(records)
            raise _UndoError

        with pytest.raises(_UndoError):
            await parent.transact(undone)
        return await parent.transact(work)


class _UndoError(Exception):
    """Ends a transaction."""


@pytest.mark.parametrize("check", checks_for(LmdbHistory), ids=str)
async def test_work_that_is_done_again_changes_nothing(check: StoreCheck, tmp_path: Path) -> None:
    """A database may have to repeat a transaction."""
    store: Any = Repeating(tmp_path, gigabytes=1)
    await check(store)
    await store.close()


@pytest.mark.parametrize("check", checks_for(LmdbHistory), ids=str)
async def test_a_masked_store_of_records_keeps_every_promise(
    check: StoreCheck, tmp_path: Path
) -> None:
    """All its abilities are there."""
    store = record_store(tmp_path)
    await check(redacted(store, {"secret": r"sk-\w{20}"}))
    await store.close()


async def test_a_long_thread_is_read_from_its_end_by_another_process(tmp_path: Path) -> None:
    """Positions and sizes are kept beside the rows; another environment reads the same folder."""
    store = record_store(tmp_path)
    agent = Agent(name="a", system="S", model=ScriptedModel(*["yes"] * 20), history=store)
    for number in range(20):
        await agent.run(UserMessage(f"q{number}", id=f"m{number}"), thread_id="t")
    await store.close()

    other = record_store(tmp_path)
    count, last = await other.newest("t", 2)
    assert (count, [stored.position for stored in last]) == (40, [38, 39])
    assert (last[0].result.agent_name, last[0].before.messages) == ("user", 38)
    await other.close()


async def test_a_question_is_answered_in_another_process(tmp_path: Path) -> None:
    """The paused run, its question and its lease are records that any process reads."""
    paid: list[int] = []

    @tool(needs_approval=True, approval_timeout=timedelta(hours=1))
    def refund(amount: int) -> str:
        """Pay back."""
        paid.append(amount)
        return "paid"

    def agent(store: Any, *replies: Any) -> Agent:
        return Agent(
            name="a", system="S", model=ScriptedModel(*replies), tools=[refund], history=store
        )

    first = record_store(tmp_path, lease=ThreadLease())
    paused = await agent(first, tool_call("refund", {"amount": 5})).run("Pay", thread_id="t")
    assert (paused.stop_reason, paid) == ("pending", [])
    await first.close()

    second = record_store(tmp_path, lease=ThreadLease())
    [question] = await second.list_questions(thread_id="t")
    result = await agent(second, "Done.").resume("t", {question.id: True})
    assert (result.text, paid) == ("Done.", [5])
    await second.close()


async def test_runs_at_the_same_time_take_turns(tmp_path: Path) -> None:
    """A lease of records lets a single run work on a thread."""
    store = record_store(tmp_path, lease=ThreadLease())
    agent = Agent(name="a", system="S", model=ScriptedModel(*["yes"] * 8), history=store)
    await agent.run("begin", thread_id="t")
    await asyncio.gather(*(agent.run(f"q{n}", thread_id="t") for n in range(7)))
    authors = [result.agent_name for result in await store.load("t")]
    assert authors == ["user", "a"] * 8
    await store.close()


async def test_a_fact_of_a_thread_that_is_removed_meanwhile_does_not_stay(tmp_path: Path) -> None:
    """The thread is looked for before the fact is written, and after it."""

    class Removed(LmdbHistory):
        async def transact(self, work: Callable[[Records], T]) -> T:
            parent: Any = super()
            await parent.remove_thread("t")  # another process
            return await parent.transact(work)

    store: Any = Removed(tmp_path, gigabytes=1)
    thread = await store.add_thread("t", user_id="ada")
    info = await store.get_thread(thread)
    fact = Fact(
        id="f",
        tenant="acme",
        user_id="ada",
        text="vegan",
        created_at=info.created_at,
        thread_id="t",
    )
    with pytest.raises(ThreadNotFoundError):
        await store.add_fact(fact)
    assert await store.list_facts("acme", "ada") == []
    await store.close()


async def test_mail_ends_with_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no longer found then, and does not stay in the database."""
    store = record_store(tmp_path)
    await store.put_mail("a", "1", {"n": 1})
    await store.put_mail("b", "1", {"n": 2})
    later = time.time() + MAIL_SECONDS + 1
    monkeypatch.setattr(time, "time", lambda: later)
    assert await store.take_mail("a", "run") is None
    await store.put_mail("a", "2", {"n": 3})

    def kept(records: Records) -> list[str]:
        return [record.data["id"] for record in records.find("mail")]

    assert await store.transact(kept) == ["1", "2"]  # of b and of a
    await store.clean(timedelta(days=1))
    assert await store.transact(kept) == ["2"]
    await store.close()


async def test_counters_end_with_their_user_and_their_period(tmp_path: Path) -> None:
    """All amounts are added or none; a day's counter goes when the next day begins."""
    store = record_store(tmp_path)

    def tokens(period: str, amount: float) -> Spending:
        return Spending(scope="user:ada", kind="tokens", period=period, amount=amount, most=10)

    assert await store.spend([tokens("2026-11-27", 8)]) is None
    both = [tokens("2026-11", 3), tokens("2026-11-27", 3)]
    refused = await store.spend(both)
    assert (refused.used, refused.spending.period) == (8, "2026-11-27")
    assert await store.spent("user:ada") == {("tokens", "2026-11-27"): 8}
    assert await store.spend([tokens("2026-11-28", 3)]) is None
    assert await store.spent("user:ada") == {("tokens", "2026-11-28"): 3}
    await store.delete_user("ada")
    assert await store.spent("user:ada") == {}
    await store.close()


async def test_a_user_reads_no_records_of_others(tmp_path: Path) -> None:
    """A view of a user asks for the owner of the thread."""
    store = record_store(tmp_path)
    await store.add_thread("t", user_id="ada")
    other: Any = for_user(store, "bob")
    with pytest.raises(ThreadNotFoundError):
        await other.load_run("t")
    assert await other.list_questions() == []
    await store.close()
