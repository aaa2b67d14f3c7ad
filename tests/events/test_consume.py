"""Chunks that come twice or in any order are read as they were published."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit_py import Agent, Network, RouterContext, tool
from agentkit_py.errors import InvalidRecordError, ModelStreamError
from agentkit_py.events import (
    ChunkReader,
    MessageAssembler,
    Projector,
    PublishedChunk,
    RunCompleted,
    RunStarted,
    assemble,
)
from agentkit_py.runs import StreamingConfig
from agentkit_py.testing import Raw, ScriptedModel, tool_calls

Chunks = list[PublishedChunk]


@tool
def look_up(what: str) -> str:
    """Look something up."""
    return f"all of {what}"


def network() -> Network:
    """Two agents, one of them with calls in parallel."""
    calls = tool_calls(
        ("look_up", {"what": "cats"}), ("look_up", {"what": "dogs"}), text="Let me see."
    )
    reader = Agent(name="reader", system="…", tools=[look_up], max_iter=3)
    writer = Agent(name="writer", system="…")

    def route(ctx: RouterContext) -> Agent | None:
        return (reader, writer, None)[ctx.call_count]

    model = ScriptedModel(calls, "Found both.", "Cats 🐈 and dogs.")
    return Network(name="press", agents=[reader, writer], router=route, default_model=model)


def published(runs: int = 1) -> list[Chunks]:
    """The chunks of runs that follow each other, in one thread."""
    found: list[Chunks] = []
    for _ in range(runs):
        chunks: Chunks = []
        config = StreamingConfig(publish=chunks.append)
        network().run_sync("Cats and dogs?", streaming=config, thread_id="t1")
        found.append(chunks)
    return found


FIRST, SECOND = published(2)


def shuffled(chunks: Chunks, seed: int, doubled: Sequence[int]) -> Chunks:
    """Return the chunks in another order, some of them repeated."""
    mixed = [*chunks, *(chunks[index % len(chunks)] for index in doubled)]
    random.Random(seed).shuffle(mixed)  # noqa: S311 - an order, not a secret
    return mixed


def fed(chunks: Iterable[PublishedChunk]) -> Chunks:
    """Return the reader's chunks without a call of its end."""
    reader = ChunkReader()
    found = [chunk for given in chunks for chunk in reader.feed(given)]
    assert reader.waiting == 0
    return found


orders = st.tuples(st.integers(), st.lists(st.integers(0, 200), max_size=60))


def test_chunks_that_come_as_they_were_published_are_given_at_once() -> None:
    """One for one, also of a second run on the same channel."""
    reader = ChunkReader()
    for chunk in [*FIRST, *SECOND]:
        assert reader.feed(chunk) == [chunk]
    assert reader.finish() == []


@given(orders)
def test_any_order_with_duplicates_is_read_as_it_was_published(
    order: tuple[int, list[int]],
) -> None:
    """Pieces that come before their part says which run it belongs to, too."""
    assert fed(shuffled(FIRST, *order)) == FIRST


@given(orders, orders)
def test_runs_after_one_another_are_read_one_after_the_other(
    first: tuple[int, list[int]], second: tuple[int, list[int]]
) -> None:
    """Though their chunks have the same ids and numbers."""
    assert {c["id"] for c in FIRST} & {c["id"] for c in SECOND}
    mixed = [*shuffled(FIRST, *first), *shuffled(SECOND, *second)]
    assert fed(mixed) == [*FIRST, *SECOND]


@given(orders)
def test_runs_that_overlap_do_not_disturb_each_other(order: tuple[int, list[int]]) -> None:
    """Each is in sequence by itself."""
    found = fed(shuffled([*FIRST, *SECOND], *order))
    assert [c for c in found if c in FIRST] == FIRST
    assert [c for c in found if c in SECOND] == SECOND
    assert len(found) == len(FIRST) + len(SECOND)


@given(orders)
def test_parts_do_not_depend_on_the_order(order: tuple[int, list[int]]) -> None:
    """The chunks are of two runs at once."""
    found = assemble(shuffled([*FIRST, *SECOND], *order))
    expected = assemble([*FIRST, *SECOND])
    assert sorted(map(repr, found.parts)) == sorted(map(repr, expected.parts))
    assert found.runs == expected.runs


def test_late_duplicates_of_a_run_that_has_ended_are_dropped() -> None:
    """A replay after the end."""
    reader = ChunkReader()
    assert list(reader.read(FIRST)) == FIRST
    assert list(reader.read(reversed(FIRST))) == []


def test_chunks_after_a_lost_chunk_wait_until_the_end() -> None:
    """The waiting chunks then come in sequence."""
    lost = FIRST[5]
    kept = [chunk for chunk in FIRST if chunk is not lost]
    reader = ChunkReader()
    assert [c for chunk in kept for c in reader.feed(chunk)] == FIRST[:5]
    assert reader.waiting == len(kept) - 5
    assert reader.finish() == FIRST[6:]
    assert reader.waiting == 0
    assert reader.feed(lost) == []  # the run has ended


def test_a_reader_that_comes_late_gets_the_rest_in_sequence() -> None:
    """It has not seen where the run began."""
    late = [*reversed(FIRST[8:]), FIRST[10]]
    reader = ChunkReader()
    assert [c for chunk in late for c in reader.feed(chunk)] == []
    assert reader.waiting == len(FIRST) - 8
    assert reader.finish() == FIRST[8:]


def test_a_retried_step_with_another_text_is_streamed_again() -> None:
    """The number has passed, the id is new; the part ends with what counts."""
    delta = next(c for c in FIRST if c["event"] == "text.delta")
    other = {**delta, "event": "part.failed", "id": f"publish-{delta['sequenceNumber']}:other"}
    reader = ChunkReader()
    before = FIRST[: FIRST.index(delta) + 1]
    assert [c for chunk in before for c in reader.feed(chunk)] == before
    assert reader.feed(other) == [other]
    assert reader.feed(other) == []


def test_parts_are_texts_and_calls_with_their_outputs() -> None:
    """Two calls of one tool have each its own."""
    found = assemble(FIRST)
    assert [(p.agent, p.type, p.tool, p.text, p.input, p.output) for p in found.parts] == [
        ("reader", "text", None, "Let me see.", None, None),
        ("reader", "tool-call", "look_up", '{"what": "cats"}', *answered("cats")),
        ("reader", "tool-call", "look_up", '{"what": "dogs"}', *answered("dogs")),
        ("reader", "text", None, "Found both.", None, None),
        ("writer", "text", None, "Cats 🐈 and dogs.", None, None),
    ]
    assert {part.status for part in found.parts} == {"completed"}
    assert list(found.runs.values()) == ["completed"]


def answered(what: str) -> tuple[dict[str, str], dict[str, str]]:
    """A call's input and output."""
    return {"what": what}, {"data": f"all of {what}"}


def test_an_open_part_has_the_deltas_so_far() -> None:
    """The model is still writing."""
    assembler = MessageAssembler()
    last = max(i for i, chunk in enumerate(FIRST) if chunk["event"] == "text.delta")
    for chunk in FIRST[:last]:
        assembler.feed(chunk)
    part = assembler.parts[-1]
    assert part.status == "open"
    assert part.text
    assert "Cats 🐈 and dogs.".startswith(part.text)
    assert list(assembler.runs.values()) == ["running"]


async def test_a_reply_that_broke_off_is_a_failed_part() -> None:
    """The part keeps its text so far, and the run has failed."""
    chunks: Chunks = []
    model = ScriptedModel(Raw(reply="Your refund is on its way.", cut_after=900))
    agent = Agent(name="desk", system="…", model=model)
    with pytest.raises(ModelStreamError):
        await agent.run("Well?", streaming=StreamingConfig(publish=chunks.append))
    found = assemble(reversed(chunks))
    (part,) = found.parts
    assert (part.status, part.text) == ("failed", "Your refun")
    assert part.error
    assert list(found.runs.values()) == ["failed"]


def test_the_end_of_a_run_that_never_began_is_no_part() -> None:
    """A server says so of a message that was stopped while it waited for its turn."""
    where = {"threadId": "t1", "messageId": "m9", "reason": "cancelled"}
    end = {"event": "run.interrupted", "data": where, "sequenceNumber": 0, "id": "end-1"}
    both = assemble([*FIRST, end])
    assert (both.runs, both.parts) == (assemble(FIRST).runs, assemble(FIRST).parts)


def test_an_output_without_its_call_is_a_part_of_its_own() -> None:
    """A reader that subscribes late misses the call."""
    outputs = [c for c in FIRST if c["data"].get("type") == "tool-output"]
    found = assemble([FIRST[0], FIRST[1], *outputs])
    assert [(p.type, p.output) for p in found.parts] == [
        ("tool-output", answered("cats")[1]),
        ("tool-output", answered("dogs")[1]),
    ]


def test_runs_inside_a_routing_agent_are_as_hidden_as_it_is() -> None:
    """Their chunks would lead to a run that was not announced."""
    projector = Projector()
    root = RunStarted(run_id="n", name="net", scope="network", message_id="n")
    hidden = RunStarted(
        run_id="r", name="chief", scope="agent", message_id="r", routing=True, parent_run_id="n"
    )
    inner = RunStarted(run_id="i", name="aide", scope="agent", message_id="i", parent_run_id="r")
    ended = RunCompleted(run_id="i", name="aide", scope="agent", message_id="i")
    events = (root, hidden, inner, ended)
    assert [len(projector.feed(event)) for event in events] == [1, 0, 0, 0]


@pytest.mark.parametrize(
    "change", [{"event": None}, {"id": 1}, {"sequenceNumber": "0"}, {"data": []}]
)
def test_a_value_that_is_not_a_chunk_is_refused(change: dict[str, Any]) -> None:
    """Naming the field."""
    with pytest.raises(InvalidRecordError, match=next(iter(change))):
        ChunkReader().feed({**FIRST[0], **change})
