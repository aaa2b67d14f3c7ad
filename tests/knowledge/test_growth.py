"""The time that queries and documents of strangers take: linear in their size, off the loop."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import pytest

from agentkit_py.knowledge import Knowledge, KnowledgeStore, SqliteKnowledge

SMALL, LARGE = 2**16, 2**20
SLOPE = 1.2
"""Linear is 1, quadratic 2; the rest is for caches and a busy machine."""

ROUNDS = 5


class OneVector:
    """An embedder that takes no time."""

    key = "one"

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the same vector for each text."""
        return [[1.0, 0.0]] * len(texts)


async def cpu(work: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """Return seconds of the CPU: of the process and of the loop's thread, the best of some."""
    both: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        process, thread = time.process_time(), time.thread_time()
        await work()
        both.append((time.process_time() - process, time.thread_time() - thread))
    return min(one for one, _ in both), min(one for _, one in both)


async def compared(*works: Callable[[], Awaitable[object]]) -> list[tuple[float, float]]:
    """Return the best times of a small and a large work.

    On a busy machine a time may be anything but too short: where they seem to grow too fast, both
    are measured again.
    """
    best = [await cpu(work) for work in works]
    for _ in range(ROUNDS):
        if slope(*(whole for whole, _ in best)) <= SLOPE:
            break
        again = [await cpu(work) for work in works]
        best = [(min(a, c), min(b, d)) for (a, b), (c, d) in zip(best, again, strict=True)]
    return best


def slope(small: float, large: float) -> float:
    """Return the power of the size that time grows with; what takes 5 ms does not grow."""
    return math.log(max(large, 0.005) / max(small, 0.005)) / math.log(LARGE / SMALL)


QUERIES: dict[str, Callable[[int], str]] = {
    "one word": lambda size: "a" * size,
    "one identifier": lambda size: "a1-" * (size // 3),
    "many words": lambda size: " ".join(f"w{n}" for n in range(size // 7)),
    "folded letters": lambda size: "ﬃ" * (size // 3),
    "signs": lambda size: '"-_*' * (size // 4),
}


@pytest.mark.parametrize("mode", ["keyword", "hybrid"])
@pytest.mark.parametrize("shape", QUERIES)
async def test_time_of_a_search_does_not_grow_faster_than_its_query(shape: str, mode: Any) -> None:
    """Queries of long words, of many words and of signs are measured."""
    knowledge = Knowledge(store=SqliteKnowledge(":memory:"), embedder=OneVector())
    await knowledge.add("a1 w1 w2 something to find")
    small, large = (QUERIES[shape](size) for size in (SMALL, LARGE))
    found = await compared(
        lambda: knowledge.search(small, mode=mode), lambda: knowledge.search(large, mode=mode)
    )
    assert slope(*(whole for whole, _ in found)) <= SLOPE, found


def csv_row(size: int) -> str:
    """Return a table with one row of many cells."""
    cells = size // 16
    names = ",".join(f"name{n:04}" for n in range(cells))
    return f"{names}\n{','.join(f'{n:06}' for n in range(cells))}\n"


def csv_header(size: int) -> str:
    """Return a table whose column has a long name, with many rows."""
    return f"{'n' * min(size // 2, 100_000)}\n" + f"{'v' * 255}\n" * (size // 512)


def json_path(size: int) -> str:
    """Return an object in objects with long names, with a long list in the middle."""
    depth = 400
    path = "".join(f'{{"{"k" * (size // 2 // depth)}":' for _ in range(depth))
    return path + json.dumps(["v" * 250] * (size // 512)) + "}" * depth


DOCUMENTS: dict[str, tuple[Any, Callable[[int], str]]] = {
    "text without spaces": ("text", lambda size: "a" * size),
    "Markdown without spaces": ("markdown", lambda size: "a" * size),
    "words without lines": ("text", lambda size: "word " * (size // 5)),
    "Markdown of one list": ("markdown", lambda size: "- a\n" * (size // 4)),
    "a row of CSV": ("csv", csv_row),
    "a long name of a column": ("csv", csv_header),
    "a long path in JSON": ("json", json_path),
}


@pytest.mark.parametrize("shape", DOCUMENTS)
async def test_time_of_adding_does_not_grow_faster_than_the_document(shape: str) -> None:
    """Most of the work is not done on the loop's thread."""
    kind, make = DOCUMENTS[shape]

    async def add(text: str) -> None:
        store = SqliteKnowledge(":memory:")
        await Knowledge(store=store, embedder=OneVector()).add(text, format=kind)
        await store.close()

    found = await compared(partial(add, make(SMALL)), partial(add, make(LARGE)))
    assert slope(*(whole for whole, _ in found)) <= SLOPE, found
    whole, on_loop = found[1]
    assert on_loop < 0.5 * whole


async def test_a_long_word_is_found_by_its_first_letters(store: KnowledgeStore) -> None:
    """In every store 256 letters count, in queries and in documents."""
    knowledge = Knowledge(store=store, embedder=OneVector(), chunk_size=5000, mode="keyword")
    await knowledge.add(f"see {'a' * 3000} there", source="long")
    await knowledge.add(f"see {'a' * 255} there", source="short")
    for query in ("a" * 3000, "a" * 256, "a" * 100_000):
        assert [hit.source for hit in await knowledge.search(query)] == ["long"]
    assert [hit.source for hit in await knowledge.search("a" * 255)] == ["short"]


async def test_a_long_text_is_cut_the_same_wherever_it_is_read_in_parts() -> None:
    """No chunk is lost, doubled or longer than asked for, and words stay whole."""
    store = SqliteKnowledge(":memory:")
    knowledge = Knowledge(store=store, embedder=OneVector(), chunk_size=50, chunk_overlap=0)
    words = [f"word{n}" for n in range(5000)]
    await knowledge.add(" ".join(words), source="long")
    hits = await knowledge.search("anything", mode="vector", k=4000)
    chunks = [hit.text for hit in sorted(hits, key=lambda hit: hit.position)]
    assert " ".join(chunks).split() == words
    assert max(map(len, chunks)) <= 50
    assert min(map(len, chunks[:-1])) > 40
