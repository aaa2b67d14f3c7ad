"""What every test may count on: real tiktoken where it can be had, and hypothesis profiles."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
TIKTOKEN_CACHE = ROOT / ".cache" / "tiktoken"

# Set before anything asks tiktoken for an encoding, and inherited by the commands that tests start.
if TIKTOKEN_CACHE.is_dir():
    os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(TIKTOKEN_CACHE))

# No deadline: a loaded machine is no bug. On CI the same examples each time, so that a red run is
# about the change; at home new ones each time.
settings.register_profile("local", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's folder."""
    return ROOT


@pytest.fixture(scope="session")
def real_tiktoken() -> Path:
    """The folder with tiktoken's encodings. Without one the test is skipped, on CI it fails."""
    folder = Path(os.environ.get("TIKTOKEN_CACHE_DIR", TIKTOKEN_CACHE))
    if folder.is_dir() and any(folder.iterdir()):
        return folder
    reason = "no tiktoken encodings: see docs/guides/offline-tiktoken.md"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
