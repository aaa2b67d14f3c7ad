"""Processes that spend one budget: ``python processes.py KIND WHERE SCHEMA MOST SEED``."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys

from agentkit_py import PostgresHistory, SqliteHistory
from agentkit_py.budgets import Budget, Budgets
from agentkit_py.errors import BudgetExceededError
from agentkit_py.messages import Usage
from agentkit_py.models import openai
from agentkit_py.models.base import GuardedCall

LARGEST = 40
MODEL = openai("gpt-4.1", api_key="none")


def budgets_at(kind: str, where: str, schema: str, most: int) -> Budgets:
    """Return the budgets in a database."""
    store = SqliteHistory(where) if kind == "sqlite" else PostgresHistory(where, schema=schema)
    return Budgets(store, {"tenant": Budget(tokens=most, per="total")})


async def spend(budgets: Budgets, seed: int) -> tuple[int, int]:
    """Make calls until one is refused; return their number and tokens."""
    budget, choose = budgets.of(tenant="t"), random.Random(seed)  # noqa: S311 - which calls are made
    calls = tokens = 0
    while True:
        call = GuardedCall(model=MODEL, account="", tokens=choose.randint(1, 10))
        try:
            ticket = await budget.enter(call)
        except BudgetExceededError:
            return calls, tokens
        usage = Usage(call.tokens, choose.randint(0, LARGEST - 10))
        await budget.leave(call, ticket, usage, None)
        calls, tokens = calls + 1, tokens + usage.total_tokens


def spend_in_processes(
    kind: str, where: str, schema: str, processes: int, calls: int
) -> tuple[int, int, int, int]:
    """Return the budget, what was used, the most that a call uses, and the calls."""
    most = calls * 20  # about the mean of a call
    command = [sys.executable, __file__, kind, where, schema, str(most)]
    started = [
        subprocess.Popen([*command, str(seed)], stdout=subprocess.PIPE, text=True)
        for seed in range(processes)
    ]
    found = [process.communicate()[0].split() for process in started]
    assert all(process.returncode == 0 for process in started)
    return most, sum(int(f[1]) for f in found), LARGEST, sum(int(f[0]) for f in found)


if __name__ == "__main__":
    _, kind_, where_, schema_, most_, seed_ = sys.argv
    print(*asyncio.run(spend(budgets_at(kind_, where_, schema_, int(most_)), int(seed_))))  # noqa: T201 - a program that prints its figures
