"""Chunks that are streamed after a run was stopped."""

from __future__ import annotations

from typing import Any

from agentkit_py.inngest.realtime import stop, unless_stopped


async def test_chunks_of_a_stopped_run_are_dropped() -> None:
    """Only chunks of that user and thread are dropped, and not those of the next run."""
    sent: list[dict[str, Any]] = []

    async def send(chunk: dict[str, Any]) -> None:
        sent.append(chunk)

    mine = unless_stopped(send, "ada", "t1")
    other = unless_stopped(send, "ada", "t2")
    hers = unless_stopped(send, "eve", "t1")
    nowhere = unless_stopped(send, "ada", None)
    await mine({"n": 1})
    stop("ada", "t1")
    await mine({"n": 2})
    for number, publish in enumerate((other, hers, nowhere, unless_stopped(send, "ada", "t1"))):
        await publish({"n": 3 + number})
    assert [chunk["n"] for chunk in sent] == [1, 3, 4, 5, 6]
