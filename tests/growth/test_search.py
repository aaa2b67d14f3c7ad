"""Growth: a search of words reads what has them, however many threads the user has."""

from __future__ import annotations

from pathlib import Path

from agentkit_py import AgentResult
from agentkit_py.stores import for_user
from tests.growth.counting import CountedStore


async def _steps(path: Path, threads: int) -> int:
    """Return the instructions of SQLite's machine that find the one thread with a word."""
    store = CountedStore(path)
    mine = for_user(store, "ada")
    for number in range(threads):
        await mine.add_thread(f"t{number}", title="Hats")
        word = "purple" if number == 7 else "green"
        await mine.append(f"t{number}", [AgentResult.from_user(f"A {word} hat.", id="m")])
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
