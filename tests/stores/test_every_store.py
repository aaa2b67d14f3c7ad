"""The contract of every store, tested on each of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
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
    ToolResultMessage,
    UserMessage,
)
from agentkit_py.results import AgentResult
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.state import State
from agentkit_py.stores import HistoryStore, MemoryHistory, SqliteHistory

Reply = Callable[[str], AgentResult]


class NoChanges:
    """The record of callbacks without side effects."""

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


async def test_a_run_without_a_thread_creates_one_and_saves_its_turn(
    store: HistoryStore, reply: Reply
) -> None:
    """The user's turn comes first, then the results in order."""
    state = await take_turn(store, "hi", [reply("a"), reply("b")])
    assert state.thread_id is not None
    assert await store.load(state.thread_id) == state.transcript


async def test_a_second_run_loads_the_first_and_continues(
    store: HistoryStore, reply: Reply
) -> None:
    """Loaded results are not saved again."""
    first = await take_turn(store, "one", [reply("a")])
    second = await take_turn(store, "two", [reply("b")], first.thread_id)
    assert [m.text for r in second.transcript for m in r.output if m.type == "text"] == [
        "one", "looking a up", "two", "looking b up",
    ]  # fmt: skip
    assert await store.load(first.thread_id or "") == second.transcript


async def test_each_result_is_saved_when_it_is_complete(store: HistoryStore, reply: Reply) -> None:
    """A crash later in the turn loses none of them."""
    state: State[Any] = State()
    thread = Thread(store, state, "hi", DirectRuntime(), "run", NoChanges())
    await thread.open()
    state.append_result(reply("a"))
    await thread.result_done()
    assert await store.count_results(state.thread_id or "") == 1


async def test_a_thread_is_created_under_the_clients_id(store: HistoryStore) -> None:
    """Clients may choose ids themselves."""
    state = await take_turn(store, "hi", [], "of-the-client")
    assert state.thread_id == "of-the-client"
    assert [thread.id for thread in await store.list_threads()] == ["of-the-client"]


async def test_prompt_history_and_raw_reply_are_not_stored(store: HistoryStore) -> None:
    """They would repeat the thread in each result."""
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


async def test_another_result_under_a_stored_id_is_an_error(store: HistoryStore) -> None:
    """Nothing of that call is stored."""
    thread_id = await store.add_thread()
    await store.append(thread_id, [AgentResult.from_user("first", id="m1")])
    new = [AgentResult.from_user("new", id="m2"), AgentResult.from_user("other", id="m1")]
    with pytest.raises(HistoryError, match="another result with the id 'm1'"):
        await store.append(thread_id, new)
    assert [m.text for m in await store.messages(thread_id) if m.type == "text"] == ["first"]


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


async def test_the_clients_state_is_stored_with_its_message(store: HistoryStore) -> None:
    """Other rows have none."""
    state: State[Any] = State()
    thread = Thread(store, state, "hi", DirectRuntime(), "run", NoChanges())
    await thread.open()
    message = UserMessage("hi", "m1", state={"page": "/orders"}, client_timestamp=datetime.now(UTC))
    await thread.save_user_message(message, None)
    await store.append(state.thread_id or "", [AgentResult("a", ())])
    kept = [record.metadata for record in await store.stored_results(state.thread_id or "")]
    assert kept == [{"state": {"page": "/orders"}}, {}]


async def test_a_new_thread_is_titled_by_its_first_message(store: HistoryStore) -> None:
    """One short line; later messages do not change it."""
    state = await take_turn(store, "  Where is\n my order?\ud800 " + "x" * 200, [])
    await take_turn(store, "second", [], state.thread_id)
    info = await store.get_thread(state.thread_id or "")
    assert info.title.startswith("Where is my order?")
    assert len(info.title) <= 80
    assert info.title.endswith("…")


async def test_links_and_pictures_in_a_title_are_their_texts(store: HistoryStore) -> None:
    """A list of conversations shows no addresses."""
    said = "It is broken. ![lamp.png](/files/1) See [the order](https://shop.example/a?b=1)."
    state = await take_turn(store, said, [])
    title = (await store.get_thread(state.thread_id or "")).title
    assert title == "It is broken. lamp.png See the order."


async def test_an_empty_thread_is_titled_by_its_first_user_message(
    store: HistoryStore, reply: Callable[[str], AgentResult]
) -> None:
    """Other messages may come first; an explicit title stays."""
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
        "t": "Where is my order?", "greeted": "Hello", "shown": "", "named": "Mine"
    }  # fmt: skip


async def test_event_loops_in_several_threads_share_one_store(
    store: HistoryStore, reply: Reply
) -> None:
    """Web servers with worker threads do that."""

    def work(name: str) -> None:
        asyncio.run(store.append("t", [reply(f"{name}-{n}") for n in range(5)]))

    await store.add_thread("t")
    workers = [threading.Thread(target=work, args=(str(n),)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        await asyncio.to_thread(worker.join)
    assert await store.count_results("t") == 20


async def test_saving_before_create_thread_is_an_error(store: HistoryStore) -> None:
    """The error says which callback has to come first."""
    state: State[Any] = State()
    thread = Thread(store, state, "hi", DirectRuntime(), "run", NoChanges())
    with pytest.raises(HistoryError, match="create_thread has to come first"):
        await thread.save_user_message(UserMessage("hi", "m1"), None)


async def test_append_user_message_without_a_message_is_an_error(store: HistoryStore) -> None:
    """Nothing is saved."""
    await store.add_thread("t")
    context = HistoryContext(
        state=State[Any](), input="hi", thread_id="t", step=DirectRuntime().step
    )
    assert store.append_user_message is not None
    with pytest.raises(HistoryError, match="user_result is not set"):
        await resolve(store.append_user_message(context))
    assert await store.count_results("t") == 0


def test_a_store_holds_processors(path: Path) -> None:
    """They run before those of networks and agents."""

    def keep(messages: Sequence[Message]) -> Sequence[Message]:
        return messages

    made = [MemoryHistory(processors=[keep]), SqliteHistory(path, processors=[keep])]
    assert [store.processors for store in made] == [(keep,), (keep,)]
    assert not path.exists()


async def test_a_missing_thread_is_an_error_that_names_it(store: HistoryStore) -> None:
    """Reading raises it as well as saving."""
    for call in (store.messages("nope"), store.append("nope", [AgentResult.from_user("hi")])):
        with pytest.raises(ThreadNotFoundError) as caught:
            await call
        assert caught.value.thread_id == "nope"


async def test_a_negative_limit_is_an_error(store: HistoryStore) -> None:
    """None means all; a database would take it for all, or refuse it in words of its own."""
    found: Any = store
    lists: list[Callable[[int], Any]] = [
        store.list_threads,
        lambda most: store.search("hat", limit=most),
        lambda most: found.list_questions(limit=most),
        lambda most: found.list_takeovers(limit=most),
        lambda most: found.list_facts("", "ada", limit=most),
    ]
    for read in lists:
        with pytest.raises(ConfigurationError, match="limit must be 0 or more"):
            await read(-1)
        assert await read(2**70) == []


async def test_metadata_that_is_not_json_is_an_error_that_says_so(store: HistoryStore) -> None:
    """The thread is not created."""
    wrong: Any = {"when": datetime.now(UTC)}
    with pytest.raises(HistoryError, match="metadata cannot be saved"):
        await store.add_thread("t", metadata=wrong)
