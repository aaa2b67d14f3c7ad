"""Imported first: says which extra is missing, instead of where an import failed."""

from __future__ import annotations

from importlib.util import find_spec

from agentkit_py.errors import MissingDependencyError

if find_spec("opentelemetry") is None:
    raise MissingDependencyError("opentelemetry", "otel", "agentkit_py.tracing")
