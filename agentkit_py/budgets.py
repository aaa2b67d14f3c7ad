"""Budgets of users and tenants over time: tokens, cost and runs, counted in a store.

Prices of model calls are as the user gave them; none are built in, since they change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypeAlias

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from agentkit_py._core.validation import wrong_number
from agentkit_py.errors import BudgetExceededError, ConfigurationError, HistoryError, ModelHTTPError
from agentkit_py.history.abilities import abilities_of
from agentkit_py.history.users import RefusedSpending, Spending, SpendingStore, spending_scope
from agentkit_py.messages import Usage
from agentkit_py.models.base import GuardedCall

__all__ = [
    "Budgets",
    "Per",
    "Price",
    "Prices",
    "ScopedBudget",
    "UsageLimit",
]

Per: TypeAlias = Literal["day", "month", "total"]
"""The period of a budget: until midnight (UTC), until the month ends, or for ever."""

_FORMATS: Mapping[Per, str] = {"day": "%Y-%m-%d", "month": "%Y-%m", "total": ""}
logger: logging.Logger = logging.getLogger("agentkit_py")


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLimit:
    """The maximum use of a user or tenant in a period; None: no limit."""

    tokens: int | None = None
    """Input and output tokens of all model calls."""

    cost: float | None = None
    """Cost of all model calls, in the currency of the prices."""

    runs: int | None = None
    per: Per = "day"

    def __post_init__(self) -> None:
        """Refuse a budget that cannot be meant."""
        given = {"tokens": self.tokens, "cost": self.cost, "runs": self.runs}
        for name, value in given.items():
            wrong = wrong_number(value, whole=name != "cost")
            if value is not None and wrong:
                raise ConfigurationError(f"UsageLimit({name}={value!r}): {wrong}, or None.")
        if all(value is None for value in given.values()):
            raise ConfigurationError("UsageLimit(): pass tokens=…, cost=… or runs=….")
        if self.per not in _FORMATS:
            raise ConfigurationError(f"UsageLimit(per={self.per!r}): {', '.join(_FORMATS)}.")


Plan: TypeAlias = UsageLimit | Callable[[str], UsageLimit | None]
"""A budget for everybody, or a function from an id to that user's or tenant's; None: no limit."""


class Budgets:
    """Budgets of users, tenants and the like, kept in a store's database.

    ``run(…, budget=budgets.of(user="u1", tenant="acme"))`` counts the run and each of its model
    calls for both. Before a call its tokens are reserved, in one transaction for all counters, and
    corrected after it, inside the call's own step. So all processes together exceed a budget by no
    more than the replies in progress. A call whose process dies stays reserved: the
    provider may have charged for it.

    Args:
        store: `SqliteHistory`, `PostgresHistory` or `MemoryHistory`.
        plans: The budgets by kind of scope: ``{"user": UsageLimit(tokens=200_000)}``.
        prices: The prices of models; a budget with a cost needs them.
        on_failure: ``"closed"``: where the store fails, so does the run; ``"open"``: the run goes
            on uncounted, with a warning.
        clock: The time, with its zone.
    """

    def __init__(
        self,
        store: SpendingStore,
        plans: Mapping[str, Plan],
        *,
        prices: Prices | None = None,
        on_failure: Literal["closed", "open"] = "closed",
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        if abilities_of(store).spending is None:
            raise ConfigurationError(
                f"Budgets({store!r:.80}): pass SqliteHistory, PostgresHistory or MemoryHistory."
            )
        if on_failure not in ("closed", "open"):
            raise ConfigurationError(f"on_failure={on_failure!r}: pass 'closed' or 'open'.")
        self.store = store
        self.plans: dict[str, Plan] = dict(plans)
        self.prices = prices
        self.on_failure = on_failure
        self.clock = clock

    def of(self, **ids: str) -> ScopedBudget:
        """Return the budget of a run: ``of(user="u1", tenant="acme")``.

        Raises:
            ConfigurationError: The plan does not exist, an id is empty, or prices are missing.
        """
        found: dict[str, UsageLimit] = {}
        for kind, name in ids.items():
            if kind not in self.plans:
                known = ", ".join(self.plans)
                raise ConfigurationError(f"Budgets: unknown plan {kind!r}, only {known}.")
            if not isinstance(name, str) or not name:
                raise ConfigurationError(f"Budgets.of({kind}={name!r}): pass a non-empty text.")
            plan = self.plans[kind]
            budget = plan if isinstance(plan, UsageLimit) else plan(name)
            if budget is None:
                continue
            if budget.cost is not None and self.prices is None:
                raise ConfigurationError(f"The plan {kind!r} has a cost: Budgets needs prices=….")
            found[spending_scope(kind, name)] = budget
        return ScopedBudget(self, found)


class ScopedBudget:
    """The budget of a run, shared with all other runs of the same users and tenants."""

    def __init__(self, budgets: Budgets, scopes: Mapping[str, UsageLimit]) -> None:
        """Remember whose it is."""
        self._budgets = budgets
        self.scopes: Mapping[str, UsageLimit] = scopes

    @property
    def guard(self) -> ScopedBudget:
        """Counts each model call."""
        return self

    async def begin(self) -> None:
        """Count the run.

        Raises:
            BudgetExceededError: The quota of runs is used up in this period.
        """
        await self._spend(self._entries(runs=1))

    async def enter(self, call: GuardedCall, /) -> list[Spending]:
        """Reserve the call's tokens and their cost.

        Raises:
            BudgetExceededError: The budget has no room for them.
        """
        tokens = max(1, call.tokens)
        entries = self._entries(tokens=tokens, cost=self._cost(call, Usage(input_tokens=tokens)))
        return entries if await self._spend(entries) else []

    async def leave(
        self,
        call: GuardedCall,
        ticket: list[Spending],
        usage: Usage | None,
        error: BaseException | None,
        /,
    ) -> None:
        """Replace the reservation by the call's usage."""
        if usage is not None:
            used = {"tokens": float(usage.total_tokens), "cost": self._cost(call, usage)}
        elif isinstance(error, ModelHTTPError):
            used = {"tokens": 0.0, "cost": 0.0}  # refused: providers charge nothing
        else:
            return  # unknown; the reservation stays
        changes = [replace(e, amount=used[e.kind] - e.amount, most=None) for e in ticket]
        await self._spend([change for change in changes if change.amount])

    async def used(self) -> dict[str, dict[str, float]]:
        """Return this period's usage by scope and kind, with open calls."""
        found: dict[str, dict[str, float]] = {}
        for scope, budget in self.scopes.items():
            counters = await self._budgets.store.spent(scope)
            period = self._period(budget)
            found[scope] = {kind: used for (kind, when), used in counters.items() if when == period}
        return found

    def _entries(self, **amounts: float) -> list[Spending]:
        return [
            Spending(scope=scope, kind=kind, period=self._period(budget), amount=amount, most=most)
            for scope, budget in sorted(self.scopes.items())  # a fixed order prevents deadlocks
            for kind, amount in sorted(amounts.items())
            if (most := getattr(budget, kind)) is not None
        ]

    def _period(self, budget: UsageLimit) -> str:
        return self._budgets.clock().astimezone(UTC).strftime(_FORMATS[budget.per])

    def _cost(self, call: GuardedCall, usage: Usage) -> float:
        prices = self._budgets.prices
        if prices is None or all(budget.cost is None for budget in self.scopes.values()):
            return 0.0
        return prices(call.model.model, usage)

    async def _spend(self, entries: Sequence[Spending]) -> bool:
        """Count; return whether it was counted."""
        if not entries:
            return True
        try:
            refused = await self._budgets.store.spend(entries)
        except HistoryError:
            if self._budgets.on_failure == "closed":
                raise
            logger.exception("A budget could not be counted; the run continues (on_failure='open')")
            return False
        if refused is not None:
            raise self._exceeded(refused)
        return True

    def _exceeded(self, refused: RefusedSpending) -> BudgetExceededError:
        spending = refused.spending
        budget = self.scopes[spending.scope]
        return BudgetExceededError(
            scope=spending.scope,
            limit=spending.kind,
            most=spending.most or 0.0,
            used=refused.used,
            resets_at=_end(budget.per, self._budgets.clock().astimezone(UTC)),
        )


def _end(per: Per, now: datetime) -> str | None:
    if per == "total":
        return None
    day: Any = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if per == "day":
        return (day + timedelta(days=1)).isoformat()
    return (day.replace(day=28) + timedelta(days=4)).replace(day=1).isoformat()


_MILLION = 1_000_000
_FORM = (
    '{"currency": "USD", "models": {"NAME": {"input": …, "output": …, "cached": …, "written": …}}}'
    ", prices per million tokens"
)

Amount = Annotated[float, Field(ge=0, strict=True)]


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model per million tokens."""

    input: Amount
    output: Amount
    cached: Amount | None = None
    """The price of input from the provider's cache; None: the price of other input."""

    written: Amount | None = None
    """The price of input that is written to the provider's cache; None: that of other input."""

    def __post_init__(self) -> None:
        """Validate a price."""
        given = {"input": self.input, "output": self.output}
        beside = {"cached": self.cached, "written": self.written}
        given |= {name: value for name, value in beside.items() if value is not None}
        for name, value in given.items():
            if wrong := wrong_number(value):
                raise ConfigurationError(f"Price({name}={value!r}): {wrong}.")


class _File(TypedDict):
    models: dict[str, Price]
    currency: NotRequired[str]


_FILE: TypeAdapter[_File] = TypeAdapter(_File)


@dataclass(frozen=True, slots=True)
class Prices:
    """A price list; empty where the user gave none."""

    models: Mapping[str, Price] = field(default_factory=dict[str, Price])
    currency: str = "USD"

    @classmethod
    def read(cls, path: Path) -> Prices:
        """Return the list in a JSON file.

        Raises:
            ConfigurationError: It cannot be read, or is not of this form.
        """
        try:
            found = _FILE.validate_json(path.read_bytes())
        except OSError as error:
            raise ConfigurationError(f"The prices in {path} cannot be read: {error}") from error
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            problem = f"{where}: {first['msg']}" if where else first["msg"]
            raise ConfigurationError(f"{path}: {problem}. It should hold {_FORM}.") from error
        return cls(found["models"], found.get("currency", "USD"))

    def __call__(self, model: str, usage: Usage) -> float:
        """Return the cost of a call, for `RunLimits` and `Budgets`.

        Raises:
            ConfigurationError: The list has no price of the model.
        """
        found = self.cost(model, usage)
        if found is None:
            known = ", ".join(sorted(self.models)) or "none"
            raise ConfigurationError(f"No price is known for model {model!r}, only for: {known}.")
        return found

    def cost(self, model: str, usage: Usage | None) -> float | None:
        """Return the cost of a call; None where price or tokens are not known."""
        price = self.models.get(model)
        if price is None or usage is None:
            return None
        cached = price.input if price.cached is None else price.cached
        written = price.input if price.written is None else price.written
        fresh = usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
        total = fresh * price.input + usage.cached_tokens * cached
        total += usage.cache_write_tokens * written
        return (total + usage.output_tokens * price.output) / _MILLION
