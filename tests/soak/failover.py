"""Recorded conversations whose first provider fails, at each call in turn.

    python tests/soak/failover.py FILE

For each ordered pair of formats and each call of a conversation: the first model answers until that
call and fails from there on, and the second one goes on. Every reply thinks; a `FakeProvider` that
signs refuses whatever a real one would refuse.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time
from dataclasses import dataclass, field, replace
from itertools import permutations
from pathlib import Path
from typing import Any

from reasoning_pairs import MODELS, Recorded, conversations, reply_of

from agentkit_py.messages import Message, TextMessage, ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.models import FallbackModel, Model, RetryPolicy, ToolSpec
from agentkit_py.runtime.current import use_runtime
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.runtime.guards import Breaker
from agentkit_py.testing import ReceivedRequest, error
from agentkit_py.testing.provider import FakeProvider, Signing


@dataclass(slots=True)
class Played:
    """A conversation up to a message of the recording."""

    messages: list[Message] = field(default_factory=list[Message])
    waiting: list[ToolCall] = field(default_factory=list[ToolCall])
    calls: int = 0

    def copied(self) -> Played:
        """Return one that goes on by itself."""
        return Played([*self.messages], [*self.waiting], self.calls)


class Pair:
    """Two models, the first of which may be down, and what their providers refused."""

    def __init__(self, first: Model, second: Model) -> None:
        signing = Signing(fail_on_loss=True, fail_on_unknown=True)
        self.is_down = False
        self.due: Any = None
        self.slowest = 0.0
        self.fakes = [FakeProvider(source, signing=signing) for source in (self._first, self._due)]
        self._models = [
            replace(model, transport=fake.transport, retry=RetryPolicy(attempts=1))
            for model, fake in zip((first, second), self.fakes, strict=True)
        ]

    def _first(self, request: ReceivedRequest) -> Any:
        return error(503, "overloaded") if self.is_down else self._due(request)

    def _due(self, request: ReceivedRequest) -> Any:
        return self.due

    async def play(self, recorded: Recorded, after: int | None) -> int:
        """Play a conversation once for each of its calls, at which the first model fails.

        Args:
            recorded: The conversation.
            after: The calls after which it ends once the first model has failed; None: all.
        """
        tools = tools_of(recorded)
        whole = Played()
        failovers = 0
        for number, message in enumerate(recorded):
            if message["role"] == "assistant":
                failovers += 1
                self.is_down = True
                rest = recorded[number:]
                calls = [at for at, one in enumerate(rest) if one["role"] == "assistant"]
                end = None if after is None or after >= len(calls) else calls[after]
                await self._go_on(whole.copied(), rest[:end], tools)
                self.is_down = False
            await self._go_on(whole, [message], tools)
            await asyncio.sleep(0)  # the fakes never wait: only now the loop drops its old timers
        return failovers

    async def _go_on(self, played: Played, recorded: Recorded, tools: tuple[ToolSpec, ...]) -> None:
        model = FallbackModel(self._models, breaker=Breaker(failures=2, seconds=600))
        for message in recorded:
            if message["role"] in ("system", "user"):
                played.messages.append(TextMessage(message["role"], message["content"]))
            elif message["role"] == "tool":
                result = ToolResultMessage(played.waiting.pop(0), message["content"])
                played.messages.append(result)
            else:
                played.calls += 1
                self.due = reply_of(message, played.calls)
                began = time.perf_counter()
                answer = await model.respond(played.messages, tools=tools)
                self.slowest = max(self.slowest, time.perf_counter() - began)
                played.messages += answer.messages
                for one in answer.messages:
                    played.waiting += one.tools if isinstance(one, ToolCallMessage) else ()


def tools_of(recorded: Recorded) -> tuple[ToolSpec, ...]:
    """Return the tools that a conversation calls."""
    names = {call["function"]["name"] for m in recorded for call in m.get("tool_calls") or ()}
    return tuple(ToolSpec(name) for name in sorted(names))


async def run(file: Path, count: int, after: int | None) -> int:
    """Play all pairs and calls, print a line for each pair, and return how many were refused."""
    bad = 0
    for names in permutations(MODELS, 2):
        failovers = calls = 0
        refused: list[str] = []
        slowest = 0.0
        for recorded in conversations(file, count):
            pair = Pair(*(MODELS[name] for name in names))
            with use_runtime(DirectRuntime()):
                failovers += await pair.play(recorded, after)
            calls += sum(len(fake.requests) for fake in pair.fakes)
            refused += [str(one) for fake in pair.fakes for one in fake.rejections]
            slowest = max(slowest, pair.slowest)
        bad += len(refused)
        print(
            f"{' → '.join(names):28} {failovers:6} failovers  {calls:7} requests  "
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
    parser.add_argument("--after", type=int, help="calls to play after a failover; else all")
    given = parser.parse_args()
    logging.getLogger("agentkit_py").setLevel(logging.ERROR)  # each failover is a warning
    return min(1, asyncio.run(run(given.file, given.count, given.after)))


if __name__ == "__main__":
    sys.exit(main())
