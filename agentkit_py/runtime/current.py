"""The choice of a run's runtime: given explicitly, else ambient, else direct."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

from agentkit_py._core.extension_points import ExtensionPoint
from agentkit_py.errors import ConfigurationError
from agentkit_py.runtime.port import Runtime

runtime_of_context: ExtensionPoint[Callable[[Any], Runtime]] = ExtensionPoint("inngest.runtime_of")
"""Returns the runtime of an Inngest function's context."""

undurable_refusal: ExtensionPoint[Callable[[], None]] = ExtensionPoint("inngest.refuse_undurable")
"""Refuses a run inside an Inngest function that no middleware has made durable."""

_ambient: ContextVar[Runtime | None] = ContextVar("agentkit_runtime", default=None)


def choose_runtime(
    explicit: Runtime | None = None, *, context: object = None, require_durable: bool = False
) -> Runtime:
    """Return the runtime of a run that begins now.

    Args:
        explicit: The runtime that was given.
        context: The context of the Inngest function that the run is in, if it was given.
        require_durable: Refuse a runtime that remembers nothing.

    Raises:
        ConfigurationError: The run must be durable and would not be; ``context`` is not a context;
            or the run is in an Inngest function whose client lacks our middleware.
    """
    given = explicit if context is None else explicit or _of_context(context)
    chosen = given or _ambient.get()
    if chosen is None:
        _refuse_undurable()
        chosen = _direct()
    if require_durable and not chosen.durable:
        raise ConfigurationError(
            "This run must be durable (require_durable=True) and is not in an Inngest function. "
            "Pass ctx=ctx, or give the client AgentKitMiddleware."
        )
    return chosen


def _of_context(context: object) -> Runtime:
    if not type(context).__module__.startswith("inngest"):
        raise ConfigurationError(
            f"ctx must be the context of an Inngest function, got {context!r:.80}"
        )
    return runtime_of_context.get()(context)


def _refuse_undurable() -> None:
    """Refuse a run in an Inngest function that would repeat the run with each of its steps."""
    if "inngest" in sys.modules:
        undurable_refusal.get()()


@cache
def _direct() -> Runtime:
    # Imported here because httpx costs time and a durable run may never need it.
    from agentkit_py.runtime.direct import shared_runtime

    return shared_runtime()


def set_ambient(runtime: Runtime) -> None:
    """Make ``runtime`` the ambient runtime of this task from now on."""
    _ambient.set(runtime)


@contextmanager
def use_runtime(runtime: Runtime) -> Generator[None]:
    """Make ``runtime`` the ambient runtime inside the block."""
    token = _ambient.set(runtime)
    try:
        yield
    finally:
        _ambient.reset(token)


def is_in_durable_function() -> bool:
    """Return whether runs that begin here are steps of a durable function."""
    runtime = _ambient.get()
    return runtime is not None and runtime.durable


async def close_shared_runtime() -> None:
    """Close the connections that this event loop's direct runs left open."""
    if "agentkit_py.runtime.direct" in sys.modules:
        from agentkit_py.runtime.direct import shared_runtime

        await shared_runtime().aclose()


def environment() -> Mapping[str, str]:
    """The environment variables of this process, as they are now."""
    return os.environ
