"""What a step remembers of a reply that was streamed from inside it."""

from __future__ import annotations

from typing import Any

from agentkit_py.messages import Delta, ReasoningDelta, TextDelta, ToolCallDelta
from agentkit_py.runtime.port import DeltaSink


class Tape:
    """Tells deltas on, and remembers how many of which kind there were."""

    def __init__(self, sink: DeltaSink) -> None:
        """Tell them to ``sink``."""
        self._sink = sink
        self.runs: list[list[Any]] = []
        """``[kind, index, id, name, whether it had text, how many]`` of each row of equal ones."""

    async def __call__(self, delta: Delta, /) -> None:
        """A piece has arrived."""
        await self._sink(delta)
        identity, name = getattr(delta, "id", ""), getattr(delta, "name", "")
        head = [type(delta).__name__, delta.index, identity, name, bool(delta.delta)]
        if self.runs and self.runs[-1][:-1] == head:
            self.runs[-1][-1] += 1
        else:
            self.runs.append([*head, 1])

    async def skip(self, delta: Delta, count: int, /) -> None:
        """Pieces that were told before."""
        await self._sink.skip(delta, count)

    async def replay(self, runs: list[list[Any]]) -> None:
        """Count what was told when the step ran, without telling it again."""
        for kind, index, identity, name, told, count in runs:
            text = "…" if told else ""
            if kind == "ToolCallDelta":
                delta: Delta = ToolCallDelta(index, identity, name, text)
            else:
                delta = (TextDelta if kind == "TextDelta" else ReasoningDelta)(index, text)
            await self._sink.skip(delta, count)
