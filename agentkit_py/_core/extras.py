"""Packages that only some users need: which of them is not installed."""

from __future__ import annotations

from importlib.util import find_spec


def missing_package(*modules: str) -> str | None:
    """Return the package of the first module that is not installed; None: all are."""
    missing = next((name for name in modules if find_spec(name) is None), None)
    return None if missing is None else missing.replace("_", "-")
