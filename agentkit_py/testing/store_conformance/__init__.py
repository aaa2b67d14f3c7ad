"""Conformance checks for stores, with or without pytest.

Each check is an async function of a new, empty store; it raises `AssertionError` if the store does
not keep a promise. With pytest::

    from agentkit_py.testing.store_conformance import Check, checks_for

    @pytest.mark.parametrize("check", checks_for(MyStore), ids=str)
    async def test_my_store(check: Check) -> None:
        async with MyStore(...) as store:
            await check(store)

A store has to be a `HistoryStore`. Thread data is optional: summaries, vectors, leases and runs are
checked if the store's class has the methods.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from agentkit_py.history.runs import RunStore
from agentkit_py.processors.base import SummaryStore
from agentkit_py.processors.vectors import VectorIndex
from agentkit_py.stores import HistoryStore
from agentkit_py.testing.store_conformance import results, running, thread_data, threads

__all__ = ["Check", "Report", "checks_for", "run_checks"]


@dataclass(frozen=True, slots=True)
class Check:
    """One promise of a store."""

    name: str
    promise: str
    """The promise in a sentence."""

    function: Callable[[HistoryStore], Awaitable[None]] = field(repr=False)

    async def __call__(self, store: HistoryStore) -> None:
        """Run the check on a new, empty store.

        Raises:
            AssertionError: The promise is not kept.
        """
        await self.function(store)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Report:
    """The promises that a store keeps, and those that it breaks."""

    passed: tuple[str, ...]
    failed: dict[str, Exception]
    """Errors by name of the check."""


def checks_for(kind: type[HistoryStore]) -> list[Check]:
    """Return the checks that stores of this class have to pass."""
    found: list[Callable[[HistoryStore], Awaitable[None]]]
    found = [*threads.CHECKS, *results.CHECKS, *running.CHECKS]
    if issubclass(kind, SummaryStore):
        found += thread_data.SUMMARIES
    if issubclass(kind, VectorIndex):
        found += thread_data.VECTORS
    if issubclass(kind, RunStore):
        found += thread_data.RUNS
    return [Check(f.__name__, (f.__doc__ or "").strip(), f) for f in found]


async def run_checks(
    make: Callable[[], HistoryStore], checks: Iterable[Check] | None = None
) -> Report:
    """Run checks without pytest, each on a store of its own.

    Args:
        make: Returns a new, empty store of its own.
        checks: The checks to run; None: all that the store has to pass.
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
