"""Functions that a layer calls and a higher layer provides.

The calling module makes an `ExtensionPoint`; the module above registers its function there when it
is imported. So the caller knows only its own needs, and imports have a single direction. The
package's root, which knows all modules, declares with `provided_by` which module registers where:
that module is imported when the function is first needed, and only by programs that need it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_providers: dict[str, str] = {}


def provided_by(modules: Mapping[str, str]) -> None:
    """Say which module registers at which extension points.

    Args:
        modules: Modules, each with the names of the points, separated by spaces.
    """
    _providers.update({name: module for module, names in modules.items() for name in names.split()})


class ExtensionPoint(Generic[F]):
    """A place for a function, which a higher layer registers."""

    def __init__(self, name: str) -> None:
        """Make an empty point.

        Args:
            name: The name by which `provided_by` lists it.
        """
        self.name = name
        self._function: F | None = None

    def register(self, function: F) -> F:
        """Put a function here; return it, so that this is a decorator too."""
        self._function = function
        return function

    def get(self) -> F:
        """Return the function, after an import of the module that registers it where needed.

        Raises:
            LookupError: No module is known that does.
        """
        if self._function is None and self.name in _providers:
            importlib.import_module(_providers[self.name])
        if self._function is None:
            raise LookupError(f"no module has registered a function for {self.name!r}")
        return self._function
