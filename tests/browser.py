"""The browser of tests that look at pages."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from playwright.async_api import expect as expect_async
from playwright.sync_api import expect as expect_sync

PATIENCE = 120_000
"""Milliseconds that a page may take for anything on a loaded machine."""

for _expect in (expect_async, expect_sync):  # each module that has a browser imports this one
    _expect.set_options(timeout=PATIENCE)


def chromium() -> dict[str, Any]:
    """Return the options that launch Chromium as Debian packages it; without it, skip the test."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no chromium on PATH: apt-get install chromium")
    return {"executable_path": program, "args": ["--no-sandbox"]}
