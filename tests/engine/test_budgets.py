"""Budgets in runs: what a replay may not count twice, and how a run ends that has none left."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import inngest
import pytest

from agentkit_py import Agent, MemoryHistory, tool
from agentkit_py.budgets import Budgets, UsageLimit
from agentkit_py.errors import BudgetExceededError
from agentkit_py.testing import ScriptedModel, tool_call

from .runner import Runner


def said(text: str, tokens: int) -> dict[str, Any]:
    """Return a reply with so many tokens."""
    return {"text": text, "usage": {"input_tokens": tokens - 1, "output_tokens": 1}}


@tool
def look_up(order: str) -> str:
    """Look an order up."""
    return order


async def test_calls_count_once_with_their_usage(runner: Runner) -> None:
    """Also where a function is replayed for each step; a failed attempt costs nothing."""
    store = MemoryHistory()
    budgets = Budgets(
        store, {"user": UsageLimit(tokens=10_000, runs=5), "tenant": UsageLimit(tokens=99_999)}
    )
    model = ScriptedModel(
        {
            **tool_call("look_up", {"order": "7"}),
            "usage": {"input_tokens": 90, "output_tokens": 10},
        },
        said("Done.", 200),
    )
    agent = Agent(name="a", system="", tools=[look_up], model=model)
    budget = budgets.of(user="u", tenant="t")
    assert (await runner.run(agent, "Hi", budget=budget)).text == "Done."
    assert await budget.used() == {
        "user:u": {"tokens": 300, "runs": 1},
        "tenant:t": {"tokens": 300},
    }


async def test_used_up_budget_ends_the_run(runner: Runner) -> None:
    """The error says whose budget, how much, and when the next period begins."""
    now = datetime(2026, 12, 31, 12, tzinfo=UTC)
    budgets = Budgets(MemoryHistory(), {"user": UsageLimit(tokens=150)}, clock=lambda: now)
    model = ScriptedModel(said("One.", 140), "Never.")
    agent = Agent(name="a", system="", model=model)
    budget = budgets.of(user="u")
    await runner.run(agent, "Hi", budget=budget)
    with pytest.raises((BudgetExceededError, inngest.StepError), match="2027-01-01"):
        await runner.run(agent, "Hi", budget=budget)
    assert len(model.requests) == 1
    await runner.run(agent, "Hi", budget=budgets.of(user="other"))
