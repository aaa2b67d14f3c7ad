"""Results of the current calls behind a limit of tokens: they fit, or the report says that not."""

from __future__ import annotations

import json
import logging
import random
from typing import Any

import pytest

from agentkit_py import Agent, TokenLimiter
from agentkit_py.processors import ApproximateTokenizer
from agentkit_py.testing import ScriptedModel, tool_call

from .runner import Runner

COUNT = ApproximateTokenizer()


def look(number: int) -> str:
    """Return a long text."""
    return f"<begin {number}>" + 'say "word" ' * 9000 + f"<end {number}>"


def note(number: int) -> str:
    """Return a short text."""
    return f"short {number}"


def calls(*made: tuple[str, int]) -> dict[str, Any]:
    """A reply with parallel calls."""
    return {"tool_calls": [{"name": n, "arguments": {"number": i}} for n, i in made]}


def clerk(model: ScriptedModel, **options: Any) -> Agent:
    """An agent with a limit of 4,000 tokens."""
    limiter = TokenLimiter(4000, **options)
    return Agent(
        name="clerk",
        system="S",
        tools=[look, note],
        model=model,
        max_iter=4,
        processors=[limiter],
        token_counter=COUNT,
    )


async def test_parallel_results_are_shortened_to_the_limit(
    runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    """Each has head and tail; the report names tools and figures, and one warning does."""
    made = [("look", number) for number in range(10)]
    model = ScriptedModel(calls(*made, ("note", 7)), tool_call("note", {"number": 8}), "done")
    with caplog.at_level(logging.WARNING, logger="agentkit_py"):
        result = await runner.run(clerk(model), "q")
    assert result.context is not None
    (entry,) = result.context.entries
    assert 3000 < entry.tokens_after <= 4000
    assert "results of the current calls shortened (10 of look)" in entry.reason
    sent = json.dumps(model.bodies[-1]["messages"])
    assert all(f"<begin {n}>" in sent and f"<end {n}>" in sent for n in range(10))
    assert "short 7" in sent
    assert "short 8" in sent
    if runner.mode == "direct":
        assert [r.message.startswith("Agent 'clerk': limit of 4000") for r in caplog.records] == [
            True
        ]


async def test_an_option_sends_them_whole(runner: Runner) -> None:
    """Nothing is shortened, and the reason is as before."""
    model = ScriptedModel(calls(("look", 1), ("look", 2)), "done")
    result = await runner.run(clerk(model, shorten_current=False), "q")
    assert result.context is not None
    (entry,) = result.context.entries
    assert entry.reason == "limit of 4000 tokens"
    assert entry.tokens_after > 40_000


async def test_a_limit_that_cannot_be_met_is_reported(runner: Runner) -> None:
    """The arguments of a call are never shortened."""

    def write(text: str) -> str:
        return "written"

    model = ScriptedModel(tool_call("write", {"text": "long " * 9000}), "done")
    agent = clerk(model)
    agent.tools = [write]
    result = await runner.run(agent, "q")
    assert result.context is not None
    assert "exceeded, since" in result.context.entries[0].reason


@pytest.mark.parametrize("seed", range(5))
async def test_results_of_any_lengths_fit_a_limit(runner: Runner, seed: int) -> None:
    """What is thicker in tokens at its ends, too; short ones stay whole."""
    choose = random.Random(seed)  # noqa: S311 - no secrets are made

    def give(number: int) -> Any:
        word = choose.choice(["word ", "ж", '\\ " ', "0"])
        text = word * choose.randint(1, 20_000)
        return choose.choice([text, {"text": text}, [text] * 2, f"tiny {number}"])

    made = [("give", number) for number in range(choose.randint(2, 12))]
    model = ScriptedModel(calls(*made), "done")
    agent = clerk(model)
    agent.tools = [give]
    result = await runner.run(agent, "q")
    assert result.context is not None
    assert result.context.entries[0].tokens_after <= 4000
