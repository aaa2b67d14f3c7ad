"""Names of steps and runs inside a call: they begin with the call's id and are unique."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_scope: ContextVar[str] = ContextVar("agentkit_step_scope", default="")


@contextmanager
def within(step_id: str) -> Generator[None]:
    """Give the steps and runs that begin in the block ids that start with ``step_id``."""
    token = _scope.set(step_id)
    try:
        yield
    finally:
        _scope.reset(token)


def scoped(name: str, separator: str) -> str:
    """Return ``name`` behind the id set by `within`, unless it has it already."""
    scope = _scope.get()
    return name if not scope or name.startswith(scope) else f"{scope}{separator}{name}"


def unique(name: str, counts: Counter[str]) -> str:
    """Return ``name`` within the id set by `within`, then ``name:2``, …: each is given once.

    Args:
        name: The name of a run.
        counts: How often each name was given in this execution; it is counted on.
    """
    name = scoped(name, "/")
    counts[name] += 1
    return name if counts[name] == 1 else f"{name}:{counts[name]}"
