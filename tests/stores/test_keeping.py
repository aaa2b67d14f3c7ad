"""Stores keep decoded rows: what is loaded again is not decoded again, and nobody can tell."""

from __future__ import annotations

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from agentkit_py._core.awaiting import resolve
from agentkit_py.codec import message_to_dict
from agentkit_py.errors import ConfigurationError, InvalidRecordError, ThreadNotFoundError
from agentkit_py.history.config import HistoryContext
from agentkit_py.messages import (
    Message,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
    UserMessage,
    derived,
    origin_of,
    text_of,
    token_memo,
)
from agentkit_py.results import AgentResult
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.state import State
from agentkit_py.stores import HistoryStore, PostgresHistory, SqliteHistory
from agentkit_py.stores.keeping import CACHE_BYTES


def said(number: int, text: str = "Where is my parcel?") -> AgentResult:
    """What a user said."""
    return AgentResult.from_user(text, id=f"user-{number}")


def called() -> AgentResult:
    """A result with JSON wherever there may be some."""
    own = {"vendor": {"signature": ["s"]}}
    call = ToolCall("call", "track", {"parcel": {"number": 1}}, provider_metadata=own)
    text = TextMessage("assistant", "Looking it up.", provider_metadata=own)
    result = ToolResultMessage(call, {"data": {"stops": ["Bonn"]}}, provider_metadata=own)
    return AgentResult("support", [text, ToolCallMessage((call,))], [result], id="called")


async def loaded(store: HistoryStore, thread_id: str = "t") -> list[Message]:
    """The messages of the newest 48 results."""
    _, found = await store.newest(thread_id, 48)
    return [message for one in found for message in one.result.messages]


async def same(store: HistoryStore, thread_id: str = "t") -> bool:
    """Whether the texts of a thread are kept: two loads give the same messages."""
    first, again = await loaded(store, thread_id), await loaded(store, thread_id)
    return all(one is other for one, other in zip(first, again, strict=True))


async def test_who_changes_what_was_loaded_changes_it_for_nobody_else(store: HistoryStore) -> None:
    """Arguments, outputs and what providers add: each load has them for itself."""
    await store.add_thread("t")
    await store.append("t", [said(0), called()])
    before = [message_to_dict(m) for r in (said(0), called()) for m in r.messages]
    for _ in range(4):
        found = cast("list[Any]", await loaded(store))
        assert [message_to_dict(message) for message in found] == before
        _, text, call, result = found
        text.provider_metadata["vendor"]["signature"].append("changed")
        call.tools[0].input["parcel"]["number"] = 2
        call.tools[0].provider_metadata["vendor"]["signature"].clear()
        result.tool.input.clear()
        result.content["data"]["stops"].append("changed")
        result.provider_metadata["vendor"].clear()


async def test_who_changes_what_is_kept_beside_a_result_changes_it_for_nobody_else(
    store: HistoryStore,
) -> None:
    """The client's state, and the empty object of a result that has none."""
    await store.add_thread("t")
    turn = said(0)
    message = UserMessage("Where is my parcel?", turn.id, state={"screen": {"tabs": [1]}})
    context = HistoryContext(
        state=State[Any](),
        input="",
        thread_id="t",
        step=DirectRuntime().step,
        user_message=message,
        user_result=turn,
    )
    await resolve(cast("Any", store.append_user_message)(context))
    await store.append("t", [said(1)])
    for _ in range(4):
        first, second = cast("list[Any]", await store.records("t"))
        assert first.metadata == {"state": {"screen": {"tabs": [1]}}}
        assert second.metadata == {}
        first.metadata["state"]["screen"]["tabs"].append(2)
        second.metadata["changed"] = True


async def test_texts_are_decoded_once_and_keep_their_counts_of_tokens(path: Path) -> None:
    """A turn that loads a thread again gets the same messages, and results of its own."""
    async with SqliteHistory(path) as store:
        await store.add_thread("t")
        await store.append("t", [said(number) for number in range(3)])
        _, first = await store.newest("t", 48)
        token_memo(first[0].result.output[0])["o200k_base"] = 5
        await store.append("t", [said(3)])
        _, again = await store.newest("t", 48)
        for old, new in zip(first, again[:3], strict=True):
            assert new == old
            assert new.result is not old.result
            assert new.result.output[0] is old.result.output[0]
        assert token_memo(again[0].result.output[0])["o200k_base"] == 5


async def test_what_processors_made_of_a_message_stays_with_the_run(path: Path) -> None:
    """The next load has a message without it, and with its counts."""
    async with SqliteHistory(path) as store:
        await store.add_thread("t")
        await store.append("t", [said(0)])
        [message] = await loaded(store)
        made = derived(message, "rewritten", lambda: TextMessage("user", "…"))
        token_memo(message)["o200k_base"] = 5
        [again] = await loaded(store)
        assert again is not message
        assert token_memo(again)["o200k_base"] == 5
        other = derived(again, "rewritten", lambda: TextMessage("user", "…"))
        assert other is not made
        assert origin_of(made) is message


async def test_counts_of_programs_that_make_many_tokenizers_do_not_add_up(path: Path) -> None:
    """Each tokenizer of a program's own has a key of its own; they are let go together."""
    async with SqliteHistory(path) as store:
        await store.add_thread("t")
        await store.append("t", [said(0)])
        for number in range(100):
            [message] = await loaded(store)
            token_memo(message)["o200k_base"] = 5
            token_memo(message)[f"custom:{number}"] = 1
            assert len(token_memo(message)) <= 10
        [message] = await loaded(store)
        assert token_memo(message)["o200k_base"] == 5


async def test_equal_results_of_two_threads_share_no_message(store: HistoryStore) -> None:
    """Each thread's rows are kept for that thread only."""
    turn = said(0)
    for name in ("anna", "bert"):
        await store.add_thread(name, user_id=name)
        await store.append(name, [turn])
    [[first], [second]] = [await loaded(store, name) for name in ("anna", "bert")]
    assert first == second
    assert first is not second


async def test_rows_that_another_program_changed_are_read_as_they_are(path: Path) -> None:
    """Nothing is given that is not in the file."""
    async with SqliteHistory(path) as store:
        await store.add_thread("t")
        await store.append("t", [said(0, "old"), said(1, "old")])
        await loaded(store)
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("UPDATE results SET json = replace(json, 'old', 'new') WHERE position=1")
        assert [text_of(m) for m in await loaded(store)] == ["old", "new"]
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("UPDATE results SET json = substr(json, 9) WHERE position = 0")
        for _ in range(2):
            with pytest.raises(InvalidRecordError, match="position 0"):
                await loaded(store)


async def test_a_thread_that_was_removed_is_gone_and_another_may_have_its_id(
    store: HistoryStore,
) -> None:
    """What was kept of it is neither found nor given."""
    await store.add_thread("t")
    await store.append("t", [said(0, "old"), called()])
    await loaded(store)
    await store.delete_thread("t")
    with pytest.raises(ThreadNotFoundError):
        await loaded(store)
    await store.add_thread("t")
    await store.append("t", [said(0, "new")])
    assert [text_of(m) for m in await loaded(store)] == ["new"]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_what_is_kept_can_be_turned_off_and_goes_when_the_store_is_closed(
    kind: str, request: pytest.FixtureRequest, path: Path
) -> None:
    """With 0 each load decodes; a closed store begins anew."""

    def make(size: int = CACHE_BYTES) -> SqliteHistory | PostgresHistory:
        if kind == "sqlite":
            return SqliteHistory(path, cache_bytes=size)
        url, schema = map(request.getfixturevalue, ("postgres_url", "postgres_schema"))
        return PostgresHistory(url, schema=schema, connections=2, cache_bytes=size)

    keeps, never = make(), make(0)
    await keeps.add_thread("t")
    await keeps.append("t", [said(0)])
    assert await same(keeps)
    assert not await same(never)
    [before] = await loaded(keeps)
    await keeps.close()
    [after] = await loaded(keeps)
    assert after is not before
    await keeps.close()
    await never.close()
    with pytest.raises(ConfigurationError, match="cache_bytes"):
        make(-1)


async def test_what_was_not_wanted_for_longest_goes_first(path: Path) -> None:
    """With room for two threads the third takes the place of the one that was loaded first."""
    async with SqliteHistory(path, cache_bytes=40_000) as store:
        for name in ("a", "b", "c"):
            await store.add_thread(name)
            await store.append(name, [said(number) for number in range(10)])
        before = {name: await loaded(store, name) for name in ("a", "b")}
        assert (await loaded(store, "a"))[0] is before["a"][0]
        await loaded(store, "c")
        assert (await loaded(store, "a"))[0] is before["a"][0]
        assert (await loaded(store, "b"))[0] is not before["b"][0]


async def test_who_goes_through_a_long_thread_takes_no_place_from_others(path: Path) -> None:
    """An export or a whole load of more than half of all that may be kept is not kept."""
    async with SqliteHistory(path, cache_bytes=40_000) as store:
        for name, count in (("short", 5), ("long", 30)):
            await store.add_thread(name)
            await store.append(name, [said(number) for number in range(count)])
        [first, *_] = await loaded(store, "short")
        await store.records("long")
        assert (await loaded(store, "short"))[0] is first
        assert not await same(store, "long")


def test_loops_in_several_threads_load_what_is_stored_while_rows_come_and_go(path: Path) -> None:
    """With too little room for all, each load of each thread is still that of its own thread."""
    store = SqliteHistory(path, cache_bytes=60_000)
    results = [replace(result, id=f"{n}") for n, result in enumerate([said(0), called()] * 4)]

    async def make() -> None:
        for number in range(6):
            await store.add_thread(f"t{number}")
            await store.append(f"t{number}", [said(9, f"of t{number}"), *results])

    async def load(first: int) -> list[bool]:
        right: list[bool] = []
        for turn in range(40):
            name = f"t{(first + turn) % 6}"
            _, found = await store.newest(name, 48)
            right.append(found[0].result.text == "" and found[0].result.output[0].type == "text")
            right.append([one.result.output for one in found[1:]] == [r.output for r in results])
            right.append(cast("Any", found[0].result.output[0]).content == f"of {name}")
        return right

    asyncio.run(make())
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(asyncio.run, load(first)) for first in range(4)]
        assert all(right for job in jobs for right in job.result())
    asyncio.run(store.close())
