"""`agentkit memory`, and facts in `agentkit threads delete`."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agentkit_py import SqliteHistory
from agentkit_py.memory import Fact, Memory
from tests.cli.terminal import agentkit


def facts_of(db: Path, user: str = "ada") -> list[Fact]:
    """Return all facts of a user."""

    async def read() -> list[Fact]:
        async with SqliteHistory(db) as store:
            return await Memory(store).of(user=user, tenant="acme").facts(replaced=True)

    return asyncio.run(read())


def fill(db: Path) -> None:
    """Two facts of Ada's, one of Bob's."""

    async def write() -> None:
        async with SqliteHistory(db) as store:
            memory = Memory(store)
            for user, text in (("ada", "Likes tea."), ("ada", "\x1b[31m[b]cat"), ("bob", "Hm.")):
                await memory.of(user=user, tenant="acme").remember(text)

    asyncio.run(write())


def test_facts_are_listed_corrected_and_forgotten(tmp_path: Path) -> None:
    """For the user and tenant that are named, and nobody else."""
    db = tmp_path / "threads.db"
    fill(db)
    options = ("--db", str(db), "--user", "ada", "--tenant", "acme")
    listed = agentkit("memory", "list", *options)
    assert listed.exit_code == 0, listed.output
    assert "tea" in listed.output
    assert "2 facts" in listed.output
    assert "Hm." not in listed.output
    assert "0 facts" in agentkit("memory", "list", *options[:-1], "other").output
    tea = facts_of(db)[1]
    bobs = facts_of(db, "bob")[0]
    made = agentkit("memory", "correct", tea.id, "Likes coffee.", *options)
    assert f"takes the place of {tea.id}" in made.output
    assert "3 facts" in agentkit("memory", "list", "--all", *options).output
    refused = agentkit("memory", "forget", bobs.id, "--yes", *options)
    assert (refused.exit_code, len(facts_of(db, "bob"))) == (2, 1)
    assert agentkit("memory", "correct", bobs.id, "x", *options).exit_code == 2
    assert "2 facts deleted" in agentkit("memory", "forget", tea.id, "--yes", *options).output
    assert len(facts_of(db)) == 1
    assert "1 fact deleted" in agentkit("memory", "forget", "--yes", *options).output
    assert (facts_of(db), len(facts_of(db, "bob"))) == ([], 1)


def test_deleting_a_user_in_the_terminal_deletes_facts(tmp_path: Path) -> None:
    """Also where there is no thread."""
    db = tmp_path / "threads.db"
    fill(db)
    gone = agentkit("threads", "delete", "--db", str(db), "--user", "ada", "--yes")
    assert gone.exit_code == 0, gone.output
    assert (facts_of(db), len(facts_of(db, "bob"))) == ([], 1)
