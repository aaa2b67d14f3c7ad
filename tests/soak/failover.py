"""Recorded conversations whose first provider fails, at each call in turn.

    python tests/soak/failover.py FILE

For each ordered pair of formats and each call of a conversation: the first model answers until that
call and fails from there on, and the second one goes on. Every reply thinks; a `FakeProvider` that
signs refuses whatever a real one would refuse.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

from reasoning_pairs import MODELS, Recorded, conversations, reply_of

from agentkit_py.messages import Message, TextMessage, ToolCallMessage, ToolResultMessage
from agentkit_py.models import FallbackModel, Model, RetryPolicy, ToolSpec
from agentkit_py.runtime.current import use_runtime
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.runtime.guards import Breaker
from agentkit_py.testing import ReceivedRequest, error
from agentkit_py.testing.provider import FakeProvider, Signing


async def play(recorded: Recorded, first: Model, second: Model, fails: int) -> dict[str, Any]:
    """Play a conversation whose first model fails from a call on."""
    due: list[Any] = []
    asked = {"first": 0, "second": 0}

    def up(request: ReceivedRequest) -> Any:
        asked["second"] += 1
        return due[0]

    def until(request: ReceivedRequest) -> Any:
        asked["first"] += 1
        return due[0] if number <= fails else error(503, "overloaded")

    fakes = [FakeProvider(until, signing=Signing(fail_on_loss=True))]
    fakes.append(FakeProvider(up, signing=fakes[0].signing))
    pair = [
        replace(model, transport=fake.transport, retry=RetryPolicy(attempts=1))
        for model, fake in zip((first, second), fakes, strict=True)
    ]
    model = FallbackModel(pair, breaker=Breaker(failures=2, seconds=600))
    names = {call["function"]["name"] for m in recorded for call in m.get("tool_calls") or ()}
    tools = tuple(ToolSpec(name) for name in sorted(names))
    messages: list[Message] = []
    waiting: list[Any] = []
    number = 0
    slowest = 0.0
    with use_runtime(DirectRuntime()):
        for message in recorded:
            if message["role"] in ("system", "user"):
                messages.append(TextMessage(message["role"], message["content"]))
            elif message["role"] == "tool":
                messages.append(ToolResultMessage(waiting.pop(0), message["content"]))
            else:
                number += 1
                due[:] = [reply_of(message, number)]
                began = time.perf_counter()
                answer = await model.respond(messages, tools=tools)
                slowest = max(slowest, time.perf_counter() - began)
                messages += answer.messages
                said = answer.messages
                waiting += [c for o in said if isinstance(o, ToolCallMessage) for c in o.tools]
    refused = [str(one) for fake in fakes for one in fake.rejections]
    return {"calls": number, "refused": refused, "slowest": slowest, **asked}


async def run(file: Path, count: int) -> int:
    """Play all pairs and calls, print a line for each pair, and return how many were refused."""
    bad = 0
    for names in permutations(MODELS, 2):
        pair = [MODELS[name] for name in names]
        runs = calls = 0
        refused: list[str] = []
        slowest = 0.0
        for recorded in conversations(file, count):
            for fails in range(sum(m["role"] == "assistant" for m in recorded)):
                done = await play(recorded, pair[0], pair[1], fails)
                runs, calls = runs + 1, calls + done["first"] + done["second"]
                refused += done["refused"]
                slowest = max(slowest, done["slowest"])
        bad += len(refused)
        print(
            f"{' → '.join(names):28} {runs:6} failovers  {calls:7} requests  "
            f"{len(refused)} refused  slowest answer {slowest:.3f} s",
            *refused[:1],
            flush=True,
        )
    return bad


def main() -> int:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="conversations, one of JSON in each line")
    parser.add_argument("--count", type=int, default=2, help="how many of them")
    given = parser.parse_args()
    return min(1, asyncio.run(run(given.file, given.count)))


if __name__ == "__main__":
    sys.exit(main())
