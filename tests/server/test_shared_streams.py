"""Several processes that serve the same users: each streams what any of them publishes."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentkit_py import MemoryHistory, SqliteHistory, tool
from agentkit_py.server import Hub, create_app, lifespan
from agentkit_py.server.workers import Workers
from agentkit_py.stores import HistoryStore, PostgresHistory
from agentkit_py.stores.broadcast import Broadcast, Receiver
from agentkit_py.testing import tool_call
from tests.server.test_front_ends import opened, until
from tests.server.world import (
    app_of,
    by_header,
    client_of,
    eventually,
    listening,
    message,
    post,
    served,
    served_together,
    support,
    wait_until_idle,
    waiting,
)


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """The place of a database."""
    if request.param == "sqlite":
        return {"path": tmp_path / "t.db"}
    url = request.getfixturevalue("postgres_url")
    return {"conninfo": url, "schema": request.getfixturevalue("postgres_schema")}


def store_at(where: dict[str, Any]) -> HistoryStore:
    """A store of its own, as another process would have."""
    return SqliteHistory(**where) if "path" in where else PostgresHistory(**where)


async def test_a_reader_of_any_process_gets_the_answer(where: dict[str, Any]) -> None:
    """In order, and all of it."""
    answer = "Straw hats. " * 200
    first = app_of(support(answer), history=store_at(where))
    second = app_of(support(), history=store_at(where))
    async with served_together(first, second) as (url, other), listening(other) as stream:
        await post(url, "/api/chat", message("Hats?", "t1"))
        await stream.until("stream.ended")
    numbers = [chunk["sequenceNumber"] for chunk in stream.chunks]
    assert numbers == list(range(len(numbers)))
    assert stream.text == answer


async def test_a_process_that_begins_later_streams_open_runs_from_their_start(
    where: dict[str, Any],
) -> None:
    """Once; what the thread has of them is left out, as it is in the stream."""
    wait, begun, go = waiting()
    first = app_of(support(tool_call("wait", {}), "Done.", tools=(wait,)), history=store_at(where))
    async with served(first) as url:
        await post(url, "/api/chat", message("Hats?", "t1", id="m1"))
        await begun.wait()
        second = app_of(support(), history=store_at(where))
        async with served(second) as other:
            hub: Hub = second.state.api.hub
            await eventually(lambda: hub.answered("user:ada", "t1") == ["m1"])
            async with listening(other) as stream:
                go.set()
                await stream.until("stream.ended")
            assert hub.answered("user:ada", "t1") == []
    assert stream.names[0] == "run.started"
    assert stream.text == "Done."
    numbers = [chunk["sequenceNumber"] for chunk in stream.chunks]
    assert numbers == list(range(len(numbers)))


async def test_a_page_that_comes_back_to_another_process_gets_its_reply_whole(
    where: dict[str, Any],
) -> None:
    """Though nothing of it is in the thread yet."""
    wait, begun, go = waiting()
    model = (tool_call("wait", {}), "Straw hats. " * 200)
    parts = [{"type": "text", "text": "Hats?"}]
    first = app_of(support(*model, tools=(wait,)), history=store_at(where))
    second = app_of(support(), history=store_at(where))
    body = {"id": "t1", "messages": [{"id": "m1", "role": "user", "parts": parts}]}
    async with served_together(first, second) as (url, other):
        hub: Hub = second.state.api.hub
        async with opened(url, "/api/vercel", body) as reply:
            await until(reply, "tool-input-available")
        await begun.wait()
        await eventually(lambda: hub.answered("user:ada", "t1") == ["m1"])
        async with opened(other, "/api/vercel/t1/stream") as reply:
            found = [await anext(reply)]
            go.set()
            found += [event async for event in reply]
    assert "reset-step" not in {event["type"] for event in found[2:]}
    text = "".join(event["delta"] for event in found if event["type"] == "text-delta")
    assert text == model[1]
    assert found[-1]["finishReason"] == "stop"


async def test_a_cancel_reaches_the_process_of_the_run(where: dict[str, Any]) -> None:
    """Its stream ends as interrupted, wherever it is read."""
    wait, begun, _ = waiting()
    first = app_of(support(tool_call("wait", {}), tools=(wait,)), history=store_at(where))
    second = app_of(support(), history=store_at(where))
    async with served_together(first, second) as (url, other), listening(other) as stream:
        await post(url, "/api/chat", message("Hats?", "t1"))
        await begun.wait()
        await post(other, "/api/chat/cancel", {"threadId": "t1"})
        await stream.until("stream.ended")
    assert "run.interrupted" in stream.names


@pytest.mark.parametrize("again", [False, True])
async def test_a_cancel_in_another_process_ends_the_stream_of_a_run_that_waits(
    where: dict[str, Any], again: bool
) -> None:
    """The reply that began ends, in sequence, in all processes: it does not stay under way.

    Also where its message was sent again there while the model was asked.
    """
    begun, go = asyncio.Event(), asyncio.Event()

    @tool
    async def look() -> str:
        """Look at the order."""
        begun.set()
        await go.wait()
        return "paid by card"

    @tool(needs_approval=True)
    def refund() -> str:
        """Pay money back."""
        return "paid"

    model = support(tool_call("look", {}), tool_call("refund", {}), tools=(look, refund))
    apps = [app_of(one, history=store_at(where), leases=True) for one in (model, support())]
    hubs: list[Hub] = [app.state.api.hub for app in apps]
    asked = message("Money back!", "t1", id="m1")
    async with AsyncExitStack() as stack:
        url, other = [await stack.enter_async_context(served(app)) for app in apps]
        stream, far = [await stack.enter_async_context(listening(one)) for one in (url, other)]
        await post(url, "/api/chat", asked)
        await begun.wait()
        sent = asyncio.ensure_future(post(other, "/api/chat", asked)) if again else None
        await eventually(lambda: apps[1].state.api.backend.count == int(again))
        go.set()
        if sent is not None:
            await sent
        await wait_until_idle(apps[0])
        await wait_until_idle(apps[1])
        await far.until("hitl.requested")
        await post(other, "/api/chat/cancel", {"threadId": "t1"})
        end = await stream.until("stream.ended")
        await eventually(lambda: not any(hub.answered("user:ada", "t1") for hub in hubs))
    assert end["data"]["messageId"] == stream.chunks[0]["data"]["messageId"]
    numbers = [chunk["sequenceNumber"] for chunk in stream.chunks]
    assert numbers == list(range(len(numbers)))


async def test_a_thread_that_another_process_answers_is_neither_rewound_nor_edited(
    where: dict[str, Any],
) -> None:
    """Also without leases: else the answer would be in a thread without its question."""
    wait, begun, go = waiting()
    first = app_of(support(tool_call("wait", {}), "One.", tools=(wait,)), history=store_at(where))
    second = app_of(support("Two."), history=store_at(where))
    async with served_together(first, second) as (url, other), listening(other) as stream:
        await post(url, "/api/chat", message("First?", "t1", id="m1"))
        await begun.wait()
        hub: Hub = second.state.api.hub
        await eventually(lambda: hub.works_on("user:ada", "m1"))
        edit = {**message("First!", "t1", id="m2"), "edits": "m1"}
        for path, body in (("/api/threads/t1/rewind", {"before": "m1"}), ("/api/chat", edit)):
            refused = await post(other, path, body)
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "thread_busy")
        go.set()
        await stream.until("stream.ended")
        assert (await post(other, "/api/chat", edit)).status_code == 200
        await stream.until(lambda c: "Two." in str(c["data"].get("delta")))
        async with client_of(second) as client:
            await second.state.api.backend.idle()
            found = (await client.get("/api/threads/t1")).json()["messages"]
    assert [m["type"] for m in found] == ["user", "agent"]
    assert found[0]["content"] == "First!"


async def test_messages_of_a_thread_do_not_interleave(where: dict[str, Any]) -> None:
    """The run of one process waits for that of the other."""
    wait, begun, go = waiting()
    first = app_of(
        support(tool_call("wait", {}), "One.", tools=(wait,)), history=store_at(where), leases=True
    )
    second = app_of(support("Two."), history=store_at(where), leases=True)
    async with served_together(first, second) as (url, other), listening(other) as stream:
        await post(url, "/api/chat", message("First?", "t1", id="m1"))
        await begun.wait()
        await post(other, "/api/chat", message("Second?", "t1", id="m2"))
        go.set()
        await stream.until(lambda c: "Two." in str(c["data"].get("delta")))
        while stream.names.count("stream.ended") < 2:  # that of the other process may come later
            await stream.until("stream.ended")
        async with client_of(second) as client:
            found = (await client.get("/api/threads/t1")).json()["messages"]
    assert [m["message_id"] for m in found if m["type"] == "user"] == ["m1", "m2"]
    assert [m["type"] for m in found] == ["user", "agent", "agent", "user", "agent"]


async def test_readers_of_a_process_that_is_gone_read_their_threads() -> None:
    """Their stream says that something is lost, and the run is no longer open."""
    hub = Hub()
    begin = {"event": "run.started", "data": {"messageId": "r", "threadId": "t"}}
    hub.receive("user:ada", begin, "m", "other")
    with hub.subscribe("user:ada") as reader:
        assert [entry.answers for entry in (await reader.next()).entries] == ["m"]
        assert hub.answered("user:ada", "t") == ["m"]
        hub.end_runs_of("another")
        assert hub.has_open_runs("other")
        hub.end_runs_of("other")
        batch = await reader.next()
        assert (batch.entries, batch.lost) == ([], 1)
        assert not hub.has_open_runs("other")
        assert hub.answered("user:ada", "t") == []
        hub.publish("user:ada", {"event": "text.delta", "data": {}})
        batch = await reader.next()
        assert (len(batch.entries), batch.lost) == (1, 0)


class Quiet(Broadcast):
    """A broadcast that reaches nobody; keeps what was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[dict[str, Any]] = []

    async def open(self, receiver: Receiver) -> None:
        """Do nothing."""

    def send(self, text: str, *, lasting: bool = False) -> None:
        """Keep it."""
        self.sent.append({**json.loads(text), "lasting": lasting})

    async def close(self) -> None:
        """Do nothing."""


class QuietStore(MemoryHistory):
    """A store with such a broadcast."""

    def __init__(self) -> None:
        super().__init__()
        self.quiet = Quiet()

    def broadcast(self) -> Broadcast:
        """Return it."""
        return self.quiet


async def test_chunks_of_a_process_are_ignored_until_its_open_runs_are_known() -> None:
    """They come again with these; else a run would be shown twice, or from its middle."""
    hub, store = Hub(), QuietStore()
    workers = Workers(hub)
    assert not workers.is_alive("other")
    await workers.join(store)
    assert workers.is_alive("other")  # it had no time to say so
    (hello,) = store.quiet.sent

    def receive(kind: str, number: int = 0, to: str | None = None, **facts: Any) -> None:
        event = "text.delta" if number else "run.started"
        chunk = {"event": event, "data": {"messageId": "r", "n": number}}
        facts = {"channel": "c", "answers": "m", "chunk": chunk, **facts}
        workers.receive(json.dumps({"from": "other", "kind": kind, "to": to, **facts}))

    with hub.subscribe("c") as reader:
        receive("chunk", 1)
        receive("chunk", 0, to=hello["from"])
        receive("chunk", 1, to=hello["from"])
        receive("chunk", 7, to="a third")
        receive("ready", to=hello["from"])
        receive("chunk", 2)
        batch = await reader.next()
    assert [json.loads(entry.text)["data"]["n"] for entry in batch.entries] == [0, 1, 2]
    receive("hello", lost=True)
    assert not hub.has_open_runs("other")
    assert [one["kind"] for one in store.quiet.sent] == ["hello", "ready"]
    await workers.leave()


async def test_a_cancel_is_sent_again_after_a_loss_and_nothing_else_is() -> None:
    """What else was lost comes again with the open runs."""
    hub, store = Hub(), QuietStore()
    workers = Workers(hub)
    await workers.join(store)
    hub.publish("user:ada", {"event": "run.started", "data": {"messageId": "r"}})
    workers.cancel("ada", "t1")
    await workers.leave()
    sent = [(one["kind"], one["lasting"]) for one in store.quiet.sent]
    assert sent == [("hello", False), ("chunk", False), ("cancel", True)]


class Wires:
    """Connects processes; each text is sent, and arrives, when the test lets it."""

    def __init__(self) -> None:
        self.ends: dict[int, Wire] = {}
        self.on_way: dict[tuple[int, int], list[str]] = {}

    def send(self, sender: int) -> None:
        """Send what waits to those that receive now."""
        texts, self.ends[sender].waiting = self.ends[sender].waiting, []
        for other in self.ends:
            if other != sender:
                self.on_way.setdefault((sender, other), []).extend(texts)

    def deliver(self, sender: int, to: int, most: int = 1000) -> None:
        """Let the oldest texts on a way arrive."""
        texts = self.on_way.get((sender, to), [])
        for text in texts[:most]:
            self.ends[to].receiver.receive(text)
        del texts[:most]

    def deliver_all(self) -> None:
        """Let all arrive, and the answers to them."""
        while any(end.waiting for end in self.ends.values()) or any(self.on_way.values()):
            for sender in self.ends:
                self.send(sender)
            for way in list(self.on_way):
                self.deliver(*way)

    def cut(self, who: int) -> None:
        """Lose what a process sends, and what is on its way from and to it; it notices that."""
        self.ends[who].waiting.clear()
        for way in self.on_way:
            if who in way:
                self.on_way[way].clear()
        self.ends[who].receiver.lost()


class Wire(Broadcast):
    """The end of such wires at one process."""

    receiver: Receiver

    def __init__(self, wires: Wires, name: int) -> None:
        super().__init__()
        self.wires, self.name = wires, name
        self.waiting: list[str] = []

    async def open(self, receiver: Receiver) -> None:
        """Receive from now on."""
        self.receiver = receiver
        self.wires.ends[self.name] = self

    def send(self, text: str, *, lasting: bool = False) -> None:
        """Keep it until it is sent."""
        self.waiting.append(text)

    async def close(self) -> None:
        """Do nothing."""


class Process(MemoryHistory):
    """One of several processes: it runs, and a reader follows its hub."""

    def __init__(self, wires: Wires, name: int) -> None:
        super().__init__()
        self.wire = Wire(wires, name)
        self.name, self.hub = name, Hub()
        self.workers = Workers(self.hub)
        self.runs, self.sent = 0, -1
        self.seen: list[tuple[str, int] | None] = []
        """Run and number of each chunk; None: something is lost."""

        self.ended: dict[str, int] = {}
        """Runs that ended since it began, and how much it had seen by then."""

    def broadcast(self) -> Broadcast:
        """Return its end of the wires."""
        return self.wire

    def work(self) -> str | None:
        """Publish the next chunk; return the run that ends with it."""
        self.sent += 1
        event = ["run.started", "text.delta", "text.delta", "stream.ended"][self.sent]
        run = f"{self.name}-{self.runs}"
        data = {"messageId": run, "threadId": run}
        chunk = {"event": event, "data": data, "sequenceNumber": self.sent}
        self.hub.publish("user:ada", chunk, answers=run)
        if event != "stream.ended":
            return None
        self.runs, self.sent = self.runs + 1, -1
        return run

    async def read(self) -> None:
        """Follow the hub."""
        with self.hub.subscribe("user:ada") as reader:
            while True:
                batch = await reader.next()
                if batch.lost:
                    self.seen.append(None)
                for entry in batch.entries:
                    chunk = json.loads(entry.text)
                    self.seen.append((chunk["data"]["messageId"], chunk["sequenceNumber"]))

    def check(self) -> None:
        """Each run's chunks follow each other, from its start again only after a loss, to its end.

        One that is not told to its end is followed by the word that something is lost.
        """
        last: dict[str, int] = {}
        anew = set[str]()
        for one in self.seen:
            run, number = one or ("", 0)
            if one is None:
                anew = set(last)
            elif number == 0 and run in anew:
                anew.discard(run)
            else:
                assert number == last.get(run, -1) + 1, self.seen
            last[run] = number
        for run, place in self.ended.items():
            assert not self.hub.open_runs("user:ada", run), run
            assert (run, 3) in self.seen or None in self.seen[place:], run


PROCESSES = st.integers(0, 2)
STEPS = st.one_of(
    st.tuples(st.sampled_from(["join", "work", "work", "send", "send", "cut"]), PROCESSES),
    st.tuples(st.just("deliver"), PROCESSES, PROCESSES, st.integers(1, 9)),
)

KNOWN = [("join", 0), ("join", 1), ("send", 0), ("deliver", 0, 1, 9)]
HEARD = [("work", 0), ("send", 0), ("deliver", 0, 1, 9)]


@given(st.lists(STEPS, max_size=60))
@example([*KNOWN, ("work", 0), ("send", 0)])  # the other one's hello comes late
@example(  # a run that ends before the hello has come
    [("join", 0), ("send", 0), ("join", 1), *[("work", 0)] * 4, ("send", 0), ("deliver", 0, 1, 9)]
)
@example(  # a run that nobody heard of
    [("join", 0), ("join", 1), *[("work", 0)] * 4, ("cut", 0), ("work", 0)]
)
@example([*KNOWN, *HEARD, ("work", 0), ("cut", 0), ("work", 0)])  # a run that is cut in two
@example([*KNOWN, *HEARD, *[("work", 0)] * 3, ("cut", 0)])  # a run whose end is cut off
async def test_readers_of_all_processes_get_each_run_once_or_learn_that_some_is_lost(
    steps: list[tuple[Any, ...]],
) -> None:
    """Whenever processes begin, are cut off, and what they send arrives."""
    wires = Wires()
    processes = {name: Process(wires, name) for name in range(3)}
    readers: dict[int, asyncio.Task[None]] = {}
    for kind, who, *rest in steps:
        if kind == "join" and who not in readers:
            await processes[who].workers.join(processes[who])
            readers[who] = asyncio.create_task(processes[who].read())
        elif who in readers:
            if kind == "work" and (run := processes[who].work()):
                for other in readers:
                    processes[other].ended[run] = len(processes[other].seen)
            elif kind in ("send", "cut", "deliver"):
                getattr(wires, kind)(who, *rest)
        await settled()
    wires.deliver_all()
    await settled()
    for who, reader in readers.items():
        reader.cancel()
        await processes[who].workers.leave()
        processes[who].check()


async def settled() -> None:
    """Let readers read what has come."""
    for _ in range(3):
        await asyncio.sleep(0)


class Collected:
    """Chunks that one process receives."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.losses = 0

    def receive(self, text: str) -> None:
        if text == "unreadable":
            raise ValueError(text)
        self.texts.append(text)

    def lost(self) -> None:
        self.losses += 1


@asynccontextmanager
async def broadcasting(where: dict[str, Any], count: int) -> AsyncGenerator[Any]:
    """So many processes' broadcasts, each with what it receives."""
    all_ = [(store_at(where).broadcast(), Collected()) for _ in range(count)]
    for one, collected in all_:
        assert one is not None
        await one.open(collected)
    yield all_
    for one, _ in all_:
        assert one is not None
        await one.close()


async def test_texts_of_each_sender_reach_all_others_once_and_in_order(
    where: dict[str, Any],
) -> None:
    """Equal ones and long ones, too; nobody gets its own."""
    sent = {
        who: [f"{who} {n // 2} " + "\N{SNOWMAN}" * (n % 7) * 900 for n in range(60)]
        for who in range(3)
    }
    async with broadcasting(where, 3) as all_:
        for n in range(60):
            for who, (one, _) in enumerate(all_):
                one.send(sent[who][n])
            await asyncio.sleep(0)
        for _, collected in all_:
            await eventually(lambda c=collected: len(c.texts) == 120)
    for me, (_, collected) in enumerate(all_):
        for who in range(3):
            mine = [text for text in collected.texts if text.startswith(f"{who} ")]
            assert mine == ([] if who == me else sent[who])
        assert collected.losses == 0


async def test_a_broadcast_that_fails_says_so_and_continues(tmp_path: Path) -> None:
    """The file is taken away for a moment."""
    where = {"path": tmp_path / "t.db"}
    async with broadcasting(where, 2) as ((one, _), (two, collected)):
        two._end()  # as if its connection broke
        await eventually(lambda: collected.losses == 1)
        one.send("back")
        await eventually(lambda: collected.texts[-1:] == ["back"])


async def test_chunks_that_wait_while_no_process_is_reachable_are_lost_unless_stored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Else others would get a run's later chunks, without those before, until it is sent again."""
    where = {"path": tmp_path / "t.db"}
    async with broadcasting(where, 2) as ((_, collected), (one, losing)):
        one._end()  # as if its connection broke, which it has not used yet
        one.send("chunk")
        one.send("cancel", lasting=True)
        await eventually(lambda: "cannot be reached" in caplog.text)
        one.send("late chunk")
        one.send("late cancel", lasting=True)
        await eventually(lambda: losing.losses == 1)
        one.send("back")
        await eventually(lambda: "back" in collected.texts)
    assert collected.texts == ["cancel", "late cancel", "back"]


async def test_unreadable_mail_does_not_stop_a_broadcast(
    where: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Another version of the library may have sent it."""
    async with broadcasting(where, 2) as ((one, _), (_, collected)):
        for text in ("unreadable", "next"):
            one.send(text)
        await eventually(lambda: collected.texts == ["next"])
    assert "could not be read" in caplog.text


async def test_texts_that_were_removed_unread_are_reported_as_lost(tmp_path: Path) -> None:
    """As where a process stands still for longer than the file keeps them."""
    where = {"path": tmp_path / "t.db"}
    async with broadcasting(where, 2) as ((one, losing), (_, collected)):
        with closing(sqlite3.connect(tmp_path / "t.db-streams", isolation_level=None)) as file:
            file.execute("BEGIN IMMEDIATE")
            file.execute("INSERT INTO sent (sender, text) VALUES ('x', 'old'), ('x', 'new')")
            file.execute("DELETE FROM sent WHERE text = 'old'")
            file.execute("COMMIT")
        await eventually(lambda: (losing.losses, collected.losses) == (1, 1))
        one.send("back")
        await eventually(lambda: collected.texts[-1:] == ["back"])


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
async def test_a_process_with_very_many_files_receives_texts(
    postgres_url: str, postgres_schema: str
) -> None:
    """Each stream is one; the connection may be made again when there are thousands."""
    import resource  # noqa: PLC0415 - not on Windows

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(2048, before[0]), before[1]))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        where = {"conninfo": postgres_url, "schema": postgres_schema}
        async with broadcasting(where, 2) as ((one, _), (_, collected)):
            one.send("hello")
            await eventually(lambda: collected.texts == ["hello"])
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


SECOND = """
import asyncio, multiprocessing, sys
from agentkit_py import Agent, openai
from agentkit_py.errors import ConfigurationError
from agentkit_py.server import create_app, lifespan

def work(begun, go, told):
    async def main():
        clerk = Agent(name="clerk", system="", model=openai("gpt-4o", api_key="k"))
        async with lifespan(create_app(agents=[clerk], auth="local")):
            told.put("serves")
            begun.set()
            await asyncio.to_thread(go.wait)
    try:
        asyncio.run(main())
    except ConfigurationError as error:
        told.put(str(error))

if __name__ == "__main__":
    spawn = multiprocessing.get_context("spawn")
    begun, go, told = spawn.Event(), spawn.Event(), spawn.Queue()
    first = spawn.Process(target=work, args=(begun, go, told))
    first.start()
    begun.wait()
    second = spawn.Process(target=work, args=(begun, go, told))
    second.start()
    second.join()
    go.set()
    first.join()
    print(told.get(), told.get(), sep="; ")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_without_a_shared_store_a_second_worker_refuses_to_start(tmp_path: Path) -> None:
    """As with ``uvicorn --workers 2``: its readers would miss answers of the other."""
    script = tmp_path / "second.py"
    script.write_text(SECOND)
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.stdout.startswith("serves; create_app: another worker process"), done.stderr
    assert "SqliteHistory" in done.stdout


async def test_a_store_keeps_its_own_lease_or_none(tmp_path: Path) -> None:
    """``leases=True`` gives one to a store that has none."""
    path = tmp_path / "t.db"
    for leases, expected in ((True, True), (False, False)):
        store = SqliteHistory(path)
        app = create_app(networks=[support()], history=store, auth=by_header, leases=leases)
        async with lifespan(app):
            assert (store.lease is not None) is expected


@pytest.mark.parametrize("repeats", [True, False])
def test_a_run_that_resumes_in_another_process_ends_with_that_process(repeats: bool) -> None:
    """Else its thread would be shown for ever without the replies after it."""
    hub, about = Hub(), {"messageId": "reply", "threadId": "t"}
    hub.publish("c", {"event": "run.started", "data": about}, answers="question")
    hub.publish("c", {"event": "hitl.requested", "data": about}, answers="question")
    if repeats:
        hub.receive("c", {"event": "run.started", "data": about}, "question", "other")
    hub.receive("c", {"event": "text.delta", "data": about}, "question", "other")
    hub.end_runs_of("third")
    assert hub.answered("c", "t") == ["question"]
    hub.end_runs_of("other")
    assert hub.answered("c", "t") == []
    assert not hub.has_open_run("c", "t")


def test_a_run_that_comes_back_to_this_process_is_its_own_again() -> None:
    """The process that published last works on the run."""
    hub, about = Hub(), {"messageId": "reply", "threadId": "t"}
    hub.receive("c", {"event": "run.started", "data": about}, "question", "other")
    hub.publish("c", {"event": "text.delta", "data": about}, answers="question")
    assert hub.answered_elsewhere("c", "t") == []
    hub.end_runs_of("other")
    assert hub.answered("c", "t") == ["question"]
