"""Secrets planted per agent and per tenant are found nowhere where their policy forbids it."""

from __future__ import annotations

import pytest

from agentkit_py.stores import HistoryStore
from tests.attacks import isolation
from tests.attacks.isolation import try_many

NETWORKS, PAGES, DURABLE = 12, 2, 1
"""Here; `make attacks` tries 100,000; 1,000 with pages, and 1,000 as functions as well."""


async def test_no_secret_is_found_where_its_policy_forbids_it() -> None:
    """Requests, summaries, events, logs, traces, reports, titles, searches, threads, pages."""
    networks, requests, leaks = await try_many(range(NETWORKS), pages=PAGES, durable=DURABLE)
    assert leaks == []
    assert networks == NETWORKS
    assert requests > 10 * NETWORKS


@pytest.mark.parametrize("place", ["ToolCallFilter", "ByAuthor"])
async def test_a_processor_that_hides_nothing_is_noticed(
    monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The property can fail."""

    async def nothing(_self: object, messages: object, _context: object) -> object:
        return messages

    monkeypatch.setattr(getattr(isolation, place), "process", nothing)
    _, _, leaks = await try_many(range(5), pages=0)
    assert any("a request of" in leak for leak in leaks)
    assert any("the report of" in leak for leak in leaks)


async def test_tenants_that_share_a_store_without_a_wall_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The property can fail here, too."""

    def no_wall(store: HistoryStore, _user: str) -> HistoryStore:
        return store

    monkeypatch.setattr(isolation, "for_user", no_wall)
    _, _, leaks = await try_many(range(2), pages=1)
    assert any("titles" in leak for leak in leaks)
    assert any("a search" in leak for leak in leaks)
