"""Budgets of users and tenants: what is counted, what is refused, and by how much it is missed."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentkit_py import Agent, MemoryHistory, PostgresHistory, SqliteHistory
from agentkit_py.budgets import Budgets, Per, Price, Prices, UsageLimit
from agentkit_py.errors import BudgetExceededError, ConfigurationError, HistoryError
from agentkit_py.history.users import RefusedSpending, Spending, SpendingStore
from agentkit_py.messages import Usage
from agentkit_py.models import openai
from agentkit_py.stores import for_user, redacted
from agentkit_py.testing import ScriptedModel, error

from .processes import LARGEST, spend_in_processes

PROCESSES = int(os.environ.get("BUDGET_PROCESSES", "2"))
CALLS = int(os.environ.get("BUDGET_CALLS", "40"))
KILLS = int(os.environ.get("BUDGET_KILLS", "0"))


@asynccontextmanager
async def opened(kind: str, folder: Path, request: pytest.FixtureRequest) -> AsyncGenerator[Any]:
    """Yield a store of a kind."""
    if kind == "memory":
        yield MemoryHistory()
    elif kind == "sqlite":
        yield SqliteHistory(folder / "b.db")
    else:
        schema = f"budgets_{os.getpid()}"
        store = PostgresHistory(request.getfixturevalue("postgres_url"), schema=schema)
        try:
            yield store
        finally:
            await store.close()


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_store_counts_all_or_nothing(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Where one counter has no room, the others stay as they are."""
    async with opened(kind, tmp_path, request) as store:
        one = Spending(scope="user:ä", kind="tokens", period="d", amount=6, most=10)
        other = Spending(scope="tenant:t", kind="tokens", period="d", amount=6, most=100)
        assert await store.spend([other, one]) is None
        assert await store.spend([other, one]) == RefusedSpending(one, 6.0)
        assert await store.spent("user:ä") == {("tokens", "d"): 6.0}
        assert await store.spent("tenant:t") == {("tokens", "d"): 6.0}


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_counters_go_with_their_period_and_with_their_user(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A row for each user and day would stay for ever; and the deletion of a user is complete."""
    limits: Mapping[str, Per] = {"user": "day", "tenant": "month", "app": "total"}
    plans = {name: UsageLimit(runs=9, per=per) for name, per in limits.items()}
    async with opened(kind, tmp_path, request) as store:
        for month, day in ((1, 30), (1, 31), (1, 31), (2, 1)):
            now = datetime(2026, month, day, tzinfo=UTC)
            budgets = Budgets(store, plans, clock=lambda now=now: now)
            await budgets.of(user="u", tenant="acme", app="a").begin()
            await budgets.of(user="v").begin()
        assert await store.spent("user:u") == {("runs", "2026-02-01"): 1}
        assert await store.spent("tenant:acme") == {("runs", "2026-02"): 1}
        assert await store.spent("app:a") == {("runs", ""): 4}
        await for_user(store, "v").delete_user("u")
        assert await store.spent("user:u") == {("runs", "2026-02-01"): 1}
        await redacted(for_user(store, "u"), str.upper).delete_user("u")
        assert await store.spent("user:u") == {}
        assert await store.spent("user:v") == {("runs", "2026-02-01"): 1}
        assert await store.spent("tenant:acme") == {("runs", "2026-02"): 1}


async def test_failed_calls_release_their_reservation() -> None:
    """A request that the provider refused costs nothing."""
    budgets = Budgets(MemoryHistory(), {"user": UsageLimit(tokens=1000)})
    agent = Agent(name="a", system="", model=ScriptedModel(error(400, "no")))
    with pytest.raises(Exception, match="no"):
        await agent.run("Hi", budget=budgets.of(user="u"))
    assert await budgets.of(user="u").used() == {"user:u": {"tokens": 0}}


async def test_cost_needs_prices_and_counts_by_them() -> None:
    """Prices are data of the user's; a model without one is refused before it is asked."""
    prices = Prices({"gpt-4o": Price(input=2.0, output=8.0)})
    with pytest.raises(ConfigurationError, match="prices"):
        Budgets(MemoryHistory(), {"user": UsageLimit(cost=1)}).of(user="u")
    budgets = Budgets(MemoryHistory(), {"user": UsageLimit(cost=1)}, prices=prices)
    budget = budgets.of(user="u")
    usage = {"input_tokens": 1000, "output_tokens": 100}
    model = ScriptedModel({"text": "Hi.", "usage": usage})
    await Agent(name="a", system="", model=model).run("Hi", budget=budget)
    assert (await budget.used())["user:u"]["cost"] == pytest.approx(0.0028)
    with pytest.raises(ConfigurationError, match="No price is known for model 'gpt-5'"):
        await Agent(name="a", system="", model=ScriptedModel("x", model="gpt-5")).run(
            "Hi", budget=budget
        )


def test_input_from_the_cache_and_into_it_has_prices_of_its_own() -> None:
    """Without one, it costs what other input costs."""
    usage = Usage(1000, 100, cached_tokens=500, cache_write_tokens=300)
    assert Prices({"m": Price(2, 8, 0.2, 2.5)})("m", usage) == pytest.approx(0.00205)
    assert Prices({"m": Price(2, 8)})("m", usage) == pytest.approx(0.0028)


class _Down(MemoryHistory):
    async def spend(self, spendings: Any) -> RefusedSpending | None:
        """Fail as an unreachable database does."""
        raise HistoryError("the database is away")


@pytest.mark.parametrize("mode", ["closed", "open"])
async def test_unreachable_store_fails_closed_or_open(mode: Any, caplog: Any) -> None:
    """As set: no run without its budget, or a run that says it was not counted."""
    budget = Budgets(_Down(), {"user": UsageLimit(runs=1)}, on_failure=mode).of(user="u")
    agent = Agent(name="a", system="", model=ScriptedModel("Hello."))
    if mode == "closed":
        with pytest.raises(HistoryError):
            await agent.run("Hi", budget=budget)
    else:
        assert (await agent.run("Hi", budget=budget)).text == "Hello."
        assert "could not be counted" in caplog.text


def test_wrong_budgets_are_refused_where_they_are_made() -> None:
    """The errors name the value."""
    wrongs: list[dict[str, Any]] = [{}, {"tokens": -1}, {"runs": 1, "per": "week"}]
    wrongs += [{"tokens": float("nan")}, {"cost": "5"}, {"runs": True}]
    for wrong in wrongs:
        with pytest.raises(ConfigurationError, match="UsageLimit"):
            UsageLimit(**wrong)
    budgets = Budgets(MemoryHistory(), {"user": lambda name: None})
    with pytest.raises(ConfigurationError, match="unknown plan 'tenant'"):
        budgets.of(tenant="t")
    with pytest.raises(ConfigurationError, match="Budgets"):
        Budgets(openai("gpt-4.1"), {})  # type: ignore[arg-type] - on purpose: it is refused
    with pytest.raises(ConfigurationError, match="Price\\(output=-1\\)"):
        Price(2, -1)
    assert budgets.of(user="u").scopes == {}
    assert isinstance(MemoryHistory(), SpendingStore)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_processes_together_exceed_a_budget_by_no_more_than_is_under_way(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Every process asks until it is refused; each call uses more than was reserved for it.

    Some are killed in the middle of a call, and what that had reserved stays counted. With
    ``BUDGET_KILLS`` so many lives of each process end wherever they are, in a transaction too.
    """
    where = str(tmp_path / "b.db") if kind == "sqlite" else request.getfixturevalue("postgres_url")
    schema = f"budgets_{os.getpid()}_{kind}"
    choose = random.Random(KILLS)  # noqa: S311 - when processes die
    deaths = ("2", *(f"{choose.uniform(0.5, 3):.2f}s" for _ in range(KILLS)))
    spent = await asyncio.to_thread(
        spend_in_processes, kind, where, schema, PROCESSES, CALLS, deaths
    )
    print(kind, spent)  # noqa: T201 - the figures of a long run
    assert spent.calls > 0
    assert spent.used <= spent.counted <= spent.most + PROCESSES * LARGEST
    assert spent.counted >= spent.most - LARGEST
    if not KILLS:
        assert spent.open_calls == PROCESSES
        assert spent.counted == spent.used + spent.reserved
    assert spent.counted <= spent.used + spent.open_calls * LARGEST


async def test_budgets_share_a_database_with_the_tables_of_the_typescript_package(
    postgres_url: str, postgres_schema: str
) -> None:
    """A store that shares its threads with TypeScript counts, too."""
    store = PostgresHistory(postgres_url, schema=postgres_schema, layout="typescript")
    budget = Budgets(store, {"user": UsageLimit(runs=1, tokens=10_000)}).of(user="u")
    agent = Agent(name="a", system="", model=ScriptedModel("Hello."), history=store)
    await agent.run("Hi", budget=budget)
    with pytest.raises(BudgetExceededError, match="runs"):
        await agent.run("Hi", budget=budget)
    used = (await budget.used())["user:u"]
    assert used["runs"] == 1
    assert used["tokens"] > 0
    await store.close()
