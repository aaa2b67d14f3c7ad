"""Processes that spend one budget, some of which are killed in the middle of a call.

``python processes.py KIND WHERE SCHEMA MOST SEED DEATH`` prints each call: ``b`` and its
reservation before it, ``e`` and its tokens after it. DEATH is the call that it dies in (``3``), the
seconds after its first call in which it dies wherever it is (``0.2s``), or empty.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Timer

from agentkit_py import PostgresHistory, SqliteHistory
from agentkit_py.budgets import Budgets, UsageLimit
from agentkit_py.errors import BudgetExceededError
from agentkit_py.messages import Usage
from agentkit_py.models import openai
from agentkit_py.models.base import GuardedCall

LARGEST = 40
MODEL = openai("gpt-4.1", api_key="none")


def budgets_at(kind: str, where: str, schema: str, most: int) -> Budgets:
    """Return the budgets in a database."""
    store = SqliteHistory(where) if kind == "sqlite" else PostgresHistory(where, schema=schema)
    return Budgets(store, {"tenant": UsageLimit(tokens=most, per="total")})


def _die() -> None:
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


async def spend(budgets: Budgets, seed: int, death: str) -> None:
    """Make calls until one is refused, or death comes."""
    budget, choose = budgets.of(tenant="t"), random.Random(seed)  # noqa: S311 - which calls are made
    calls = 0
    while True:
        call = GuardedCall(model=MODEL, account="", tokens=choose.randint(1, 10))
        print("b", call.tokens)  # noqa: T201 - what the parent reads
        try:
            ticket = await budget.enter(call)
        except BudgetExceededError:
            print("refused")  # noqa: T201 - as above
            return
        calls += 1
        if calls == 1 and death.endswith("s"):
            Timer(float(death[:-1]), _die).start()
        if death == str(calls):
            _die()
        usage = Usage(call.tokens, choose.randint(0, LARGEST - 10))
        await budget.leave(call, ticket, usage, None)
        print("e", usage.total_tokens)  # noqa: T201 - as above


@dataclass
class Spent:
    """The end of all processes."""

    most: int = 0
    calls: int = 0
    used: int = 0
    """Tokens of the calls that ended."""

    open_calls: int = 0
    reserved: int = 0
    """Tokens that calls had reserved whose process died."""

    counted: float = 0.0
    """Tokens by the budget's counter."""

    def add(self, lines: list[str]) -> bool:
        """Take what a process printed; return whether it was refused at last."""
        begun = 0
        for line in lines:
            word, _, number = line.partition(" ")
            if word == "b":
                begun = int(number)
            elif word == "e":
                self.calls, self.used, begun = self.calls + 1, self.used + int(number), 0
            elif word == "refused":
                return True
        if begun:
            self.open_calls, self.reserved = self.open_calls + 1, self.reserved + begun
        return False


def spend_in_processes(
    kind: str, where: str, schema: str, processes: int, calls: int, deaths: tuple[str, ...] = ()
) -> Spent:
    """Spend a budget of about so many calls; each process is started again after each death."""
    most = calls * 20  # about the mean of a call
    command = [sys.executable, "-u", __file__, kind, where, schema, str(most)]

    def lives(number: int, first: int, ends: tuple[str, ...]) -> list[list[str]]:
        found: list[list[str]] = []
        for life, death in enumerate(ends, first):
            seed = str(number + 1000 * life)
            done = subprocess.run(
                [*command, seed, death], stdout=subprocess.PIPE, text=True, check=False
            )
            found.append(done.stdout.splitlines())
            assert done.returncode in ((0, -signal.SIGKILL) if death else (0,)), done
        return found

    printed: list[list[str]] = []
    with ThreadPoolExecutor(processes) as pool:
        # All have died once before one goes on: it could else spend what the others die of.
        for first, ends in ((0, deaths[:1]), (len(deaths[:1]), (*deaths[1:], ""))):
            of_all = pool.map(partial(lives, first=first, ends=ends), range(processes))
            printed += [lines for of_one in of_all for lines in of_one]
    spent = Spent(most)
    for lines in printed:
        spent.add(lines)
    used = asyncio.run(budgets_at(kind, where, schema, most).of(tenant="t").used())
    spent.counted = used["tenant:t"]["tokens"]
    return spent


if __name__ == "__main__":
    _, kind_, where_, schema_, most_, seed_, death_ = sys.argv
    asyncio.run(spend(budgets_at(kind_, where_, schema_, int(most_)), int(seed_), death_))
