"""Growth: a model call of a run writes what is new since the last one, however long the run is."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from agentkit_py import Agent, anthropic, gemini, openai, tool
from agentkit_py.models import openai_responses

CALLS = 40
MODELS = {
    "chat": openai("gpt-4o", api_key="k"),
    "responses": openai_responses("gpt-5", api_key="k"),
    "claude": anthropic("claude-opus-5-5", api_key="k"),
    "gemini": gemini("gemini-3-pro", api_key="k"),
}


@tool
def track(number: int) -> str:
    """Track a parcel."""
    return f"Parcel {number} is in Linz."


def _reply(name: str, n: int) -> dict[str, Any]:
    done, arguments = n >= CALLS, {"number": n}
    match name:
        case "chat":
            function: Any = {"name": "track", "arguments": json.dumps(arguments)}
            call = {"id": f"c{n}", "type": "function", "function": function}
            said = {"content": "Done."} if done else {"tool_calls": [call]}
            return {"choices": [{"message": said}]}
        case "responses":
            if done:
                text: Any = {"type": "output_text", "text": "Done.", "annotations": []}
                item: dict[str, Any] = {"type": "message", "role": "assistant", "content": [text]}
                return {"status": "completed", "output": [item]}
            thought: Any = {
                "type": "reasoning",
                "id": f"r{n}",
                "summary": [],
                "encrypted_content": "e",
            }
            call: Any = {
                "type": "function_call",
                "id": f"fc_{n}",
                "call_id": f"c{n}",
                "name": "track",
            }
            call |= {"arguments": json.dumps(arguments)}
            return {"status": "completed", "output": [thought, call]}
        case "claude":
            thought: Any = {"type": "thinking", "thinking": "Hm.", "signature": f"s{n}"}
            use: Any = {"type": "tool_use", "id": f"c{n}", "name": "track", "input": arguments}
            return {"content": [{"type": "text", "text": "Done."}] if done else [thought, use]}
        case _:
            part: Any = {"functionCall": {"name": "track", "args": arguments}}
            part = {"text": "Done."} if done else {**part, "thoughtSignature": "c2ln"}
            return {"candidates": [{"content": {"role": "model", "parts": [part]}}]}


WRITING = frozenset({"encodable", "wired", "exchange", "linked"})
"""Functions that every message goes through which is written, or is counted in a digest."""


class Counter:
    """Counts calls of what writes messages, between two requests."""

    def __init__(self, name: str) -> None:
        self.counts: list[int] = []
        self._name = name
        self._count = 0

    async def answer(self, body: dict[str, Any]) -> object:
        """Answer a request, and begin to count anew."""
        self.counts.append(self._count)
        self._count = 0
        return _reply(self._name, len(self.counts))

    def seen(self, frame: FrameType, event: str, _: object) -> None:
        """Count a call."""
        self._count += event == "call" and frame.f_code.co_name in WRITING


@pytest.mark.parametrize("name", MODELS)
async def test_a_call_writes_what_is_new_since_the_last_one(name: str) -> None:
    """Each call takes as much as the one before it."""
    counter = Counter(name)
    model = replace(MODELS[name], answers=counter.answer)
    agent = Agent(name="clerk", system="Track.", model=model, tools=[track], max_iter=CALLS)
    sys.setprofile(counter.seen)
    try:
        await agent.run("Where are they?")
    finally:
        sys.setprofile(None)
    assert len(counter.counts) == CALLS
    assert counter.counts[5] > 0
    assert set(counter.counts[5:]) == {counter.counts[5]}
