"""Packages that load on first use (PEP 562), or are not installed."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any


def lazily(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package, which loads rarely used names when they are needed.

    Args:
        package: The package's ``__name__``.
        modules: Modules, each with the names that come from it. No module of the package itself may
            have such a name, since importing it would make it the package's attribute.
    """
    homes = {name: module for module, names in modules.items() for name in names.split()}

    def find(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            if told := _elsewhere(package, name):
                raise ImportError(told, name=package)
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(home), name)
        setattr(sys.modules[package], name, value)  # from now on an attribute
        return value

    return find


def _elsewhere(package: str, name: str) -> str | None:
    """Say which public module has a name that was looked for in a package.

    TypeScript's spelling of a name counts, too. Nothing is imported to find it.
    """
    if name.startswith("_") or name in _modules(package):
        return None
    from agentkit_py._core.spellings import snake_case  # noqa: PLC0415 - for an error alone
    from agentkit_py._core.typescript import import_hint  # noqa: PLC0415 - for an error alone

    ours = snake_case(name) if name[0].islower() else name
    if ours != name and ours in sys.modules[package].__all__:
        return f"{name} is {ours} here: from {package} import {ours}"
    top = package.partition(".")[0]
    return import_hint(name) or _listed(
        package, name, ours if top == package or ours != name else ""
    )


def _listed(package: str, name: str, ours: str) -> str | None:
    """Return the line that imports ``ours``; in a package's own modules, the top's is looked at."""
    top = package.partition(".")[0]
    if top != package and ours in sys.modules[top].__all__:
        return f"{name} is {ours} here: from {top} import {ours}"
    for module in _modules(top):
        home = f"{top}.{module}"
        spec = find_spec(home)
        source: Any = getattr(spec and spec.loader, "get_source", str)(home)
        listed = re.search(r"^__all__ = \[(.*?)\]", source or "", re.MULTILINE | re.DOTALL)
        if not module.startswith("_") and ours and listed and f'"{ours}"' in listed[1]:
            return f"{name} is not in {package} itself: from {home} import {ours}"
    return None


def _modules(package: str) -> list[str]:
    return [module.name for module in pkgutil.iter_modules(sys.modules[package].__path__)]


_PACKAGES = {"a2a": "a2a-sdk"}
"""Packages that are not called like their module."""


def missing_package(*modules: str) -> str | None:
    """Return the package of the first module that is not installed; None: all are."""
    missing = next((name for name in modules if find_spec(name) is None), None)
    return None if missing is None else _PACKAGES.get(missing, missing.replace("_", "-"))
