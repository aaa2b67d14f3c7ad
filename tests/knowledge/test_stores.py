"""The behaviour of every store of documents."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql
from psycopg.conninfo import make_conninfo

from agentkit_py.errors import ConfigurationError
from agentkit_py.knowledge import (
    AND,
    CONTAINS,
    EQ,
    GT,
    IN,
    LTE,
    NEQ,
    NOT,
    OR,
    STARTSWITH,
    FilterError,
    FilterExpr,
    Knowledge,
    KnowledgeError,
    KnowledgeStore,
    PostgresKnowledge,
    SqliteKnowledge,
)
from agentkit_py.testing.fakes import HashingEmbedder

TEXTS = st.sampled_from(["", "a", "A", "ab", "ß", "SS", "é", "z'; --", "%", "_", "\U0001f600b"])
SCALARS = st.one_of(TEXTS, st.integers(-2, 2), st.sampled_from([0.5, 2.0]), st.booleans())
KEYS = st.sampled_from(["a", "b", "c.d", "é"])
METADATA = st.dictionaries(KEYS, st.one_of(SCALARS, st.lists(SCALARS, max_size=3)), max_size=3)
ORDERED = st.one_of(TEXTS, st.integers(-2, 2))
LEAVES = st.one_of(
    *(st.builds(one, KEYS, SCALARS) for one in (EQ, NEQ, CONTAINS)),
    *(st.builds(one, KEYS, ORDERED) for one in (GT, LTE)),
    st.builds(STARTSWITH, KEYS, TEXTS),
    st.builds(IN, KEYS, st.lists(SCALARS, max_size=3)),
)
TREES: st.SearchStrategy[FilterExpr] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(AND, inner, inner), st.builds(OR, inner, inner), st.builds(NOT, inner)
    ),
    max_leaves=5,
)

MODES: list[Any] = ["vector", "keyword", "hybrid"]


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(
    documents=st.lists(METADATA, min_size=1, max_size=5),
    trees=st.lists(TREES, min_size=8, max_size=12),
)
def test_a_search_gives_exactly_the_documents_that_pass_the_filter(
    documents: list[Any], trees: list[FilterExpr], url: str | None
) -> None:
    """Every database follows Python's rules for case and types."""

    async def look() -> None:
        store: KnowledgeStore = (
            SqliteKnowledge(":memory:") if url is None else PostgresKnowledge(url, schema="filters")
        )
        knowledge = Knowledge(store=store, embedder=HashingEmbedder())
        await store.remove(None)
        for index, metadata in enumerate(documents):
            await knowledge.add("one word", source=f"{index}", metadata=metadata)
        for tree in trees:
            passing = {str(i) for i, one in enumerate(documents) if tree.matches(one)}
            near = await store.nearest([1.0] * 256, "hashing:256", tree, 50)
            worded = await store.matching("word", tree, 50)
            assert {hit.source for hit in near} == passing
            assert {hit.source for hit in worded} == passing
            assert (await store.count(tree))[0] == len(passing)
        await store.close()

    anyio.run(look)


@pytest.fixture(params=["sqlite", "postgres"], scope="module")
def url(request: pytest.FixtureRequest) -> str | None:
    """The server's address; None: SQLite."""
    return None if request.param == "sqlite" else request.getfixturevalue("postgres_url")


async def test_a_document_is_found_by_meaning_by_words_and_by_both(knowledge: Knowledge) -> None:
    """Hits have source, score and metadata."""
    await knowledge.add("Lemongrass soup from Bangkok", source="soup", metadata={"cuisine": "thai"})
    await knowledge.add("Error ERR-4012: payment declined", source="errors")
    for mode in MODES:
        hits = await knowledge.search("what is ERR-4012?", mode=mode, k=1)
        assert [hit.source for hit in hits] == ["errors"]
        assert hits[0].score > 0
        hits = await knowledge.search("lemongrass", mode=mode, filters=EQ("cuisine", "thai"))
        assert [(hit.source, hit.metadata) for hit in hits] == [("soup", {"cuisine": "thai"})]


async def test_the_same_document_is_added_once(
    knowledge: Knowledge, embedder: HashingEmbedder
) -> None:
    """It is embedded once; a new version replaces the old one."""
    first = await knowledge.add("old text", source="a", metadata={"n": 1})
    asked = len(embedder.texts)
    again = await knowledge.add("old text", source="a", metadata={"n": 1})
    assert (first.changed, again.changed, again.id) == (True, False, first.id)
    assert len(embedder.texts) == asked
    newer = await knowledge.add("new text", source="a", metadata={"n": 1})
    assert newer.changed
    assert [hit.text for hit in await knowledge.search("text")] == ["new text"]
    assert await knowledge.count() == (1, 1)


async def test_the_document_of_another_tenant_is_not_replaced(knowledge: Knowledge) -> None:
    """A source that is there with other metadata is an error, unless that is what is wanted."""
    await knowledge.add("ours", source="faq", metadata={"tenant": "a"})
    with pytest.raises(KnowledgeError, match="other metadata"):
        await knowledge.add("theirs", source="faq", metadata={"tenant": "b"})
    await knowledge.add("moved", source="faq", metadata={"tenant": "b"}, replace_metadata=True)
    assert await knowledge.search("moved", filters=EQ("tenant", "a")) == []
    # Without a source they are two documents.
    await knowledge.add("same", metadata={"tenant": "a"})
    await knowledge.add("same", metadata={"tenant": "b"})
    assert await knowledge.count() == (3, 3)


async def test_removed_documents_are_not_found(knowledge: Knowledge) -> None:
    """Documents are removed by source or by filter, and no others."""
    for name, kind in (("a", "x"), ("b", "x"), ("c", "y")):
        await knowledge.add(f"text {name}", source=name, metadata={"kind": kind})
    with pytest.raises(ConfigurationError, match="a source or filters"):
        await knowledge.remove()
    assert await knowledge.remove("a") == 1
    assert await knowledge.remove("a") == 0
    assert await knowledge.remove("b", filters=EQ("kind", "y")) == 0
    assert await knowledge.remove(filters=EQ("kind", "x")) == 1
    for mode in MODES:
        assert [hit.source for hit in await knowledge.search("text a b c", mode=mode)] == ["c"]
    assert await knowledge.keys() == {"kind": ["y"]}


async def test_a_store_has_vectors_of_one_embedder(store: KnowledgeStore) -> None:
    """Those of another cannot be compared, so both adding and searching say so."""
    await Knowledge(store=store, embedder=HashingEmbedder(8)).add("text", source="a")
    other = Knowledge(store=store, embedder=HashingEmbedder(16))
    with pytest.raises(KnowledgeError, match="cannot be compared"):
        await other.add("text", source="b")
    with pytest.raises(KnowledgeError, match="cannot be compared"):
        await other.search("text")
    assert (await other.count())[0] == 1


async def test_a_query_of_signs_and_operators_is_searched_as_words(knowledge: Knowledge) -> None:
    """Operators of full text search and SQL are words like any other."""
    assert await knowledge.search("nothing is there yet") == []
    await knowledge.add("AND OR NOT NEAR text", source="a")
    for query in (
        "",
        "   ",
        "'\"",
        'text" OR *',
        "NEAR(",
        "a & !b | <-> c",
        "\0\ud800",
        "%s %",
        "?",
    ):
        for mode in MODES:
            await knowledge.search(query, mode=mode)
    assert await knowledge.search('text" OR *', mode="keyword")


async def test_documents_are_found_after_the_store_is_opened_again(
    knowledge: Knowledge, store: KnowledgeStore
) -> None:
    """Closing forgets nothing."""
    await knowledge.add("text", source="a", metadata={"n": 1, "tags": ["x"]})
    await store.close()
    hits = await knowledge.search("text", filters=CONTAINS("tags", "x"))
    assert [hit.metadata for hit in hits] == [{"n": 1, "tags": ["x"]}]


async def test_concurrent_adds_of_a_document_store_it_once(knowledge: Knowledge) -> None:
    """The first of all, too."""

    async def add(index: int) -> None:
        await knowledge.add(f"text number {index % 4}", source=f"{index % 4}")

    async with anyio.create_task_group() as group:
        for index in range(12):
            group.start_soon(add, index)
    assert await knowledge.count() == (4, 4)


async def test_a_file_of_another_program_is_left_alone(tmp_path: Path) -> None:
    """That of a SqliteHistory, for one."""
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE things (id)")
    other.close()
    knowledge = Knowledge(store=SqliteKnowledge(path), embedder=HashingEmbedder())
    with pytest.raises(KnowledgeError, match="another program"):
        await knowledge.add("text", source="a")


async def test_an_unreachable_database_is_named_without_its_password() -> None:
    """The error comes at once."""
    with pytest.raises(ConfigurationError, match="connections"):
        PostgresKnowledge("", connections=0)
    with pytest.raises(KnowledgeError, match="nowhere"):
        await SqliteKnowledge("/nowhere/at/all.db").count()
    store = PostgresKnowledge("postgresql://ada:hunter2@127.0.0.1:1/documents")
    with pytest.raises(KnowledgeError, match=r"'documents' at 127\.0\.0\.1") as caught:
        await store.count()
    assert "hunter2" not in f"{caught.value} {store!r}"
    await store.close()
    odd = PostgresKnowledge("postgresql://ada:hunter 2@127.0.0.1/documents")
    with pytest.raises(ConfigurationError, match="percent-encoded") as refused:
        await odd.count()
    assert "hunter" not in str(refused.value)
    await odd.close()


WRITER = """
import asyncio, sys
from agentkit_py.knowledge import Knowledge, SqliteKnowledge
from agentkit_py.testing.fakes import HashingEmbedder

async def main(path, name, count):
    knowledge = Knowledge(store=SqliteKnowledge(path), embedder=HashingEmbedder())
    for number in range(count):
        await knowledge.add(f"text of {name} number {number}", source=f"{name}-{number}")
        await knowledge.add(f"shared text {number}", source=f"shared-{number}")
        assert await knowledge.search(f"number {number}")
    await knowledge.close()

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def test_processes_that_write_one_file_lose_nothing(tmp_path: Path) -> None:
    """The file is made by one of them; a document that several add is there once."""
    path, count, names = tmp_path / "documents.db", 10, ("a", "b", "c")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COV")}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), name, str(count)],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    ended = [(process.communicate(timeout=600)[1], process.returncode) for process in processes]
    assert ended == [("", 0)] * len(names)

    async def look() -> None:
        knowledge = Knowledge(store=SqliteKnowledge(path), embedder=HashingEmbedder())
        assert await knowledge.count() == (count * (len(names) + 1),) * 2
        for name in (*names, "shared"):
            for mode in MODES:
                hits = await knowledge.search(f"text of {name} number 7", k=100, mode=mode)
                assert f"{name}-7" in [hit.source for hit in hits]
        await knowledge.close()

    anyio.run(look)


async def test_processes_may_create_one_file_at_the_same_moment(tmp_path: Path) -> None:
    """A half-made file is waited for, and not taken for another program's."""
    for number in range(60):
        path = tmp_path / f"{number}.db"
        stores = [SqliteKnowledge(path) for _ in range(4)]
        counts = await asyncio.gather(*(store.count() for store in stores))
        assert counts == [(0, 0)] * len(stores)
        for store in stores:
            await store.close()


async def test_stores_may_set_up_one_database_at_the_same_moment(
    postgres_url: str,
) -> None:
    """Their schemas differ, the extension is one for all."""
    for number in range(5):
        name = f"fresh_{number}_{uuid4().hex[:8]}"
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        database = make_conninfo(postgres_url, dbname=name)
        stores = [PostgresKnowledge(database, schema=f"s{each}") for each in range(4)]
        assert await asyncio.gather(*(store.count() for store in stores)) == [(0, 0)] * 4
        for store in stores:
            await store.close()
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(name)))


HOLDER = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


async def test_a_locked_file_is_an_error_after_busy_timeout(
    tmp_path: Path,
) -> None:
    """Readers do not wait."""
    path = tmp_path / "documents.db"
    hasty = Knowledge(store=SqliteKnowledge(path, busy_timeout=0.1), embedder=HashingEmbedder())
    await hasty.add("text")
    # A process of its own: locks of one process do not keep out the same process.
    holder = subprocess.Popen(  # noqa: ASYNC220 - started once, at once
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(KnowledgeError, match=r"documents\.db cannot be used: BusyError"):
        await hasty.add("other text")
    assert len(await hasty.search("text")) == 1
    holder.communicate("")
    assert (await hasty.add("other text")).changed
    await hasty.close()


@pytest.mark.parametrize("given", [{}, "tenant", [{}], [], {"tenant": None}, 1])
async def test_an_invalid_filter_is_refused_by_search_and_remove(given: Any) -> None:
    """A dict of values is a filter, an empty one is none: it would mean everything."""
    knowledge = Knowledge(store=SqliteKnowledge(":memory:"), embedder=HashingEmbedder())
    await knowledge.add("text", source="a", metadata={"tenant": "a"})
    for use in (lambda: knowledge.search("text", filters=given), lambda: knowledge.count(given)):
        with pytest.raises(FilterError):
            await use()
    with pytest.raises(FilterError):
        await knowledge.remove(filters=given)
    assert await knowledge.count() == (1, 1)


async def test_the_score_of_a_hybrid_search_is_1_for_the_text_itself(knowledge: Knowledge) -> None:
    """Other hits have less, in their order."""
    for name in ("one soup", "another soup with noodles", "no such thing"):
        await knowledge.add(name, source=name)
    hits = await knowledge.search("another soup with noodles", mode="hybrid")
    assert hits[0].score == pytest.approx(1, abs=1e-3)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(0 <= hit.score <= 1 + 1e-6 for hit in hits)
