"""Checks of threads: created, listed, searched, deleted, and restricted to their users."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from agentkit_py.errors import (
    ConfigurationError,
    HistoryError,
    MessageNotFoundError,
    ThreadNotFoundError,
)
from agentkit_py.stores import HistoryStore, for_user
from agentkit_py.stores.rows import StoreStats
from agentkit_py.testing.store_conformance.values import fails, holds, raises, reply, said, same


async def a_thread_says_whose_it_is_and_when_it_changed(store: HistoryStore) -> None:
    """User, title, metadata and UTC times are returned; adding a result changes `updated_at`."""
    await store.add_thread("t", user_id="u", title="T", metadata={"n": None})
    before = await store.get_thread("t")
    same((before.user_id, before.title, before.metadata), ("u", "T", {"n": None}), "the thread")
    same(before.created_at.tzinfo, UTC, "the time zone")
    await store.append("t", [said("hi")])
    after = await store.get_thread("t")
    same(after.created_at, before.created_at, "the time of creation")
    assert after.updated_at > before.updated_at, "adding a result is a change of the thread"
    await store.append("t", [said("hi")])
    same(await store.get_thread("t"), after, "a thread to which nothing new was added")


async def a_thread_without_an_id_gets_one(store: HistoryStore) -> None:
    """Each call gives a new id."""
    ids = [await store.add_thread() for _ in range(3)]
    same(len(set(ids)), 3, "the number of different ids")


async def adding_a_thread_that_is_there_leaves_it_as_it_is(store: HistoryStore) -> None:
    """Adding it again, as every run does, changes neither title, user nor results."""
    await store.add_thread("t", title="old", user_id="u")
    await store.append("t", [said("hi")])
    same(await store.add_thread("t", title="new"), "t", "the id")
    info = await store.get_thread("t")
    same((info.title, info.user_id), ("old", "u"), "title and user")
    same(await store.count_results("t"), 1, "the number of results")


async def threads_are_listed_those_changed_last_first(store: HistoryStore) -> None:
    """`list_threads` obeys limit and user_id; of equally old threads the newer comes first."""
    for name, user in (("a", "u1"), ("b", "u2"), ("c", "u1")):
        await store.add_thread(name, user_id=user)
    await store.append("a", [said("hi")])
    for limit, user, expected in (
        (50, None, ["a", "c", "b"]),
        (1, None, ["a"]),
        (0, None, []),
        (None, "u1", ["a", "c"]),
        (50, "nobody", []),
    ):
        found = [thread.id for thread in await store.list_threads(limit, user)]
        same(found, expected, f"list_threads({limit}, {user!r})")


async def a_thread_that_is_not_there_is_an_error(store: HistoryStore) -> None:
    """Reading, counting and adding raise ThreadNotFoundError; adding does not create the thread."""
    for call in (store.stored_results, store.count_results, store.get_thread, store.load):
        await raises(ThreadNotFoundError, call("nope"), call.__name__)
    await raises(ThreadNotFoundError, store.append("nope", [said("hi")]), "append")
    fails(await store.thread_exists("nope"), "thread_exists")
    same(await store.list_threads(), [], "list_threads")


async def a_deleted_thread_is_gone_with_its_results(store: HistoryStore) -> None:
    """A new thread under its id is empty; deleting a missing thread returns False."""
    await store.add_thread("t")
    await store.append("t", [said("hi")])
    holds(await store.delete_thread("t"), "delete_thread")
    fails(await store.delete_thread("t"), "delete_thread again")
    fails(await store.thread_exists("t"), "thread_exists")
    await store.add_thread("t")
    same(await store.load("t"), [], "the results of the new thread")


async def a_user_is_deleted_with_all_threads(store: HistoryStore) -> None:
    """`delete_user` removes the user's threads and no others."""
    for name, user in (("a", "u1"), ("b", "u2"), ("c", "u1")):
        await store.add_thread(name, user_id=user)
        await store.append(name, [said("hi")])
    same(await store.delete_user("u1"), 2, "delete_user")
    same([thread.id for thread in await store.list_threads()], ["b"], "the threads that are left")


async def a_fork_begins_with_what_was_before_a_message(store: HistoryStore) -> None:
    """Fork and thread are independent; the fork survives the thread, but not its user."""
    await store.add_thread("t", user_id="u", metadata={"n": 1})
    await store.append("t", [said("one"), reply("a"), said("two"), reply("b")])
    fork = await store.fork("t", "user two")
    same(await store.load(fork), (await store.load("t"))[:2], "the results of the fork")
    info = await store.get_thread(fork)
    same((info.user_id, info.metadata), ("u", {"n": 1}), "user and metadata of the fork")
    await store.append(fork, [said("other")])
    same(await store.count_results("t"), 4, "the number of results of the thread")
    whole = await store.fork("t")
    same(await store.load(whole), await store.load("t"), "a fork of the whole thread")
    await raises(MessageNotFoundError, store.fork("t", "user three"), "fork at another message")
    await raises(MessageNotFoundError, store.fork("t", 1), "fork at a reply")
    await raises(ThreadNotFoundError, store.fork("nope"), "fork of no thread")
    await raises(HistoryError, store.fork("t", fork_id="t"), "fork to a thread that is there")
    holds(await store.delete_thread("t"), "delete_thread")
    found = [one.id for one in await store.load(fork)]
    same(found, ["user one", "result-a", "user other"], "the fork of a deleted thread")
    same(await store.delete_user("u"), 2, "delete_user")
    same(await store.list_threads(), [], "the threads that are left")


async def a_rewound_thread_goes_on_before_a_message(store: HistoryStore) -> None:
    """A store that cannot rewind says so."""
    await store.add_thread("t")
    await store.append("t", [said("one"), reply("a"), said("two"), reply("b")])
    fork = await store.fork("t")
    try:
        await store.rewind("t", "user two")
    except ConfigurationError:
        same(await store.count_results("t"), 4, "the number of results")
        return
    same(
        [one.id for one in await store.load("t")], ["user one", "result-a"], "the remaining results"
    )
    await store.append("t", [said("two")])
    same(await store.count_results("t"), 3, "the number of results")
    same(await store.count_results(fork), 4, "the number of results of a fork made before")
    await raises(MessageNotFoundError, store.rewind("t", "user three"), "another message")
    await raises(ThreadNotFoundError, store.rewind("nope", 0), "rewind of no thread")


async def a_thread_of_another_user_is_not_found(store: HistoryStore) -> None:
    """`for_user` neither reads nor writes, lists, deletes or takes over threads of other users."""
    mine, theirs = for_user(store, "me"), for_user(store, "them")
    await theirs.add_thread("t")
    await theirs.append("t", [said("secret")])
    for call in (
        mine.stored_results,
        mine.count_results,
        mine.get_thread,
        mine.load,
        mine.add_thread,
    ):
        await raises(ThreadNotFoundError, call("t"), call.__name__)
    await raises(ThreadNotFoundError, mine.append("t", [said("hi")]), "append")
    fails(await mine.thread_exists("t"), "thread_exists")
    fails(await mine.delete_thread("t"), "delete_thread")
    same(await mine.list_threads(), [], "list_threads")
    same(await mine.list_threads(user_id="them"), [], "list_threads of them")
    same(len(await theirs.load("t")), 1, "the results of them")
    own = await mine.add_thread()
    same((await store.get_thread(own)).user_id, "me", "the owner of my thread")


async def what_was_said_is_found(store: HistoryStore) -> None:
    """`search` finds words in any order, ignoring case; it returns a match for each thread."""
    for name, user in (("a", "u1"), ("b", "u2"), ("c", "u1")):
        await store.add_thread(name, user_id=user)
        await store.append(name, [said("Hello"), reply(name), said(f'Große "{name}" \\ 100 %_')])
    for words, user, expected in (
        ("looking b UP", None, [("b", 1)]),
        ("up b look", None, [("b", 1)]),
        ('"looking b" up', None, [("b", 1)]),
        ('"b looking"', None, []),
        ("ooking", None, []),
        ("GROßE", None, [("c", 2), ("b", 2), ("a", 2)]),
        ('"a" \\', None, [("a", 2)]),
        ("hello", "u1", [("c", 0), ("a", 0)]),
        ("100 %_", "u2", [("b", 2)]),
        ("nothing of the kind", None, []),
        ("%", "nobody", []),
    ):
        found = await store.search(words, user_id=user)
        same([(m.thread_id, m.position) for m in found], expected, f"search({words!r}, {user!r})")
    same(len(await store.search("hello", limit=2)), 2, "search with a limit")
    same(len(await for_user(store, "u2").search("hello")), 1, "the matches of a user")


async def what_is_stored_is_counted(store: HistoryStore) -> None:
    """`stats` counts everything, or a user's threads."""
    for name, user in (("a", "u1"), ("b", "u2"), ("c", "u1"), ("d", None)):
        await store.add_thread(name, user_id=user)
        await store.append(name, [said("hi"), reply(name)])
    same(await store.stats(), StoreStats(4, 2, 8, 16), "stats")
    same(await store.stats("u1"), StoreStats(2, 1, 4, 8), "stats of a user")
    same(await store.stats("nobody"), StoreStats(0, 0, 0, 0), "stats of an unknown user")
    same(await for_user(store, "u2").stats(), StoreStats(1, 1, 2, 4), "the counts of a user")


async def ids_are_data_whatever_stands_in_them(store: HistoryStore) -> None:
    """Quotes, wildcards and zero bytes in ids are ordinary characters."""
    for key in ("x'); DROP TABLE threads; --", "%", "_", "a\0b", "é", "e\u0301", "A", "a", " a"):
        await store.add_thread(key, user_id=key, title=key, metadata={key: key})
        await store.append(key, [said(key)])
        (info,) = await store.list_threads(user_id=key)
        same((info.id, info.title, info.metadata), (key, key, {key: key}), f"thread {key!r}")
        same([r.id for r in await store.load(key)], [f"user {key}"], f"results of {key!r}")


async def ids_that_are_empty_or_no_unicode_are_refused(store: HistoryStore) -> None:
    """`add_thread` raises HistoryError for ids that a database cannot hold."""
    for key in ("", "\ud800"):
        await raises(HistoryError, store.add_thread(key), f"thread id {key!r}")
        await raises(HistoryError, store.add_thread(user_id=key), f"user id {key!r}")


async def metadata_that_is_not_json_is_refused(store: HistoryStore) -> None:
    """`add_thread` raises HistoryError and creates no thread."""
    wrong: Any = {"when": datetime.now(UTC)}
    await raises(HistoryError, store.add_thread("t", metadata=wrong), "add_thread")
    fails(await store.thread_exists("t"), "thread_exists")


async def a_store_can_be_closed_and_used_again(store: HistoryStore) -> None:
    """A closed store opens again at its next use; closing twice is allowed."""
    await store.add_thread("t")
    await store.close()
    await store.close()
    holds(await store.thread_exists("t"), "thread_exists")
