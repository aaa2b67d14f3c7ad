"""Policies do not rewrite the beginning of each request, and the page has the figures."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(scope="module")
def script(root: Path) -> ModuleType:
    """`scripts/prompt_caching.py`."""
    spec = importlib.util.spec_from_file_location(
        "prompt_caching", root / "scripts" / "prompt_caching.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rows(script: ModuleType) -> dict[str, Any]:
    """The figures, by policy."""
    return {row.policy: row for row in asyncio.run(script.rows())}


@pytest.mark.parametrize(
    ("policy", "share", "rewrites"),
    [
        ("none", 0.97, 0),
        ("ToolCallFilter()", 0.9, 20),
        ("Summarize(upper=8000, lower=4000)", 0.9, 5),
        ("Budget(16_000)", 0.8, 12),
        ("Budget(16_000, model=…)", 0.85, 10),
        ("MessageWindow(40)", 0.8, 9),
        ("ClearToolResults(6000)", 0.9, 25),
        ("ClearToolResults(6000, clear_at_least=1500)", 0.94, 6),
        ("Chain([ClearToolResults(6000), MessageWindow(100)])", 0.8, 25),
        ("Threshold(9000, MessageWindow(40))", 0.85, 8),
        ("CompressToolResults()", 0.8, 49),
    ],
)
def test_a_policy_does_not_rewrite_the_prefix_every_turn(
    rows: dict[str, Any], policy: str, share: float, rewrites: int
) -> None:
    """The share that is the same is at least so much, the turns that begin anew at most so many."""
    assert rows[policy].share >= share
    assert rows[policy].rewrites <= rewrites


@pytest.fixture(scope="module")
def networks(script: ModuleType) -> dict[tuple[int, bool, str], Any]:
    """The figures of networks."""
    found = asyncio.run(script.network_rows())
    return {(row.setting.agents, row.setting.shared, row.setting.history): row for row in found}


@pytest.mark.parametrize(
    ("agents", "shared", "history", "share"),
    [
        (1, False, "all", 0.95),
        (2, False, "all", 0.92),
        (2, True, "all", 0.95),
        (4, False, "all", 0.83),
        (4, True, "all", 0.95),
        (4, True, "`MessageWindow(40)`", 0.95 * 0.95),
        (4, True, "`MessageWindow(60)`", 0.95 * 0.95),
    ],
)
def test_marks_find_earlier_requests_of_a_network(
    networks: dict[tuple[int, bool, str], Any],
    agents: int,
    shared: bool,
    history: str,
    share: float,
) -> None:
    """Claude's cache, with its 20 blocks, gives nearly all that there is to be had."""
    row = networks[agents, shared, history]
    assert row.share >= share
    assert row.read >= 0.98 * row.share
    assert row.read + row.written >= 0.98


def test_the_page_is_that_of_the_script(
    script: ModuleType, rows: dict[str, Any], networks: dict[tuple[int, bool, str], Any]
) -> None:
    """Run `python scripts/prompt_caching.py` where it is not."""
    made = script.page(list(rows.values()), list(networks.values()))
    assert script.PAGE.read_text(encoding="utf-8") == made
