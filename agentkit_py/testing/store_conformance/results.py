"""Checks of results: stored unchanged, once, in order, all or none; and of runs that make them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeAlias

from agentkit_py.agent import Agent
from agentkit_py.errors import HistoryError, ModelError
from agentkit_py.messages import (
    ReasoningMessage,
    TextContent,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
    Usage,
    token_memo,
)
from agentkit_py.models.base import RetryPolicy
from agentkit_py.processors.base import Extent, extent_of
from agentkit_py.results import AgentResult
from agentkit_py.stores import HistoryStore
from agentkit_py.testing.fakes import ScriptedModel
from agentkit_py.testing.provider import error, tool_call
from agentkit_py.testing.store_conformance.values import ODD_TEXTS, raises, reply, said, same
from agentkit_py.tools import tool

_WRITERS, _EACH = 8, 10
_HUGE = 10_000_000


async def results_come_back_equal(store: HistoryStore) -> None:
    """Messages of every kind, ids, usage, provider metadata and times are returned unchanged."""
    call = ToolCall("", "t", {"b": 1, "a": [None, 1.5, 10**30]}, None, {"google": {"sig": "x"}})
    output = [
        ReasoningMessage("hm", provider_metadata={"anthropic": {"signature": "s"}}),
        TextMessage("assistant", (TextContent("a"), TextContent("b")), agent="other"),
        TextMessage("system", "s", stop_reason="stop"),
        ToolCallMessage((call, call)),
    ]
    result = AgentResult(
        "räuber 🐟",
        output,
        [ToolResultMessage(call, None), ToolResultMessage(call, {"error": {"name": "E"}})],
        datetime(2024, 5, 6, 7, 8, 9, 123456, UTC),
        id="r1",
        usage=Usage(3, 4, 1, 2),
    )
    await store.add_thread("t")
    await store.append("t", [result])
    same(await store.load("t"), [result], "the results")


async def odd_texts_come_back_as_they_were(store: HistoryStore) -> None:
    """Halves of surrogate pairs, zero bytes and all of Unicode are returned unchanged."""
    results = [AgentResult(text or "a", (TextMessage("assistant", text),)) for text in ODD_TEXTS]
    await store.add_thread("t")
    await store.append("t", results)
    same(await store.load("t"), results, "the results")


async def a_message_of_ten_megabytes_is_kept(store: HistoryStore) -> None:
    """A store sets no limit on the size of a message."""
    await store.add_thread("t")
    await store.append("t", [AgentResult.from_user("x" * _HUGE)])
    (message,) = await store.messages("t")
    same(len(message.text) if message.type == "text" else 0, _HUGE, "the length")


async def positions_count_from_zero_without_gaps(store: HistoryStore) -> None:
    """Results that are stored already take no position."""
    await store.add_thread("t")
    for names in ("ab", "ac", "b", "d"):
        await store.append("t", [said(name) for name in names])
    found = [(record.position, record.result.id) for record in await store.stored_results("t")]
    same(found, [(n, f"user {name}") for n, name in enumerate("abcd")], "positions and ids")
    same(await store.count_results("t"), 4, "count_results")


async def saving_twice_is_once(store: HistoryStore) -> None:
    """A result is stored once, in a call or several, also if its time differs."""
    a, b = reply("a"), reply("b")
    await store.add_thread("t")
    await store.append("t", [a, a])
    await store.append("t", [a, b])
    for hour in (1, 2):
        at = datetime(2024, 1, 1, hour, tzinfo=UTC)
        await store.append("t", [AgentResult.from_user("hi", id="m", created_at=at)])
    found = await store.load("t")
    same([result.id for result in found], ["result-a", "result-b", "m"], "the ids")
    same(found[-1].created_at.hour, 1, "which of the two is kept")


async def another_result_under_a_stored_id_is_an_error(store: HistoryStore) -> None:
    """`append` raises HistoryError and stores nothing of that call."""
    await store.add_thread("t")
    await store.append("t", [said("first", "m")])
    new = [said("new"), said("other", "m")]
    await raises(HistoryError, store.append("t", new), "append")
    await raises(HistoryError, store.append("t", [said("a", "x"), said("b", "x")]), "append")
    same(await store.count_results("t"), 1, "count_results")


async def results_without_ids_are_all_kept(store: HistoryStore) -> None:
    """Equal results without ids are different results."""
    await store.add_thread("t")
    same_thing = [AgentResult.from_user("yes", created_at=datetime(2024, 1, 1, tzinfo=UTC))] * 2
    await store.append("t", same_thing)
    same(await store.load("t"), same_thing, "the results")


async def one_id_may_stand_in_several_threads(store: HistoryStore) -> None:
    """Ids of results are unique per thread only."""
    for key in ("t1", "t2"):
        await store.add_thread(key)
        await store.append(key, [said(key, "m")])
        same(await store.count_results(key), 1, f"count_results of {key}")


async def what_is_not_json_is_refused_with_all_of_its_call(store: HistoryStore) -> None:
    """`append` raises HistoryError and stores nothing of that call."""
    await store.add_thread("t")
    wrong: Any = object()
    for content in (wrong, {"data": float("nan")}):
        broken = AgentResult("a", (), [ToolResultMessage(ToolCall("1", "t"), content)])
        await raises(HistoryError, store.append("t", [said("good"), broken]), "append")
    same(await store.count_results("t"), 0, "count_results")


async def later_changes_of_callers_do_not_reach_the_store(store: HistoryStore) -> None:
    """Changing saved or loaded objects changes neither stored results nor metadata."""
    content: dict[str, Any] = {"data": ["kept"]}
    metadata: Any = {"tags": ["kept"]}
    answer = ToolResultMessage(ToolCall("1", "t"), content)
    await store.add_thread("t", metadata=metadata)
    await store.append("t", [AgentResult("a", (), (answer,))])
    for _ in range(2):
        content["data"].append("changed")
        metadata["tags"].append("changed")
        (loaded,) = await store.load("t")
        found: Any = loaded.tool_calls[0].content
        same(found, {"data": ["kept"]}, "the stored result")
        content = found
        metadata = (await store.get_thread("t")).metadata
        same(metadata, {"tags": ["kept"]}, "the stored metadata")


async def pages_hold_the_last_results_before_a_position(store: HistoryStore) -> None:
    """Pages are ordered oldest first; together they are the thread."""
    await store.add_thread("t")
    await store.append("t", [said(str(n)) for n in range(10)])
    for before, limit, expected in (
        (10, 4, [6, 7, 8, 9]),
        (3, 4, [0, 1, 2]),
        (0, 4, []),
        (5, 1, [4]),
    ):
        page = await store.page("t", before, limit)
        same([record.position for record in page], expected, f"page({before}, {limit})")
    pages = [*await store.page("t", 6, 6), *await store.page("t", 10, 4)]
    found = [(record.position, record.result, record.metadata) for record in pages]
    all_ = [(one.position, one.result, one.metadata) for one in await store.stored_results("t")]
    same(found, all_, "pages together")


async def token_counts_come_back_if_they_are_kept(store: HistoryStore) -> None:
    """Token counts are optional, but never wrong."""
    result = reply("a")
    for number, message in enumerate(result.messages):
        token_memo(message)["test:tokens"] = number + 1
    await store.add_thread("t")
    await store.append("t", [result])
    for number, message in enumerate((await store.load("t"))[0].messages):
        known = token_memo(message).get("test:tokens", number + 1)
        same(known, number + 1, "a count of tokens")


async def writers_at_the_same_time_lose_nothing(store: HistoryStore) -> None:
    """Concurrent writers store each result once, without gaps, each in its own order."""

    async def write(writer: int) -> None:
        for number in range(_EACH):
            await store.append("t", [reply(f"{writer}-{number}")])

    await store.add_thread("t")
    await asyncio.gather(*(write(writer) for writer in range(_WRITERS)))
    records = await store.stored_results("t")
    same([r.position for r in records], list(range(_WRITERS * _EACH)), "the positions")
    ids = [record.result.id or "" for record in records]
    for writer in range(_WRITERS):
        own = [one for one in ids if one.startswith(f"result-{writer}-")]
        same(own, [f"result-{writer}-{n}" for n in range(_EACH)], f"the results of writer {writer}")


async def writers_of_the_same_results_store_them_once(store: HistoryStore) -> None:
    """Results that several writers save at once, as for a repeated webhook, are stored once."""
    await store.add_thread("t")
    turn = [said("hi"), reply("a"), reply("b")]
    await asyncio.gather(*(store.append("t", turn) for _ in range(_WRITERS)))
    same(await store.load("t"), turn, "the results")


async def the_newest_results_say_where_they_stand(store: HistoryStore) -> None:
    """`newest` returns the count of results, and the size of the thread before each."""
    await store.add_thread("t")
    system = AgentResult("desk", [TextMessage("system", "Rules.")], id="s")
    for batch in ([said("Hello")], [reply("a"), system], [], [said("Hello"), said("bye")]):
        await store.append("t", batch)
    everything = await store.stored_results("t")
    same([one.position for one in everything], [0, 1, 2, 3], "the positions")
    total, expected = Extent(), list[Extent]()
    for one in everything:
        expected.append(total)
        total += extent_of(one.result.messages)
    same((total.messages, total.system), (6, 1), "how much there is")
    for limit in (0, 1, 3, 4, 9):
        count, newest = await store.newest("t", limit)
        same(count, 4, "the number of results")
        place = max(0, 4 - limit)
        same([one.position for one in newest], [0, 1, 2, 3][place:], f"newest({limit})")
        same(
            [one.before for one in newest], expected[place:], f"the results before newest({limit})"
        )


Program: TypeAlias = Callable[[], Awaitable[Any]]
"""A run; it may be started again from the top."""

Drive: TypeAlias = Callable[[Sequence[Program]], Awaitable[None]]
"""Runs programs in sequence, each until it returns or fails."""


async def _directly(programs: Sequence[Program]) -> None:
    """Run the programs in this process."""
    for program in programs:
        with suppress(ModelError):
            await program()


async def _replayed(programs: Sequence[Program]) -> None:
    """Run the programs as Inngest functions, which start again from the top for each step."""
    from agentkit_py.testing.executor import replay_programs  # noqa: PLC0415 - loads the SDK

    await replay_programs(programs)


@tool
def _look_up(order: str) -> str:
    """Look an order up."""
    return f"{order} is on its way"


async def _turns(store: HistoryStore, drive: Drive) -> None:
    model = ScriptedModel(tool_call(_look_up.name, {"order": "A1"}), "It comes.", "You're welcome.")
    agent = Agent(name="desk", system="S", model=model, tools=[_look_up], max_iter=3, history=store)
    lines = ("Where is A1?", "Thank you.")
    await drive([partial(agent.run, line, thread_id="t") for line in lines])
    model.assert_finished()
    results = await store.load("t")
    same([r.agent_name for r in results], ["user", "desk", "desk", "user", "desk"], "the authors")
    texts = [m.text for m in await store.messages("t") if m.type == "text" and m.text]
    expected = ["Where is A1?", "It comes.", "Thank you.", "You're welcome."]
    same(texts, expected, "the texts")
    same(len({result.id for result in results}), 5, "the number of ids")


async def _failure(store: HistoryStore, drive: Drive) -> None:
    model = ScriptedModel(
        tool_call(_look_up.name, {"order": "A1"}), error(400, "no"), retry=RetryPolicy(attempts=1)
    )
    agent = Agent(name="desk", system="S", model=model, tools=[_look_up], max_iter=3, history=store)
    await drive([partial(agent.run, "Where is A1?", thread_id="t")])
    found = [(r.agent_name, len(r.tool_calls)) for r in await store.load("t")]
    same(found, [("user", 0), ("desk", 1)], "the finished results")


async def runs_fill_a_thread_and_go_on_with_it(store: HistoryStore) -> None:
    """User turns, results and tool results are stored once and in order."""
    await _turns(store, _directly)


async def replayed_runs_fill_a_thread_and_go_on_with_it(store: HistoryStore) -> None:
    """Replayed runs store user turns, results and tool results once and in order."""
    await _turns(store, _replayed)


async def a_run_that_fails_leaves_what_was_finished(store: HistoryStore) -> None:
    """The user's message and the completed results are stored."""
    await _failure(store, _directly)


async def a_replayed_run_that_fails_leaves_what_was_finished(store: HistoryStore) -> None:
    """Replay stores the user's message and the completed results once."""
    await _failure(store, _replayed)
