"""Packages that load on first use (PEP 562), or are not installed."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any


def lazily(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package with names that load what most programs do not use.

    Args:
        package: The package's ``__name__``.
        modules: Modules, each with the names that come from it. No module of the package itself may
            have one of the names, since importing it would make it the package's attribute.
    """
    homes = {name: module for module, names in modules.items() for name in names.split()}

    def find(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(home), name)
        setattr(sys.modules[package], name, value)  # from now on an attribute
        return value

    return find


def missing_package(*modules: str) -> str | None:
    """Return the package of the first module that is not installed; None: all are."""
    missing = next((name for name in modules if find_spec(name) is None), None)
    return None if missing is None else missing.replace("_", "-")
