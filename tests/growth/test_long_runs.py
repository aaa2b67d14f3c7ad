"""Growth: a model call of a run writes what is new since the last one, however long the run is.

``json`` writes bytes; functions of ours put the messages into the form that it writes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any

import httpx
import pytest

from agentkit_py import Agent, State, TextMessage, anthropic, gemini, openai, tool
from agentkit_py._core.json import Growing
from agentkit_py.messages import Message, ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.models import Model, openai_responses
from agentkit_py.processors import (
    HistoryProcessor,
    MessageWindow,
    RecentToolCalls,
    ToolCallFilter,
)

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
        """Answer a request, and begin to count again."""
        self.counts.append(self._count)
        self._count = 0
        return _reply(self._name, len(self.counts))

    def seen(self, frame: FrameType, event: str, _: object) -> None:
        """Count a call."""
        self._count += event == "call" and frame.f_code.co_name in WRITING


async def _run(
    model: Model,
    seen: Callable[[FrameType, str, Any], None],
    processors: Sequence[HistoryProcessor] = (),
    past: Sequence[Message] = (),
) -> None:
    """Run an agent that makes all calls, with each function that is called and returns seen."""
    agent = Agent(
        name="clerk",
        system="Track.",
        model=model,
        tools=[track],
        max_iter=CALLS,
        processors=processors,
    )
    sys.setprofile(seen)
    try:
        await agent.run("Where are they?", state=State(messages=past))
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("name", MODELS)
async def test_a_call_writes_messages_that_are_new_since_the_last_call(name: str) -> None:
    """Each call takes as much as the one before it."""
    counter = Counter(name)
    await _run(replace(MODELS[name], answers=counter.answer), counter.seen)
    assert len(counter.counts) == CALLS
    assert counter.counts[5] > 0
    assert set(counter.counts[5:]) == {counter.counts[5]}


class Transport(httpx.AsyncBaseTransport):
    """Answers requests; counts the bytes of each, and those that `json` wrote since the last."""

    def __init__(self, name: str) -> None:
        self.sent: list[int] = []
        self.written: list[tuple[int, int]] = []
        """All bytes, and those of the conversation that is sent."""

        self._name = name
        self._all = self._said = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request, and begin to count again."""
        self.sent.append(len(request.content))
        self.written.append((self._all, self._said))
        answer = httpx.Response(200, json=_reply(self._name, len(self.sent)))
        self._all = self._said = 0
        return answer

    def seen(self, frame: FrameType, event: str, found: object) -> None:
        """Count what an encoder returns."""
        if event == "return" and frame.f_code is json.JSONEncoder.encode.__code__:
            asked = frame.f_back and frame.f_back.f_back
            self._all += len(str(found))
            if asked and asked.f_code is Growing.to_bytes.__code__:
                self._said += len(str(found))


@pytest.mark.parametrize("name", MODELS)
async def test_a_call_over_http_encodes_messages_that_are_new_since_the_last_call(
    name: str,
) -> None:
    """Each call has as many bytes encoded as the one before it; twice what is new at the most.

    What Claude is asked with a mark is written with it twice, and then once without.
    """
    transport = Transport(name)
    await _run(replace(MODELS[name], transport=transport), transport.seen)
    assert len(transport.sent) == CALLS
    # Numbers have two digits from here on, and Claude's conversation is long enough to be cached.
    assert len(set(transport.written[12:])) == 1, transport.written
    new = transport.sent[-1] - transport.sent[-2]
    assert 0 < transport.written[-1][1] <= (3 if name == "claude" else 2) * new


class Busy(httpx.AsyncBaseTransport):
    """Answers with a call of a tool; counts what processors called since the last request."""

    def __init__(self, *, words: bool) -> None:
        self.counts: list[int] = []
        self._words = words
        self._count = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request, and begin to count again."""
        self.counts.append(self._count)
        self._count = 0
        reply = _reply("chat", len(self.counts))
        if self._words:
            reply["choices"][0]["message"]["content"] = "I look."
        return httpx.Response(200, json=reply)

    def seen(self, frame: FrameType, event: str, _: object) -> None:
        """Count calls of processors, and of what makes their context."""
        module = str(frame.f_globals.get("__name__"))
        ours = module.startswith(("agentkit_py.processors", "agentkit_py._engine.model_input"))
        self._count += event == "call" and ours


PROCESSORS = {
    "window": MessageWindow(20),
    "filter": ToolCallFilter(exclude=["gone"]),
    "own": ToolCallFilter(include="own"),
    "recent": RecentToolCalls(5),
}


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("name", PROCESSORS)
async def test_processors_read_no_calls_of_a_long_run_again(name: str, *, words: bool) -> None:
    """Before the last call they do at most half as much again as before the tenth."""
    transport = Busy(words=words)
    past = [message for n in range(6) for message in _past(n)]
    model = replace(MODELS["chat"], transport=transport)
    await _run(model, transport.seen, processors=[PROCESSORS[name]], past=past)
    assert len(transport.counts) == CALLS
    assert transport.counts[9] > 0
    assert max(transport.counts[-8:]) <= 1.5 * max(transport.counts[6:14]), transport.counts


def _past(n: int) -> list[Message]:
    call = ToolCall(f"p{n}", "track", {"number": n})
    said = [TextMessage("user", f"Where is {n}?"), ToolCallMessage([call])]
    return [*said, ToolResultMessage(call, "In Graz.")]
