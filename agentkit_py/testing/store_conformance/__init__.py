"""Conformance checks for stores, with or without pytest.

Each check is an async function of a new, empty store; it raises `AssertionError` if the store does
not keep a promise. With pytest::

    from agentkit_py.testing.store_conformance import StoreCheck, checks_for

    @pytest.mark.parametrize("check", checks_for(MyStore), ids=str)
    async def test_my_store(check: StoreCheck) -> None:
        async with MyStore(...) as store:
            await check(store)

A store has to be a `HistoryStore`. Thread data is optional: summaries, vectors, leases, runs,
questions, staff, mail, inboxes and facts are checked if the store's class has the methods.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Generic, Self

from typing_extensions import TypeVar  # with a default, as in Python 3.13

from agentkit_py.stores import HistoryStore
from agentkit_py.testing.store_conformance import results, thread_data, threads

__all__ = ["ConformanceReport", "StoreCheck", "checks_for", "run_checks"]

S_contra = TypeVar("S_contra", contravariant=True, default=HistoryStore)


@dataclass(frozen=True, slots=True)
class StoreCheck(Generic[S_contra]):
    """One promise of a store."""

    name: str
    promise: str
    """The promise in a sentence."""

    function: Callable[[S_contra], Awaitable[None]] = field(repr=False)

    @classmethod
    def of(cls, function: Callable[[S_contra], Awaitable[None]]) -> Self:
        """Return the check that a function with the promise as its docstring makes."""
        return cls(function.__name__, (function.__doc__ or "").strip(), function)

    async def __call__(self, store: S_contra) -> None:
        """Run the check on a new, empty store.

        Raises:
            AssertionError: The promise is not kept.
        """
        await self.function(store)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ConformanceReport:
    """The promises that a store keeps, and those that it breaks."""

    passed: tuple[str, ...]
    failed: dict[str, Exception]
    """Errors by name of the check."""


def checks_for(kind: type[HistoryStore]) -> list[StoreCheck]:
    """Return the checks that stores of this class have to pass."""
    found = [*_checks_in(threads), *_checks_in(results)]
    for needed, checks in thread_data.CHECKS.items():
        found += checks if issubclass(kind, needed) else ()
    return [StoreCheck.of(function) for function in found]


def _checks_in(module: ModuleType) -> Iterator[Callable[[HistoryStore], Awaitable[None]]]:
    """Yield the public coroutine functions that a module defines."""
    for name, value in vars(module).items():
        own = inspect.iscoroutinefunction(value) and value.__module__ == module.__name__
        if own and not name.startswith("_"):
            yield value


async def run_checks(
    make: Callable[[], HistoryStore], checks: Iterable[StoreCheck] | None = None
) -> ConformanceReport:
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
    return ConformanceReport(tuple(passed), failed)
