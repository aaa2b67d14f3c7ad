"""The conformance suite on every store of the library, and on stores that break their promises."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agentkit_py.stores import HistoryStore, MemoryHistory, StoredResult
from agentkit_py.stores.rows import Row
from agentkit_py.testing.store_conformance import StoreCheck, checks_for, run_checks


@pytest.mark.parametrize("check", checks_for(MemoryHistory), ids=str)
async def test_every_store_keeps_every_promise(store: HistoryStore, check: StoreCheck) -> None:
    """Memory, SQLite and PostgreSQL."""
    assert check in checks_for(type(store))
    await check(store)


class Forgetful(MemoryHistory):
    """Doubles what is saved twice, and hands out pages in the wrong order."""

    async def append_rows(self, thread_id: str, rows: Sequence[Row]) -> None:
        for number, row in enumerate(rows):
            other = Row(
                f"{row.id} {number} {len(await self.stored_results(thread_id))}", "a", "", row.json
            )
            await super().append_rows(thread_id, [other])

    async def page(self, thread_id: str, before: int, limit: int) -> list[StoredResult]:
        return (await super().page(thread_id, before, limit))[::-1]


async def test_a_store_that_breaks_promises_fails_the_checks_of_these() -> None:
    """The report, made without pytest, names the checks and what was found."""
    report = await run_checks(Forgetful)
    assert "saving_twice_is_once" in report.failed
    assert "pages_hold_the_last_results_before_a_position" in report.failed
    assert "a_thread_without_an_id_gets_one" in report.passed
    assert "expected [0, 1, 2]" not in str(report.failed["saving_twice_is_once"])
    assert "the ids: expected" in str(report.failed["saving_twice_is_once"])
