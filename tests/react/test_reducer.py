"""The useAgent hook's own reducer, as npm installs it, reads our chunks."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentkit_py import Agent, MemoryHistory, Network, State, tool
from agentkit_py.events import assemble
from agentkit_py.events.chunks import for_hook
from agentkit_py.results import AgentResult, StaffAuthor
from agentkit_py.routing import together
from agentkit_py.runs import StreamingConfig
from agentkit_py.server.people import changed_chunk, chunks_of
from agentkit_py.testing import ScriptedModel, tool_call, tool_calls

Chunk = dict[str, Any]
HERE = Path(__file__).parent
TOLD = StreamingConfig()
WHOLE = StreamingConfig(tokens=False)
CUT = StreamingConfig(tokens=False, simulate_chunking=True)


def find_order(order: str) -> dict[str, Any]:
    """Find an order."""
    if order == "Z9":
        raise LookupError("there is no such order")
    return {"order": order, "lines": ["a lamp", "ein Glühwürmchen 🪔"]}


@tool(needs_approval=True)
def refund(order: str, amount: int) -> str:
    """Pay money back."""
    return f"paid {amount} for {order}"


def one_desk(model: ScriptedModel, **options: Any) -> Network:
    """A network of one agent."""
    desk = Agent(
        name="desk", system="S", tools=[find_order, refund], model=model, max_iter=6, **options
    )
    return Network(
        name="support",
        agents=[desk],
        router=lambda ctx: desk if ctx.call_count == 0 else None,
        history=MemoryHistory(),
    )


def two_desks(model: ScriptedModel) -> Network:
    """Two agents at the same time."""
    agents = [
        Agent(name=name, system="S", tools=[find_order], model=model, max_iter=3)
        for name in ("left", "right")
    ]
    return Network(
        name="support",
        agents=agents,
        router=lambda ctx: together(*agents) if ctx.call_count == 0 else None,
        history=MemoryHistory(),
    )


async def recorded(
    make: Callable[[ScriptedModel], Network],
    *turns: Sequence[Any],
    streaming: StreamingConfig = TOLD,
) -> list[Chunk]:
    """The chunks of a conversation, one run for each turn."""
    chunks: list[Chunk] = []
    model = ScriptedModel(*[reply for turn in turns for reply in turn])
    network = make(model)
    for number, _ in enumerate(turns):
        config = StreamingConfig(
            publish=chunks.append,
            tokens=streaming.tokens,
            simulate_chunking=streaming.simulate_chunking,
        )
        await network.run(
            f"Question {number}",
            state=State({"user_id": "ada"}),
            thread_id="t1",
            streaming=config,
            approver=lambda request: True,
        )
    model.assert_finished()
    return chunks


ONE = [tool_call("find_order", {"order": "A1"}), "It is on its way. 🚚"]
TWO = [
    tool_calls(("find_order", {"order": "A1"}), ("find_order", {"order": "Z9"})),
    "One of them is on its way.",
]
ASKED = [
    tool_calls(("find_order", {"order": "A1"}), ("refund", {"order": "A1", "amount": 120})),
    "Done.",
]


async def conversations() -> dict[str, list[Chunk]]:
    """By what they are about."""
    found: dict[str, list[Chunk]] = {}
    for name, config in (("told", TOLD), ("whole", WHOLE), ("cut", CUT)):
        found[f"one call, {name}"] = await recorded(one_desk, ONE, streaming=config)
        found[f"two calls in a reply, {name}"] = await recorded(one_desk, TWO, streaming=config)
        found[f"a call that was approved, {name}"] = await recorded(
            one_desk, ASKED, streaming=config
        )
    mia = AgentResult.from_staff(StaffAuthor("p1", "Mia"), "I am Mia. 🪔", id="s1")
    found["a person of the staff"] = [
        *await recorded(one_desk, ["Somebody comes."]),
        changed_chunk("t1", "ada", None),
        *chunks_of(mia, "t1", "ada"),
        *await recorded(one_desk, ["It is us again."]),
    ]
    run = await recorded(one_desk, ONE)
    for place in range(1, len(run)):
        found[f"a person between chunk {place} and the next"] = [
            *run[:place],
            changed_chunk("t1", "ada", None),
            *chunks_of(mia, "t1", "ada", ends=False),
            *run[place:],
        ]
    found["three turns"] = await recorded(one_desk, ONE, TWO, ["Bye."])
    found["tools at the same time"] = await recorded(
        lambda model: one_desk(model, parallel_tools=True), TWO
    )
    call = tool_call("find_order", {"order": "A1"})
    found["agents at the same time"] = await recorded(two_desks, [call, call, "Here.", "Here."])
    return found


def ours(chunks: Sequence[Chunk]) -> list[dict[str, Any]]:
    """The parts by our own consumer, message by message, in the hook's words."""
    messages: dict[str, list[dict[str, Any]]] = {}
    for part in assemble(chunks).parts:
        parts = messages.setdefault(part.message_id, [])
        if part.type == "text":
            parts.append({"type": "text", "content": part.text, "status": "complete"})
        elif part.type == "tool-call":
            # The hook knows outputs as {data: …} only.
            output = part.output if "data" in part.output else {"data": part.output}
            parts.append(
                {
                    "type": "tool-call",
                    "toolName": part.tool,
                    "input": part.input,
                    "state": "output-available",
                    "output": output,
                }
            )
    return [{"id": key, "parts": parts} for key, parts in messages.items()]


def theirs(thread: dict[str, Any]) -> list[dict[str, Any]]:
    """The hook's messages, without ids of parts and times."""
    return [
        {
            "id": message["id"],
            "parts": [
                {k: v for k, v in part.items() if k not in ("id", "toolCallId")}
                for part in message["parts"]
            ],
        }
        for message in thread["messages"]
    ]


def orders(chunks: list[Chunk]) -> list[list[Chunk]]:
    """The chunks as they came, and as realtime may deliver them.

    A run's first chunk is delivered first: what comes before it, the hook takes for the end of the
    run before. Some come twice.
    """
    starts = [n for n, chunk in enumerate(chunks) if _begins(chunk)]
    runs = [chunks[a:b] for a, b in zip(starts, [*starts[1:], len(chunks)], strict=True)]
    found = [chunks]
    if any(
        chunk["sequenceNumber"] < 0 for chunk in chunks
    ):  # of no run: they count where they come
        return [chunks, [twice for chunk in chunks for twice in (chunk, chunk)]]
    for seed in range(6):
        chance = random.Random(seed)  # noqa: S311 - the same each time
        row: list[Chunk] = []
        for first, *rest in runs:
            again = [chunk for chunk in rest if chance.random() < 0.2]
            mixed = [*rest, *again]
            chance.shuffle(mixed)
            row += [first, *mixed]
        found.append(row)
    return found


def _begins(chunk: Chunk) -> bool:
    return chunk["event"] == "run.started" and "parentRunId" not in chunk["data"]


@pytest.fixture
def reduced(node: str, packages: Path) -> Callable[[list[list[Chunk]]], list[dict[str, Any]]]:
    """The hook's threads after each row of chunks."""

    def run(rows: list[list[Chunk]]) -> list[dict[str, Any]]:
        done = subprocess.run(
            [node, str(HERE / "reduce.mjs"), str(packages)],
            input=json.dumps(rows),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


async def test_the_hook_shows_the_same_as_our_own_consumer(
    reduced: Callable[[list[list[Chunk]]], list[dict[str, Any]]],
) -> None:
    """Chunks come in any order, and some of them twice."""
    known = await conversations()
    rows = [(name, chunks, row) for name, chunks in known.items() for row in orders(chunks)]
    threads = reduced([[for_hook(chunk) for chunk in row] for _, _, row in rows])
    for (name, chunks, _), thread in zip(rows, threads, strict=True):
        assert theirs(thread["t1"]) == ours(chunks), name
        assert ours([for_hook(chunk) for chunk in chunks]) == ours(chunks), name
        assert thread["t1"]["agentStatus"] == "ready", name
    assert len(rows) > 2 * len(known)
