"""Checks of thread data: summaries, vectors, leases and runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from agentkit_py.errors import ThreadNotFoundError
from agentkit_py.history.runs import RunRecord
from agentkit_py.processors.base import Summary
from agentkit_py.stores import HistoryStore, for_user
from agentkit_py.testing.store_conformance.values import fails, holds, raises, same

_SUMMARY = Summary(
    text="a\0b\ud7ff 🐟",
    covered=4,
    anchor="abc",
    tokens=5,
    original_tokens=50,
    created_at=datetime(2024, 1, 2, 3, 4, 5, 6, UTC),
)


async def a_summary_comes_back_and_a_newer_one_takes_its_place(given: HistoryStore) -> None:
    """Each key of a thread has one summary."""
    store: Any = given
    same(await store.load_summary("t", "k"), None, "a summary that was never made")
    for summary in (_SUMMARY, replace(_SUMMARY, covered=9)):
        holds(await store.lock_summary("t", "k", "me", 60), "lock_summary")
        same(await store.load_summary("t", "other"), None, "a summary under another key")
        holds(await store.save_summary("t", "k", summary, "me"), "save_summary")
        same(await store.load_summary("t", "k"), summary, "the summary")


async def one_at_a_time_makes_a_summary(given: HistoryStore) -> None:
    """A summary's lock has one owner until it is given back or expires."""
    store: Any = given
    holds(await store.lock_summary("t", "k", "me", 60), "the first")
    holds(await store.lock_summary("t", "k", "me", 60), "the first again")
    fails(await store.lock_summary("t", "k", "you", 60), "the second")
    fails(await store.save_summary("t", "k", _SUMMARY, "you"), "saving without the lock")
    await store.unlock_summary("t", "k", "you")
    fails(await store.lock_summary("t", "k", "you", 60), "unlocked by somebody else")
    await store.unlock_summary("t", "k", "me")
    holds(await store.lock_summary("t", "k", "you", 0), "after unlocking")
    holds(await store.lock_summary("t", "k", "me", 60), "after the time is over")


async def a_deleted_thread_takes_its_summaries_along(given: HistoryStore) -> None:
    """No summary of a deleted thread is left."""
    store: Any = given
    await store.add_thread("t")
    await store.lock_summary("t", "k", "me", 60)
    await store.save_summary("t", "k", _SUMMARY, "me")
    await store.delete_thread("t")
    same(await store.load_summary("t", "k"), None, "the summary")


async def the_nearest_vectors_are_found(given: HistoryStore) -> None:
    """`nearest_vectors` returns the nearest of the given ids, best first."""
    store: Any = given
    same(await store.missing_vectors("t", "k", ["a", "b"]), ["a", "b"], "missing_vectors")
    vectors = {"a": [1.0, 0.0], "b": [0.0, 2.0], "c": [3.0, 3.0]}
    await store.add_vectors("t", "k", vectors)
    await store.add_vectors("t", "k", {"a": [0.0, 1.0]})
    same(await store.missing_vectors("t", "k", ["a", "x"]), ["x"], "missing_vectors")
    same(await store.missing_vectors("t", "other", ["a"]), ["a"], "under another key")
    found = await store.nearest_vectors("t", "k", [1.0, 0.1], ["a", "b", "c"], 2)
    same([one for one, _ in found], ["a", "c"], "the nearest two")
    found = await store.nearest_vectors("t", "k", [1.0, 0.1], ["b"], 2)
    same([one for one, _ in found], ["b"], "of one")


async def a_deleted_thread_takes_its_vectors_along(given: HistoryStore) -> None:
    """No vector of a deleted thread is left."""
    store: Any = given
    await store.add_thread("t")
    await store.add_vectors("t", "k", {"a": [1.0]})
    await store.delete_thread("t")
    same(await store.missing_vectors("t", "k", ["a"]), ["a"], "missing_vectors")


async def one_run_at_a_time_has_a_thread(given: HistoryStore) -> None:
    """A thread's lease has one owner until it is given back or expires."""
    store: Any = given
    holds(await store.lock_thread("t", "me", 60), "the first")
    holds(await store.lock_thread("t", "me", 60), "the first again")
    fails(await store.lock_thread("t", "you", 60), "the second")
    holds(await store.lock_thread("other", "you", 60), "another thread")
    await store.unlock_thread("t", "you")
    fails(await store.lock_thread("t", "you", 60), "unlocked by somebody else")
    await store.unlock_thread("t", "me")
    holds(await store.lock_thread("t", "you", 0), "after unlocking")
    holds(await store.lock_thread("t", "me", 60), "after the lease is over")


async def runs_are_remembered(given: HistoryStore) -> None:
    """`load_run` returns a run by its id, or the newest with a state."""
    store: Any = given
    await store.add_thread("t")
    same(await store.load_run("t"), None, "the newest of none")
    first = RunRecord(id="a\0", status="running")
    await store.save_run("t", first)
    same(await store.load_run("t", "a\0"), first, "a run that goes on")
    same(await store.load_run("t"), None, "the newest with a state")
    ended = replace(
        first, status="completed", state={"n": 1, "s": "\0\ud800"}, results=("r1",), stop_reason="x"
    )
    for run in (ended, RunRecord(id="b", status="running")):
        await store.save_run("t", run)
    same(await store.load_run("t", "a\0"), ended, "a run that has ended")
    same(await store.load_run("t"), ended, "the newest with a state")
    same(await store.load_run("t", "nope"), None, "a run that is not there")
    await raises(ThreadNotFoundError, store.save_run("nope", first), "save_run")


async def a_deleted_thread_takes_its_runs_along(given: HistoryStore) -> None:
    """No run and no lease of a deleted thread is left."""
    store: Any = given
    await store.add_thread("t")
    await store.save_run("t", RunRecord(id="a", status="completed", state={}))
    await store.lock_thread("t", "me", 60)
    await store.delete_thread("t")
    await store.add_thread("t")
    same(await store.load_run("t", "a"), None, "the run")
    holds(await store.lock_thread("t", "you", 60), "the lease")


async def thread_data_of_other_users_is_not_found(given: HistoryStore) -> None:
    """`for_user` raises ThreadNotFoundError for runs and leases of other users' threads."""
    mine: Any = for_user(given, "me")
    await given.add_thread("t", user_id="them")
    for call in (
        mine.load_run("t"),
        mine.save_run("t", RunRecord(id="a", status="running")),
        mine.lock_thread("t", "me", 60),
    ):
        await raises(ThreadNotFoundError, call, "a call for another user's thread")


SUMMARIES = (
    a_summary_comes_back_and_a_newer_one_takes_its_place,
    one_at_a_time_makes_a_summary,
    a_deleted_thread_takes_its_summaries_along,
)
VECTORS = (the_nearest_vectors_are_found, a_deleted_thread_takes_its_vectors_along)
RUNS = (
    one_run_at_a_time_has_a_thread,
    runs_are_remembered,
    a_deleted_thread_takes_its_runs_along,
    thread_data_of_other_users_is_not_found,
)
