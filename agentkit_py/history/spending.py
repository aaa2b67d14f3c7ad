"""Spending: what users and tenants use up in a period, as stores count it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """An amount for one counter."""

    scope: str
    """The scope that it counts for, e.g. ``"user:u1"``."""

    kind: str
    """``"tokens"``, ``"cost"`` or ``"runs"``."""

    period: str
    """The day or month, e.g. ``"2026-11-22"``; empty: all time."""

    amount: float
    """The amount to add; less than 0: to take away again."""

    most: float | None = None
    """The counter may not become larger; None: it may."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A spending for which there is no room, and the counter as it is."""

    spending: Spending
    used: float


@runtime_checkable
class SpendingStore(Protocol):
    """A store that counts; safe for any number of processes."""

    async def spend(self, spendings: Sequence[Spending]) -> Refused | None:
        """Add all amounts, or none where one counter has no room; return the first of these.

        Raises:
            HistoryError: The database cannot be reached or used.
        """
        ...

    async def spent(self, scope: str) -> Mapping[tuple[str, str], float]:
        """Return a scope's counters by kind and period."""
        ...
