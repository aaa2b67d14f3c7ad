"""Tool outputs in a stream are matched with their calls."""

from __future__ import annotations

from typing import Any

import pytest

from agentkit_py import Agent
from agentkit_py.events import assemble
from agentkit_py.runs import StreamingConfig
from agentkit_py.testing import ScriptedModel, tool_calls


def look(place: str) -> str:
    """Look."""
    return f"nothing in the {place}"


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("tokens", [True, False])
async def test_an_output_names_its_call_while_a_later_call_is_open(
    tokens: bool, together: bool
) -> None:
    """TypeScript's output belongs to the last open call; readers find the call either way."""
    chunks: list[dict[str, Any]] = []
    calls = tool_calls(("look", {"place": "attic"}), ("look", {"place": "cellar"}))
    agent = Agent(
        name="a",
        system="S",
        tools=[look],
        model=ScriptedModel(calls, "Nothing."),
        max_iter=2,
        parallel_tools=together,
    )
    await agent.run("hi", streaming=StreamingConfig(publish=chunks.append, tokens=tokens))
    completed = [c["data"] for c in chunks if c["event"] == "part.completed"]
    called = [data["partId"] for data in completed if data["type"] == "tool-call"]
    first, second = [data for data in completed if data["type"] == "tool-output"]
    assert first.get("callPartId") == (called[0] if tokens or together else None)
    assert "callPartId" not in second
    read = [part for part in assemble(chunks).parts if part.type == "tool-call"]
    assert [part.input["place"] for part in read] == ["attic", "cellar"]
    assert [part.output["data"] for part in read] == [
        "nothing in the attic",
        "nothing in the cellar",
    ]
