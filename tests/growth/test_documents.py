"""A search of documents with a narrow filter looks at what passes, not at all pieces."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import apsw
import psycopg
import pytest
from psycopg import sql

from agentkit_py.knowledge import EQ, PostgresKnowledge, SqliteKnowledge
from agentkit_py.knowledge.documents import Document, DocumentChunk
from agentkit_py.knowledge.sql import Execute
from agentkit_py.search.vectors import normalized

T = TypeVar("T")


class CountedDocuments(SqliteKnowledge):
    """Keeps the plans of the statements that it ran."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.plans: list[str] = []
        self.scored: list[str] = []
        """Words by which chunks were scored."""

    def _transact(self, work: Callable[[Execute], T], *, write: bool) -> T:
        def planned(run: Execute) -> T:
            def seen(statement: str, values: Sequence[Any] = (), /) -> list[Any]:
                if statement.startswith("SELECT"):
                    steps = run(f"EXPLAIN QUERY PLAN {statement}", values)
                    self.plans.extend(step[3] for step in steps)
                if "bm25" in statement:
                    self.scored.append(values[1])
                return run(statement, values)

            return work(seen)

        return super()._transact(planned, write=write)


class PlannedDocuments(PostgresKnowledge):
    """Keeps its statements, and the plans of searches by vector as they are of many rows."""

    plans = ""
    asked = ""

    def _transact(self, work: Callable[[Execute], T], *, write: bool) -> T:
        def planned(run: Execute) -> T:
            def seen(statement: str, values: Sequence[Any] = (), /) -> list[Any]:
                if statement.startswith("SELECT") and "<=>" in statement:
                    run("SET LOCAL enable_seqscan = off")
                    self.plans += str(run(f"EXPLAIN {statement}", values))
                self.asked += f"{statement};"
                return run(statement, values)

            return work(seen)

        return super()._transact(planned, write=write)


def _vector(number: int) -> array[float]:
    return normalized(array("f", [1.0, number % 7, number % 11, number % 13]))


async def _filled(
    store: SqliteKnowledge | PostgresKnowledge, documents: int, first: int = 0
) -> None:
    for number in range(first, documents):
        chunks = [
            DocumentChunk(f"Hat {number}.{piece}", _vector(number + piece)) for piece in range(2)
        ]
        facts = {"shop": "far" if number % 10 == 0 else "near"}
        one = Document(id=f"{number}", source=f"d{number}", hash="", metadata=dict(facts))
        await store.put(one, chunks, "e")


async def test_a_narrow_filter_finds_by_index_and_compares_the_remaining_documents(
    tmp_path: Path,
) -> None:
    """No step goes through all documents, facts or vectors."""
    store = CountedDocuments(tmp_path / "d.db")
    await _filled(store, 40)
    store.plans.clear()
    (hit,) = await store.matching("10.1", EQ("shop", "far"), 1)
    assert hit.document == "10"
    words = [step for step in store.plans if step.startswith("SCAN knowledge_words")]
    assert words
    assert not any(":=" in step for step in words)  # else once for each chunk that passes
    store.plans.clear()
    hits = await store.nearest(_vector(0), "e", EQ("shop", "far"), 3)
    assert hits[0].document == "0"
    assert {int(hit.document) % 10 for hit in hits} == {0}
    assert any("knowledge_facts_by_text" in step for step in store.plans)
    scanned = [step for step in store.plans if step.startswith("SCAN")]
    assert [step for step in scanned if "VIRTUAL TABLE" not in step] == []
    assert not any("CORRELATED" in step for step in store.plans)
    assert any("knowledge_vectors USING INTEGER PRIMARY KEY" in step for step in store.plans)
    await store.close()


async def test_chunks_are_not_scored_for_words_that_most_have(tmp_path: Path) -> None:
    """Such a word weighs a millionth; only where too few have the others are all scored."""
    store = CountedDocuments(tmp_path / "d.db")
    pieces = [DocumentChunk(f"straw {number}", _vector(number)) for number in range(40)]
    await store.put(Document(id="d", source="d", hash="", metadata={}), pieces, "e")
    (best,) = await store.matching("straw 10", None, 1)
    assert store.scored == ['"10"']
    several = await store.matching("straw 10", None, 5)
    assert store.scored[1:] == ['"10"', '"straw" OR "10"']
    assert several[0].text == best.text == "straw 10"
    assert several[0].score == pytest.approx(best.score, abs=1e-5)
    assert len(several) == 5
    await store.close()


async def test_postgres_ranks_no_chunks_for_words_that_most_have(
    postgres_url: str, postgres_schema: str
) -> None:
    """As in SQLite; how many have such a word is counted up to a half."""
    store = PlannedDocuments(postgres_url, schema=postgres_schema)
    pieces = [DocumentChunk(f"straw {number}", _vector(number)) for number in range(40)]
    await store.put(Document(id="d", source="d", hash="", metadata={}), pieces, "e")
    store.asked = ""
    (best,) = await store.matching("straw 10", None, 1)
    assert store.asked.count("ts_rank(c.words, ?::text::tsquery)") == 2
    several = await store.matching("straw 10", None, 5)
    assert store.asked.count("ts_rank(c.words, ?::text::tsquery)") == 6
    assert several[0].text == best.text == "straw 10"
    assert several[0].score == pytest.approx(best.score, abs=1e-5)
    assert len(several) == 5
    await store.close()


async def test_vectors_are_read_once_and_then_those_that_are_new(tmp_path: Path) -> None:
    """Pieces that this or another process adds or removes count at the next search."""
    store, other = CountedDocuments(tmp_path / "d.db"), SqliteKnowledge(tmp_path / "d.db")
    await _filled(store, 20)
    pieces = [DocumentChunk(f"Cap {number}", _vector(3 * number)) for number in range(2001)]
    caps = Document(id="caps", source="caps", hash="", metadata={"shop": "caps"})
    await store.put(caps, pieces, "e")  # too many to be compared alone

    async def search() -> list[str]:
        """Return the steps that read vectors."""
        store.plans.clear()
        fresh = SqliteKnowledge(tmp_path / "d.db")
        for filters, shops in ((None, {"far", "near", "caps"}), (EQ("shop", "caps"), {"caps"})):
            found = await store.nearest(_vector(3), "e", filters, 30)
            assert found == await fresh.nearest(_vector(3), "e", filters, 30)
            assert {str(hit.metadata["shop"]) for hit in found} <= shops
            assert len(found) == 30
        await fresh.close()
        return [step for step in store.plans if "knowledge_vectors" in step] or [""]

    every = "SEARCH knowledge_vectors USING INTEGER PRIMARY KEY (rowid>?)"
    some = "SEARCH knowledge_vectors USING INTEGER PRIMARY KEY (rowid=?)"
    assert (await search())[0] == every
    assert every not in await search()
    for one in (store, other):
        for change in range(6):  # the newest is replaced, so that ids come again
            if change % 3 == 1:
                await one.remove(None, [f"{change}"])
            else:
                await _filled(one, 20 + change, 19 - change % 3)
        steps = await search()
        assert steps[0] == some
        assert every not in steps
    await _filled(other, 33, 30)
    connection: Any = apsw.Connection(str(tmp_path / "d.db"))
    newest = "(SELECT MAX(number) FROM knowledge_changes)"  # as after very many changes
    connection.execute(f"DELETE FROM knowledge_changes WHERE number < {newest}")
    connection.close()
    assert (await search())[0] == every
    await other.close()
    await store.close()


async def test_changes_of_vectors_are_kept_up_to_a_limit_and_read_off_their_ends(
    tmp_path: Path,
) -> None:
    """The table does not grow with the changes, and no search reads it whole."""
    store = CountedDocuments(tmp_path / "d.db")
    pieces = [DocumentChunk(f"Cap {number}", _vector(number)) for number in range(10_050)]
    await store.put(Document(id="caps", source="caps", hash="", metadata={}), pieces, "e")
    store.plans.clear()
    await store.nearest(_vector(3), "e", None, 3)
    assert not [step for step in store.plans if step.startswith("SCAN knowledge_changes")]
    await store.close()
    connection: Any = apsw.Connection(str(tmp_path / "d.db"))
    [(count,)] = connection.execute("SELECT COUNT(*) FROM knowledge_changes")
    connection.close()
    assert count == 10_000


@pytest.mark.parametrize("added", [1, 20_001])
async def test_postgres_asks_its_index_of_vectors_once_many_were_added(
    postgres_url: str, postgres_schema: str, added: int
) -> None:
    """What it finds is what comparing all finds, and one that has too little compares all."""
    store = PlannedDocuments(postgres_url, schema=postgres_schema)
    await _filled(store, 1)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        name = sql.Identifier(postgres_schema, "knowledge_chunks")
        restart = sql.SQL("ALTER TABLE {} ALTER COLUMN id RESTART WITH {}")
        connection.execute(restart.format(name, sql.Literal(added + 10)))
        await _filled(store, 40)
        kinds = connection.execute(
            "SELECT indexdef FROM pg_indexes WHERE schemaname = %s", [postgres_schema]
        ).fetchall()
        assert sum("USING hnsw" in kind for (kind,) in kinds) == 1
        near = await store.nearest(_vector(5), "e", None, 5)
        assert ("knowledge_chunks_by_vector" in store.plans) is (added > 1)
        store.asked = ""
        assert (await store.matching("10.1", None, 1))[0].document == "10"
        assert ("COUNT(*) FROM knowledge_chunks;" in store.asked) is (added == 1)
        everything = await store.nearest(_vector(5), "e", None, 100)
        assert len(everything) == 80
        best = [hit.score for hit in everything[:5]]
        assert [hit.score for hit in near] == pytest.approx(best)
    await store.close()


class SteppedDocuments(SqliteKnowledge):
    """Counts the instructions of SQLite's machine."""

    steps = 0

    def _transact(self, work: Callable[[Execute], T], *, write: bool) -> T:
        def stepped(run: Execute) -> T:
            connection: Any = self._connection
            connection.set_progress_handler(self._step, 1)
            try:
                return work(run)
            finally:
                connection.set_progress_handler(None)

        return super()._transact(stepped, write=write)

    def _step(self) -> bool:
        self.steps += 1
        return False


async def _with_metadata(store: SqliteKnowledge | PostgresKnowledge, first: int, end: int) -> None:
    """Add documents without pieces; the first alone has the key ``rare``."""
    for number in range(first, end):
        facts: dict[str, Any] = {"shop": f"s{number}", "kind": ["hat", "cap"][number % 3 == 0]}
        facts |= {"rare": number, "source": "mine"} if number == 0 else {}
        one = Document(id=f"{number}", source=f"d{number}", hash="", metadata=facts)
        await store.put(one, [], "e")


async def test_metadata_keys_are_read_of_the_newest_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four times the documents take about as many instructions, and each key is found."""
    monkeypatch.setattr("agentkit_py.knowledge.sql._SAMPLE", 10)
    store = SteppedDocuments(tmp_path / "d.db")
    taken: list[int] = []
    for first, end in ((0, 30), (30, 120)):
        await _with_metadata(store, first, end)
        store.steps = 0
        found = await store.keys(None, 2)
        taken.append(store.steps)
        newest = [f"s{number}" for number in range(end - 10, end)]
        assert found == {"kind": ["hat", "cap"], "rare": [0], "shop": sorted(newest)[:2]}
    assert taken[1] < 1.2 * taken[0]
    assert await store.keys(EQ("shop", "s0"), 1) == {
        "kind": ["cap"],
        "rare": [0],
        "shop": ["s0"],
        "source": ["mine"],
    }
    assert await store.keys(EQ("shop", "none"), 1) == {}
    await store.close()


async def test_postgres_reads_metadata_keys_of_the_newest_documents(
    postgres_url: str, postgres_schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As SQLite does."""
    monkeypatch.setattr("agentkit_py.knowledge.sql._SAMPLE", 20)
    store = PostgresKnowledge(postgres_url, schema=postgres_schema)
    await _with_metadata(store, 0, 40)
    assert await store.keys(None, 2) == {
        "kind": ["hat", "cap"],
        "rare": [0],
        "shop": ["s20", "s21"],
    }
    found = await store.keys(EQ("shop", "s0"), 1)
    assert found == {"kind": ["cap"], "rare": [0], "shop": ["s0"], "source": ["mine"]}
    assert await store.keys(EQ("shop", "none"), 1) == {}
    await store.close()
