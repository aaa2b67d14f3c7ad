"""Threads that nobody has touched for long are deleted, by hand or by themselves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentkit_py import Agent, MemoryHistory, tool
from agentkit_py.history.questions import Question
from agentkit_py.results import AgentResult
from agentkit_py.stores import HistoryStore, for_user
from agentkit_py.testing import ScriptedModel, tool_call

WEEK = timedelta(days=7)


async def aged(store: HistoryStore, thread_id: str, days: float, user: str | None = None) -> None:
    """Add a thread that has not changed for some days."""
    await store.add_thread(thread_id, user_id=user)
    when = datetime.now(UTC) - timedelta(days=days)
    await store.set_times(thread_id, when, when)


async def ids(store: HistoryStore) -> set[str]:
    """Return the ids of all threads."""
    return {thread.id for thread in await store.list_threads(None)}


async def test_clean_deletes_threads_that_have_not_changed(store: HistoryStore) -> None:
    """Of several pages, and no others; who is restricted to a user cleans theirs alone."""
    for number in range(102):
        await aged(store, f"old-{number}", 8 + number % 3, user="bob" if number else "ann")
    await aged(store, "young", 6)
    assert await for_user(store, "ann").clean(WEEK) == 1
    assert await store.clean(timedelta(days=30)) == 0
    assert await store.clean(WEEK) == 101
    assert await ids(store) == {"young"}


async def test_old_threads_are_cleaned_automatically(store: HistoryStore) -> None:
    """A run that begins a thread does it, also where the store is restricted to its user."""
    for number in range(3):
        await aged(store, f"old-{number}", 8)
    agent = Agent(name="a", system="S", model=ScriptedModel("ok", "ok"), history=store)
    await agent.run("hi", thread_id="one")
    assert len(await ids(store)) == 4
    store.keep = WEEK
    mine = Agent(name="a", system="S", model=ScriptedModel("ok"), history=for_user(store, "ann"))
    await mine.run("hi", thread_id="two")
    assert await ids(store) == {"one", "two"}


async def test_a_new_thread_waits_for_the_deletion_of_a_few_at_the_most(
    store: HistoryStore,
) -> None:
    """And soon after that the next one waits for none."""
    for number in range(30):
        await aged(store, f"old-{number}", 8)
    store.keep = WEEK
    agent = Agent(name="a", system="S", model=ScriptedModel("ok", "ok"), history=store)
    for number in range(2):
        await agent.run("hi", thread_id=f"new-{number}")
        assert len(await ids(store)) == 10 + 1 + number


@pytest.mark.parametrize("answered", [False, True])
async def test_a_thread_in_which_a_question_waits_stays(answered: bool) -> None:
    """The person has as long as the tool says."""

    @tool(needs_approval=True)
    def refund() -> str:
        """Pay back."""
        return "paid"

    store = MemoryHistory()
    model = ScriptedModel(tool_call("refund"), "Done.")
    agent = Agent(name="a", system="S", model=model, tools=[refund], history=store)
    await agent.run("hi", thread_id="t")
    (question,) = await store.list_questions(thread_id="t")
    if answered:
        await agent.resume("t", {question.id: True})
    when = datetime.now(UTC) - timedelta(days=8)
    await store.set_times("t", when, when)
    assert await store.clean(WEEK) == int(answered)


class Returning(MemoryHistory):
    """A store in which a user comes back to an old thread while threads are being deleted."""

    async def list_questions(self, **options: Any) -> list[Question]:
        """Let them write meanwhile."""
        if options.get("thread_id") == "back":
            await self.append("back", [AgentResult.from_user("I am back", id="m")])
        return await super().list_questions(**options)


async def test_a_thread_that_continues_meanwhile_stays() -> None:
    """It was old when the old ones were listed."""
    store = Returning()
    for name in ("back", "old"):
        await aged(store, name, 8)
    assert await store.clean(WEEK) == 1
    assert await ids(store) == {"back"}


class Checking(MemoryHistory):
    """A store that looks at each thread that a run names."""

    async def add_thread(self, thread_id: str | None = None, **fields: Any) -> str:
        """Add it."""
        return await super().add_thread(thread_id, **fields)


async def test_a_run_does_not_delete_the_old_thread_that_it_continues() -> None:
    """Also in a store that is asked to make the thread in each run."""
    store = Checking()
    await aged(store, "old", 8)
    store.keep = WEEK
    agent = Agent(name="a", system="S", model=ScriptedModel("ok"), history=store)
    await agent.run("hi", thread_id="old")
    assert len(await store.load("old")) == 2
