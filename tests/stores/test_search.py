"""Searches for words: by an index in the database, with the same answers as reading everything."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from string import punctuation

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentkit_py import AgentResult, MemoryHistory
from agentkit_py.stores import HistoryStore, PostgresHistory, SqliteHistory
from tests.growth.counting import CountedStore

_ALPHABET = st.sampled_from(f"aAbBéÉßẞİ\u03c3Σς19東京กา  {punctuation}") | st.characters()
_TEXTS = st.lists(st.text(_ALPHABET, max_size=12), min_size=1, max_size=6)


async def _filled(store: HistoryStore, texts: list[str], user: str = "ada") -> HistoryStore:
    await store.add_thread("t", user_id=user)
    await store.append(
        "t", [AgentResult.from_user(text, id=str(n)) for n, text in enumerate(texts)]
    )
    return store


async def _found(store: HistoryStore, words: str, user: str | None = None) -> list[int]:
    return [match.position for match in await store.search(words, user_id=user)]


@given(
    texts=_TEXTS, cut=st.tuples(st.integers(0, 12), st.integers(0, 12)), loose=st.text(_ALPHABET)
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_the_index_finds_the_same_as_reading_everything(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], cut: tuple[int, int], loose: str
) -> None:
    """Whatever the texts and the words are; parts of texts are sought, and anything else."""
    path = tmp_path_factory.mktemp("search") / "t.db"
    async with await _filled(SqliteHistory(path), texts) as store:
        memory = await _filled(MemoryHistory(), texts)
        for words in (texts[-1][min(cut) : max(cut)], texts[0].upper(), loose):
            for user in (None, "ada", "bob"):
                assert await _found(store, words, user) == await _found(memory, words, user)


@pytest.mark.parametrize("others", [20, 400])
async def test_a_search_reads_its_matches_however_much_there_is(
    tmp_path: Path, others: int
) -> None:
    """The rows with the words, and none of the others."""
    async with CountedStore(tmp_path / "t.db") as store:
        for number in range(others):
            await store.add_thread(f"{number}", user_id="ada")
            words = "purple" if number == 7 else "green"
            await store.append(f"{number}", [AgentResult.from_user(f"A {words} hat?", id="m")])
        store.counts.reset()
        assert [match.thread_id for match in await store.search("purp hat", user_id="ada")] == ["7"]
        assert (store.counts.transactions, store.counts.rows) == (1, 2)  # the row, and its thread


def _lines(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT rowid FROM words WHERE words MATCH '\"purple\"'"
        return [row[0] for row in connection.execute(query)]


async def test_words_of_deleted_threads_are_in_no_index(
    tmp_path: Path, postgres_url: str, postgres_schema: str
) -> None:
    """Neither those of one thread, nor those of a user."""
    path = tmp_path / "t.db"
    async with await _filled(SqliteHistory(path), ["A purple hat", "Two purple ones"]) as store:
        assert len(_lines(path)) == 2
        assert await store.delete_thread("t")
        assert _lines(path) == []
        await _filled(store, ["purple"])
        await store.delete_user("ada")
        assert _lines(path) == []
    async with await _filled(
        PostgresHistory(postgres_url, schema=postgres_schema), ["A purple hat"]
    ) as other:
        await other.delete_user("ada")
        with psycopg.connect(postgres_url) as connection:
            count = f'SELECT count(*) FROM "{postgres_schema}".agentkit_words'
            assert connection.execute(count.encode()).fetchone() == (0,)


async def test_a_damaged_result_leaves_no_words_when_its_thread_is_deleted(tmp_path: Path) -> None:
    """Its words are not known any more, so the index is emptied; the rest is found nevertheless."""
    path = tmp_path / "t.db"
    async with await _filled(SqliteHistory(path), ["A purple hat"]) as store:
        await store.add_thread("other")
        await store.append("other", [AgentResult.from_user("A purple scarf", id="m")])
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("UPDATE results SET json = 'x' WHERE thread_id = 't'")
        assert await store.delete_thread("t")
        assert _lines(path) == []
        assert [match.thread_id for match in await store.search("purple")] == ["other"]
        assert await store.index_words() == 0
        assert len(_lines(path)) == 1


async def test_results_that_an_index_lacks_are_read_and_can_be_added(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file that was written without full text search says so."""
    path = tmp_path / "t.db"
    async with await _filled(SqliteHistory(path, full_text=False), ["A purple hat", "b"]) as plain:
        assert await _found(plain, "purple") == [0]
        assert await plain.index_words() == 0
    async with SqliteHistory(path) as store:
        await store.append("t", [AgentResult.from_user("Two purple ones", id="new")])
        with caplog.at_level(logging.WARNING):
            assert await _found(store, '"purple ones"') == [2]
        assert "lacks 3 results" in caplog.text
        assert await store.index_words(2) == 1
        assert await store.index_words() == 0
        assert len(_lines(path)) == 2
        caplog.clear()
        assert await _found(store, '"purple ones"') == [2]
        assert caplog.text == ""


async def test_the_index_gets_missing_results_of_all_threads(tmp_path: Path) -> None:
    """Each call says how much is left in all of them, not in the last one."""
    path = tmp_path / "t.db"
    async with SqliteHistory(path, full_text=False) as plain:
        for number in range(5):
            await plain.add_thread(f"{number}")
            await plain.append(f"{number}", [AgentResult.from_user("A purple hat", id="m")])
    async with SqliteHistory(path) as store:
        assert [await store.index_words(2) for _ in range(3)] == [3, 1, 0]
        assert len(_lines(path)) == 5


async def test_the_words_of_a_very_long_message_are_found(
    tmp_path: Path, postgres_url: str, postgres_schema: str
) -> None:
    """More than an index takes of one result."""
    text = " ".join(f"word{number}" for number in range(60_000))
    for store in (
        SqliteHistory(tmp_path / "t.db"),
        PostgresHistory(postgres_url, schema=postgres_schema),
    ):
        async with await _filled(store, ["short", text]):
            assert await _found(store, "word59999 word3", "ada") == [1]
            assert await _found(store, "word60000") == []
