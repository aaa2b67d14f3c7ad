"""Growth: a search of words, and the removal of what is old, read what they look for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from agentkit_py import AgentResult
from agentkit_py.stores import for_user
from tests.growth.counting import CountedStore, ScannedPostgres


async def _steps(path: Path, threads: int, *, forks: int = 0) -> int:
    """Return the instructions of SQLite's machine that find the one thread with a word."""
    store = CountedStore(path)
    mine = for_user(store, "ada")
    for number in range(threads):
        await mine.add_thread(f"t{number}", title="Hats")
        word = "purple" if number == 7 else "green"
        await mine.append(f"t{number}", [AgentResult.from_user(f"A {word} hat.", id="m")])
    for number in range(10, 10 + forks):
        await store.fork(f"t{number}")
    store.counts.reset()
    assert [found.thread_id for found in await mine.search("purple")] == ["t7"]
    await store.close()
    return store.counts.steps


async def test_a_search_of_a_rare_word_does_not_read_the_users_other_threads(
    tmp_path: Path,
) -> None:
    """The words' index names the user, and one of its own has what is not indexed yet."""
    few, many = await _steps(tmp_path / "a.db", 40), await _steps(tmp_path / "b.db", 400)
    assert many - few < 360


async def test_a_search_does_not_read_other_threads_where_some_are_forked(tmp_path: Path) -> None:
    """Threads that share a result are sought from the result on."""
    few = await _steps(tmp_path / "a.db", 40, forks=2)
    many = await _steps(tmp_path / "b.db", 400, forks=200)
    assert many - few < 360


@pytest.mark.parametrize("forks", [0, 3])
async def test_a_search_of_postgres_reads_no_results_but_those_it_finds(
    postgres_url: str, postgres_schema: str, forks: int
) -> None:
    """Its planner takes a third of all threads for ones that the words' index lacks."""
    store = ScannedPostgres(postgres_url, schema=postgres_schema)
    for number in range(50):
        await store.add_thread(f"t{number}")
        word = "purple" if number == 7 else "green"
        hats = [AgentResult.from_user(f"A {word} hat, {n}.", id=f"m{n}") for n in range(40)]
        await store.append(f"t{number}", hats)
    for number in range(forks):
        await store.fork(f"t{number + 10}")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("ANALYZE")
    store.scanned = 0
    assert [found.thread_id for found in await store.search("purple")] == ["t7"]
    assert store.scanned == 0
    await store.close()


async def test_mail_that_is_put_into_postgres_reads_no_other_mail(
    postgres_url: str, postgres_schema: str
) -> None:
    """What is too old is removed first, and found by an index: streams put much mail."""
    store = ScannedPostgres(postgres_url, schema=postgres_schema)
    store.table = "mail"
    for number in range(300):
        text = "".join(f"{number + n * n} " for n in range(200))
        await store.put_mail("box", f"m{number}", {"text": text})
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("ANALYZE")
    store.scanned = 0
    await store.put_mail("box", "new", {})
    assert store.scanned == 0
    await store.close()


async def _cleaning(path: Path, threads: int) -> int:
    """Return the instructions of SQLite's machine that look at one old thread a page."""
    store = CountedStore(path)
    for number in range(threads):
        await store.add_thread(f"t{number}")
    then = datetime.now(UTC) - timedelta(days=8)
    await store.set_times("t0", then, then)
    await store.set_times("t1", then, then)
    store.counts.reset()
    assert await store.clean(timedelta(days=7), most=1) == 1
    await store.close()
    return store.counts.steps


async def test_a_page_of_old_threads_costs_the_same_with_many_new_threads(tmp_path: Path) -> None:
    """To count all threads with each page would make the deletion of many take its square."""
    few, many = await _cleaning(tmp_path / "a.db", 40), await _cleaning(tmp_path / "b.db", 400)
    assert many - few < 360
