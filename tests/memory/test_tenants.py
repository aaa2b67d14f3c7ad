"""Random operations on memories of several tenants: a model says what each may see.

``MEMORY_OPERATIONS`` sets the number of operations, 2,000 unless given; `make memory`
sets a million.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit_py import MemoryHistory, SqliteHistory
from agentkit_py.memory import Memory, UserMemory
from agentkit_py.messages import text_of
from agentkit_py.processors import ProcessorContext, apply_processors
from agentkit_py.stores import HistoryStore

OPERATIONS = int(os.environ.get("MEMORY_OPERATIONS", "2000"))
TENANTS, USERS, THREADS, TEXTS = ("a", "b", "a\0"), ("u", "v"), 4, 12


class World:
    """A store with memories, beside a model of what is in them.

    Each text begins with the name of its owner, so that a text in the wrong place is seen.
    """

    def __init__(self, store: HistoryStore) -> None:
        self.store = store
        self.memory = Memory(store, most=30)  # pyright: ignore[reportArgumentType] - each store here keeps facts
        self.known: dict[tuple[str, str], dict[str, tuple[str, str | None]]] = {}
        """By owner: text and thread of each fact that holds, by id."""

        self.foreign = 0

    async def step(self, draw: random.Random) -> None:
        """Do one operation, and compare."""
        owner = draw.choice(TENANTS), draw.choice(USERS)
        mine = self.memory.of(tenant=owner[0], user=owner[1])
        known = self.known.setdefault(owner, {})
        every = sorted(key for facts in self.known.values() for key in facts)
        key = draw.choice(every) if every else "none"
        kind = draw.choices(range(6), (8, 4, 3, 1, 0.3, 8))[0]
        if kind == 0:
            await self.remember(mine, known, draw)
        elif kind == 1 and key in known:
            made = await mine.correct(key, f"{owner!r} corrected {draw.random()}")
            known[made.id] = made.text, known.pop(key)[1]
        elif kind == 2:
            assert await mine.forget(key) == (key in known)
            known.pop(key, None)
        elif kind == 3:
            thread = f"{owner[1]}-{draw.randrange(THREADS)}"
            await self.store.delete_thread(thread)
            for facts in self.known.values():
                for one in [one for one, (_, where) in facts.items() if where == thread]:
                    del facts[one]
        elif kind == 4:
            await self.store.delete_user(owner[1])
            for tenant in TENANTS:
                self.known.pop((tenant, owner[1]), None)
        else:
            await self.compare(mine, known)

    async def remember(
        self, mine: UserMemory, known: dict[str, tuple[str, str | None]], draw: random.Random
    ) -> None:
        """Remember a text, which may be known, from a thread or from none."""
        if len(known) >= 30:
            return
        thread = None
        if draw.random() < 0.7:
            thread = f"{mine.user_id}-{draw.randrange(THREADS)}"
            await self.store.add_thread(thread, user_id=mine.user_id)
        text = f"{(mine.tenant, mine.user_id)!r} said {draw.randrange(TEXTS)}"
        text = text.replace("\0", "")
        made = await mine.remember(text, thread_id=thread, key=str(draw.random()))
        known.setdefault(made.id, (text, thread))

    async def compare(self, mine: UserMemory, known: dict[str, tuple[str, str | None]]) -> None:
        """Look at everything that one user may see."""
        whole = await mine.facts(replaced=True)
        self.foreign += sum(
            (one.tenant, one.user_id) != (mine.tenant, mine.user_id) for one in whole
        )
        self.foreign += sum(
            not one.text.startswith(repr((mine.tenant, mine.user_id))) for one in whole
        )
        found = {one.id: (one.text, one.thread_id) for one in whole if one.replaced_by is None}
        assert found == known
        context = ProcessorContext(
            tenant=mine.tenant, user_id=mine.user_id, input="Who said corrected?"
        )
        left = await apply_processors([], [self.memory.recall(30)], context)
        lines = [line for m in left for line in text_of(m).splitlines() if line[:2] == "- "]
        shown = {line[3:].split("]")[0] for line in lines}
        self.foreign += len(shown - known.keys())
        assert shown == known.keys()


async def operate(store: HistoryStore, seed: int, count: int) -> None:
    """Do random operations; none shows what is another's."""
    draw = random.Random(seed)  # noqa: S311 - a test's
    async with store:
        world = World(store)
        for _ in range(count):
            await world.step(draw)
        for tenant, user in [(t, u) for t in TENANTS for u in USERS]:
            mine = world.memory.of(tenant=tenant, user=user)
            await world.compare(mine, world.known.get((tenant, user), {}))
        assert world.foreign == 0


@given(st.integers(0, 2**32))
@settings(max_examples=10, deadline=None)
async def test_users_see_no_facts_of_others(seed: int) -> None:
    """Tenants, users and threads, in memory."""
    await operate(MemoryHistory(), seed, OPERATIONS // 10)


@pytest.mark.parametrize("seed", [1])
async def test_users_see_no_facts_of_others_in_a_database(seed: int, tmp_path: Path) -> None:
    """Repeat it in SQLite, with fewer operations."""
    await operate(SqliteHistory(tmp_path / "threads.db"), seed, OPERATIONS // 10)
