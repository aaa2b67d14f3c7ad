"""`agentkit staff`: a person takes a thread over from a terminal."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from agentkit_py import SqliteHistory
from agentkit_py.history import StaffDesk
from tests.cli.terminal import agentkit


def test_a_thread_is_taken_over_and_handed_back_in_a_terminal(tmp_path: Path) -> None:
    """The queue shows it, what is written is in the thread, and others cannot write."""
    db = tmp_path / "shop.db"

    async def ask() -> None:
        async with SqliteHistory(db) as store:
            await store.add_thread("t1", user_id="ada")
            await StaffDesk(store).ask("t1", "wants a human", agent="clerk")

    async def read() -> list[Any]:
        async with SqliteHistory(db) as store:
            return await store.load("t1")

    def staff(*words: str, by: str | None = "mia") -> Any:
        who = () if by is None else ("--by", by)
        return agentkit("staff", *words, "--db", str(db), *who)

    asyncio.run(ask())
    assert "wants a human" in staff("queue", by=None).output
    refused = staff("say", "t1", "Hello")
    assert (refused.exit_code, "join it before" in refused.output) == (1, True)
    assert "On t1 now: Mia" in staff("join", "t1", "--name", "Mia").output
    assert "Mia (mia)" in staff("queue", by=None).output
    assert staff("say", "t1", "Hello", by="bob").exit_code == 1
    assert staff("say", "t1", "Hello").output == "Mia: Hello\n"
    back = staff("hand-back", "t1", "--note", "Offer a label.")
    assert back.output == "Agents answer in t1 again.\n"
    assert "0 threads" in staff("queue", by=None).output
    kept = asyncio.run(read())
    assert [(one.text, one.staff.to) for one in kept] == [
        ("Hello", "user"),
        ("Offer a label.", "agents"),
    ]
