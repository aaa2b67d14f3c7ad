"""Which runtime a run uses: given explicitly, else ambient, else direct. Decided only here."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from agentkit_py.runtime.port import Runtime

_ambient: ContextVar[Runtime | None] = ContextVar("agentkit_runtime", default=None)


def choose_runtime(explicit: Runtime | None = None) -> Runtime:
    """The runtime of a run that begins now."""
    if explicit is not None:
        return explicit
    ambient = _ambient.get()
    if ambient is not None:
        return ambient
    # Imported here because httpx costs time and a durable run may never need it.
    from agentkit_py.runtime.direct import shared_runtime

    return shared_runtime()


@contextmanager
def use_runtime(runtime: Runtime) -> Generator[None]:
    """Make ``runtime`` the one that runs inside the block find by themselves."""
    token = _ambient.set(runtime)
    try:
        yield
    finally:
        _ambient.reset(token)


async def close_shared_runtime() -> None:
    """Close the connections that this event loop's direct runs left open."""
    if "agentkit_py.runtime.direct" in sys.modules:
        from agentkit_py.runtime.direct import shared_runtime

        await shared_runtime().aclose()
