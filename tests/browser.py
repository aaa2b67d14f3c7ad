"""The browser of tests that look at pages."""

from __future__ import annotations

import shutil
from typing import Any

import pytest


def chromium() -> dict[str, Any]:
    """Return the options that launch Chromium as Debian packages it; without it, skip the test."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no chromium on PATH: apt-get install chromium")
    return {"executable_path": program, "args": ["--no-sandbox"]}
