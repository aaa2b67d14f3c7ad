"""Imported first: says which extra is missing, instead of where an import failed."""

from __future__ import annotations

from importlib.util import find_spec

from agentkit_py.errors import MissingDependencyError

for _package in ("mcp", "jsonschema"):
    if find_spec(_package) is None:
        raise MissingDependencyError(_package, "mcp", "agentkit_py.mcp")
