"""What every store promises, shown on each of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest

from agentkit_py._core.awaiting import resolve
from agentkit_py.errors import ConfigurationError, HistoryError, ThreadNotFoundError
from agentkit_py.history.config import HistoryContext
from agentkit_py.history.thread import Thread
from agentkit_py.messages import (
    ImageContent,
    Message,
    TextMessage,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from agentkit_py.models.base import Usage
from agentkit_py.results import AgentResult
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.state import State
from agentkit_py.stores import HistoryStore, MemoryHistory, SqliteHistory

Reply = Callable[[str], AgentResult]


class NoChanges:
    """For callbacks that change nothing beside what they return."""

    def begin(self) -> None:
        return None

    def record(self, before: object, /) -> None:
        return None

    def replay(self, recorded: object, /) -> None:
        return None


async def take_turn(
    store: HistoryStore, text: str, replies: list[AgentResult], thread_id: str | None = None
) -> State[Any]:
    """One run as the engine does it: open, save what the user said, save each result when done."""
    state: State[Any] = State(thread_id=thread_id)
    thread = Thread(store, state, text, DirectRuntime(), "run", NoChanges())
    await thread.open()
    message = UserMessage(text, uuid4().hex, client_timestamp=datetime.now(UTC))
    turn = AgentResult.from_user(text, id=message.id, created_at=message.client_timestamp)
    state.append_result(turn)
    await thread.save_user_message(message, turn)
    for reply in replies:
        state.append_result(reply)
        await thread.result_done()
    await thread.save_results()
    return state


async def test_a_run_without_a_thread_makes_one_and_saves_its_turn(
    store: HistoryStore, reply: Reply
) -> None:
    """The user's turn comes first, then the results in order."""
    state = await take_turn(store, "hi", [reply("a"), reply("b")])
    assert state.thread_id is not None
    assert await store.load(state.thread_id) == state.results


async def test_a_second_run_loads_the_first_and_goes_on_after_it(
    store: HistoryStore, reply: Reply
) -> None:
    """Nothing is doubled: what was loaded is not saved again."""
    first = await take_turn(store, "one", [reply("a")])
    second = await take_turn(store, "two", [reply("b")], first.thread_id)
    assert [m.text for r in second.results for m in r.output if m.type == "text"] == [
        "one", "looking a up", "two", "looking b up",
    ]  # fmt: skip
    assert await store.load(first.thread_id or "") == second.results


async def test_results_are_saved_one_by_one_while_a_run_goes_on(
    store: HistoryStore, reply: Reply
) -> None:
    """A crash later in the turn loses none of them."""
    state: State[Any] = State()
    thread = Thread(store, state, "hi", DirectRuntime(), "run", NoChanges())
    await thread.open()
    state.append_result(reply("a"))
    await thread.result_done()
    assert await store.count_results(state.thread_id or "") == 1


async def test_a_thread_that_the_client_names_is_made_under_that_name(store: HistoryStore) -> None:
    """Clients may choose ids themselves."""
    state = await take_turn(store, "hi", [], "of-the-client")
    assert state.thread_id == "of-the-client"
    assert [thread.id for thread in await store.list_threads()] == ["of-the-client"]


async def test_results_come_back_equal(store: HistoryStore) -> None:
    """Ids, usage, time to the microsecond, contents of every kind."""
    call: dict[str, Any] = {"id": "", "name": "nothing", "input": None, "type": "tool"}
    answer: dict[str, Any] = {"type": "tool_result", "role": "tool_result", "tool": call}
    record: dict[str, Any] = {
        "agentName": "räuber 🐟",
        "output": [{"type": "tool_call", "role": "assistant", "tools": [call, call]}],
        "toolCalls": [{**answer, "content": None}, {**answer, "content": {"data": []}}],
        "createdAt": "2024-05-06T07:08:09.123456Z",
        "id": "r1",
        "usage": {"inputTokens": 3, "outputTokens": 4, "cachedTokens": 1, "reasoningTokens": 2},
    }
    result = AgentResult.from_dict(record)
    thread_id = await store.add_thread()
    await store.append(thread_id, [result])
    assert await store.load(thread_id) == [result]
    assert result.usage == Usage(3, 4, 1, 2)


async def test_what_was_sent_and_the_raw_answer_are_not_stored(store: HistoryStore) -> None:
    """They repeat the thread in each result."""
    seen = (TextMessage("user", "before"),)
    result = AgentResult(
        "a", (TextMessage("assistant", "x"),), (), prompt=seen, history=seen, reply={}
    )
    thread_id = await store.add_thread()
    await store.append(thread_id, [result])
    (loaded,) = await store.load(thread_id)
    assert (loaded.prompt, loaded.history, loaded.reply) == ((), (), None)


async def test_messages_come_in_the_order_a_model_sees_them(
    store: HistoryStore, reply: Reply
) -> None:
    """Each result's output, then its tool results."""
    state = await take_turn(store, "hi", [reply("a")])
    found = await store.messages(state.thread_id or "")
    assert [message.type for message in found] == ["text", "text", "tool_call", "tool_result"]


async def test_saving_a_result_twice_stores_it_once(store: HistoryStore, reply: Reply) -> None:
    """Also within one call, and together with new ones."""
    thread_id = await store.add_thread()
    a, b = reply("a"), reply("b")
    await store.append(thread_id, [a, a])
    await store.append(thread_id, [a, b])
    await store.append(thread_id, [b])
    assert [record.position for record in await store.records(thread_id)] == [0, 1]
    assert await store.load(thread_id) == [a, b]


async def test_a_message_delivered_twice_is_stored_once_though_its_time_differs(
    store: HistoryStore,
) -> None:
    """A web hook that is repeated stamps its message again."""
    thread_id = await store.add_thread()
    for hour in (1, 2):
        at = datetime(2024, 1, 1, hour, tzinfo=UTC)
        await store.append(thread_id, [AgentResult.from_user("hi", id="m1", created_at=at)])
    assert [result.created_at.hour for result in await store.load(thread_id)] == [1]


async def test_another_result_under_a_stored_id_is_an_error_not_a_loss(store: HistoryStore) -> None:
    """And nothing of that call is stored."""
    thread_id = await store.add_thread()
    await store.append(thread_id, [AgentResult.from_user("first", id="m1")])
    new = [AgentResult.from_user("new", id="m2"), AgentResult.from_user("other", id="m1")]
    with pytest.raises(HistoryError, match="another result with the id 'm1'"):
        await store.append(thread_id, new)
    assert [m.text for m in await store.messages(thread_id) if m.type == "text"] == ["first"]


async def test_one_call_with_two_different_results_under_one_id_stores_neither(
    store: HistoryStore,
) -> None:
    """All or nothing."""
    thread_id = await store.add_thread()
    with pytest.raises(HistoryError, match="another result"):
        await store.append(thread_id, [AgentResult.from_user(text, id="m") for text in "ab"])
    assert await store.count_results(thread_id) == 0


async def test_results_without_ids_are_all_kept(store: HistoryStore) -> None:
    """A user may say the same thing twice."""
    at = datetime(2024, 1, 1, tzinfo=UTC)
    thread_id = await store.add_thread()
    same = [AgentResult.from_user("yes", created_at=at)] * 2
    await store.append(thread_id, same)
    assert await store.load(thread_id) == same


async def test_one_id_may_stand_in_several_threads(store: HistoryStore) -> None:
    """Ids are unique per thread only."""
    for thread_id in ("t1", "t2"):
        await store.add_thread(thread_id)
        await store.append(thread_id, [AgentResult.from_user(thread_id, id="m1")])
    assert [await store.count_results(t) for t in ("t1", "t2")] == [1, 1]


async def test_a_result_that_is_not_json_is_refused_and_nothing_of_the_call_is_stored(
    store: HistoryStore, reply: Reply
) -> None:
    """The error names the thread and the agent."""
    thread_id = await store.add_thread("t")
    bad = reply("bad")
    wrong: Any = object()
    for content in (wrong, {"data": float("nan")}):
        broken = ToolResultMessage(bad.tool_calls[0].tool, content)
        results = [reply("good"), AgentResult("billing", bad.output, [broken])]
        with pytest.raises(
            HistoryError, match=r"Thread 't': a result of 'billing' .* not plain JSON"
        ):
            await store.append(thread_id, results)
    assert await store.count_results(thread_id) == 0


@pytest.mark.parametrize("content", ["\ud800", "a\udfffb", "\0", "\u2028", "e\u0301", "🐟" * 1000])
async def test_odd_unicode_comes_back_as_it_was(store: HistoryStore, content: str) -> None:
    """Half a surrogate pair is no UTF-8: it is stored as the escape that JavaScript writes."""
    result = AgentResult(content, (TextMessage("assistant", content),))
    thread_id = await store.add_thread()
    await store.append(thread_id, [result])
    assert await store.load(thread_id) == [result]


@pytest.mark.parametrize("key", ["", "\ud800"])
async def test_ids_that_are_empty_or_no_unicode_are_refused(store: HistoryStore, key: str) -> None:
    """No database could find them again."""
    await store.add_thread("t")
    with pytest.raises(HistoryError, match="thread id"):
        await store.add_thread(key)
    with pytest.raises(HistoryError, match="user id"):
        await store.add_thread(user_id=key)
    with pytest.raises(HistoryError, match="result id"):
        await store.append("t", [AgentResult.from_user("hi", id=key)])


async def test_what_callers_change_later_does_not_reach_the_store(store: HistoryStore) -> None:
    """Neither what was saved nor what was loaded."""
    content: dict[str, Any] = {"data": ["kept"]}
    metadata: dict[str, Any] = {"tags": ["kept"]}
    answer = ToolResultMessage(ToolCall("1", "t"), content)
    result = AgentResult("a", (), (answer,))
    thread_id = await store.add_thread(metadata=metadata)
    await store.append(thread_id, [result])
    for _ in range(2):  # first what was saved, then what was loaded
        content["data"].append("changed")
        metadata["tags"].append("changed")
        (loaded,) = await store.load(thread_id)
        assert loaded.tool_calls[0].content == {"data": ["kept"]}
        info = await store.get_thread(thread_id)
        assert info.metadata == {"tags": ["kept"]}
        content = cast("dict[str, Any]", loaded.tool_calls[0].content)
        metadata = cast("dict[str, Any]", info.metadata)


async def test_the_clients_state_is_kept_beside_its_message(store: HistoryStore) -> None:
    """The library does not read it, and other rows have none."""
    state: State[Any] = State()
    thread = Thread(store, state, "hi", DirectRuntime(), "run", NoChanges())
    await thread.open()
    message = UserMessage("hi", "m1", state={"page": "/orders"}, client_timestamp=datetime.now(UTC))
    await thread.save_user_message(message, None)
    await store.append(state.thread_id or "", [AgentResult("a", ())])
    kept = [record.metadata for record in await store.records(state.thread_id or "")]
    assert kept == [{"state": {"page": "/orders"}}, {}]


async def test_a_new_thread_is_titled_by_its_first_message(store: HistoryStore) -> None:
    """In one short line, and later messages leave it as it is."""
    state = await take_turn(store, "  Where is\n my order?\ud800 " + "x" * 200, [])
    await take_turn(store, "second", [], state.thread_id)
    info = await store.get_thread(state.thread_id or "")
    assert info.title.startswith("Where is my order?")
    assert len(info.title) <= 80
    assert info.title.endswith("…")


async def test_a_thread_that_was_made_first_is_titled_by_the_first_message_of_a_user(
    store: HistoryStore, reply: Callable[[str], AgentResult]
) -> None:
    """Whatever stands before it; later ones, and a title that was given, change nothing."""
    for name in ("t", "greeted", "shown"):
        await store.add_thread(name)
    await store.append("t", [AgentResult.from_user("Where is\n my order?\0", id="1")])
    await store.append("t", [reply("a"), AgentResult.from_user("And the other?", id="2")])
    await store.append("greeted", [reply("a")])
    await store.append("greeted", [reply("b"), AgentResult.from_user("Hello", id="1")])
    await store.append("shown", [AgentResult.from_user([ImageContent(url="https://a.b/c.png")])])
    await store.append("shown", [AgentResult.from_user("What is it?", id="2")])
    await store.add_thread("named", title="Mine")
    await store.append("named", [AgentResult.from_user("Hello", id="1")])
    threads = {thread.id: thread.title for thread in await store.list_threads()}
    assert threads == {
        "t": "Where is my order?\0", "greeted": "Hello", "shown": "", "named": "Mine"
    }  # fmt: skip


async def test_threads_are_listed_those_changed_last_first(store: HistoryStore) -> None:
    """As many as asked for, of one user if asked for."""
    for name, user in (("a", "u1"), ("b", "u2"), ("c", "u1")):
        await store.add_thread(name, user_id=user, title=name.upper(), metadata={"n": name})
    await store.append("a", [AgentResult.from_user("hi")])
    assert [thread.id for thread in await store.list_threads()] == ["a", "c", "b"]
    assert [thread.id for thread in await store.list_threads(1)] == ["a"]
    assert [thread.id for thread in await store.list_threads(None, "u1")] == ["a", "c"]
    assert await store.list_threads(0) == []
    assert await store.list_threads(user_id="nobody") == []
    with pytest.raises(ConfigurationError, match="limit"):
        await store.list_threads(-1)


async def test_a_thread_says_whose_it_is_and_when_it_changed(store: HistoryStore) -> None:
    """Times are UTC."""
    await store.add_thread("t", user_id="u", title="T", metadata={"n": None})
    before = await store.get_thread("t")
    assert (before.user_id, before.title, before.metadata) == ("u", "T", {"n": None})
    assert before.created_at == before.updated_at
    assert before.created_at.tzinfo == UTC
    await store.append("t", [AgentResult.from_user("hi", id="1")])
    after = await store.get_thread("t")
    assert after.created_at == before.created_at
    assert after.updated_at > before.updated_at
    await store.append("t", [AgentResult.from_user("hi", id="1")])
    assert await store.get_thread("t") == after


async def test_adding_a_thread_that_is_there_leaves_it_as_it_is(store: HistoryStore) -> None:
    """Every run does so."""
    await store.add_thread("t", title="old")
    await store.append("t", [AgentResult.from_user("hi")])
    assert await store.add_thread("t", title="new") == "t"
    assert (await store.get_thread("t")).title == "old"
    assert await store.count_results("t") == 1


async def test_thread_metadata_that_is_not_json_is_refused(store: HistoryStore) -> None:
    """Nothing is made then."""
    wrong: Any = {"when": datetime.now(UTC)}
    with pytest.raises(HistoryError, match="metadata cannot be saved"):
        await store.add_thread("t", metadata=wrong)
    assert not await store.thread_exists("t")


async def test_a_deleted_thread_is_gone_with_its_results(store: HistoryStore) -> None:
    """A new one under its id begins empty; deleting nothing says so."""
    await store.add_thread("t")
    await store.append("t", [AgentResult.from_user("hi")])
    assert await store.delete_thread("t")
    assert not await store.delete_thread("t")
    assert not await store.thread_exists("t")
    await store.add_thread("t")
    assert await store.load("t") == []


async def test_a_thread_that_is_not_there_is_an_error_that_names_it(store: HistoryStore) -> None:
    """Saving into one does not make it: what was deleted stays deleted."""
    results = [AgentResult.from_user("hi")]
    calls = [store.load, store.messages, store.records, store.count_results, store.get_thread]
    for call in calls:
        with pytest.raises(ThreadNotFoundError) as caught:
            await call("nope")
        assert caught.value.thread_id == "nope"
    with pytest.raises(ThreadNotFoundError):
        await store.append("nope", results)
    assert await store.list_threads() == []


async def test_ids_are_data_never_sql(store: HistoryStore) -> None:
    """Whatever stands in them."""
    evil = "x'); DROP TABLE threads; --"
    await store.add_thread(evil, user_id=evil, title=evil)
    await store.append(evil, [AgentResult.from_user(evil, id=evil)])
    assert [thread.title for thread in await store.list_threads(user_id=evil)] == [evil]
    assert await store.count_results(evil) == 1


async def test_a_message_of_ten_megabytes_is_stored(store: HistoryStore) -> None:
    """Size is the provider's business."""
    thread_id = await store.add_thread()
    await store.append(thread_id, [AgentResult.from_user("x" * 10_000_000)])
    (message,) = await store.messages(thread_id)
    assert message.type == "text"
    assert len(message.text) == 10_000_000


async def test_many_tasks_save_into_one_thread_at_once(store: HistoryStore, reply: Reply) -> None:
    """All is there, and each task's results stand in its order."""

    async def write(task: int) -> None:
        for number in range(10):
            await store.append("t", [reply(f"{task}-{number}")])

    await store.add_thread("t")
    await asyncio.gather(*(write(task) for task in range(8)))
    ids = [result.id or "" for result in await store.load("t")]
    assert len(set(ids)) == len(ids) == 80
    for task in range(8):
        own = [int(i.rpartition("-")[2]) for i in ids if i.startswith(f"result-{task}-")]
        assert own == list(range(10))


async def test_event_loops_in_several_threads_share_one_store(
    store: HistoryStore, reply: Reply
) -> None:
    """A web server with worker threads does so."""

    def work(name: str) -> None:
        asyncio.run(store.append("t", [reply(f"{name}-{n}") for n in range(5)]))

    await store.add_thread("t")
    workers = [threading.Thread(target=work, args=(str(n),)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        await asyncio.to_thread(worker.join)
    assert await store.count_results("t") == 20


async def test_a_store_can_be_closed_and_used_again(store: HistoryStore) -> None:
    """Closing lets go of connections, no more."""
    async with store as opened:
        assert opened is store
        await store.add_thread("t")
    await store.close()
    assert await store.thread_exists("t")


async def test_a_hook_that_comes_before_create_thread_says_so(store: HistoryStore) -> None:
    """Somebody who calls the hooks by hand gets an answer that helps."""
    state: State[Any] = State()
    thread = Thread(store, state, "hi", DirectRuntime(), "run", NoChanges())
    with pytest.raises(HistoryError, match="create_thread has to come first"):
        await thread.save_user_message(UserMessage("hi", "m1"), None)


async def test_a_hook_without_a_message_says_so_and_saves_nothing(store: HistoryStore) -> None:
    """A message is never dropped without a word."""
    await store.add_thread("t")
    context = HistoryContext(
        state=State[Any](), input="hi", thread_id="t", step=DirectRuntime().step
    )
    assert store.append_user_message is not None
    with pytest.raises(HistoryError, match="user_result is not set"):
        await resolve(store.append_user_message(context))
    assert await store.count_results("t") == 0


def test_a_store_carries_processors(path: Path) -> None:
    """They run before those of networks and agents."""

    def keep(messages: Sequence[Message]) -> Sequence[Message]:
        return messages

    made = [MemoryHistory(processors=[keep]), SqliteHistory(path, processors=[keep])]
    assert [store.processors for store in made] == [(keep,), (keep,)]
    assert not path.exists()
