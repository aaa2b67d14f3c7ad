"""The promises of a store as checks that anybody can run on their own.

Each check is an async function of a new, empty store; it raises `AssertionError` if the store does
not keep its promise. Nothing here needs pytest, but it fits it::

    from agentkit_py.testing.store_conformance import Check, checks_for

    @pytest.mark.parametrize("check", checks_for(MyStore), ids=str)
    async def test_my_store(check: Check) -> None:
        async with MyStore(...) as store:
            await check(store)

A store has to be a `HistoryStore`. What is optional (summaries, vectors, turns on threads) is
checked if the store's class has the methods.
"""

from agentkit_py.testing.store_conformance.check import Check, Report, checks_for, run_checks

__all__ = ["Check", "Report", "checks_for", "run_checks"]
