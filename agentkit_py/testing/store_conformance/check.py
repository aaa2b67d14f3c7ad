"""What a check is, and which of them a store is to pass."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from agentkit_py.history.runs import RunStore
from agentkit_py.processors.base import SummaryStore
from agentkit_py.processors.vectors import VectorIndex
from agentkit_py.stores import HistoryStore
from agentkit_py.testing.store_conformance import beside, results, running, threads


@dataclass(frozen=True, slots=True)
class Check:
    """One promise."""

    name: str
    promise: str
    """What the store has to do, in a sentence."""

    function: Callable[[HistoryStore], Awaitable[None]] = field(repr=False)

    async def __call__(self, store: HistoryStore) -> None:
        """Check it on a new, empty store.

        Raises:
            AssertionError: The promise is not kept.
        """
        await self.function(store)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Report:
    """What a store kept and what not."""

    passed: tuple[str, ...]
    failed: dict[str, Exception]
    """By name of the check."""


def checks_for(kind: type[HistoryStore]) -> list[Check]:
    """The checks that stores of this class have to pass."""
    found: list[Callable[[HistoryStore], Awaitable[None]]]
    found = [*threads.CHECKS, *results.CHECKS, *running.CHECKS]
    if issubclass(kind, SummaryStore):
        found += beside.SUMMARIES
    if issubclass(kind, VectorIndex):
        found += beside.VECTORS
    if issubclass(kind, RunStore):
        found += beside.RUNS
    return [Check(f.__name__, (f.__doc__ or "").strip(), f) for f in found]


async def run_checks(
    make: Callable[[], HistoryStore], checks: Iterable[Check] | None = None
) -> Report:
    """Run checks without pytest, each on a store of its own.

    Args:
        make: Makes a new store that is empty and that nobody else uses.
        checks: Which checks; None: all that the store has to pass.
    """
    passed: list[str] = []
    failed: dict[str, Exception] = {}
    for check in checks_for(type(make())) if checks is None else checks:
        async with make() as store:
            try:
                await check(store)
            except Exception as error:  # noqa: BLE001 - whatever it is, the check has failed
                failed[check.name] = error
            else:
                passed.append(check.name)
    return Report(tuple(passed), failed)
