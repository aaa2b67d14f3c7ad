"""Watching a request to a model where it is really sent, which only the runtime knows.

A durable run comes by each call again on every replay, and Inngest's server may send the request
itself; so whoever measures calls cannot stand around `Runtime.infer`. Where nobody watches, a call
costs one look at a context variable.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Protocol, TypeAlias, runtime_checkable

from agentkit_py.runtime.port import DeltaSink

Send: TypeAlias = Callable[[DeltaSink | None], Awaitable[object]]
"""Sends the request and gives the answer's JSON; pieces of it go to the sink."""


class Watch(Protocol):
    """Sees one call of a model."""

    async def here(self, send: Send, on_delta: DeltaSink | None) -> object:
        """Call ``send``, which sends the request from this process, and return what it gives."""
        ...

    def elsewhere(self, outcome: object) -> None:
        """Take the answer or error of a request that another process sent; again on each replay."""
        ...


@runtime_checkable
class Replaying(Protocol):
    """Facts of a runtime whose code runs again and again."""

    @property
    def execution(self) -> str:
        """Id of the whole execution, the same on each replay."""
        ...

    @property
    def carried(self) -> Mapping[str, Any]:
        """The data that the execution was started with; a trace context may be in it."""
        ...

    @property
    def recorded_time(self) -> datetime:
        """The latest time that is the same on each replay."""
        ...

    @property
    def is_new(self) -> bool:
        """True if it is certain that the code runs here for the first time."""
        ...

    def when_new(self, tell: Callable[[], None]) -> None:
        """Call ``tell`` unless the present code turns out to be a replay."""
        ...


_watch: ContextVar[Watch | None] = ContextVar("agentkit_watch", default=None)


@contextmanager
def watched(watch: Watch) -> Generator[None]:
    """Let ``watch`` see the next call of a model in the block."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


def take_watch() -> Watch | None:
    """Return the watch of the next call, and remove it: the call after it has none."""
    found = _watch.get()
    if found is not None:
        _watch.set(None)
    return found
