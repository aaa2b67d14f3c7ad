"""Growth: a message takes little more of a file than its JSON."""

from __future__ import annotations

import json
from pathlib import Path

from agentkit_py import AgentResult, SqliteHistory

TEXT = "I would like the straw hat with the blue ribbon, in a medium size if you have it. " * 3
FEW, MANY = 500, 4500


async def test_a_message_takes_at_most_1_4_times_its_json(tmp_path: Path) -> None:
    """Beside the tables themselves, which take as much however many messages there are."""
    path = tmp_path / "t.db"
    sizes, raw = list[int](), 0
    for first, last in ((0, FEW), (FEW, MANY)):
        turns = [AgentResult.from_user(f"{TEXT}{n}", id=f"m{n}") for n in range(first, last)]
        raw = sum(len(json.dumps(one.to_dict())) for one in turns)
        async with SqliteHistory(path) as store:
            if not first:
                await store.add_thread("t")
            await store.append("t", turns)
        sizes.append(path.stat().st_size)
    assert sizes[1] - sizes[0] <= 1.4 * raw
