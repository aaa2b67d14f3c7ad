"""Replies that come piece by piece."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from agentkit_py import Agent, openai
from agentkit_py.testing import FakeProvider, PacedTransport, text


async def read(pause: float) -> str:
    """What a streamed reply with such pauses says."""
    transport = PacedTransport(FakeProvider([text("One two three.")]).transport, pause)
    model = replace(openai("offline", api_key="sk-offline"), transport=transport)
    async with Agent(name="a", system="S", model=model).stream("Hi") as stream:
        async for _ in stream:
            pass
        return stream.result.text


async def test_a_paced_reply_says_the_same() -> None:
    """Pauses change nothing of what is read in the end."""
    assert await read(0) == "One two three."


async def test_a_reply_with_long_pauses_is_not_there_yet() -> None:
    """An hour before each piece: a moment later nobody has it."""
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(read(3600), 0.1)
