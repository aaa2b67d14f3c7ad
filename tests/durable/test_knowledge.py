"""Searches of documents are steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from agentkit_py import Agent, Network
from agentkit_py.knowledge import EQ, Knowledge, SqliteKnowledge
from agentkit_py.testing import tool_call
from agentkit_py.testing.fakes import HashingEmbedder

from .world import INFERENCES, Effects, Inference, Scenario, Stage


class Counted(HashingEmbedder):
    """Each call is a side effect."""

    def __init__(self, effects: Effects) -> None:
        super().__init__()
        self._effects = effects

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Count and embed."""
        self._effects.happen(f"embed {texts[0]}")
        return await super().embed(texts)


@pytest.mark.parametrize("inference", INFERENCES)
async def test_a_search_happens_once_however_often_the_function_is_replayed(
    scenario: Callable[..., Scenario], inference: Inference, tmp_path: Path
) -> None:
    """A durable run gives the results and instructions of a direct one."""
    path = tmp_path / "documents.db"
    filling = Knowledge(store=SqliteKnowledge(path), embedder=HashingEmbedder())
    for tenant in ("a", "b"):
        await filling.add(f"soup of {tenant}", source=tenant, metadata={"tenant": tenant})
    await filling.close()

    def network(stage: Stage) -> Network:
        knowledge = Knowledge(store=SqliteKnowledge(path), embedder=Counted(stage.effects))
        cook = Agent(
            name="cook",
            system="cook S",
            knowledge=knowledge,
            knowledge_filters=lambda state: EQ("tenant", "a"),
            enable_agentic_knowledge_filters=True,
            max_iter=3,
        )
        return Network(
            name="kitchen",
            agents=[cook],
            router=lambda context: cook if context.call_count == 0 else None,
        )

    replies = {
        "cook": [
            tool_call("search_knowledge_base", {"query": "one soup"}),
            tool_call("search_knowledge_base", {"query": "two soup"}),
            "Served.",
        ]
    }
    searching = scenario(network, replies)
    direct, durable = await searching.direct(), await searching.durable(inference)
    assert direct.error is None
    assert "soup of a" in str(direct.results)
    assert "soup of b" not in str(direct.results)
    assert durable == direct
    assert durable.effects == {"embed one soup": 1, "embed two soup": 1}
