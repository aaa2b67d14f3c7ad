"""Recorded conversations whose model changes at each call.

    python tests/soak/reasoning_pairs.py FILE

Every reply thinks. For each ordered pair of models, calls go to the one and the other in turn; a
`FakeProvider` that signs refuses whatever a real one would refuse or leave out in silence.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

from agentkit_py.messages import Message, TextMessage, ToolCallMessage, ToolResultMessage
from agentkit_py.models import (
    Model,
    ModelRequest,
    ToolSpec,
    anthropic,
    gemini,
    grok,
    openai,
    openai_responses,
)
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.testing.provider import FakeProvider, Signing

MODELS: dict[str, Model] = {
    "responses": openai_responses("gpt-6.2-sol", api_key="sk-o"),
    "anthropic": anthropic("claude-opus-5-5", api_key="sk-a"),
    "gemini": gemini("gemini-3-pro", api_key="g"),
    "grok": grok("grok-4.5", api="responses", api_key="xai"),
    "compatible": openai("deepseek-v4", base_url="https://api.deepseek.com", api_key="d"),
}
Recorded = list[dict[str, Any]]


def conversations(file: Path, count: int) -> Iterator[Recorded]:
    """Yield the messages of the first conversations of a file, one of JSON in each line."""
    with file.open() as lines:
        for _, line in zip(range(count), lines, strict=False):
            yield json.loads(line)["messages"]


def reply_of(message: dict[str, Any], number: int) -> dict[str, Any]:
    """Return a recorded reply with a thought."""
    reply: dict[str, Any] = {"reasoning": f"Thought {number}."}
    if message.get("content"):
        reply["text"] = message["content"]
    calls = message.get("tool_calls")
    if calls:
        functions = [call["function"] for call in calls]
        reply["tool_calls"] = [{"name": f["name"], "arguments": f["arguments"]} for f in functions]
    return reply


async def play(recorded: Recorded, pair: tuple[Model, ...]) -> tuple[int, int, list[str]]:
    """Play a conversation; return the calls, the reasoning that was sent, and what was refused."""
    fake = FakeProvider(signing=Signing(fail_on_loss=True))
    runtime = DirectRuntime(transport=fake.transport)
    names = {call["function"]["name"] for m in recorded for call in m.get("tool_calls") or ()}
    tools = tuple(ToolSpec(name) for name in sorted(names))
    messages: list[Message] = []
    waiting: list[Any] = []
    number = 0
    for message in recorded:
        if message["role"] in ("system", "user"):
            messages.append(TextMessage(message["role"], message["content"]))
        elif message["role"] == "tool":
            messages.append(ToolResultMessage(waiting.pop(0), message["content"]))
        else:
            model = pair[number % len(pair)]
            number += 1
            fake.reply(reply_of(message, number))
            request = ModelRequest(messages=tuple(messages), tools=tools, agent="desk")
            answer = await runtime.infer("", model, lambda m=model, r=request: m.encode(r))
            said = [replace(one, agent="desk") for one in model.decode(answer).messages]
            messages += model.bind(request, said)
            waiting += [c for one in said if isinstance(one, ToolCallMessage) for c in one.tools]
    sent = sum(str(one.body).count("Thought ") for one in fake.requests)
    return len(fake.requests), sent, [str(one) for one in fake.rejections]


async def run(file: Path, count: int) -> int:
    """Play all pairs, print a line for each, and return how many requests were refused."""
    bad = 0
    for names in permutations(MODELS, 2):
        calls = sent = 0
        faults: list[str] = []
        for recorded in conversations(file, count):
            done = await play(recorded, tuple(MODELS[name] for name in names))
            calls, sent, faults = calls + done[0], sent + done[1], faults + done[2]
        bad += len(faults)
        line = (
            f"{' → '.join(names):28} {calls:6} calls  {sent:6} thoughts sent  {len(faults)} refused"
        )
        print(line, *faults[:1])
    return bad


def main() -> int:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="conversations, one of JSON in each line")
    parser.add_argument("--count", type=int, default=100, help="how many of them")
    given = parser.parse_args()
    return min(1, asyncio.run(run(given.file, given.count)))


if __name__ == "__main__":
    sys.exit(main())
