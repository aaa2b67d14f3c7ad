"""Growth: a chat over HTTP asks its store the same, however long its thread and many the others."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from anyio import to_thread
from starlette.applications import Starlette

from agentkit_py import AgentResult, MemoryHistory
from agentkit_py.processors import MessageWindow
from agentkit_py.server import Hub, lifespan
from agentkit_py.stores import HistoryStore, ThreadLease, for_user
from tests.growth.counting import CountedStore
from tests.server.world import app_of, client_of, message, support, wait_until_idle


async def _filled(store: HistoryStore, results: int) -> None:
    mine = for_user(store, "ada")
    await mine.add_thread("t", title="Hats")
    turns = [AgentResult.from_user(f"Hat {n}?", id=f"m{n}") for n in range(results)]
    await mine.append("t", turns)


@pytest.mark.parametrize("lease", [None, ThreadLease()])
@pytest.mark.parametrize("results", [2, 200])
async def test_a_chat_is_few_transactions(
    tmp_path: Path, lease: ThreadLease | None, results: int
) -> None:
    """One to accept the message, one to load, one to save each turn, one for a new state.

    A lease begins and ends, the state with it.
    """
    store = CountedStore(tmp_path / "t.db", lease=lease)
    app = app_of(support("Yes."), history=store, leases=lease is not None)
    async with client_of(app) as client:
        await _filled(store, results)
        store.counts.reset()
        answer = await client.post("/api/chat", json=message("Any hats?", "t", id="new"))
        assert answer.status_code == 200
        await wait_until_idle(app)
        assert store.counts.transactions <= 6
        assert store.counts.writes <= (3 if lease is None else 4)
        assert store.counts.rows <= results + 20
    assert [r.agent_name for r in await for_user(store, "ada").load("t")][-2:] == ["user", "clerk"]
    await store.close()


@pytest.mark.parametrize("thread", ["t", "new"])
async def test_a_chat_crosses_to_a_worker_thread_once_for_each_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, thread: str
) -> None:
    """Also a chat that begins its thread."""
    store, crossings = CountedStore(tmp_path / "t.db"), Counter[str]()

    async def counted(work: Any, *args: Any, **options: Any) -> Any:
        crossings["all"] += 1
        return await run_sync(work, *args, **options)

    run_sync = to_thread.run_sync
    app = app_of(support("Yes.", "Yes."), history=store)
    async with client_of(app) as client:
        await _filled(store, 4)
        await client.post("/api/chat", json=message("Any hats?", "t", id="warm"))
        await wait_until_idle(app)
        store.counts.reset()
        monkeypatch.setattr(to_thread, "run_sync", counted)
        answer = await client.post("/api/chat", json=message("Any hats?", thread, id="new"))
        assert answer.status_code == 200
        await wait_until_idle(app)
        assert crossings["all"] == store.counts.transactions
        assert store.counts.transactions <= 7
    await store.close()


@pytest.mark.parametrize(("path", "rows"), [("/api/ag-ui", 300), ("/api/vercel", 100)])
async def test_a_front_end_reads_its_rows_once(tmp_path: Path, path: str, rows: int) -> None:
    """Four transactions beside those of a chat, and the last rows alone when the reply ends."""
    store = CountedStore(tmp_path / "t.db")
    app = app_of(support("Yes.", processors=[MessageWindow(20)]), history=store)
    said: dict[str, Any] = {"id": "new", "role": "user", "content": "Any hats?"}
    said |= {"parts": [{"type": "text", "text": "Any hats?"}]}
    body: dict[str, Any] = {"id": "t", "threadId": "t", "runId": "r", "tools": [], "context": []}
    async with client_of(app) as client:
        await _filled(store, 300)
        store.counts.reset()
        answer = await client.post(path, json={**body, "messages": [said]})
        assert "Yes." in answer.text
        await wait_until_idle(app)
        assert store.counts.transactions <= 10
        assert store.counts.rows <= rows + 110
    await store.close()


async def _chat(app: Starlette, message_id: str) -> None:
    """Send a message, and read the stream to the end of the reply."""
    content = json.dumps(message("Any hats?", "t", id=message_id)).encode()
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": content}

    async def send(part: Any) -> None:
        sent.append(part)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/chat",
        "query_string": b"",
        "headers": [(b"x-user", b"ada"), (b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
    }
    hub: Hub = app.state.api.hub
    with hub.subscribe("user:ada") as reader:
        await app(scope, receive, send)
        assert sent[0]["status"] == 200, sent
        while not any('"stream.ended"' in one.text for one in (await reader.next()).entries):
            pass


async def _calls(results: int) -> Counter[str]:
    """Return the calls, by module, in one chat on a thread of so many results."""
    store, calls = MemoryHistory(), Counter[str]()
    app = app_of(support("Yes.", "Yes.", processors=[MessageWindow(20)]), history=store)

    def seen(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls[frame.f_globals.get("__name__", "")] += 1

    async with lifespan(app):
        await _filled(store, results)
        await _chat(app, "warm")
        before = sys.getprofile()
        sys.setprofile(seen)
        try:
            await _chat(app, "new")
        finally:
            sys.setprofile(before)
        await wait_until_idle(app)
    return calls


async def test_a_chat_copies_no_rows_and_looks_at_no_signatures() -> None:
    """Rows are used as they are read, and a store's own methods are known to take a context."""
    few, many = await _calls(2), await _calls(200)
    assert few["inspect"] < 150
    assert few["dataclasses"] < 80
    assert many["dataclasses"] < few["dataclasses"] + 30


async def test_a_chat_makes_a_message_and_a_result_of_each_row_that_it_reads() -> None:
    """No extents, no places of results: those are for callers who read pages of a thread."""
    store, made, rows = MemoryHistory(), Counter[str](), 200
    app = app_of(support("Yes.", "Yes."), history=store)

    def seen(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name == "__init__":
            made[type(frame.f_locals.get("self")).__name__] += 1

    async with lifespan(app):
        await _filled(store, rows)
        await _chat(app, "warm")
        before = sys.getprofile()
        sys.setprofile(seen)
        try:
            await _chat(app, "new")
        finally:
            sys.setprofile(before)
        await wait_until_idle(app)
    read = ("TextMessage", "AgentResult", "Extent", "StoredResult")
    assert sum(made[name] for name in read) <= 2 * rows + 40, made.most_common(12)
    assert made["_FieldReader"] <= rows + 20


async def _steps(path: Path, threads: int) -> dict[str, int]:
    """Return what a search, a list and a chat cost beside so many threads."""
    store, steps = CountedStore(path, lease=ThreadLease()), dict[str, int]()
    app = app_of(support("Yes."), history=store, leases=True)
    ada, bob = for_user(store, "ada"), for_user(store, "bob")
    async with client_of(app) as client:
        for number in range(threads):
            mine = ada if number % 10 == 0 else bob
            await mine.add_thread(f"t{number}", title=f"Thread {number}")
            word = "purple" if number == 20 else "green"
            await mine.append(f"t{number}", [AgentResult.from_user(f"A {word} hat.", id="m")])
        store.counts.reset()
        assert [found.thread.id for found in await ada.search("purple") if found.thread] == ["t20"]
        steps["search"] = store.counts.steps
        store.counts.reset()
        assert len(await store.list_threads(3)) == 3
        steps["list"] = store.counts.steps
        store.counts.reset()
        page = (await client.get("/api/threads?limit=2")).json()
        assert (len(page["threads"]), page["total"]) == (2, threads // 10)
        steps["page"] = store.counts.steps
        store.counts.reset()
        await client.post("/api/chat", json=message("Any hats?", "t0", id="new"))
        await wait_until_idle(app)
        assert [one.agent_name for one in await ada.load("t0")] == ["user", "user", "clerk"]
        steps["chat"] = store.counts.steps
    await store.close()
    return steps


async def test_search_list_and_chat_cost_the_same_with_many_threads(tmp_path: Path) -> None:
    """Counted in instructions of SQLite's machine: nothing goes through all rows."""
    few, many = await _steps(tmp_path / "a.db", 30), await _steps(tmp_path / "b.db", 600)
    assert {key: many[key] <= 1.1 * few[key] + 100 for key in few} == dict.fromkeys(few, True), many


@pytest.mark.parametrize("threads", [30, 300])
async def test_a_page_of_threads_is_one_transaction(tmp_path: Path, threads: int) -> None:
    """As many rows as are shown, and one that says whether there are more."""
    store = CountedStore(tmp_path / "t.db")
    async with client_of(app_of(support("Yes."), history=store)) as client:
        mine = for_user(store, "ada")
        for number in range(threads):
            await mine.add_thread(f"{number:04}", title=f"Thread {number}")
        store.counts.reset()
        page = (await client.get("/api/threads?limit=20")).json()
        assert (len(page["threads"]), page["total"], page["hasMore"]) == (20, threads, True)
        assert (store.counts.transactions, store.counts.rows) == (1, 22)
        cursor = f"cursorTimestamp={page['nextCursorTimestamp']}&cursorId={page['nextCursorId']}"
        store.counts.reset()
        second = (await client.get(f"/api/threads?limit=20&{cursor}")).json()
        assert store.counts.transactions == 1
        assert store.counts.rows <= 22
        shown = [one["id"] for one in page["threads"] + second["threads"]]
        everything = [f"{number:04}" for number in reversed(range(threads))]
        assert shown == everything[: len(shown)]
    await store.close()
