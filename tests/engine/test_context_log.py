"""The figures of a report as log lines."""

from __future__ import annotations

import logging

import pytest

from agentkit_py import Agent, State, TextMessage, TokenLimiter
from agentkit_py.testing import ScriptedModel

from .runner import Runner


async def test_each_model_call_is_a_line_with_its_figures(
    runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    """Each processor that changed something has a line, too."""
    caplog.set_level(logging.INFO, logger="agentkit_py.context")
    agent = Agent(
        name="clerk", system="S", model=ScriptedModel("hi"), processors=[TokenLimiter(3)],
        token_counter=len,
    )  # fmt: skip
    state = State(messages=[TextMessage("user", "long"), TextMessage("user", "abc")])
    await runner.run(agent, "Q", state=state)
    assert [record.getMessage() for record in caplog.records] == [
        "clerk: 3 messages, 5 tokens sent; history 2 messages, 7 tokens; prompt 2 tokens",
        "clerk: agent TokenLimiter: messages 2 -> 1, tokens 7 -> 3 (limit of 3 tokens)",
    ]


async def test_tokens_are_not_counted_for_a_line_that_is_not_written(runner: Runner) -> None:
    """Counting costs time."""
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text)

    agent = Agent(name="clerk", system="S", model=ScriptedModel("hi"), token_counter=count)
    await runner.run(agent, "Q")
    assert counted == []
