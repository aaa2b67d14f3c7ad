"""Measure what grows with use, and print one table. Times are CPU of this process.

    PYTHONPATH=. python scripts/scaling.py                     # small sizes, some minutes
    PYTHONPATH=. python scripts/scaling.py --full hub search   # large sizes, of these rows
    PYTHONPATH=. python scripts/scaling.py --plots docs/scaling

To compare two versions run it in both checkouts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import subprocess
import sys
import tempfile
import time
import tracemalloc
from array import array
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route

from agentkit_py import Agent, AgentResult, MemoryHistory, SqliteHistory, TextMessage
from agentkit_py.knowledge import EQ, SqliteKnowledge
from agentkit_py.knowledge.documents import Document, DocumentChunk
from agentkit_py.models import function_model
from agentkit_py.network import index_thread
from agentkit_py.processors import MessageWindow, Recall
from agentkit_py.search.vectors import normalized
from agentkit_py.server import Hub, create_app
from agentkit_py.stores import HistoryStore, ThreadLease, for_user
from agentkit_py.testing import HashingEmbedder

AT_ONCE = 128
"""Chats at the same time."""

ANSWER = "We have straw hats and felt hats in all sizes."


@dataclass(frozen=True)
class Row:
    """One row of the table: a figure at some sizes."""

    name: str
    unit: str
    goal: str
    small: Sequence[int]
    full: Sequence[int]
    measure: Callable[[int, Path], Coroutine[Any, Any, float]]


async def asked(app: Any, method: str, path: str, user: str, body: Any = None) -> bytes:
    """Ask an app without a network; return the body of its answer."""
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
    scope = {
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
    }
    await app(scope, receive, send)
    return bytes(answer)


def _app(store: HistoryStore) -> Starlette:
    async def reply(_request: Any) -> str:
        await asyncio.sleep(0.05)
        return ANSWER

    clerk = Agent(
        name="clerk",
        system="You sell hats.",
        model=function_model(reply),
        processors=[MessageWindow(20)],
    )
    return create_app(
        agents=[clerk],
        history=store,
        auth=lambda r: r.headers.get("x-user"),
        leases=store.lease is not None,
    )


async def bare(_messages: int, _folder: Path) -> float:
    """Return the requests that a second of CPU makes of an app that only streams as many bytes."""

    async def pieces() -> AsyncGenerator[bytes]:
        await asyncio.sleep(0.05)
        for number in range(12):
            chunk = {"event": "text.delta", "data": {"delta": ANSWER}, "sequenceNumber": number}
            yield f"id: {number}\ndata: {json.dumps(chunk)}\n\n".encode()

    async def chat(_request: Any) -> StreamingResponse:
        return StreamingResponse(pieces(), media_type="text/event-stream")

    app = Starlette(routes=[Route("/api/chat", chat, methods=["POST"])])
    rounds = 8
    began = time.process_time()
    for _ in range(rounds):
        each = (asked(app, "POST", "/api/chat", f"u{n}", {}) for n in range(AT_ONCE))
        await asyncio.gather(*each)
    return rounds * AT_ONCE / (time.process_time() - began)


def chats(make: Callable[[Path], HistoryStore]) -> Callable[[int, Path], Any]:
    """Return what measures chats a second of CPU, each on a thread of so many messages."""

    async def measure(messages: int, folder: Path) -> float:
        store = make(folder)
        app, rounds = _app(store), 4
        users = [f"user{number}" for number in range(AT_ONCE)]

        async def go(user: str, times: int = rounds) -> None:
            for number in range(times):
                text = {"content": "Any hats?", "id": f"{user}-{number}"}
                body = {"userMessage": text, "threadId": f"thread-{user}"}
                with app.state.api.hub.subscribe(f"user:{user}") as reader:
                    answer = json.loads(await asked(app, "POST", "/api/chat", user, body))
                    assert answer.get("success"), answer
                    done = False
                    while not done:
                        batch = await reader.next()
                        done = any('"stream.ended"' in entry.text for entry in batch.entries)

        async with app.router.lifespan_context(app):
            for user in users:
                mine = for_user(store, user)
                await mine.add_thread(f"thread-{user}", title="Hats")
                turns = [AgentResult.from_user(f"Hat {n}?", id=f"m{n}") for n in range(messages)]
                await mine.append(f"thread-{user}", turns)
            await go("first", 1)  # which loads modules
            began = time.process_time()
            await asyncio.gather(*(go(user) for user in users))
            seconds = time.process_time() - began
        await store.close()
        return rounds * AT_ONCE / seconds

    return measure


async def _many_threads(threads: int, folder: Path) -> HistoryStore:
    store = SqliteHistory(folder / "threads.db")
    mine = for_user(store, "ada")

    async def add(number: int) -> None:
        await mine.add_thread(f"t{number}", title=f"Thread {number}")
        word = "purple" if number % 100 == 1 else "green"
        text = f"A {word} hat, please."
        await mine.append(f"t{number}", [AgentResult.from_user(text, id="m")])

    for start in range(0, threads, 500):
        await asyncio.gather(*(add(n) for n in range(start, min(threads, start + 500))))
    return store


async def _best(work: Callable[[], Coroutine[Any, Any, object]], times: int = 7) -> float:
    """Return the fewest ms of CPU that work took, in all threads of this process."""
    found = list[float]()
    for _ in range(times):
        began = time.process_time()
        await work()
        found.append(time.process_time() - began)
    return 1000 * min(found)


async def page(threads: int, folder: Path) -> float:
    """Return ms of CPU of a page of 20 threads."""
    store = await _many_threads(threads, folder)
    app = _app(store)
    took = await _best(lambda: asked(app, "GET", "/api/threads?limit=20", "ada"))
    await store.close()
    return took


async def search(threads: int, folder: Path) -> float:
    """Return ms of CPU of a search of a word in all threads of a user."""
    store = await _many_threads(threads, folder)
    mine = for_user(store, "ada")
    took = await _best(lambda: mine.search("purple"))
    await store.close()
    return took


async def connections(others: int, _folder: Path) -> float:
    """Return µs of one connect and disconnect beside so many other channels."""
    hub = Hub()
    readers = [hub.subscribe(f"user:{number}") for number in range(others)]
    began = time.process_time()
    for _ in range(1000):
        hub.subscribe("one").close()
    took = time.process_time() - began
    del readers
    return 1e6 * took / 1000


async def idle(streams: int, _folder: Path) -> float:
    """Return kB of Python's memory that each open stream takes."""
    app = _app(MemoryHistory())

    async def read(user: str) -> None:
        await asked(app, "GET", "/api/stream", user)

    async with app.router.lifespan_context(app):
        first = [asyncio.create_task(read(f"first{n}")) for n in range(20)]
        await asyncio.sleep(0.5)
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        tasks = [asyncio.create_task(read(f"u{n}")) for n in range(streams)]
        while app.state.api.hub.readers < streams + len(first):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.1)
        took = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        for task in (*first, *tasks):
            task.cancel()
        await asyncio.gather(*first, *tasks, return_exceptions=True)
    return took / streams / 1000


async def recall(messages: int, folder: Path) -> float:
    """Return ms of CPU of a turn with Recall on a thread whose turns all have vectors."""
    store = SqliteHistory(folder / "recall.db")

    async def reply(_request: Any) -> str:
        return "Yes."

    clerk = Agent(
        name="clerk",
        system="You sell hats.",
        model=function_model(reply),
        processors=[Recall(HashingEmbedder(), 2, keep_recent=4)],
        history=store,
    )
    await store.add_thread("t")
    for start in range(0, messages // 2, 1000):
        some = range(start, min(messages // 2, start + 1000))
        asked = [AgentResult.from_user(f"Is hat {n} blue?", id=f"q{n}") for n in some]
        said = [[TextMessage("assistant", f"Hat {n} is blue and costs {n} EUR.")] for n in some]
        answers = [AgentResult("clerk", one) for one in said]
        await store.append("t", [one for pair in zip(asked, answers, strict=True) for one in pair])
    await index_thread(clerk, "t")
    took = await _best(lambda: clerk.run("Which hat was it?", thread_id="t"), 3)
    await store.close()
    return took


def _vector(number: int) -> array[float]:
    return normalized(array("f", [math.sin(number * (place + 1)) for place in range(384)]))


def documents(figure: str) -> Callable[[int, Path], Any]:
    """Return what measures a search of so many pieces in SQLite."""

    async def measure(pieces: int, folder: Path) -> float:
        import numpy as np  # noqa: PLC0415 - an extra

        store = SqliteKnowledge(folder / "documents.db")
        for start in range(0, pieces, 50):
            some = range(start, min(pieces, start + 50))
            chunks = [DocumentChunk(f"word{n % 997} of hat{n}", _vector(n)) for n in some]
            facts: dict[str, Any] = {"shop": start // 50 % 1000}
            one = Document(id=f"d{start}", source=f"d{start}", hash="", metadata=facts)
            await store.put(one, chunks, "sines")
        sought = _vector(7)
        if figure == "narrow":
            took = await _best(lambda: store.nearest(sought, "sines", EQ("shop", 3), 10))
        elif figure == "words":
            took = await _best(lambda: store.matching("word7 hat9", None, 10))
        else:
            took = await _best(lambda: store.nearest(sought, "sines", None, 10))
            matrix = np.array([_vector(n) for n in range(pieces)], np.float32)
            plain = np.asarray(sought, np.float32)

            async def alone() -> None:
                np.argpartition(-(matrix @ plain), 10)

            took /= await _best(alone)
        await store.close()
        return took

    return measure


async def stored(messages: int, folder: Path) -> float:
    """Return the bytes of a database per byte of JSON that it stores."""
    path = folder / "bytes.db"
    store = SqliteHistory(path)
    await store.add_thread("t")
    text = "I would like the straw hat with the blue ribbon, in a medium size if you have it. " * 3
    turns = [AgentResult.from_user(f"{text}{n}", id=f"m{n}") for n in range(messages)]
    await store.append("t", turns)
    await store.close()
    return path.stat().st_size / sum(len(json.dumps(one.to_dict())) for one in turns)


async def command(_size: int, folder: Path) -> float:
    """Return CPU seconds of `agentkit threads list`, in times of a small typer program's."""
    path = folder / "cli.db"
    async with SqliteHistory(path) as store:
        await store.add_thread("t", title="Hats")
    small = (
        "import typer\nfrom rich.console import Console\napp = typer.Typer()\n"
        "@app.command()\ndef main():\n    Console().print('x')\napp()\n"
    )
    programs = (["-c", small], ["-m", "agentkit_py.cli", "threads", "list", "--db", str(path)])
    least = [min(_cpu(one) for _ in range(5)) for one in programs]
    return least[1] / least[0]


def _cpu(arguments: Sequence[str]) -> float:
    import resource  # noqa: PLC0415 - not on Windows

    def used() -> float:
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)
        return spent.ru_utime + spent.ru_stime

    before = used()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own
    return used() - before


def _leased(folder: Path) -> HistoryStore:
    return SqliteHistory(folder / "leased.db", lease=ThreadLease())


THREADS = ((200, 1000, 4000), (1000, 10_000, 100_000))
PIECES = ((1000, 4000, 12_000), (4000, 20_000, 100_000))
LONG = ((0, 200), (0, 200))
ROWS = {
    "bare": Row("requests a second of CPU, bare Starlette", "/s", "", (0,), (0,), bare),
    "memory": Row(
        "chats a second of CPU, memory",
        "/s",
        "≥ 0.5 x bare",
        *LONG,
        chats(lambda _: MemoryHistory()),
    ),
    "sqlite": Row(
        "chats a second of CPU, SQLite",
        "/s",
        "≥ 0.6 x memory",
        *LONG,
        chats(lambda folder: SqliteHistory(folder / "chats.db")),
    ),
    "leases": Row(
        "chats a second of CPU, SQLite, leases", "/s", "≥ 0.8 x without", *LONG, chats(_leased)
    ),
    "page": Row("a page of 20 threads, by threads", "ms", "largest ≤ 2 x least", *THREADS, page),
    "search": Row("a search of a word, by threads", "ms", "≤ 20", *THREADS, search),
    "hub": Row(
        "a reader that comes and goes, by channels",
        "µs",
        "largest ≤ 1.3 x least",
        (100, 1000, 9000),
        (100, 1000, 9000),
        connections,
    ),
    "idle": Row("memory of an idle stream, by streams", "kB", "≤ 30", (200,), (200, 2000), idle),
    "recall": Row(
        "a turn with Recall, by messages",
        "ms",
        "largest ≤ 3 x least",
        (1000, 4000, 20_000),
        (1000, 10_000, 100_000),
        recall,
    ),
    "vector": Row(
        "a search by meaning, by pieces",
        "x numpy",
        "≤ 1.5 at 100,000",
        *PIECES,
        documents("vector"),
    ),
    "narrow": Row(
        "the same, a filter passes 0.1 %",
        "ms",
        "does not grow",
        *PIECES,
        documents("narrow"),
    ),
    "words": Row("a search by words, by pieces", "ms", "", *PIECES, documents("words")),
    "bytes": Row(
        "bytes of SQLite's file, by messages",
        "x JSON",
        "≤ 1.4",
        (2000, 20_000),
        (2000, 20_000, 100_000),
        stored,
    ),
    "cli": Row(
        "CPU of agentkit threads list", "x small typer program", "≤ 1.3", (0,), (0,), command
    ),
}


def plot(row: Row, points: Sequence[tuple[int, float]]) -> str:
    """Return a plot of a row as SVG: sizes by their logarithm, figures from zero."""
    wide, high, left, low = 460, 220, 60, 180
    most = max(value for _, value in points) or 1.0
    first, last = math.log(points[0][0] or 1), math.log(points[-1][0] or 1)
    places = [
        (
            left + (wide - left - 30) * (math.log(size or 1) - first) / ((last - first) or 1),
            low - (low - 40) * value / most,
        )
        for size, value in points
    ]
    line = " ".join(f"{x:.0f},{y:.0f}" for x, y in places)
    marks = "".join(
        f'<circle cx="{x:.0f}" cy="{y:.0f}" r="3"/><text x="{x:.0f}" y="{y - 8:.0f}" '
        f'text-anchor="middle">{value:.3g}</text><text x="{x:.0f}" y="{low + 18}" '
        f'text-anchor="middle">{size:,}</text>'
        for (x, y), (size, value) in zip(places, points, strict=True)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" '
        'font-family="sans-serif" font-size="12" fill="#456">'
        f'<title>{row.name}</title><text x="8" y="16">{row.name} ({row.unit})</text>'
        f'<path d="M{left} 30V{low}H{wide - 20}" fill="none" stroke="#9ab"/>'
        f'<polyline points="{line}" fill="none" stroke="#36c" stroke-width="2"/>{marks}</svg>\n'
    )


async def main(given: argparse.Namespace) -> None:
    """Print the table, and write the plots."""
    print("| what | size | figure | goal |\n|---|---|---|---|")
    for key in given.rows or ROWS:
        row = ROWS[key]
        points = list[tuple[int, float]]()
        for size in row.full if given.full else row.small:
            with tempfile.TemporaryDirectory() as folder:
                points.append((size, await row.measure(size, Path(folder))))
        sizes = " / ".join(f"{size:,}" for size, _ in points)
        figures = " / ".join(f"{value:,.3g}" for _, value in points)
        print(f"| {row.name} | {sizes} | {figures} {row.unit} | {row.goal} |", flush=True)
        if given.plots is not None and len(points) > 1:
            given.plots.mkdir(parents=True, exist_ok=True)
            (given.plots / f"{key}.svg").write_text(plot(row, points), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rows", nargs="*", choices=[*ROWS, []], help="only these; else all")
    parser.add_argument("--full", action="store_true", help="large sizes: an hour and more")
    parser.add_argument("--plots", type=Path, help="write a plot of each row into this folder")
    asyncio.run(main(parser.parse_args()))
