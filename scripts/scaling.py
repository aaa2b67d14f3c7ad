"""Measure what grows with use: chats, lists of threads, connections. Prints one line per figure.

    PYTHONPATH=. python scripts/scaling.py --chats 600 --threads 1000 20000

Times are of the whole machine: run it where nothing else runs, on both checkouts to compare them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from starlette.applications import Starlette

from agentkit_py import Agent, AgentResult, MemoryHistory, SqliteHistory
from agentkit_py.models import function_model
from agentkit_py.processors import MessageWindow
from agentkit_py.server import Hub, create_app
from agentkit_py.stores import HistoryStore, ThreadLease, for_user

AT_ONCE = 128
"""Chats at the same time."""

MODEL_SECONDS = 0.05


async def asked(app: Starlette, method: str, path: str, user: str, body: Any = None) -> Any:
    """Ask an app without a network; return the JSON of its answer."""
    content, answer = json.dumps(body).encode(), bytearray()
    sent = False

    async def receive() -> dict[str, Any]:
        nonlocal sent
        if sent:
            await asyncio.Event().wait()
        sent = True
        return {"type": "http.request", "body": content}

    async def send(message: Any) -> None:
        answer.extend(message.get("body", b""))

    route, _, query = path.partition("?")
    await app(
        {
            "type": "http",
            "method": method,
            "path": route,
            "raw_path": route.encode(),
            "query_string": query.encode(),
            "headers": [(b"x-user", user.encode()), (b"host", b"localhost")],
            "server": ("localhost", 80),
            "client": ("127.0.0.1", 1),
            "scheme": "http",
            "http_version": "1.1",
            "root_path": "",
        },
        receive,
        send,
    )
    return json.loads(answer)


def _app(store: HistoryStore) -> Starlette:
    async def reply(_request: Any) -> str:
        await asyncio.sleep(MODEL_SECONDS)
        return "We have straw hats and felt hats in all sizes."

    agent = Agent(
        name="clerk",
        system="You sell hats.",
        model=function_model(reply),
        processors=[MessageWindow(20)],
    )
    return create_app(
        agents=[agent],
        history=store,
        auth=lambda r: r.headers.get("x-user"),
        leases=store.lease is not None,
    )


async def chats(store: HistoryStore, count: int, messages: int) -> float:
    """Return the chats a second, each on a thread that has so many messages already."""
    app = _app(store)
    users = [f"user{number}" for number in range(AT_ONCE)]
    async with app.router.lifespan_context(app):
        for user in users:
            mine = for_user(store, user)
            await mine.add_thread(f"thread-{user}", title="Hats")
            turns = [AgentResult.from_user(f"Hat {n}?", id=f"m{n}") for n in range(messages)]
            if turns:
                await mine.append(f"thread-{user}", turns)

        async def go(user: str, rounds: int) -> None:
            hub = app.state.api.hub
            for number in range(rounds):
                text = {"content": "Any hats?", "id": f"{user}-{number}"}
                body = {"userMessage": text, "threadId": f"thread-{user}"}
                with hub.subscribe(f"user:{user}") as reader:
                    answer = await asked(app, "POST", "/api/chat", user, body)
                    assert answer.get("success"), answer
                    done = False
                    while not done:
                        batch = await reader.next()
                        done = any('"stream.ended"' in entry.text for entry in batch.entries)

        began = time.perf_counter()
        await asyncio.gather(*(go(user, max(1, count // AT_ONCE)) for user in users))
        return AT_ONCE * max(1, count // AT_ONCE) / (time.perf_counter() - began)


async def lists(folder: Path, threads: int) -> tuple[float, float]:
    """Return ms of a page and of a search of one user's threads."""
    store = SqliteHistory(folder / f"{threads}.db")
    mine, app = for_user(store, "ada"), _app(store)
    for start in range(0, threads, 500):
        await asyncio.gather(*(_add(mine, n) for n in range(start, min(threads, start + 500))))
    pages, searches = list[float](), list[float]()
    for _ in range(5):
        began = time.perf_counter()
        await asked(app, "GET", "/api/threads?limit=20", "ada")
        pages.append(time.perf_counter() - began)
        began = time.perf_counter()
        assert len(await mine.search("purple")) == min(50, threads // 100)
        searches.append(time.perf_counter() - began)
    await store.close()
    return 1000 * min(pages), 1000 * min(searches)


async def _add(store: HistoryStore, number: int) -> None:
    await store.add_thread(f"t{number}", title=f"Thread {number}")
    word = "purple" if number % 100 == 1 else "green"
    await store.append(f"t{number}", [AgentResult.from_user(f"A {word} hat, please.", id="m")])


def connections(others: int) -> float:
    """Return microseconds of one connect and disconnect beside so many other channels."""
    hub = Hub()
    readers = [hub.subscribe(f"user:{number}") for number in range(others)]
    began = time.perf_counter()
    for _ in range(200):
        hub.subscribe("one").close()
    del readers
    return 1e6 * (time.perf_counter() - began) / 200


async def main(given: argparse.Namespace) -> None:
    """Print the figures."""
    print(f"connect and disconnect, 1k / 9k channels: {connections(1000):.0f} / ", end="")
    print(f"{connections(9000):.0f} µs", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for messages in given.messages:
            stores: Sequence[tuple[str, HistoryStore]] = (
                ("memory", MemoryHistory()),
                ("SQLite", SqliteHistory(folder / f"a{messages}.db")),
                ("SQLite, leases", SqliteHistory(folder / f"b{messages}.db", lease=ThreadLease())),
            )
            for kind, store in stores:
                rate = await chats(store, given.chats, messages)
                print(f"chats a second, {messages} messages, {kind}: {rate:.0f}", flush=True)
        for threads in given.threads:
            page, search = await lists(folder, threads)
            print(f"{threads} threads: page {page:.1f} ms, search {search:.1f} ms", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chats", type=int, default=1280)
    parser.add_argument("--messages", type=int, nargs="*", default=[0, 200])
    parser.add_argument("--threads", type=int, nargs="*", default=[1000, 20000])
    asyncio.run(main(parser.parse_args()))
