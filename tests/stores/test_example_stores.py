"""Stores that examples show, made through the public interface alone, keep every promise."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from agentkit_py import Agent, UserMessage
from agentkit_py.testing import ScriptedModel
from agentkit_py.testing.store_conformance import StoreCheck, checks_for

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "stores"
LMDB: Any = runpy.run_path(str(FOLDER / "lmdb_store.py"))["LmdbHistory"]


@pytest.mark.parametrize("check", checks_for(LMDB), ids=str)
async def test_the_lmdb_store_keeps_every_promise(check: StoreCheck, tmp_path: Path) -> None:
    """Those of each store of the library that has no thread data."""
    store = LMDB(tmp_path, gigabytes=1)
    await check(store)
    await store.close()


async def test_a_long_thread_is_read_from_its_end_by_another_process(tmp_path: Path) -> None:
    """Positions and sizes are kept beside the rows; another environment reads the same folder."""
    store = LMDB(tmp_path, gigabytes=1)
    agent = Agent(name="a", system="S", model=ScriptedModel(*["yes"] * 20), history=store)
    for number in range(20):
        await agent.run(UserMessage(f"q{number}", id=f"m{number}"), thread_id="t")
    await store.close()

    other = LMDB(tmp_path, gigabytes=1)
    count, last = await other.newest("t", 2)
    assert (count, [one.position for one in last]) == (40, [38, 39])
    assert (last[0].result.agent_name, last[0].before.messages) == ("user", 38)
    await other.close()
